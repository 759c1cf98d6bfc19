"""What each command does to a recommendation: `decide` is pure, (state, command) -> events or a refusal.

    PROPOSED -> SHADOWING -> READY -> APPROVED -> SENT -> ACKED (k/n) -> ACTUATED (k/n) -> OBSERVING
    OBSERVING -> (next stage) APPROVED -> ... | SUCCEEDED | FAILED
    SHADOWING -> INCONCLUSIVE | FAILED; undecided -> DISMISSED | EXPIRED | SUPERSEDED
    APPROVED -> DISMISSED | EXPIRED (nobody collected it); SENT .. -> REJECTED_BY_TARGET (nobody took it)
    APPROVED -> OBSERVING (nobody collected the next stage in time: the one before goes on)
    SENT .. FAILED -> (pending rollback) -> ROLLED_BACK

Operator commands must carry exactly the current revision. Reports of targets must carry a revision between
that of the decision they carry out and the current one, because several targets report side by side.
A report out of order (actuated before acknowledged) is refused: an acknowledgement is its own fact and is
never implied. A command that is refused writes nothing here. Who may approve, and what must be proved before,
is the approval policy frozen in the content (see governance.py).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from policies.recommend import operators, reports
from policies.recommend.command import (
    DESK,
    OPERATOR_COMMANDS,
    SYSTEM_COMMANDS,
    TARGET_COMMANDS,
    Command,
    Draft,
    Drafts,
    check_revision,
    refuse,
)
from policies.recommend.errors import NotAllowed
from policies.recommend.state import UNDECIDED, RecState, State

__all__ = [
    "DESK",
    "OPERATOR_COMMANDS",
    "SYSTEM_COMMANDS",
    "TARGET_COMMANDS",
    "Command",
    "Draft",
    "collect",
    "decide",
    "why_not",
]


def decide(state: RecState, command: Command, *, now: datetime, blocked: str | None = None) -> list[Draft]:
    """The events that `command` adds to `state`, in order.

    `blocked`: a guardrail or a newer change that forbids an approval or rollback, in words.
    Raises RevisionMissing, RevisionStale, TargetUnknown or NotAllowed; then nothing may be written.
    """
    handler = _HANDLERS.get(command.name)
    if handler is None:
        raise NotAllowed(f"There is no command {command.name!r}.", fix=f"use one of {', '.join(_HANDLERS)}")
    if command.name not in SYSTEM_COMMANDS:
        check_revision(state, command)
    drafts = Drafts(state)
    handler(state, command, drafts, now, blocked)
    return drafts.items


def collect(
    state: RecState, target: str, *, now: datetime | None = None, frozen: str | None = None
) -> tuple[str | None, list[Draft]]:
    """What `target` has to do about a recommendation: "apply", "rollback" or None, and the events of the hand-over.

    Handing over again what was not finished adds no event: a target that crashed simply collects again. Nothing is
    handed over whose time or approval is over at `now`, nor (rollbacks excepted) while changes are `frozen`; what a
    target has acknowledged it may finish.
    """
    mine = state.target(target)
    if mine is None:
        return None, []
    drafts = Drafts(state)
    if state.pending == "rollback":
        if not mine.has_change or mine.rolled_back_at is not None:
            return None, []
        if mine.rollback_sent_at is None:
            drafts.add("rollback_sent", target=target)
        return "rollback", drafts.items
    if state.state not in (State.APPROVED, State.SENT, State.ACKED, State.ACTUATED):
        return None, []
    if mine.actuated_at is not None or mine.rejected_at is not None:
        return None, []
    if mine.acknowledged_at is None and (frozen or (now is not None and _too_late(state, now))):
        return None, []
    if mine.sent_at is None:
        drafts.add("sent", state=State.SENT if state.state is State.APPROVED else None, target=target)
    return "apply", drafts.items


def _too_late(state: RecState, now: datetime) -> bool:
    over = state.expires_at is not None and now >= state.expires_at
    return (state.uncollected and over) or state.lapsed(now) is not None


def why_not(
    state: RecState,
    name: str,
    *,
    now: datetime,
    blocked: str | None = None,
    person: str | None = None,
    role: str | None = None,
) -> str | None:
    """Why the operator command `name` is refused right now, to this person; None when it is allowed."""
    data = {"person": person, "role": role} if name == "approve" else {}
    try:
        decide(state, Command(name, revision=state.revision, reason="-", data=data), now=now, blocked=blocked)
    except NotAllowed as refusal:
        return refusal.message
    return None


# system ---------------------------------------------------------------------------------------


def _expire(state: RecState, command: Command, out: Drafts, now: datetime, blocked: str | None) -> None:
    if state.unclaimed and state.lapsed(now) is not None:
        why = f"no target collected {state.stage.name} before its promotion lapsed"
        out.add("promotion_lapsed", state=State.OBSERVING, reason=why, stage=state.stage.name)
        return
    if state.state not in UNDECIDED | {State.APPROVED} or any(t.has_change for t in state.targets):
        raise refuse(state, command, f"it is {state.label}", "nothing is left to do")
    if state.lapsed(now) is not None:
        out.add("expired", state=State.EXPIRED, reason="no target collected it before its approval lapsed")
        return
    if state.expires_at is None or now < state.expires_at:
        raise refuse(state, command, "its time is not over", "wait")
    out.add("expired", state=State.EXPIRED, reason=f"not taken up by {state.expires_at:%Y-%m-%d %H:%M} UTC")


def _supersede(state: RecState, command: Command, out: Drafts, now: datetime, blocked: str | None) -> None:
    uncollected = state.state is State.APPROVED and not any(t.has_change for t in state.targets)
    if state.state not in UNDECIDED and not uncollected:
        raise refuse(state, command, f"it is {state.label}; only what no target has can be superseded", "nothing to do")
    out.add("superseded", state=State.SUPERSEDED, reason=command.reason)


_HANDLERS: dict[str, Callable[[RecState, Command, Drafts, datetime, str | None], None]] = {
    "shadow": operators.shadow,
    "judge": operators.judge,
    "approve": operators.approve,
    "promote": operators.promote,
    "dismiss": operators.dismiss,
    "rollback": operators.rollback,
    "acknowledge": reports.acknowledge,
    "actuate": reports.actuate,
    "outcome": reports.outcome,
    "measure": reports.measure,
    "rolled_back": reports.rolled_back,
    "expire": _expire,
    "supersede": _supersede,
}
