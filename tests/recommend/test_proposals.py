"""What is proposed, what it promises, what is held back and why, and how proposals age."""

from __future__ import annotations

import contextlib
import math
import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine

from app.desk import Desk
from app.errors import Conflict
from app.operations.recommending import refresh_recommendations, withdraw_sample
from tests.recommend.desks import (
    NEW_J,
    OLD_J,
    OPERATOR,
    Driver,
    add_offer,
    insert,
    make_desk,
    outcome,
    refusal,
    run_row,
)
from warehouse import ledger
from warehouse.clock import utcnow
from warehouse.ids import content_hash


def test_one_proposal_per_tier_from_and_to(driver: Driver) -> None:
    told = driver.show()
    assert told["title"] == "tier 1: old -> new"
    assert (told["state"], told["revision"], told["cells"]) == ("PROPOSED", 1, 9)
    assert told["content"]["incumbent_basis"] == "list-price baseline (assumed)"
    assert told["targets"][0]["target"] == "router"


def test_the_promise_carries_value_interval_class_and_n_of_both_sides(driver: Driver) -> None:
    promise = driver.show()["content"]["promise"]
    energy = promise["metrics"]["energy_j"]
    assert promise["per"] == "success"
    assert energy["unit"] == "J/success"
    assert energy["from"]["value"] == pytest.approx(sum(OLD_J) / 5)
    assert energy["to"]["value"] == pytest.approx(sum(NEW_J) / 5)
    assert energy["difference"] == pytest.approx(-0.5)
    assert (energy["from"]["n"], energy["to"]["n"]) == (5, 5)
    assert energy["to"]["evidence_class"] == "allocated"
    low, high = energy["interval"]
    assert low < -0.5 < high < 0
    assert energy["separable"] == "separable"
    assert promise["success"]["from"] == {"successes": 5, "attempts": 5, "rate": 1.0}
    assert promise["primary"] == "energy_j"


def test_joules_dollars_and_grams_each_carry_their_own_class(driver: Driver) -> None:
    content = driver.show()["content"]
    metrics = content["promise"]["metrics"]
    classes = {name: (m["from"]["evidence_class"], m["to"]["evidence_class"]) for name, m in metrics.items()}
    assert classes == {
        "energy_j": ("allocated", "allocated"),
        "billed_cost_usd": ("measured", "measured"),
        "carbon_g": ("calibrated", "calibrated"),
    }
    (line,) = [text for text in content["summary"] if text.startswith("gCO2eq per success")]
    assert "; calibrated, n 5 against 5" in line


def test_unknown_proficiency_stays_unknown(driver: Driver) -> None:
    assert driver.show()["content"]["promise"]["proficiency"] == {"from": None, "to": None, "difference": None}


def test_the_stored_content_hashes_to_its_hash_and_names_policy_and_snapshot(driver: Driver) -> None:
    told = driver.show()
    content = told["content"]
    assert content_hash(content) == told["content_hash"]
    stored = driver.desk.warehouse.query("SELECT policy_id, name FROM core.policy_version").rows()
    assert stored == [(content["policy_id"], "router")]
    assert len(content["snapshot_digest"]) == 64


def test_a_refresh_that_finds_the_same_numbers_writes_nothing(driver: Driver) -> None:
    before = len(driver.events())
    told = driver.refresh()
    assert told["unchanged"] == ["R-0001"]
    assert len(driver.events()) == before


def test_a_refresh_that_finds_other_numbers_revises_the_open_proposal(driver: Driver) -> None:
    add_offer_runs(driver.desk, "new", (80.0,))
    told = driver.refresh()
    assert told["revised"] == ["R-0001"]
    shown = driver.show()
    assert (shown["state"], shown["revision"]) == ("PROPOSED", 2)
    assert shown["content"]["promise"]["metrics"]["energy_j"]["to"]["n"] == 6
    error = refusal(lambda: driver.send("approve", revision=1))
    assert "based on revision 1" in error.message


