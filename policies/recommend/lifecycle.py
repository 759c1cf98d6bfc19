"""What each command does to a recommendation: `decide` is pure, (state, command) -> events or a refusal.

    PROPOSED -> APPROVED -> SENT -> ACKED (k/n) -> ACTUATED (k/n) -> OBSERVING -> SUCCEEDED | FAILED
    PROPOSED -> DISMISSED | EXPIRED | SUPERSEDED;  APPROVED -> DISMISSED | EXPIRED (nobody collected it)
    SENT .. FAILED -> (pending rollback) -> ROLLED_BACK

Operator commands must carry exactly the current revision. Reports of targets must carry a revision between
that of the decision they carry out and the current one, because several targets report side by side.
A report out of order (actuated before acknowledged) is refused: an acknowledgement is its own fact and is
never implied. A command that is refused writes nothing here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from policies.recommend.errors import NotAllowed, RevisionMissing, RevisionStale, TargetUnknown
from policies.recommend.state import HANDED_OVER, PREFIX, RecState, State, TargetState

OPERATOR_COMMANDS = ("approve", "dismiss", "rollback")
TARGET_COMMANDS = ("acknowledge", "actuate", "outcome", "rolled_back")
SYSTEM_COMMANDS = ("expire", "supersede")


@dataclass(frozen=True)
class Command:
    """`data` is what the command adds to its event: an outcome with its verdict, an evidence of the target.

    `rejection` (acknowledge only): the target refuses the change or the rollback, in words.
    """

    name: str
    revision: int | None = None
    target: str | None = None
    reason: str | None = None
    rejection: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Draft:
    """An event to append: kind without prefix removed, body, and the revision after it."""

    kind: str
    body: Mapping[str, Any]
    revision: int


class _Drafts:
    """Collects the events of one command and counts the revision on."""

    def __init__(self, state: RecState) -> None:
        self.revision = state.revision
        self.items: list[Draft] = []

    def add(self, kind: str, *, state: State | None = None, bump: bool = False, **body: Any) -> None:
        if state is not None or bump:
            self.revision += 1
        told = {k: v for k, v in body.items() if v is not None}
        if state is not None:
            told["state"] = state.value
        self.items.append(Draft(PREFIX + kind, told, self.revision))


def decide(state: RecState, command: Command, *, now: datetime, blocked: str | None = None) -> list[Draft]:
    """The events that `command` adds to `state`, in order.

    `blocked`: a guardrail or a newer change that forbids an approval or rollback, in words.
    Raises RevisionMissing, RevisionStale, TargetUnknown or NotAllowed; then nothing may be written.
    """
    handler = _HANDLERS.get(command.name)
    if handler is None:
        raise NotAllowed(f"There is no command {command.name!r}.", fix=f"use one of {', '.join(_HANDLERS)}")
    if command.name not in SYSTEM_COMMANDS:
        _check_revision(state, command)
    drafts = _Drafts(state)
    handler(state, command, drafts, now, blocked)
    return drafts.items


def collect(state: RecState, target: str) -> tuple[str | None, list[Draft]]:
    """What `target` has to do about a recommendation: "apply", "rollback" or None, and the events of the hand-over.

    Handing over again what was not finished adds no event: a target that crashed simply collects again.
    """
    mine = state.target(target)
    if mine is None:
        return None, []
    drafts = _Drafts(state)
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
    if mine.sent_at is None:
        drafts.add("sent", state=State.SENT if state.state is State.APPROVED else None, target=target)
    return "apply", drafts.items


def why_not(state: RecState, name: str, *, now: datetime, blocked: str | None = None) -> str | None:
    """Why the operator command `name` is refused right now; None when it is allowed."""
    try:
        decide(state, Command(name, revision=state.revision, reason="-"), now=now, blocked=blocked)
    except NotAllowed as refusal:
        return refusal.message
    return None


# checks ---------------------------------------------------------------------------------------


def _check_revision(state: RecState, command: Command) -> None:
    seen = command.revision
    if seen is None:
        raise RevisionMissing(
            f"The command {command.name} of {state.id} does not say which revision it saw.",
            fix=f"read {state.id} and send its revision (If-Match: {state.etag})",
        )
    oldest = state.decision_revision if command.name in TARGET_COMMANDS else state.revision
    if not oldest <= seen <= state.revision:
        raise RevisionStale(
            f"The command {command.name} is based on revision {seen} of {state.id}, which is at revision "
            f"{state.revision} ({state.label}). Nothing was written.",
            fix=f"read {state.id} again and decide on revision {state.revision}",
        )


def _target(state: RecState, command: Command) -> TargetState:
    mine = state.target(command.target or "")
    if mine is None:
        names = ", ".join(t.target for t in state.targets)
        raise TargetUnknown(f"{state.id} has no target {command.target!r}.", fix=f"use one of {names}")
    return mine


def _refuse(state: RecState, command: Command, why: str, fix: str) -> NotAllowed:
    return NotAllowed(f"{state.id} cannot take {command.name}: {why}.", fix=fix)


# operator -------------------------------------------------------------------------------------


def _approve(state: RecState, command: Command, out: _Drafts, now: datetime, blocked: str | None) -> None:
    if state.state is not State.PROPOSED:
        raise _refuse(state, command, f"it is {state.label}, and only PROPOSED can be approved", "read it again")
    if state.expires_at is not None and now >= state.expires_at:
        raise _refuse(
            state, command, f"it expired at {state.expires_at:%Y-%m-%d %H:%M} UTC", "refresh the recommendations"
        )
    if blocked:
        raise _refuse(state, command, blocked, "refresh the recommendations")
    out.add("approved", state=State.APPROVED, content_hash=state.content_hash, reason=command.reason)


def _dismiss(state: RecState, command: Command, out: _Drafts, now: datetime, blocked: str | None) -> None:
    if state.state is not State.PROPOSED:
        fix = "roll it back instead" if state.state in HANDED_OVER | {State.APPROVED} else "nothing is left to do"
        raise _refuse(state, command, f"it is {state.label}, and only PROPOSED can be dismissed", fix)
    out.add("dismissed", state=State.DISMISSED, reason=command.reason)


def _rollback(state: RecState, command: Command, out: _Drafts, now: datetime, blocked: str | None) -> None:
    if state.pending == "rollback":
        raise _refuse(state, command, "a rollback is already under way", "wait for the targets to report")
    if state.state is State.PROPOSED:
        raise _refuse(state, command, "it was never approved, so there is nothing to undo", "dismiss it instead")
    if state.state not in HANDED_OVER | {State.APPROVED}:
        raise _refuse(state, command, f"it is {state.label}, so there is nothing to undo", "nothing is left to do")
    if blocked:
        raise _refuse(state, command, blocked, "roll the newer change back first, or declare the table you want")
    if not any(t.has_change for t in state.targets):
        # Nobody holds the new content: withdrawing the approval is all there is to undo.
        out.add(
            "dismissed", state=State.DISMISSED, withdrawn=True, reason=command.reason or "withdrawn before any change"
        )
        return
    out.add("rollback_requested", bump=True, pending="rollback", reason=command.reason)


# targets --------------------------------------------------------------------------------------


def _acknowledge(state: RecState, command: Command, out: _Drafts, now: datetime, blocked: str | None) -> None:
    mine = _target(state, command)
    name = mine.target
    if state.pending == "rollback":
        if mine.rollback_sent_at is None:
            raise _refuse(state, command, f"{name} has not collected the rollback", "collect the commands first")
        if mine.rolled_back_at is not None:
            raise _refuse(state, command, f"{name} has already rolled it back", "nothing is left to do")
        if command.rejection:
            out.add("rollback_rejected", target=name, reason=command.rejection, **command.data)
            return
        if mine.rollback_acknowledged_at is not None:
            raise _refuse(state, command, f"{name} has acknowledged the rollback before", "report rolled_back")
        out.add("rollback_acknowledged", target=name, **command.data)
        return
    _must_be_under_way(state, command)
    if mine.sent_at is None:
        raise _refuse(state, command, f"{name} has not collected it", "collect the commands first")
    if mine.rejected_at is not None:
        raise _refuse(state, command, f"{name} has rejected it before", "nothing is left to do for this target")
    if mine.actuated_at is not None:
        raise _refuse(state, command, f"{name} has actuated it before", "nothing is left to do for this target")
    if command.rejection:
        out.add("rejected", target=name, reason=command.rejection, **command.data)
        return
    if mine.acknowledged_at is not None:
        raise _refuse(state, command, f"{name} has acknowledged it before", "carry it out and report actuate")
    out.add("acknowledged", state=State.ACKED if state.state is State.SENT else None, target=name, **command.data)


def _must_be_under_way(state: RecState, command: Command) -> None:
    if state.pending == "rollback":
        raise _refuse(state, command, "a rollback is under way", "collect the commands and roll back")
    if state.state not in (State.SENT, State.ACKED, State.ACTUATED):
        raise _refuse(state, command, f"it is {state.label}", "collect the commands to see what is to be done")


def _actuate(state: RecState, command: Command, out: _Drafts, now: datetime, blocked: str | None) -> None:
    mine = _target(state, command)
    name = mine.target
    _must_be_under_way(state, command)
    if mine.rejected_at is not None:
        raise _refuse(state, command, f"{name} has rejected it", "nothing is left to do for this target")
    if mine.acknowledged_at is None:
        raise _refuse(state, command, f"{name} has not acknowledged it", "acknowledge first, then actuate")
    if mine.actuated_at is not None:
        raise _refuse(state, command, f"{name} has actuated it before", "nothing is left to do for this target")
    first = state.state in (State.SENT, State.ACKED)
    out.add("actuated", state=State.ACTUATED if first else None, target=name, **command.data)
    if all(t.actuated_at is not None or t.target == name for t in state.targets):
        out.add("observing", state=State.OBSERVING, routes=dict(state.routes))


def _outcome(state: RecState, command: Command, out: _Drafts, now: datetime, blocked: str | None) -> None:
    mine = _target(state, command)
    if state.pending == "rollback":
        raise _refuse(state, command, "a rollback is under way", "report rolled_back")
    if state.state is not State.OBSERVING:
        raise _refuse(
            state, command, f"it is {state.label}, and only OBSERVING takes an outcome", "actuate on every target first"
        )
    out.add("outcome", target=mine.target, **command.data)
    verdict = command.data.get("verdict")
    if verdict == State.SUCCEEDED:
        out.add("succeeded", state=State.SUCCEEDED, reason=command.data.get("why"))
    elif verdict == State.FAILED:
        out.add("failed", state=State.FAILED, reason=command.data.get("why"))


def _rolled_back(state: RecState, command: Command, out: _Drafts, now: datetime, blocked: str | None) -> None:
    mine = _target(state, command)
    name = mine.target
    if state.pending != "rollback":
        raise _refuse(
            state, command, f"no rollback of it is under way (it is {state.label})", "ask an operator to roll it back"
        )
    if mine.rollback_sent_at is None:
        raise _refuse(state, command, f"{name} has not collected the rollback", "collect the commands first")
    if mine.rollback_acknowledged_at is None:
        raise _refuse(state, command, f"{name} has not acknowledged the rollback", "acknowledge first")
    if mine.rolled_back_at is not None:
        raise _refuse(state, command, f"{name} has rolled it back before", "nothing is left to do for this target")
    done = all(t.rolled_back_at is not None or t.target == name for t in state.targets if t.has_change)
    previous = {key: cell["from"] for key, cell in zip(state.routes, state.content["cells"], strict=True)}
    # The table only ever changed once every target had actuated; what was never in force is not restored.
    was_in_force = state.state in (State.OBSERVING, State.SUCCEEDED, State.FAILED)
    out.add(
        "rolled_back",
        state=State.ROLLED_BACK if done else None,
        target=name,
        routes=previous if done and was_in_force else None,
        reason=state.reason if done else None,
        **command.data,
    )


# system ---------------------------------------------------------------------------------------


def _expire(state: RecState, command: Command, out: _Drafts, now: datetime, blocked: str | None) -> None:
    if state.state not in (State.PROPOSED, State.APPROVED):
        raise _refuse(state, command, f"it is {state.label}", "nothing is left to do")
    if state.expires_at is None or now < state.expires_at:
        raise _refuse(state, command, "its time is not over", "wait")
    out.add("expired", state=State.EXPIRED, reason=f"not taken up by {state.expires_at:%Y-%m-%d %H:%M} UTC")


def _supersede(state: RecState, command: Command, out: _Drafts, now: datetime, blocked: str | None) -> None:
    if state.state is not State.PROPOSED:
        raise _refuse(state, command, f"it is {state.label}; only PROPOSED can be superseded", "nothing to do")
    out.add("superseded", state=State.SUPERSEDED, reason=command.reason)


_HANDLERS: dict[str, Callable[[RecState, Command, _Drafts, datetime, str | None], None]] = {
    "approve": _approve,
    "dismiss": _dismiss,
    "rollback": _rollback,
    "acknowledge": _acknowledge,
    "actuate": _actuate,
    "outcome": _outcome,
    "rolled_back": _rolled_back,
    "expire": _expire,
    "supersede": _supersede,
}
