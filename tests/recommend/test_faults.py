"""Targets that repeat, reorder, flap, lie or vanish: nothing is done twice, and everything can be undone."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine

from app.alerting import refresh_alerts
from app.errors import Conflict
from tests.recommend.desks import ROUTER, Driver, make_desk, refusal
from warehouse import ledger

CONFIG = """[policy]
tiers = {old = 1, new = 1}
[guardrails]
targets = ["lb-eu", "lb-us"]
"""
NOW = datetime(2026, 8, 11, 12)


@pytest.fixture
def clock() -> Iterator[Any]:
    with time_machine.travel(NOW, tick=False) as traveller:
        yield traveller


@pytest.fixture
def driver(own_home: Path, clock: Any) -> Iterator[Driver]:
    desk = make_desk(own_home, CONFIG, proposed=True)
    made = Driver(desk)
    yield made
    desk.close()


def message(driver: Driver, step: str, target: str, revision: int) -> Any:
    """A report as a target sends it: its key follows from what it says, so that a repeat is the same report."""
    params = {"id": "R-0001", "target": target, "revision": revision, "idempotency_key": f"{target}/{revision}/{step}"}

    def send() -> str:
        try:
            return str(driver.call(f"recommend.{step}", params, ROUTER)["state"])
        except Conflict:
            return "conflict"

    return send


@pytest.mark.parametrize("seed", range(3))
def test_reports_that_are_repeated_and_come_in_any_order_count_once(driver: Driver, seed: int) -> None:
    rng = random.Random(seed)
    revision = driver.send("approve")["revision"]
    for target in ("lb-eu", "lb-us"):
        driver.collect(target)
    sent = [message(driver, s, t, revision) for t in ("lb-eu", "lb-us") for s in ("acknowledge", "actuate")]
    for _ in range(6):  # the network delivers everything again and again, shuffled
        rng.shuffle(sent)
        for send in sent:
            send()
    assert driver.show()["state"] == "OBSERVING"
    kinds = driver.kinds()
    assert (kinds.count("acknowledged"), kinds.count("actuated"), kinds.count("observing")) == (2, 2, 1)
    assert ledger.verify(driver.desk.warehouse).ok


def test_a_late_acknowledgement_of_what_was_taken_back_is_a_conflict(driver: Driver) -> None:
    revision = driver.send("approve")["revision"]
    driver.collect("lb-eu")
    late = message(driver, "acknowledge", "lb-eu", revision)
    driver.send("rollback")
    assert late() == "conflict"
    assert driver.show()["targets"][0]["acknowledged_at"] is None


def test_a_target_that_flaps_between_two_states_reports_each_once(driver: Driver) -> None:
    driver.send("approve")
    for _ in range(3):
        assert driver.collect("lb-eu")
    driver.send("acknowledge", target="lb-eu")
    for _ in range(3):
        assert "has acknowledged it before" in refusal(lambda: driver.send("acknowledge", target="lb-eu")).message
    # It carried the change out, lost it (a restart with an old file), and says so by refusing: too late for that.
    driver.send("actuate", target="lb-eu")
    error = refusal(lambda: driver.send("acknowledge", target="lb-eu", rejection="I lost it"))
    assert "has actuated it before" in error.message
    for _ in range(3):  # each time with a key of its own, so that it is no repeat of the same report
        assert "has actuated it before" in refusal(lambda: driver.send("actuate", target="lb-eu")).message
    assert driver.kinds().count("actuated") == 1 and driver.show()["label"] == "ACTUATED (1/2), PARTIAL"


def test_a_target_that_refused_after_all_cannot_have_carried_it_out(driver: Driver) -> None:
    driver.send("approve")
    driver.collect("lb-eu")
    driver.send("acknowledge", target="lb-eu")
    driver.send("acknowledge", target="lb-eu", rejection="the disk is full")
    error = refusal(lambda: driver.send("actuate", target="lb-eu"))
    assert "lb-eu has rejected it" in error.message
    (eu, us) = driver.show()["targets"]
    assert (eu["actuated_at"], eu["rejection"], us["sent_at"]) == (None, "the disk is full", None)
    assert driver.collect("lb-eu") == [], "nor is it handed over again"


def test_a_target_that_tells_what_it_did_not_collect_is_not_believed(driver: Driver) -> None:
    driver.send("approve")
    driver.collect("lb-eu")
    for step in ("acknowledge", "actuate"):
        error = refusal(lambda s=step: driver.send(s, target="lb-us"))
        assert "lb-us has not" in error.message
    assert driver.show()["label"] == "SENT (1/2)"


def test_a_target_that_vanishes_is_an_alert_and_what_the_others_carry_can_be_undone(driver: Driver, clock: Any) -> None:
    driver.send("approve")
    driver.carry("lb-eu")
    driver.collect("lb-us")  # and is never heard of again
    clock.shift(timedelta(minutes=20))
    refresh_alerts(driver.desk)
    (alert,) = driver.call("alert.list")["alerts"]
    assert (alert["kind"], alert["subject"]) == ("target_silent", "R-0001/lb-us")
    assert alert["title"] == "lb-us does not acknowledge R-0001 since 2026-08-11 12:00 UTC, limit 15 min"
    assert alert["detail"]["progress"] == "1 of 2 targets acknowledged, 1 of 2 actuated, 1 silent for 20 min"
    assert driver.show()["label"] == "ACTUATED (1/2), PARTIAL"
    driver.send("rollback", reason="lb-us is gone")
    driver.collect("lb-eu")
    driver.send("acknowledge", target="lb-eu")
    assert driver.send("rolled_back", target="lb-eu")["label"] == "ACTUATED (1/2), PARTIAL, rolling back (1/2)"
    # It comes back with the old command in its hands, and learns that it is to undo.
    assert "a rollback" in refusal(lambda: driver.send("actuate", target="lb-us")).message
    assert [c["kind"] for c in driver.collect("lb-us")] == ["rollback"]
    driver.send("acknowledge", target="lb-us")
    assert driver.send("rolled_back", target="lb-us")["state"] == "ROLLED_BACK"
    refresh_alerts(driver.desk)
    assert driver.call("alert.list")["alerts"] == []


def test_clocks_that_disagree_change_no_order(driver: Driver, clock: Any) -> None:
    """The desk's clock goes back an hour between approval and report: the ledger's order counts, not its times."""
    driver.send("approve")
    clock.shift(timedelta(hours=-1))
    driver.carry("lb-eu", "lb-us")
    shown = driver.show()
    assert shown["state"] == "OBSERVING" and ledger.verify(driver.desk.warehouse).ok
    times = [e["at"] for e in shown["timeline"]]
    assert times != sorted(times)
    assert {c["offer_id"] for c in driver.call("routing.table")["cells"] if c["tier"] == 1} == {"new"}
