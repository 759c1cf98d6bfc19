"""What a policy would have chosen, from the snapshot of the instant of each request."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.desk import Desk
from app.shadow import deciding
from policies.shadow.decide import Panel, decide
from policies.shadow.requests import Defaults, Scope, instants, read
from tests.recommend.desks import Driver, add_offer, insert, refusal, run_row
from tests.shadow.desks import Shadow, label_all, log, log_all
from warehouse.clock import utcnow
from warehouse.ids import content_hash
from warehouse.snapshots import Snapshot

HOUR = timedelta(hours=1)


def routed(shadow: Driver, request_id: str) -> dict[str, Any]:
    """What the measured router said about a request."""
    told = shadow.call("shadow.request", {"request_id": request_id})["decisions"]
    (own,) = [d for d in told if d["recommendation_id"] is None]
    return dict(own)


def test_a_decision_tells_who_served_who_would_have_and_why(shadow: Shadow) -> None:
    request_id = log(shadow.desk, utcnow() - HOUR, prompt_tokens=900, completion_tokens=300)
    told = shadow.call("shadow.decide")
    assert (told["asked"], told["left"]) == (1, 0)
    router, rec = sorted(shadow.decisions(), key=lambda d: d["recommendation_id"] or "")
    assert (router["incumbent"], router["chosen"], router["agrees"]) == ("old", "new", False)
    assert rec["recommendation_id"] == "R-0001"
    assert rec["chosen"] == "new"
    for row in (router, rec):
        assert row["request_id"] == request_id
        assert (row["category"], row["tier"], row["latency"], row["size_band"]) == (
            "general_chat",
            1,
            "interactive",
            "512-2047",
        )
        assert json.loads(row["eligible"]) == ["new", "old"]
        assert row["expected_energy_j"] == pytest.approx(50)
        assert row["incumbent_energy_j"] == pytest.approx(100)
        assert row["expected_energy_low_j"] < 50 < row["expected_energy_high_j"]
        assert row["expected_energy_evidence_class"] == "allocated"
        assert row["expected_carbon_evidence_class"] == "calibrated"
        assert row["propensity"] is None
        assert len(row["snapshot_digest"]) == 64


def test_a_round_again_writes_nothing_new(shadow: Shadow) -> None:
    log_all(shadow.desk, [{"at": utcnow() - HOUR * k} for k in range(1, 6)])
    assert shadow.call("shadow.decide")["written"] == 10
    before = shadow.decisions()
    assert shadow.call("shadow.decide") == {"written": 0, "asked": 0, "left": 0, "policies": 2}
    assert shadow.decisions() == before


def test_a_price_change_after_the_request_does_not_change_what_is_recorded(desk: Desk) -> None:
    """The past is asked with the past's knowledge: also when it is asked for the first time after the change."""
    driver, at = Shadow(desk), utcnow() - HOUR
    early, late = log(desk, at), log(desk, utcnow() - timedelta(minutes=1))
    now = at + timedelta(minutes=30)
    runs = [run_row("new", i, 400.0, "acme", {"known_from": now, "period_end_at": now}) for i in range(40)]
    insert(desk, "core.usage", runs)  # from then on, new looks dear
    driver.call("shadow.decide")
    assert routed(driver, early)["chosen"] == "new"
    assert routed(driver, late)["chosen"] == "old"
    told = driver.call("shadow.request", {"request_id": early})
    assert told["reproduced"] is True
    assert told["ranking"]["chosen"] == "new"


def test_before_anything_was_known_it_says_so(desk: Desk) -> None:
    driver = Shadow(desk)
    request_id = log(desk, utcnow() - timedelta(days=20))
    driver.call("shadow.decide")
    told = routed(driver, request_id)
    assert told["chosen"] is None
    assert "is not declared" in told["fallback_reason"]  # of an offer that no catalog knew, no tier is known


def test_without_fresh_measurements_it_falls_back_to_list_price_and_says_why(desk: Desk) -> None:
    driver = Shadow(desk)
    request_id = log(desk, utcnow() - timedelta(days=5))  # offers were known, reference runs were not
    driver.call("shadow.decide")
    told = routed(driver, request_id)
    assert told["fallback"] is True
    assert told["chosen"] == "old"
    assert "reference-workload evidence" in told["fallback_reason"]
    assert told["expected_energy_j"] is None, "unknown, never 0"


def test_labels_tell_category_tier_and_context(desk: Desk) -> None:
    driver = Shadow(desk)
    add_offer(desk, "strong", (70.0, 71.0, 69.0), tier=2)
    plain, asked = log_all(desk, [{"at": utcnow() - HOUR}, {"at": utcnow() - HOUR}])
    label_all(desk, {asked: {"category": "debugging", "tier": 2, "required_context_tokens": 5000, "propensity": 0.8}})
    driver.call("shadow.decide")
    told = routed(driver, asked)
    assert (told["category"], told["tier"], told["context_tokens"], told["propensity"]) == ("debugging", 2, 5000, 0.8)
    assert told["chosen"] == "strong"
    assert routed(driver, plain)["chosen"] == "new"
    status = driver.call("shadow.status")
    assert status["logged"] == {"requests": 2, "sampled": 2, "labelled": 1}


def test_a_recommendation_changes_nothing_outside_its_cells(own_home: Any, desk: Desk) -> None:
    driver = Shadow(desk)
    add_offer(desk, "strong", (70.0, 71.0, 69.0), tier=2)
    driver.refresh()
    log_all(desk, [{"at": utcnow() - HOUR, "served": "strong"}, {"at": utcnow() - HOUR}])
    driver.call("shadow.decide")
    assert len(driver.decisions(recommendation_id="R-0001")) == 1