def test_what_a_target_has_collected_is_frozen(driver: Driver) -> None:
    driver.send("approve")
    driver.collect()
    frozen = driver.show()["content_hash"]
    add_offer_runs(driver.desk, "new", (80.0,))
    told = driver.refresh()
    assert (told["proposed"], told["revised"]) == ([], [])
    assert driver.show()["content_hash"] == frozen
    (held,) = told["held"]
    assert held["reason"] == "R-0001 (SENT (1/1)) is changing the same cells"


def test_other_evidence_voids_an_approval_that_nobody_has_collected(driver: Driver) -> None:
    approved = driver.send("approve")
    add_offer_runs(driver.desk, "new", (80.0,))
    assert driver.refresh()["revised"] == ["R-0001"]
    shown = driver.show()
    assert shown["state"] == "PROPOSED" and shown["content_hash"] != approved["content_hash"]
    assert shown["revision"] > approved["revision"]
    assert driver.collect() == [], "the yes was to other content"


def test_a_proposal_is_superseded_when_the_ranking_moves_on(driver: Driver) -> None:
    add_offer(driver.desk, "best", (10.0, 10.5, 9.5, 10.2, 9.8))
    told = driver.refresh()
    assert told["superseded"] == ["R-0001"]
    assert told["proposed"] == ["R-0002"]
    assert driver.show("R-0001")["state"] == "SUPERSEDED"
    assert driver.show("R-0002")["title"] == "tier 1: old -> best"


def test_a_dismissed_proposal_comes_back_only_with_other_evidence(driver: Driver) -> None:
    driver.send("dismiss", reason="not now")
    told = driver.refresh()
    assert told["proposed"] == []
    assert "R-0001 proposed the same on the same evidence and was dismissed" in told["held"][0]["reason"]
    add_offer_runs(driver.desk, "new", (51.5,))
    assert driver.refresh()["proposed"] == ["R-0002"]


def test_what_gains_too_little_is_held_with_the_figures(own_home: Path) -> None:
    desk = make_desk(own_home, "[policy]\ntiers = {old = 1, new = 1}\n[guardrails]\nmin_gain = 0.6\n")
    try:
        told = refresh_recommendations(desk, OPERATOR)
        assert told["proposed"] == []
        (held,) = told["held"]
        assert held["reason"].startswith("gains less than 60% in joules and in billed dollars: energy_j -50.0%")
        listed = Driver(desk).call("recommend.list", {"include_held": True})
        assert [h["title"] for h in listed["held"]] == ["tier 1: old -> new"]
    finally:
        desk.close()


def test_a_changed_cell_rests_before_it_may_change_again(driver: Driver) -> None:
    driver.observe()
    add_offer(driver.desk, "best", (10.0, 10.5, 9.5, 10.2, 9.8))
    driver.send("rollback")
    driver.collect()
    driver.send("acknowledge")
    driver.send("rolled_back")
    told = driver.refresh()
    assert told["proposed"] == []
    assert "rests for 30 min" in told["held"][0]["reason"]
    with time_machine.travel(utcnow() + timedelta(minutes=31)):
        (held,) = driver.refresh()["held"]
        assert "went wrong once (last R-0001, ROLLED_BACK at" in held["reason"], "dwelt, and still backs off"
    with time_machine.travel(utcnow() + timedelta(minutes=61)):
        assert driver.refresh()["proposed"] == ["R-0002"]


def test_no_more_cells_change_in_a_day_than_allowed(own_home: Path) -> None:
    config = "[policy]\ntiers = {old = 2, new = 2}\n[guardrails]\nmax_changes_per_day = 9\n"
    desk = make_desk(own_home, config)
    try:
        driver = Driver(desk)
        assert driver.refresh()["proposed"] == ["R-0001", "R-0002"]  # tiers 1 and 2
        driver.send("approve", "R-0001")
        error = refusal(lambda: driver.send("approve", "R-0002"))
        assert "9 more would exceed the 9 allowed per day" in error.message
        told = {c["command"]: c for c in driver.show("R-0002")["commands"]}
        assert not told["approve"]["allowed"]
        with time_machine.travel(utcnow() + timedelta(hours=25)):
            assert driver.send("approve", "R-0002")["state"] == "APPROVED"
    finally:
        desk.close()


