"""Who is silent, for how long, and when that is an alert."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from policies.alerts.model import AlertKind, Severity, Thresholds
from policies.alerts.recommendations import breaches, in_flight, silent_targets
from policies.recommend.deadlines import in_words, waiting
from policies.recommend.state import State
from tests.recommend.test_stages_and_votes import NOW, Story
from warehouse.ids import canonical_json

TARGETS = ("lb-eu", "lb-us", "lb-asia")
LIMITS = {"acknowledge_within_s": 900.0, "actuate_within_s": 1800.0}


def approved(**rules: Any) -> Story:
    story = Story(targets=TARGETS, **{**LIMITS, **rules})
    story.shadow()
    story.judge("PASS")
    story.approve("bob")
    return story


def after(story: Story, **time: float) -> datetime:
    return story.now + timedelta(**time)


def test_two_of_three_acknowledged_and_one_silent_for_four_minutes() -> None:
    story = approved()
    for target in TARGETS[:2]:
        story.collect(target)
        story.send("acknowledge", target=target)
    now = after(story, minutes=4, seconds=59)
    assert in_words(story.state, now) == ("2 of 3 targets acknowledged, 1 silent for 4 min, 2 actuating for 4 min")
    assert [(w.target, w.owes, w.overdue) for w in waiting(story.state, now)] == [
        ("lb-eu", "actuate", False),
        ("lb-us", "actuate", False),
        ("lb-asia", "acknowledge", False),
    ]
    story.send("actuate", target="lb-eu")
    story.send("actuate", target="lb-us")
    assert story.state.partial and "PARTIAL" in story.state.label
    assert in_words(story.state, now) == ("2 of 3 targets acknowledged, 2 of 3 actuated, 1 silent for 4 min")


@pytest.mark.parametrize(("minutes", "overdue"), [(14.9, []), (15, ["acknowledge"]), (60, ["acknowledge"])])
def test_a_target_is_overdue_from_its_deadline_on(minutes: float, overdue: list[str]) -> None:
    story = Story(**LIMITS)
    story.shadow()
    story.judge("PASS")
    story.approve("bob")
    assert [w.owes for w in waiting(story.state, after(story, minutes=minutes)) if w.overdue] == overdue


def test_the_clock_of_actuation_begins_with_the_acknowledgement_and_never_runs_backwards() -> None:
    story = approved()
    story.collect("lb-eu")
    story.now += timedelta(minutes=14)
    story.send("acknowledge", target="lb-eu")
    (mine,) = [w for w in waiting(story.state, after(story, minutes=29)) if w.target == "lb-eu"]
    assert (mine.owes, mine.for_s, mine.overdue) == ("actuate", 29 * 60, False)
    (mine,) = [w for w in waiting(story.state, after(story, hours=-3)) if w.target == "lb-eu"]
    assert mine.for_s == 0.0


def test_a_rollback_has_the_same_deadlines_for_every_holder_and_nobody_else() -> None:
    story = approved()
    story.carry("lb-eu")
    story.send("rollback", reason="-")
    (owed,) = waiting(story.state, after(story, hours=1))
    assert (owed.target, owed.owes, owed.overdue) == ("lb-eu", "acknowledge the rollback", True)
    assert in_words(story.state, after(story, hours=1)) == "0 of 1 targets rolled back, 1 silent for 1 h"
    story.undo("lb-eu")
    assert waiting(story.state, after(story, hours=9)) == []


def test_where_nothing_is_under_way_nobody_is_waited_for() -> None:
    story = Story()
    assert waiting(story.state, NOW + timedelta(days=9)) == [] and in_words(story.state, NOW) is None
    done = approved()
    done.carry()
    assert done.state.state is State.OBSERVING and waiting(done.state, NOW + timedelta(days=9)) == []


# alerts -----------------------------------------------------------------------------------------------------


def test_a_silent_target_is_one_alert_that_names_it_and_leads_to_the_change() -> None:
    story = approved()
    now = after(story, minutes=16)
    found = silent_targets([story.state], Thresholds(), now)
    assert [c.subject for c in found] == [f"R-0001/{t}" for t in TARGETS]
    first = found[0]
    assert first.kind is AlertKind.TARGET_SILENT and first.severity is Severity.WARNING
    assert first.title == "lb-eu does not acknowledge R-0001 since 2026-08-11 12:00 UTC, limit 15 min"
    assert first.detail["link"] == "/recommendations?rec=R-0001"
    assert first.detail["progress"] == "0 of 3 targets acknowledged, 3 silent for 16 min"
    assert first.degree == pytest.approx(16 / 15)


def test_nobody_is_silent_in_a_freeze_but_a_rollback_does_not_wait() -> None:
    story = approved()
    ice = Thresholds(freeze=("Tue 12:10 - Tue 18:00",))
    assert silent_targets([story.state], ice, after(story, minutes=20)) == []
    story.carry("lb-eu")
    story.send("rollback", reason="-")
    (found,) = silent_targets([story.state], ice, after(story, minutes=20))
    assert found.severity is Severity.BAD and "does not acknowledge the rollback R-0001" in found.title


def test_what_one_target_refuses_while_others_carry_it_is_told_at_once() -> None:
    story = approved()
    story.carry("lb-eu")
    story.collect("lb-us")
    story.send("acknowledge", target="lb-us", rejection="no capacity")
    (found,) = [c for c in silent_targets([story.state], Thresholds(), story.now) if c.subject.endswith("lb-us")]
    assert found.title == "lb-us refuses R-0001: no capacity"
    assert found.detail["partial"] is True


@pytest.mark.parametrize("automatic", [False, True])
def test_a_failed_change_is_an_alert_with_one_click_or_is_being_rolled_back(automatic: bool) -> None:
    story = approved(auto_rollback=automatic)
    story.carry()
    story.send("measure", verdict="FAILED", why="success rate 90.0% is below the 98.0% required")
    (found,) = breaches([story.state])
    assert found.kind is AlertKind.OUTCOME_BREACH
    assert found.severity is (Severity.WARNING if automatic else Severity.BAD)
    assert "success rate 90.0%" in found.title
    assert found.detail["fix"] == (None if automatic else "joulebook recommend rollback R-0001")
    if not automatic:
        story.send("rollback", reason="-")
    for target in TARGETS:
        story.undo(target)
    assert breaches([story.state]) == []


def test_rows_of_the_ledger_become_states_and_the_sample_is_left_out() -> None:
    story = approved()
    rows = [
        {"seq": e.seq, "happened_at": e.happened_at, "kind": e.kind, "subject": e.subject, "revision": e.revision,
         "body": canonical_json(e.data)}
        for e in story.events
    ]  # fmt: skip
    (state,) = in_flight(rows)
    assert state == story.state
    body = {**story.events[0].data, "content": {**story.events[0].data["content"], "is_sample": True}}
    assert in_flight([{**rows[0], "body": canonical_json(body)}, *rows[1:]]) == []
