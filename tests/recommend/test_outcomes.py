"""The verdict on an outcome: no data, and data that settles nothing, never promotes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from app.desk import Desk
from tests.recommend.desks import Driver, copied, make_desk, outcome, refusal
from warehouse.clock import utcnow

CONFIG = "[policy]\ntiers = {old = 1, new = 1}\n"


@pytest.fixture
def observing(own_home: Path) -> Iterator[Driver]:
    """Every target carries R-0001."""

    def observed(home: Path) -> Desk:
        desk = make_desk(home, CONFIG, proposed=True)
        assert Driver(desk).observe()["state"] == "OBSERVING"
        return desk

    made = Driver(copied(own_home, "observing", observed))
    yield made
    made.desk.close()


def report(driver: Driver, **changes: Any) -> dict[str, Any]:
    return driver.send("outcome", **outcome(utcnow(), **changes))


def test_the_promised_saving_without_harm_succeeds(observing: Driver) -> None:
    told = report(observing)
    assert told["state"] == "SUCCEEDED"
    judgement = told["outcome"]["judgement"]
    assert judgement["ratio"] == pytest.approx(0.5)
    assert judgement["interval"][1] < 1
    assert told["closed"]


def test_more_energy_than_the_incumbent_fails(observing: Driver) -> None:
    told = report(observing, energy_j=150_000.0)
    assert told["state"] == "FAILED"
    assert "more, not less" in told["reason"]


def test_a_saving_that_costs_success_fails(observing: Driver) -> None:
    told = report(observing, successes=900)
    assert told["state"] == "FAILED"
    assert "below the 98.0% required" in told["reason"]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"attempts": 0, "successes": 0, "n": 0}, "no requests were made"),
        ({"energy_j": math.nan}, "energy_j of the window is unknown"),
        ({"energy_j": None}, "energy_j of the window is unknown"),
        ({"aborted": True}, "the window was aborted"),
        ({"successes": None}, "successes are unknown"),
        ({"attempts": 29, "successes": 29, "n": 29, "energy_j": 1450.0}, "29 successes are too few; 30 are needed"),
        ({"attempts": 40, "successes": 40, "n": 40, "energy_j": 2000.0}, "does not settle the 98.0% required"),
        ({"energy_j": 100_500.0}, "which does not exclude 1"),
        ({"evidence_class": "modeled"}, "the promise is allocated, the outcome modeled: they cannot be compared"),
    ],
)
def test_too_little_to_decide_is_inconclusive_and_the_state_stays(
    observing: Driver, changes: dict[str, Any], why: str
) -> None:
    told = report(observing, **changes)
    assert told["state"] == "OBSERVING"
    assert told["outcome"]["verdict"] == "INCONCLUSIVE"
    assert why in told["outcome"]["why"]
    assert observing.kinds()[-1] == "outcome"


def test_a_window_from_before_the_change_proves_nothing(observing: Driver) -> None:
    told = observing.send("outcome", **outcome(utcnow() - timedelta(hours=3)))
    assert told["outcome"]["verdict"] == "INCONCLUSIVE"
    assert "before the change was in force" in told["outcome"]["why"]


def test_an_inconclusive_report_may_be_followed_by_a_conclusive_one(observing: Driver) -> None:
    report(observing, energy_j=None)
    assert report(observing)["state"] == "SUCCEEDED"
    assert len(observing.show()["outcomes"]) == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"successes": 1001}, "successes 1001 exceed attempts 1000."),
        ({"energy_j": -5.0}, "energy_j is -5.0, below 0."),
        ({"evidence_class": "guessed"}, "evidence_class is 'guessed'."),
        ({"carbon_g": 3.0}, "carbon_g came with carbon_evidence_class None."),
        (
            {"carbon_g": 3.0, "carbon_evidence_class": "guessed"},
            "carbon_g came with carbon_evidence_class 'guessed'.",
        ),
        (
            {"carbon_g": 3.0, "carbon_evidence_class": "measured"},
            "carbon_evidence_class measured is stronger than evidence_class allocated.",
        ),
    ],
)
def test_a_report_that_contradicts_itself_is_refused(observing: Driver, changes: dict[str, Any], message: str) -> None:
    before = len(observing.events())
    error = refusal(lambda: report(observing, **changes))
    assert (error.status, error.message) == (422, message)
    assert len(observing.events()) == before


def test_reported_grams_keep_their_own_class(observing: Driver) -> None:
    told = report(observing, carbon_g=3.0, carbon_evidence_class="calibrated")
    measured = told["outcomes"][-1]["measured"]
    assert (measured["evidence_class"], measured["carbon_evidence_class"]) == ("allocated", "calibrated")


def test_a_failed_change_can_be_rolled_back(observing: Driver) -> None:
    report(observing, energy_j=150_000.0)
    told = observing.send("rollback")
    assert (told["state"], told["pending"]) == ("FAILED", "rollback")
    assert told["label"] == "FAILED, rolling back (0/1)"
