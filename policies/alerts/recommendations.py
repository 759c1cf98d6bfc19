"""Alerts of what is on its way to traffic: targets that do not answer, changes that did harm and are still there."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from policies.alerts import words
from policies.alerts.model import AlertKind, Condition, Severity, Thresholds
from policies.recommend.deadlines import Waiting, in_words, waiting
from policies.recommend.fold import fold
from policies.recommend.freeze import frozen
from policies.recommend.state import RecState, State

Row = Mapping[str, Any]


@dataclass(frozen=True)
class _Event:
    """A row of the ledger, for the fold."""

    seq: int
    happened_at: datetime
    kind: str
    subject: str
    revision: int | None
    body: str

    @property
    def data(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self.body)
        return told


def in_flight(rows: Iterable[Row]) -> list[RecState]:
    """The recommendations that the events add up to, without those of the sample: they are nobody's fleet."""
    grouped: dict[str, list[_Event]] = {}
    for row in rows:
        grouped.setdefault(row["subject"], []).append(_Event(**row))
    states = (fold(events) for events in grouped.values())
    return [s for s in states if s is not None and not s.content.get("is_sample")]


def silent_targets(states: Iterable[RecState], limits: Thresholds, now: datetime) -> list[Condition]:
    """One condition per target that is over its deadline, or refused what others carry. A rollback is worse."""
    ice = frozen(limits.freeze, now)
    found = []
    for state in states:
        for owed in waiting(state, now):
            mine = state.target(owed.target)
            held_up = ice is not None and state.pending is None and mine is not None and mine.sent_at is None
            if owed.overdue and not held_up:
                found.append(_silent(state, owed, now))
    return found


def _silent(state: RecState, owed: Waiting, now: datetime) -> Condition:
    undoing = state.pending == "rollback"
    limit = words.span(owed.limit_s) if owed.limit_s is not None else None
    if owed.rejection is not None:
        verb = "refuses the rollback of" if undoing else "refuses"
        title = f"{owed.target} {verb} {state.id}: {owed.rejection}"
    else:
        title = f"{owed.target} does not {owed.owes} {state.id} since {words.at(owed.since)}, limit {limit}"
    return Condition(
        AlertKind.TARGET_SILENT,
        f"{state.id}/{owed.target}",
        Severity.BAD if undoing else Severity.WARNING,
        title,
        {
            "after": owed.owes,
            "limit": limit,
            "since": owed.since,
            "progress": in_words(state, now),
            "partial": state.partial,
            "evidence": "ledger",
            **_link(state),
        },
        degree=owed.for_s / owed.limit_s if owed.limit_s and owed.rejection is None else None,
    )


def breaches(states: Iterable[RecState]) -> list[Condition]:
    """One condition per change that failed and that some target still carries, with what undoes it."""
    found = []
    for state in states:
        if state.state is not State.FAILED or not any(t.has_change and t.rolled_back_at is None for t in state.targets):
            continue
        undoing = state.pending == "rollback"
        tail = "it is being rolled back" if undoing else "it is still carried out: roll it back"
        why = state.reason or "its outcome broke a bound"
        found.append(
            Condition(
                AlertKind.OUTCOME_BREACH,
                state.id,
                Severity.WARNING if undoing else Severity.BAD,
                f"{state.id} ({state.content['title']}) failed, {tail}: {why}",
                {
                    "after": state.label,
                    "since": state.changed_at,
                    "evidence": "outcome",
                    "fix": None if undoing else f"joulebook recommend rollback {state.id}",
                    **_link(state),
                },
            )
        )
    return found


def _link(state: RecState) -> dict[str, Any]:
    return {"recommendation": state.id, "link": f"/recommendations?rec={state.id}"}
