"""Who has not answered: targets that neither acknowledge nor carry out, and for how long. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from policies.recommend.state import RecState, State, TargetState

_UNDER_WAY = frozenset({State.APPROVED, State.SENT, State.ACKED, State.ACTUATED})


@dataclass(frozen=True)
class Waiting:
    """What one target still owes. `limit_s`: None where nobody set a deadline. Times are naive UTC."""

    target: str
    owes: str  # acknowledge | actuate | acknowledge the rollback | roll back
    since: datetime
    for_s: float
    limit_s: float | None
    rejection: str | None = None  # it refused, and still holds something or keeps the others waiting

    @property
    def overdue(self) -> bool:
        return self.rejection is not None or (self.limit_s is not None and self.for_s >= self.limit_s)


def waiting(state: RecState, now: datetime) -> list[Waiting]:
    """What each target owes at `now`, in the order of the targets; empty where nothing is under way."""
    found = (_of(state, target, now) for target in state.targets)
    return [w for w in found if w is not None]


def _of(state: RecState, target: TargetState, now: datetime) -> Waiting | None:
    rules = state.governance
    since: datetime | None
    if state.pending == "rollback":
        if not target.has_change or target.rolled_back_at is not None:
            return None
        acknowledged, refused = target.rollback_acknowledged_at, target.rollback_rejection
        since, owes = state.pending_since, ("acknowledge the rollback", "roll back")
    elif state.state in _UNDER_WAY:
        if target.actuated_at is not None:
            return None
        acknowledged = target.acknowledged_at
        refused = target.rejection if target.rejected_at is not None else None
        since, owes = state.approved_at, ("acknowledge", "actuate")
    else:
        return None
    step = acknowledged is not None
    begun = (acknowledged if acknowledged is not None else since) or state.changed_at
    limit = rules.actuate_within_s if step else rules.acknowledge_within_s
    # A clock that was set back must not make a wait negative.
    return Waiting(target.target, owes[step], begun, max(0.0, (now - begun).total_seconds()), limit, refused)


def in_words(state: RecState, now: datetime) -> str | None:
    """`2 of 3 targets acknowledged, 1 silent for 4 min`; None where no target owes anything."""
    owed = waiting(state, now)
    if not owed:
        return None
    n = len(state.targets)
    silent = [w for w in owed if w.rejection is None and w.owes.startswith("acknowledge")]
    busy = [w for w in owed if w.rejection is None and not w.owes.startswith("acknowledge")]
    refused = [w for w in owed if w.rejection is not None]
    if state.pending == "rollback":
        holders = [t for t in state.targets if t.has_change]
        parts = [f"{sum(t.rolled_back_at is not None for t in holders)} of {len(holders)} targets rolled back"]
        done = "rolling back"
    else:
        parts = [f"{sum(t.acknowledged_at is not None for t in state.targets)} of {n} targets acknowledged"]
        carried = sum(t.actuated_at is not None for t in state.targets)
        if carried:
            parts.append(f"{carried} of {n} actuated")
        done = "actuating"
    if silent:
        parts.append(f"{len(silent)} silent for {span(max(w.for_s for w in silent))}")
    if busy:
        parts.append(f"{len(busy)} {done} for {span(max(w.for_s for w in busy))}")
    if refused:
        parts.append(f"{len(refused)} refused")
    return ", ".join(parts)


def span(seconds: float) -> str:
    """A length of time in its largest whole unit, rounded down: silence is never told longer than it is."""
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} s"