def test_a_recommendation_that_came_later_is_asked_about_what_the_router_has_seen(desk: Desk) -> None:
    driver = Shadow(desk)
    log_all(desk, [{"at": utcnow() - HOUR}, {"at": utcnow() - HOUR * 2}])
    assert driver.call("shadow.decide")["written"] == 2
    driver.refresh()
    assert driver.call("shadow.decide") == {"written": 2, "asked": 2, "left": 0, "policies": 2}


def test_the_candidate_falls_back_where_it_is_not_eligible(shadow: Shadow) -> None:
    desk = shadow.desk
    with desk.warehouse.transaction() as tx:
        tx.execute("UPDATE core.offer SET context_tokens = 32768 WHERE offer_id = 'new'")
    log(desk, utcnow() - HOUR, prompt_tokens=60_000)
    shadow.call("shadow.decide")
    (row,) = shadow.decisions(recommendation_id="R-0001")
    assert (row["chosen"], row["fallback"], row["agrees"]) == ("old", True, True)
    assert row["fallback_reason"].startswith("new is excluded: effective context is 32768 x 0.75 - 4096")
    assert json.loads(row["excluded"])["new"] == ["context"]


def test_a_declared_sample_is_the_same_whoever_asks(own_home: Any, desk: Desk) -> None:
    ids = set(log_all(desk, [{"at": utcnow() - HOUR} for _ in range(300)]))
    with desk.warehouse.reading() as reader:
        snap = Snapshot(reader, utcnow())
        half = set(read(snap, Scope(utcnow() - 2 * HOUR, 0.5))["request_id"])
        tenth = set(read(snap, Scope(utcnow() - 2 * HOUR, 0.1))["request_id"])
    assert tenth < half < ids
    assert 110 < len(half) < 190


def test_rounds_of_a_few_come_to_the_same_as_one_of_all(shadow: Shadow) -> None:
    log_all(shadow.desk, [{"at": utcnow() - HOUR * k, "prompt_tokens": 100 * k} for k in range(1, 13)])
    lefts = []
    while not lefts or lefts[-1]:
        lefts.append(shadow.call("shadow.decide", {"most": 5})["left"])
    assert lefts == sorted(lefts, reverse=True)
    assert len(shadow.decisions()) == 24


@settings(deadline=None, max_examples=6)
@given(
    st.lists(
        st.tuples(st.integers(0, 14 * 24), st.sampled_from([10, 700, 9000, 150_000, 250_000])), min_size=1, max_size=12
    )
)
def test_asked_together_and_one_by_one_they_choose_the_same(asked: list[tuple[int, int]]) -> None:
    """Grouping by stretches of time and by question is only about speed."""
    desk = _SHARED["desk"]
    with desk.warehouse.transaction() as tx:
        tx.execute("DELETE FROM core.usage WHERE workload = 'organic'")
    log_all(desk, [{"at": _SHARED["now"] - HOUR * h, "prompt_tokens": n} for h, n in asked])
    parameters = deciding.router_parameters(desk.settings)
    panel, defaults = Panel(parameters, frozenset({"open"})), Defaults("general_chat", 8192)
    now = utcnow()
    with desk.warehouse.reading() as reader:
        snap = Snapshot(reader, now)
        requests = read(snap, Scope(datetime(2000, 1, 1)))
        points = instants(snap, parameters.evidence_max_age)

        def at(instant: datetime) -> Snapshot:
            return Snapshot(reader, instant)

        together = {r["request_id"]: r for r in decide(requests, at, points, panel, defaults, now)}
        for i in range(requests.height):
            alone = requests.slice(i, 1)
            (row,) = decide(alone, at, list(alone["asked_at"]), panel, defaults, now)  # its very own instant
            same = together[row["request_id"]]
            for name in (
                "chosen",
                "fallback",
                "eligible",
                "excluded",
                "expected_energy_j",
                "incumbent_energy_j",
                "tier",
            ):
                assert row[name] == same[name], name


_SHARED: dict[str, Any] = {}


@pytest.fixture(autouse=True)
def _shared(own_home: Any, desk: Desk) -> None:
    """Hypothesis runs one test body many times; this desk has offers whose knowledge changes over two weeks."""
    _SHARED.update(desk=desk, now=utcnow())


@pytest.fixture
def changing(desk: Desk) -> Desk:
    now = utcnow()
    price = {
        "provider": "acme", "offer_id": "new", "component": "prompt", "min_prompt_tokens": 100_000,
        "price_kind": "fixed", "price_usd_per_unit": Decimal("0.000009"), "unit": "token", "origin": "live",
        "valid_from": now - timedelta(days=3), "known_from": now - timedelta(days=3),
        "content_sha256": content_hash("dear"), "source_id": "acme", "run_id": "r1",
    }  # fmt: skip
    insert(desk, "core.price", [price])
    return desk


def test_a_price_tier_is_known_from_its_instant_on(changing: Desk) -> None:
    driver = Shadow(changing)
    before, after = log_all(changing, [{"at": utcnow() - timedelta(days=d), "prompt_tokens": 150_000} for d in (4, 2)])
    driver.call("shadow.decide")
    digests = {routed(driver, r)["snapshot_digest"] for r in (before, after)}
    assert len(digests) == 2


def test_an_unknown_request_or_recommendation_is_told_by_name(shadow: Shadow) -> None:
    assert (
        "no logged request 'a/b/c'" in refusal(lambda: shadow.call("shadow.request", {"request_id": "a/b/c"})).message
    )
    assert "no recommendation 'R-0099'" in refusal(lambda: shadow.call("shadow.report", {"id": "R-0099"})).message
