"""What keeps the desk from proposing and changing too eagerly; each limit says why it holds something back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from policies.recommend.governance import Governance
from policies.recommend.promise import gains
from policies.recommend.state import IN_FLIGHT, UNDECIDED, LedgerEvent, RecState, State
from policies.recommend.table import Table

_DAY = timedelta(days=1)
_NOT_AGAIN = {
    State.DISMISSED: "was dismissed",
    State.ROLLED_BACK: "was rolled back",
    State.FAILED: "failed",  # by its gate: had it been actuated, its cells would route to it
}


@dataclass(frozen=True)
class Limits:
    """`min_gain`: relative gain in joules or billed dollars below which nothing is proposed."""

    min_gain: float = 0.05
    expires_after: timedelta = timedelta(days=7)
    min_dwell: timedelta = timedelta(minutes=30)
    max_changes_per_day: int = 20
    targets: tuple[str, ...] = ("router",)
    governance: Governance = field(default_factory=Governance)


def gain_hold(promise: Mapping[str, Any], limits: Limits) -> str | None:
    """Why the promised gain does not justify a change; None where it does."""
    found = gains(promise)
    if promise.get("primary") is not None:
        return None
    shown = [
        f"{name} {-found[name]:+.1%}" if name in found else f"{name} unknown ({promise['metrics'][name]['note']})"
        for name in ("energy_j", "billed_cost_usd")
    ]
    return f"gains less than {limits.min_gain:.0%} in joules and in billed dollars: {'; '.join(shown)}"


def dwell_hold(keys: Iterable[str], table: Table, limits: Limits, now: datetime) -> str | None:
    """Why the cells may not change yet; None where they have rested long enough."""
    for key in sorted(keys):
        route = table.routes.get(key)
        changed = route.changed_at if route else None
        if changed is not None and now - changed < limits.min_dwell:
            wait = limits.min_dwell - (now - changed)
            return (
                f"{key} changed at {changed:%Y-%m-%d %H:%M} UTC and rests for "
                f"{limits.min_dwell.total_seconds() / 60:g} min; {wait.total_seconds() / 60:.0f} min are left"
            )
    return None


def budget_hold(events: Iterable[LedgerEvent], cells: int, limits: Limits, now: datetime) -> str | None:
    """Why `cells` more may not change today; counts the cells approved in the last 24 h and not withdrawn."""
    size: dict[str, int] = {}
    approved: dict[str, int] = {}
    for event in events:
        if event.kind == "recommendation.proposed":
            size[event.subject] = len(event.data["content"]["cells"])
        elif event.kind == "recommendation.approved" and now - event.happened_at < _DAY:
            approved[event.subject] = size.get(event.subject, 1)
        elif event.kind in ("recommendation.dismissed", "recommendation.expired"):
            approved.pop(event.subject, None)
    spent = sum(approved.values())
    if spent and spent + cells > limits.max_changes_per_day:
        return (
            f"changes of {spent} cells were approved in the last 24 h; {cells} more would exceed the "
            f"{limits.max_changes_per_day} allowed per day"
        )
    return None


def flight_hold(keys: Iterable[str], states: Sequence[RecState]) -> str | None:
    """Why the cells are taken: another recommendation is on its way to them."""
    wanted = set(keys)
    for state in states:
        busy = state.state in IN_FLIGHT or state.pending is not None
        if busy and wanted & set(state.routes):
            return f"{state.id} ({state.label}) is changing the same cells"
    return None


def repeat_hold(evidence_hash: str, key: Sequence[Any], states: Sequence[RecState]) -> str | None:
    """Why the same proposal is not made again: it was dismissed, rolled back or failed on this very evidence."""
    for state in reversed(states):
        same = list(state.content.get("group", ())) == list(key)
        if same and state.state in _NOT_AGAIN and state.content.get("evidence_hash") == evidence_hash:
            return (
                f"{state.id} proposed the same on the same evidence and {_NOT_AGAIN[state.state]} "
                f"at {state.changed_at:%Y-%m-%d %H:%M} UTC"
            )
    return None


def overdue(states: Iterable[RecState], now: datetime) -> list[RecState]:
    """Recommendations whose time is over and that nobody has taken up."""
    return [
        s
        for s in states
        if s.state in UNDECIDED | {State.APPROVED}
        and s.expires_at is not None
        and now >= s.expires_at
        and not any(t.has_change for t in s.targets)
    ]