def test_a_proposal_that_nobody_takes_up_expires(driver: Driver) -> None:
    with time_machine.travel(utcnow() + timedelta(days=8)):
        assert driver.refresh()["expired"] == ["R-0001"]
        shown = driver.show()
        assert shown["state"] == "EXPIRED"
        assert driver.refresh()["proposed"] == [], "the new one of the same refresh is open"
        assert driver.show("R-0002")["state"] == "PROPOSED"


def test_an_approval_that_nobody_collects_expires_and_is_not_handed_over(driver: Driver) -> None:
    driver.send("approve")
    with time_machine.travel(utcnow() + timedelta(days=8)):
        assert driver.collect() == []
        assert driver.refresh()["expired"] == ["R-0001"]


def test_an_incumbent_that_left_the_catalog_is_replaced_whatever_the_gain(driver: Driver, desk: Desk) -> None:
    driver.send("dismiss")
    with desk.warehouse.transaction() as tx:
        tx.execute("UPDATE core.offer SET lifecycle = 'removed' WHERE offer_id = 'new'")
    declare(driver, "new")
    told = driver.refresh()
    assert told["proposed"] == ["R-0002"]
    shown = driver.show("R-0002")
    assert (shown["from"], shown["to"]) == ("new", "old")
    assert shown["content"]["incumbent_ineligible"] == "new is no longer eligible: removed from the catalog"
    assert shown["content"]["promise"]["metrics"]["energy_j"]["difference"] == pytest.approx(1.0)


def test_without_fresh_evidence_nothing_is_proposed(driver: Driver) -> None:
    with time_machine.travel(utcnow() + timedelta(days=60)):
        told = driver.refresh()
        assert told["proposed"] == []
        assert told["expired"] == ["R-0001"]


def test_evidence_of_different_classes_is_not_compared(own_home: Path) -> None:
    desk = make_desk(own_home, "[policy]\ntiers = {old = 1, new = 1}\n")
    try:
        with desk.warehouse.transaction() as tx:
            tx.execute("UPDATE core.usage SET evidence_class = 'modeled' WHERE requested_offer = 'new'")
        driver = Driver(desk)
        driver.refresh()
        metric = driver.show()["content"]["promise"]["metrics"]["energy_j"]
        assert metric["difference"] is None
        assert metric["note"] == "not comparable: allocated against modeled"
        assert driver.show()["content"]["promise"]["primary"] == "billed_cost_usd"
    finally:
        desk.close()


@pytest.mark.parametrize(
    ("where", "note"),
    [
        ("requested_offer = 'new'", "not comparable: calibrated against modeled"),
        ("requested_offer = 'old' AND energy_j > 100", "carbon_g mixes evidence classes calibrated, modeled."),
    ],
)
def test_grams_of_different_classes_are_not_compared_while_joules_are(own_home: Path, where: str, note: str) -> None:
    desk = make_desk(own_home, "[policy]\ntiers = {old = 1, new = 1}\n")
    try:
        with desk.warehouse.transaction() as tx:
            tx.execute(f"UPDATE core.usage SET carbon_evidence_class = 'modeled' WHERE {where}")
        driver = Driver(desk)
        driver.refresh()
        content = driver.show()["content"]
        grams = content["promise"]["metrics"]["carbon_g"]
        assert (grams["difference"], grams["interval"], grams["note"]) == (None, None, note)
        assert any(f"gCO2eq per success: difference unknown ({note}" in line for line in content["summary"])
        assert content["promise"]["metrics"]["energy_j"]["difference"] == pytest.approx(-0.5)
    finally:
        desk.close()


