"""Whatever is sent in whatever order: no illegal state, one trace per accepted command, replays change nothing."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.recommend.errors import NotAllowed, RecommendError, RevisionStale
from policies.recommend.fold import fold
from policies.recommend.lifecycle import Command, Draft, collect, decide
from policies.recommend.state import TERMINAL, RecState, State

NOW = datetime(2026, 8, 11, 12)
TARGETS = ("lb-eu", "lb-us")

# From where each state may be entered; anything else is illegal.
ENTERED_FROM: dict[State, set[State]] = {
    State.APPROVED: {State.PROPOSED},
    State.SENT: {State.APPROVED},
    State.ACKED: {State.SENT},
    State.ACTUATED: {State.SENT, State.ACKED},
    State.OBSERVING: {State.ACTUATED},
    State.SUCCEEDED: {State.OBSERVING},
    State.FAILED: {State.OBSERVING},
    State.ROLLED_BACK: {State.SENT, State.ACKED, State.ACTUATED, State.OBSERVING, State.SUCCEEDED, State.FAILED},
    State.DISMISSED: {State.PROPOSED, State.APPROVED, State.SENT},
    State.EXPIRED: {State.PROPOSED, State.APPROVED},
    State.SUPERSEDED: {State.PROPOSED, State.APPROVED},
    State.REJECTED_BY_TARGET: {State.SENT, State.ACKED, State.ACTUATED},
}


@dataclass(frozen=True)
class Fact:
    seq: int
    happened_at: datetime
    kind: str
    subject: str
    revision: int | None
    data: dict[str, Any] = field(default_factory=dict)


def proposal() -> Fact:
    content = {
        "targets": list(TARGETS),
        "cells": [{"category": "debugging", "tier": 1, "latency": "interactive", "from": "old", "to": "new"}],
        "expires_at": (NOW + timedelta(days=1)).isoformat(),
    }
    body = {"state": "PROPOSED", "content": content, "content_hash": "h"}
    return Fact(1, NOW, "recommendation.proposed", "R-0001", 1, body)


def state_of(events: list[Fact]) -> RecState:
    found = fold(events)
    assert found is not None
    return found


def written(events: list[Fact], drafts: list[Draft], at: datetime) -> list[Fact]:
    more = [Fact(len(events) + 1 + i, at, d.kind, "R-0001", d.revision, dict(d.body)) for i, d in enumerate(drafts)]
    return [*events, *more]


steps = st.tuples(
    st.sampled_from(
        ["approve", "dismiss", "rollback", "acknowledge", "actuate", "rolled_back", "outcome", "expire", "supersede"]
        + ["collect"] * 3
    ),
    st.sampled_from(TARGETS),
    st.integers(-1, 0),  # how far behind the revision is
    st.sampled_from(["SUCCEEDED", "FAILED", "INCONCLUSIVE"]),
    st.sampled_from([None, None, None, "cannot"]),  # mostly no rejection
    st.sampled_from([0, 0, 0, 48]),  # hours that pass
)


def apply(events: list[Fact], step: tuple[str, str, int, str, str | None, int], now: datetime) -> list[Draft] | None:
    """The drafts of one step, or None where it was refused."""
    name, target, lag, verdict, rejection, _ = step
    state = state_of(events)
    if name == "collect":
        return collect(state, target)[1]
    command = Command(
        name,
        revision=max(1, state.revision + lag),
        target=target,
        rejection=rejection if name == "acknowledge" else None,
        data={"verdict": verdict} if name == "outcome" else {},
    )
    try:
        return decide(state, command, now=now)
    except RecommendError:
        return None


@settings(max_examples=300, deadline=None)
@given(st.lists(steps, max_size=40))
def test_no_sequence_of_commands_reaches_an_illegal_state(sequence: list[Any]) -> None:
    events, now = [proposal()], NOW
    for step in sequence:
        now += timedelta(hours=step[5])
        before = state_of(events)
        drafts = apply(events, step, now)
        if drafts is None:
            continue
        events = written(events, drafts, now)
        at = before
        for draft in drafts:  # every single event is a legal move, not only their sum
            told = draft.body.get("state")
            if told is not None:
                assert at.state in ENTERED_FROM[State(told)], f"{at.state} -> {told} by {step[0]}"
                at = replace(at, state=State(told))
        after = state_of(events)
        changed = (after.state, after.pending) != (before.state, before.pending)
        assert after.revision >= before.revision
        assert changed <= (after.revision > before.revision), "a change without a new revision"
        if before.state in TERMINAL:
            assert drafts == []
        if after.state in TERMINAL:
            assert after.pending is None
        if after.state is State.OBSERVING:
            assert all(t.actuated_at is not None for t in after.targets)
        if after.state is State.ROLLED_BACK:
            assert all(t.rolled_back_at is not None for t in after.targets if t.has_change)
        for target in after.targets:
            assert target.actuated_at is None or target.acknowledged_at is not None
            assert target.rolled_back_at is None or target.rollback_acknowledged_at is not None


@settings(max_examples=100, deadline=None)
@given(st.lists(steps, max_size=30))
def test_the_fold_of_a_prefix_is_the_state_at_that_time(sequence: list[Any]) -> None:
    events, now, states = [proposal()], NOW, []
    for step in sequence:
        now += timedelta(hours=step[5])
        drafts = apply(events, step, now)
        events = written(events, drafts or [], now)
        states.append((len(events), state_of(events)))
    for n, state in states:
        assert state_of(events[:n]) == state


def test_two_targets_report_side_by_side_with_the_revision_they_were_handed() -> None:
    events = [proposal()]
    events = written(events, decide(state_of(events), Command("approve", revision=1), now=NOW), NOW)
    handed = state_of(events).revision
    for target in TARGETS:
        events = written(events, collect(state_of(events), target)[1], NOW)
    for name in ("acknowledge", "actuate"):
        for i, target in enumerate(TARGETS):
            drafts = decide(state_of(events), Command(name, revision=handed, target=target), now=NOW)
            events = written(events, drafts, NOW)
            if (name, i) == ("acknowledge", 0):
                assert state_of(events).label == "ACKED (1/2)"
            if (name, i) == ("actuate", 0):
                assert state_of(events).label == "ACTUATED (1/2), PARTIAL"
    assert state_of(events).state is State.OBSERVING


def test_a_rollback_waits_for_every_target_that_has_the_change_and_for_no_other() -> None:
    events = [proposal()]

    def do(name: str, target: str | None = None) -> None:
        nonlocal events
        command = Command(name, revision=state_of(events).revision, target=target)
        events = written(events, decide(state_of(events), command, now=NOW), NOW)

    do("approve")
    events = written(events, collect(state_of(events), "lb-eu")[1], NOW)  # lb-us never collects
    do("acknowledge", "lb-eu")
    do("rollback")
    assert collect(state_of(events), "lb-us") == (None, [])
    events = written(events, collect(state_of(events), "lb-eu")[1], NOW)
    do("acknowledge", "lb-eu")
    do("rolled_back", "lb-eu")
    assert state_of(events).state is State.ROLLED_BACK
    assert "routes" not in events[-1].data, "the table never changed, so nothing of it is restored"


def test_an_expired_proposal_cannot_be_approved() -> None:
    state = state_of([proposal()])
    late = NOW + timedelta(days=2)
    with pytest.raises(NotAllowed, match="it expired at 2026-08-12 12:00 UTC"):
        decide(state, Command("approve", revision=1), now=late)


def test_a_report_may_carry_any_revision_since_the_decision_but_none_before() -> None:
    events = [proposal()]
    events = written(events, decide(state_of(events), Command("approve", revision=1), now=NOW), NOW)
    events = written(events, collect(state_of(events), "lb-eu")[1], NOW)
    assert decide(state_of(events), Command("acknowledge", revision=2, target="lb-eu"), now=NOW)
    with pytest.raises(RevisionStale):
        decide(state_of(events), Command("acknowledge", revision=1, target="lb-eu"), now=NOW)
