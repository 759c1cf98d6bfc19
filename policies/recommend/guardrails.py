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
_WITHDRAWN = frozenset(f"recommendation.{kind}" for kind in ("dismissed", "expired", "superseded", "shadowing"))
_WENT_WRONG = frozenset({State.FAILED, State.ROLLED_BACK, State.REJECTED_BY_TARGET})


@dataclass(frozen=True)
class Limits:
    """`min_gain`: relative gain in joules or billed dollars below which nothing is proposed."""

    min_gain: float = 0.05
    expires_after: timedelta = timedelta(days=7)
    min_dwell: timedelta = timedelta(minutes=30)
    max_changes_per_day: int = 20
    max_changes_per_pool: int = 30  # cells to or from one offer on one target
    backoff: timedelta = timedelta(hours=1)
    backoff_max: timedelta = timedelta(days=7)
    freeze: tuple[str, ...] = ()
    slo_s: float | None = None  # the share of requests over it is frozen with the incumbent's traffic
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
    spent = sum(len(content["cells"]) for content in _approved_today(events, now))
    if spent and spent + cells > limits.max_changes_per_day:
        return (
            f"changes of {spent} cells were approved in the last 24 h; {cells} more would exceed the "
            f"{limits.max_changes_per_day} allowed per day"
        )
    return None


def pool_hold(events: Iterable[LedgerEvent], content: Mapping[str, Any], limits: Limits, now: datetime) -> str | None:
    """Why no more cells may move to or from one of the two offers on one of the targets today.

    What serves an offer is a pool of capacity: it is spared more moves than it can settle between.
    """
    spent: dict[tuple[str, str], int] = {}
    for other in _approved_today(events, now):
        for pool in _pools(other):
            spent[pool] = spent.get(pool, 0) + len(other["cells"])
    cells = len(content["cells"])
    for target, offer in _pools(content):
        before = spent.get((target, offer), 0)
        if before and before + cells > limits.max_changes_per_pool:
            return (
                f"{before} cells moved to or from {offer} on {target} in the last 24 h; {cells} more would exceed the "
                f"{limits.max_changes_per_pool} allowed per offer and day"
            )
    return None


def _pools(content: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(t, content[side]) for t in content["targets"] for side in ("from", "to") if content[side] is not None]


def _approved_today(events: Iterable[LedgerEvent], now: datetime) -> list[Mapping[str, Any]]:
    """Contents approved in the last 24 h and not withdrawn. An approval of the future (a clock that was set back)
    counts."""
    contents: dict[str, Mapping[str, Any]] = {}
    approved: dict[str, Mapping[str, Any]] = {}
    for event in events:
        if event.kind == "recommendation.proposed":
            contents[event.subject] = event.data["content"]
            approved.pop(event.subject, None)  # other content voids an approval
        elif event.kind == "recommendation.approved" and now - event.happened_at < _DAY:
            approved[event.subject] = contents[event.subject]
        elif event.kind in _WITHDRAWN:
            approved.pop(event.subject, None)
    return list(approved.values())


def flight_hold(keys: Iterable[str], states: Sequence[RecState]) -> str | None:
    """Why the cells are taken: another recommendation is on its way to them, or failed and still holds a share."""
    wanted = set(keys)
    for state in states:
        busy = state.state in IN_FLIGHT or state.pending is not None
        left = state.state is State.FAILED and not state.in_force and any(t.has_change for t in state.targets)
        if (busy or left) and wanted & set(state.routes):
            return f"{state.id} ({state.label}) is changing the same cells"
    return None


def backoff_hold(keys: Iterable[str], states: Iterable[RecState], limits: Limits, now: datetime) -> str | None:
    """Why the cells rest after a change of theirs went wrong: for `backoff`, doubled each time in a row.

    Wrong is: failed, rejected by every target, rolled back. A change that succeeded ends the row.
    """
    for key in sorted(keys):
        row: list[RecState] = []
        for state in sorted((s for s in states if key in s.routes), key=lambda s: s.changed_at):
            if state.state is State.SUCCEEDED:
                row = []
            elif state.state in _WENT_WRONG:
                row.append(state)
        if not row:
            continue
        rest = min(limits.backoff * 2 ** min(len(row) - 1, 40), limits.backoff_max)
        last = row[-1]
        if now - last.changed_at < rest:
            times = "once" if len(row) == 1 else f"{len(row)} times in a row"
            return (
                f"{key} went wrong {times} (last {last.id}, {last.state} at {last.changed_at:%Y-%m-%d %H:%M} UTC) and "
                f"rests until {last.changed_at + rest:%Y-%m-%d %H:%M} UTC"
            )
    return None


def proof_hold(report: Mapping[str, Any] | None, limits: Limits) -> str | None:
    """Why the gain that the gate measured does not justify the change: its *lower* bound is below `min_gain`.

    `report`: the verdict that passed. A proposal looks at the point estimate of a few reference runs, because the
    shadow is there to prove it; an approval looks at the lower bound of what the shadow proved.
    """
    found = next((c for c in (report or {}).get("checks", ()) if c["name"] == "energy"), None)
    if found is None or found.get("high") is None:
        return None
    least = 1.0 - float(found["high"])
    if least >= limits.min_gain:
        return None
    return f"its gate shows a gain of at least {least:.1%} in joules per success, and {limits.min_gain:.0%} is asked"


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
    """Recommendations whose time, approval or promotion is over and that nobody has taken up."""

    def over(state: RecState) -> bool:
        late = state.expires_at is not None and now >= state.expires_at
        return (late and (state.state in UNDECIDED or state.uncollected)) or state.lapsed(now) is not None

    return [s for s in states if over(s)]