def test_removing_the_sample_withdraws_what_was_made_from_it(own_home: Path) -> None:
    desk = make_desk(own_home, "[policy]\ntiers = {old = 1, new = 1}\n")
    try:
        with desk.warehouse.transaction() as tx:
            tx.execute("UPDATE core.usage SET source_id = 'sample:sweep' WHERE requested_offer = 'new'")
        driver = Driver(desk)
        driver.refresh()
        assert driver.show()["is_sample"]
        with desk.warehouse.transaction() as tx:
            assert withdraw_sample(tx, OPERATOR) == ["R-0001"]
        ledger.anchor(desk.warehouse)
        assert driver.show()["state"] == "SUPERSEDED"
    finally:
        desk.close()


def test_removing_the_sample_rolls_back_what_is_in_force_already(own_home: Path) -> None:
    desk = make_desk(own_home, "[policy]\ntiers = {old = 1, new = 1}\n")
    try:
        with desk.warehouse.transaction() as tx:
            tx.execute("UPDATE core.usage SET source_id = 'sample:sweep'")
        driver = Driver(desk)
        driver.refresh()
        driver.observe()
        with desk.warehouse.transaction() as tx:
            withdraw_sample(tx, OPERATOR)
        assert driver.show()["pending"] == "rollback"
        assert [c["kind"] for c in driver.collect()] == ["rollback"]
    finally:
        desk.close()


def test_an_older_change_cannot_be_rolled_back_under_a_newer_one(driver: Driver) -> None:
    driver.observe("R-0001")
    driver.send("outcome", "R-0001", **outcome(utcnow()))
    add_offer(driver.desk, "best", (10.0, 10.5, 9.5, 10.2, 9.8))
    with time_machine.travel(utcnow() + timedelta(hours=2)):
        assert driver.refresh()["proposed"] == ["R-0002"]
        driver.observe("R-0002")
        error = refusal(lambda: driver.send("rollback", "R-0001"))
        assert "R-0002 has changed coding_general/1/interactive since" in error.message


def test_random_commands_and_replays_leave_one_trace_per_accepted_command(driver: Driver) -> None:
    rng = random.Random(7)
    names = ["approve", "dismiss", "rollback", "acknowledge", "actuate", "rolled_back", "collect"]
    sent: list[tuple[str, dict[str, Any], dict[str, Any]]] = []
    for i in range(120):
        name = rng.choice(names)
        if name == "collect":
            driver.collect()
            continue
        params = {"revision": driver.show()["revision"] - rng.choice([0, 0, 1]) or 1, "idempotency_key": f"k{i}"}
        with contextlib.suppress(Conflict):
            sent.append((name, params, driver.send(name, **params)))
    events = [e for e in driver.events() if e.kind != "recommendation.refused"]
    keys = {e.idempotency_key for e in events if e.idempotency_key}
    assert keys == {params["idempotency_key"] for _, params, _ in sent}
    count = len(driver.events())
    for name, params, answer in sent:
        assert driver.send(name, **params) == answer
    assert len(driver.events()) == count
    assert ledger.verify(driver.desk.warehouse).ok


# helpers ------------------------------------------------------------------------------------------------


def add_offer_runs(desk: Desk, offer_id: str, energies_j: tuple[float, ...]) -> None:
    rows = [run_row(offer_id, 100 + i, joules, "acme", {}) for i, joules in enumerate(energies_j)]
    insert(desk, "core.usage", rows)


def declare(driver: Driver, offer_id: str) -> None:
    cells = [{"category": "debugging", "tier": 1, "offer_id": "old"}]
    version = driver.call("routing.table")["version"]
    with driver.desk.warehouse.transaction() as tx:  # declared while the catalog still offered it
        ledger.append(
            tx,
            kind="routing.declared",
            subject="routing-table",
            body={"routes": {f"{c['category']}/{c['tier']}/interactive": offer_id for c in cells}, "before": version},
            actor="ada",
            role="operator",
            channel="cli",
        )


def test_the_helper_offers_differ_as_the_tests_assume() -> None:
    assert math.fsum(NEW_J) * 2 == math.fsum(OLD_J)
