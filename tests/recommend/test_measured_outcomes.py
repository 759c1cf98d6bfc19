"""The desk's own measurement: traffic against the incumbent's traffic, few looks, and what it cannot tell it says."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine

from app.desk import Desk
from app.recommendations.measuring import WAITING
from policies.recommend.figures import ratio
from policies.recommend.outcome import Outcome, Terms, Verdict, judge
from policies.recommend.traffic import read_traffic
from tests.recommend.desks import READER, Driver, copied, make_desk, outcome
from tests.recommend.traffic import organic
from warehouse.clock import utcnow
from warehouse.snapshots import snapshot

CONFIG = "[policy]\ntiers = {old = 1, new = 1}\n"
DAY = timedelta(days=1)
NOW = datetime(2026, 8, 11, 12)


def desk_with_traffic(home: Path, config: str = CONFIG) -> Driver:
    """Observing at NOW; the incumbent took 300 J per request of its own traffic, three times its reference runs."""

    def observed(new: Path) -> Desk:
        desk = make_desk(new, config)
        organic(desk, "old", 300, since=NOW - 2 * DAY, joules=300.0, failures=3)
        driver = Driver(desk)
        driver.refresh()
        driver.observe()
        return desk

    return Driver(copied(home, ("with traffic", config), observed))


@pytest.fixture
def clock() -> Iterator[Any]:
    with time_machine.travel(NOW, tick=False) as traveller:
        yield traveller


@pytest.fixture
def driver(own_home: Path, clock: Any) -> Iterator[Driver]:
    made = desk_with_traffic(own_home)
    yield made
    made.desk.close()


def measure(driver: Driver) -> dict[str, Any]:
    (told,) = driver.call("recommend.measure")["measured"]
    found: dict[str, Any] = told
    return found


def test_the_incumbents_own_traffic_is_frozen_with_the_proposal_and_is_no_reason_to_revise_it(
    own_home: Path, clock: Any
) -> None:
    desk = make_desk(own_home, CONFIG)
    try:
        driver = Driver(desk)
        organic(desk, "old", 50, since=NOW - DAY)
        driver.refresh()
        baseline = driver.show()["content"]["baseline"]
        assert (baseline["offer"], baseline["requests"], baseline["success_rate"]) == ("old", 50, 1.0)
        assert baseline["figures"]["energy_j"]["unit"] == "J/success"
        organic(desk, "old", 50, since=NOW - timedelta(hours=1))
        assert driver.refresh()["unchanged"] == ["R-0001"], "traffic goes on all the time"
        assert driver.show()["content"]["baseline"] == baseline
    finally:
        desk.close()


def test_success_is_measured_on_traffic_and_told_apart_from_what_a_target_reports(driver: Driver, clock: Any) -> None:
    # 120 J is more than twice the reference of the new offer, and 0.4 of what the old one took on real requests.
    organic(driver.desk, "new", 400, since=NOW, joules=120.0)
    clock.shift(timedelta(minutes=20))
    reported = driver.send("outcome", **outcome(NOW, energy_j=None))
    assert (reported["outcome"]["by"], reported["state"]) == ("router", "OBSERVING")
    told = measure(driver)
    assert told["verdict"] == "SUCCEEDED" and told["written"]
    shown = driver.show()
    assert shown["state"] == "SUCCEEDED"
    own = shown["outcomes"][-1]
    assert own["by"] == "desk" and "target" not in own
    assert own["judgement"]["ratio"] == pytest.approx(0.4, rel=0.05)
    assert own["judgement"]["interval"][1] < 1
    assert "all of it, because a bill does not say which cell asked" in own["why"]
    assert driver.call("recommend.measure")["measured"] == [], "nothing is observed any more"


def test_looks_are_few_and_each_is_held_to_more(driver: Driver, clock: Any) -> None:
    """Many sweeps on growing traffic that settles nothing make a handful of events."""
    for i in range(30):
        organic(driver.desk, "new", 10, since=NOW + timedelta(minutes=i), joules=300.0, noise=0.9, seed=i)
        clock.move_to(NOW + timedelta(minutes=i + 1))
        driver.call("recommend.measure")
    written = [e for e in driver.events("recommendation.outcome") if e.data["by"] == "desk"]
    attempts = [e.data["traffic"]["attempts"] for e in written]
    assert attempts == [30, 60, 120, 240]
    levels = [e.data["judgement"]["confidence"] for e in written]
    assert levels == sorted(levels) and levels[0] == pytest.approx(1 - 0.05 * 6 / math.pi**2)
    assert driver.show()["state"] == "OBSERVING"


@pytest.mark.parametrize("automatic", [False, True])
def test_a_breach_rolls_back_by_itself_where_the_owner_allowed_it_and_alerts_otherwise(
    own_home: Path, clock: Any, automatic: bool
) -> None:
    rules = "[environments.local]\nrequire_pass = false\nauto_shadow = false\nself_approval = true\n"
    driver = desk_with_traffic(own_home, CONFIG + rules + f"auto_rollback = {str(automatic).lower()}\n")
    try:
        organic(driver.desk, "new", 100, since=NOW, joules=120.0, failures=30)
        clock.shift(timedelta(minutes=20))
        assert measure(driver)["verdict"] == "FAILED"
        shown = driver.show()
        assert shown["state"] == "FAILED" and "success rate 70.0%" in shown["reason"]
        from app.alerting import refresh_alerts

        refresh_alerts(driver.desk)
        (alert,) = [a for a in driver.call("alert.list")["alerts"] if a["kind"] == "outcome_breach"]
        assert alert["subject"] == "R-0001" and alert["detail"]["link"] == "/recommendations?rec=R-0001"
        if automatic:
            assert shown["pending"] == "rollback" and alert["severity"] == "warning"
            assert [c["kind"] for c in driver.collect()] == ["rollback"]
        else:
            assert shown["pending"] is None and alert["severity"] == "bad"
            assert driver.send("rollback")["pending"] == "rollback"
            driver.collect()
        driver.send("acknowledge")
        driver.send("rolled_back")
        refresh_alerts(driver.desk)
        assert not [a for a in driver.call("alert.list")["alerts"] if a["kind"] == "outcome_breach"]
    finally:
        driver.desk.close()


def test_before_there_is_enough_it_waits_and_after_an_hour_it_says_what_is_missing(driver: Driver, clock: Any) -> None:
    organic(driver.desk, "new", 10, since=NOW)
    clock.shift(timedelta(minutes=30))
    told = measure(driver)
    assert (told["verdict"], told["written"]) == (WAITING, False)
    assert told["why"] == "10 of 30 successes since 2026-08-11 12:00 UTC"
    clock.shift(timedelta(minutes=31))
    told = measure(driver)
    assert (told["verdict"], told["written"]) == ("INCONCLUSIVE", True)
    assert "10 successes are too few; 30 are needed" in told["why"]
    before = len(driver.events())
    assert measure(driver)["written"] is False
    assert len(driver.events()) == before, "the same is not said again"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"successes": None}, "no source tells whether requests of new succeeded"),
        ({"energy_j": None}, "energy_j cannot be measured: no request tells energy_j and success"),
        ({"evidence_class": "modeled"}, "the promise is allocated, the outcome modeled: they cannot be compared"),
    ],
)
def test_what_the_traffic_does_not_tell_is_said(driver: Driver, clock: Any, changes: dict[str, Any], said: str) -> None:
    organic(driver.desk, "new", 40, since=NOW, **changes)
    clock.shift(timedelta(hours=2))
    told = measure(driver)
    assert told["verdict"] == "INCONCLUSIVE" and said in told["why"]
    assert driver.show()["state"] == "OBSERVING"


def test_requests_without_joules_beyond_the_stored_coverage_settle_nothing(driver: Driver, clock: Any) -> None:
    organic(driver.desk, "new", 40, since=NOW)
    organic(driver.desk, "new", 40, since=NOW, energy_j=None)
    clock.shift(timedelta(hours=2))
    assert "energy_j is told for 50% of the requests, and 95% are asked" in measure(driver)["why"]


def test_without_traffic_of_the_incumbent_nothing_is_compared_with_other_requests(own_home: Path, clock: Any) -> None:
    driver = Driver(make_desk(own_home, CONFIG))
    try:
        driver.refresh()
        driver.observe()
        organic(driver.desk, "new", 40, since=NOW, joules=5.0)
        clock.shift(timedelta(hours=2))
        told = measure(driver)
        assert told["verdict"] == "INCONCLUSIVE"
        assert "the incumbent had no traffic of its own before the change" in told["why"]
        assert driver.show()["state"] == "OBSERVING"
    finally:
        driver.desk.close()


# pure -------------------------------------------------------------------------------------------------------

BASELINE = {
    "success_rate": 0.97, "successes": 970, "attempts_told": 1000, "slo_s": 2.0, "over_share": 0.05,
    "latency_n": 1000, "over_slo": 50,
    "figures": {"energy_j": {"value": 300.0, "se_log": 0.01, "n": 1000, "evidence_class": "allocated"}},
}  # fmt: skip
CONTENT = {"promise": {"primary": "energy_j", "per": "success", "success": {"from": {"rate": 1.0}}, "metrics": {}}}


def judged(over: int | None, *, successes: int = 970, slo_s: float | None = 2.0, energy_j: float = 120_000.0) -> Any:
    told = Outcome(
        NOW, NOW + DAY, 1000, successes, energy_j, "allocated", n=1000, relative_uncertainty=0.01,
        slo_s=slo_s, latency_n=None if over is None else 1000, over_slo=over,
    )  # fmt: skip
    terms = Terms(success_margin=0.02, slo_s=2.0, over_slo_margin=0.02, baseline=BASELINE, own=True, look=1)
    return judge(told, CONTENT, terms, actuated_at=NOW)


@pytest.mark.parametrize(
    ("over", "verdict", "said"),
    [
        (50, Verdict.SUCCEEDED, "0.412 of the incumbent's"),
        (65, Verdict.INCONCLUSIVE, "does not settle 7.0%"),
        (140, Verdict.FAILED, "14.0% of 1000 requests took longer than 2 s"),
        (None, Verdict.INCONCLUSIVE, "no latency tells the share of requests over 2 s"),
    ],
)
def test_the_share_over_the_slo_is_a_bound_of_its_own(over: int | None, verdict: Verdict, said: str) -> None:
    found = judged(over)
    assert found.verdict is verdict and said in found.why


def test_an_slo_of_another_length_settles_nothing() -> None:
    assert judged(10, slo_s=5.0).verdict is Verdict.INCONCLUSIVE


def test_success_and_energy_are_bounds_whatever_the_others_say() -> None:
    assert judged(50, successes=900).verdict is Verdict.FAILED
    assert "more, not less" in judged(50, energy_j=400_000.0).why
    assert judged(50, successes=955).verdict is Verdict.INCONCLUSIVE, "the incumbent's rate is a sample, too"


def test_all_looks_together_take_no_more_error_than_one() -> None:
    alphas = [Terms(success_margin=0.02, look=k).alpha for k in range(1, 2000)]
    assert math.fsum(alphas) < 0.05 < math.fsum(alphas) + 0.05 * 6 / math.pi**2 / 1998
    assert Terms(success_margin=0.02).alpha == 0.05


def test_sums_in_the_warehouse_give_the_ratio_and_interval_of_the_rows(own_home: Path, clock: Any) -> None:
    desk = make_desk(own_home, CONFIG)
    try:
        organic(desk, "new", 37, since=NOW - DAY, joules=80.0, failures=4, seed=3)
        with snapshot(desk.warehouse) as snap:
            found = read_traffic(snap, ["new"], NOW - 2 * DAY, NOW)["new"].figures["energy_j"]
        rows = desk.warehouse.query(
            "SELECT energy_j, successes FROM core.usage WHERE workload = 'organic' ORDER BY usage_key"
        )
        wanted = ratio(rows["energy_j"].to_list(), [float(s) for s in rows["successes"]])
        assert wanted is not None and found.value is not None and found.se_log is not None
        assert found.value == pytest.approx(wanted.value, rel=1e-12)
        assert found.se_log == pytest.approx(wanted.se_log, rel=1e-9)
    finally:
        desk.close()


# savings ----------------------------------------------------------------------------------------------------


def test_savings_stand_beside_the_success_rate_and_only_for_what_is_in_force(driver: Driver, clock: Any) -> None:
    organic(driver.desk, "new", 200, since=NOW, joules=120.0, failures=10)
    clock.shift(timedelta(hours=1))
    told = driver.call("recommend.savings", {}, READER)
    (row,) = told["changes"]
    energy = row["metrics"]["energy_j"]
    after, before = 120.0 * 200 / 190, 300.0 * 300 / 297
    assert energy["measured"] == pytest.approx(after, rel=0.05)
    assert energy["saved_per_success"] == pytest.approx(before - after, rel=0.06)
    assert energy["relative"] == pytest.approx(after / before - 1, rel=0.05)
    low, high = energy["interval"]
    assert low < energy["relative"] < high < 0
    assert energy["evidence_class"] == "allocated" and energy["coverage"] == 1.0
    assert row["success"] == {"rate": 0.95, "successes": 190, "attempts": 200, "baseline_rate": 0.99}
    (total,) = told["totals"]["energy_j"]
    assert total["unit"] == "J" and total["saved"] == pytest.approx(energy["saved_per_success"] * 190)
    driver.send("rollback")
    driver.collect()
    driver.send("acknowledge")
    driver.send("rolled_back")
    assert driver.call("recommend.savings")["changes"] == []


def test_what_is_not_known_is_no_saving_of_nothing(driver: Driver, clock: Any) -> None:
    (row,) = driver.call("recommend.savings")["changes"]
    assert {m["why"] for m in row["metrics"].values()} == {"no organic request was billed since the change"}
    assert all(m["saved_per_success"] is None for m in row["metrics"].values())
    assert utcnow() == NOW
