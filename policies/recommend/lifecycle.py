"""What each command does to a recommendation: `decide` is pure, (state, command) -> events or a refusal.

    PROPOSED -> SHADOWING -> READY -> APPROVED -> SENT -> ACKED (k/n) -> ACTUATED (k/n) -> OBSERVING
    OBSERVING -> (next stage) APPROVED -> ... | SUCCEEDED | FAILED
    SHADOWING -> INCONCLUSIVE | FAILED; undecided -> DISMISSED | EXPIRED | SUPERSEDED
    APPROVED -> DISMISSED | EXPIRED (nobody collected it); SENT .. -> REJECTED_BY_TARGET (nobody took it)
    SENT .. FAILED -> (pending rollback) -> ROLLED_BACK

Operator commands must carry exactly the current revision. Reports of targets must carry a revision between
that of the decision they carry out and the current one, because several targets report side by side.
A report out of order (actuated before acknowledged) is refused: an acknowledgement is its own fact and is
never implied. A command that is refused writes nothing here. Who may approve, and what must be proved before,
is the approval policy frozen in the content (see governance.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from policies.recommend.errors import NotAllowed, RevisionMissing, RevisionStale, TargetUnknown
from policies.recommend.governance import SHADOW
from policies.recommend.state import HANDED_OVER, PREFIX, UNDECIDED, RecState, State, TargetState

OPERATOR_COMMANDS = ("shadow", "approve", "promote", "dismiss", "rollback")
TARGET_COMMANDS = ("acknowledge", "actuate", "outcome", "rolled_back")
SYSTEM_COMMANDS = ("expire", "supersede", "judge")


@dataclass(frozen=True)
class Command:
    """`data` is what the command adds to its event: an outcome with its verdict, an evidence of the target,
    margins of a shadow, the verdict of a gate; for an approval `person` and `role`.

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


def _shadow(state: RecState, command: Command, out: _Drafts, now: datetime, blocked: str | None) -> None:
    """Store the margins, before any evidence that counts."""
    if state.state not in UNDECIDED:
        raise _refuse(state, command, f"it is {state.label}, and margins are set before a decision", "read it again")
    _not_over(state, command, now)
    out.add("shadowing", state=State.SHADOWING, reason=command.reason, **command.data)


def _judge(state: RecState, command: Command, out: _Drafts, now: datetime, blocked: str | None) -> None:
    """Take the verdict of a gate: before any traffic, or on a stage that all targets carry."""
    stage, verdict = command.data["stage"], command.data["verdict"]
    told = {k: v for k, v in command.data.items() if k != "complete"}
    if stage == SHADOW:
        if state.shadow is None or state.state not in UNDECIDED:
            raise _refuse(state, command, f"it is {state.label} and not shadowing", "start a shadow first")
        after = {
            "PASS": State.READY,
            "FAIL": State.FAILED,
            "INCONCLUSIVE": State.INCONCLUSIVE if command.data.get("complete") else State.SHADOWING,
        }[verdict]
        moved = after is not state.state
        lost = bool(state.approvals) and verdict != "PASS"
        out.add("judged", state=after if moved else None, bump=lost, reason=told.pop("reason", None), **told)
        return
    if state.state is not State.OBSERVING or state.pending is not None or stage != state.stage.name:
        raise _refuse(state, command, f"it is {state.label}, not observing {stage}", "nothing is to be judged")
    out.add("judged", bump=True, **told)
    if verdict == "FAIL":
        out.add("failed", state=State.FAILED, reason=told.get("why"))
        _automatic_rollback(state, out, told.get("why"))


def _automatic_rollback(state: RecState, out: _Drafts, why: str | None) -> None:
    if state.governance.auto_rollback and any(t.has_change for t in state.targets):
        out.add("rollback_requested", bump=True, pending="rollback", automatic=True, reason=f"automatic: {why}")


def _not_over(state: RecState, command: Command, now: datetime) -> None:
    if state.expires_at is not None and now >= state.expires_at:
        raise _refuse(
            state, command, f"it expired at {state.expires_at:%Y-%m-%d %H:%M} UTC", "refresh the recommendations"
        )


def _approve(state: RecState, command: Command, out: _Drafts, now: datetime, blocked: str | None) -> None:
    rules, person, role = state.governance, command.data.get("person"), command.data.get("role")
    allowed = (State.READY,) if rules.require_pass else (State.PROPOSED, State.READY)
    if state.state not in allowed:
        names = " or ".join(allowed)
        why = f"it is {state.label}, and only {names} can be approved"
        if rules.require_pass and state.state in UNDECIDED:
            why += f": {state.gate.why}" if state.gate else "; its gate has not passed"
        raise _refuse(state, command, why, "wait for the gate to pass" if state.state in UNDECIDED else "read it again")
    _not_over(state, command, now)
    if blocked:
        raise _refuse(state, command, blocked, "refresh the recommendations")
    if role is not None and role not in rules.roles:
        raise _refuse(state, command, f"{role} may not approve here", f"ask one of: {', '.join(rules.roles)}")
    if state.shadow and person and person == state.shadow.person and not rules.self_approval:
        raise _refuse(
            state, command, f"{person} set its margins, and nobody approves their own request", "ask somebody else"
        )
    given = [a for a in state.approvals if a.content_hash == state.content_hash and not _lapsed(state, a.at, now)]
    if person and any(a.person == person for a in given):
        raise _refuse(
            state,
            command,
            f"{person} has approved it, and {rules.approvals} different people must",
            "ask somebody else",
        )
    told: dict[str, Any] = {
        "content_hash": state.content_hash, "reason": command.reason, "person": person, "role": role
    }  # fmt: skip
    if len(given) + 1 < rules.approvals:
        out.add("approval_given", bump=True, k=len(given) + 1, n=rules.approvals, **told)
    else:
        out.add("approved", state=State.APPROVED, **told)


def _lapsed(state: RecState, at: datetime, now: datetime) -> bool:
    within = state.governance.approval_expires_s
    return within is not None and (now - at).total_seconds() >= within


def _promote(state: RecState, command: Command, out: _Drafts, now: datetime, blocked: str | None) -> None:
    """Move on to the next share of the traffic, after this one's gate has passed."""
    following = state.next_stage
    if state.state is not State.OBSERVING or state.pending is not None:
        raise _refuse(state, command, f"it is {state.label}, and only OBSERVING can be promoted", "read it again")
    if following is None:
        raise _refuse(state, command, "it is on its last stage", "wait for the outcome")
    said = state.verdicts.get(state.stage.name)
    if state.governance.require_pass and (said is None or said.verdict != "PASS"):
        why = f": {said.why}" if said and said.why else ""
        raise _refuse(
            state, command, f"the gate of {state.stage.name} has not passed{why}", "wait for the gate to pass"
        )
    if blocked:
        raise _refuse(state, command, blocked, "refresh the recommendations")
    out.add(
        "promoted",
        state=State.APPROVED,
        stage=following.name,
        share=following.share,
        reason=command.reason,
        **command.data,
    )


def _dismiss(state: RecState, command: Command, out: _Drafts, now: datetime, blocked: str | None) -> None:
    if state.state not in UNDECIDED:
        fix = "roll it back instead" if state.state in HANDED_OVER | {State.APPROVED} else "nothing is left to do"
        raise _refuse(state, command, f"it is {state.label}, and only what is undecided can be dismissed", fix)
    out.add("dismissed", state=State.DISMISSED, reason=command.reason)


def _rollback(state: RecState, command: Command, out: _Drafts, now: datetime, blocked: str | None) -> None:
    if state.pending == "rollback":
        raise _refuse(state, command, "a rollback is already under way", "wait for the targets to report")
    if state.state in UNDECIDED:
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
        others = [t for t in state.targets if t.target != name]
        if not mine.held and all(t.rejected_at is not None and not t.has_change for t in others):
            out.add("rejected_by_target", state=State.REJECTED_BY_TARGET, reason=command.rejection)
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
        # The table changes only when the whole traffic has moved; until then it is a share of it.
        whole = state.next_stage is None
        out.add(
            "observing",
            state=State.OBSERVING,
            routes=dict(state.routes) if whole else None,
            stage=None if whole else state.stage.name,
            share=None if whole else state.stage.share,
        )


def _outcome(state: RecState, command: Command, out: _Drafts, now: datetime, blocked: str | None) -> None:
    mine = _target(state, command)
    if state.pending == "rollback":
        raise _refuse(state, command, "a rollback is under way", "report rolled_back")
    if state.state is not State.OBSERVING:
        raise _refuse(
            state, command, f"it is {state.label}, and only OBSERVING takes an outcome", "actuate on every target first"
        )
    out.add("outcome", target=mine.target, **command.data)
    verdict, why = command.data.get("verdict"), command.data.get("why")
    if verdict == State.SUCCEEDED and state.next_stage is None:
        out.add("succeeded", state=State.SUCCEEDED, reason=why)
    elif verdict == State.FAILED:
        out.add("failed", state=State.FAILED, reason=why)
        _automatic_rollback(state, out, why)


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
    was_in_force = state.in_force
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
    if state.state not in UNDECIDED | {State.APPROVED} or any(t.has_change for t in state.targets):
        raise _refuse(state, command, f"it is {state.label}", "nothing is left to do")
    if state.state is State.APPROVED and state.approved_at and _lapsed(state, state.approved_at, now):
        out.add("expired", state=State.EXPIRED, reason="no target collected it before its approval lapsed")
        return
    if state.expires_at is None or now < state.expires_at:
        raise _refuse(state, command, "its time is not over", "wait")
    out.add("expired", state=State.EXPIRED, reason=f"not taken up by {state.expires_at:%Y-%m-%d %H:%M} UTC")


def _supersede(state: RecState, command: Command, out: _Drafts, now: datetime, blocked: str | None) -> None:
    uncollected = state.state is State.APPROVED and not any(t.has_change for t in state.targets)
    if state.state not in UNDECIDED and not uncollected:
        raise _refuse(
            state, command, f"it is {state.label}; only what no target has can be superseded", "nothing to do"
        )
    out.add("superseded", state=State.SUPERSEDED, reason=command.reason)


_HANDLERS: dict[str, Callable[[RecState, Command, _Drafts, datetime, str | None], None]] = {
    "shadow": _shadow,
    "judge": _judge,
    "approve": _approve,
    "promote": _promote,
    "dismiss": _dismiss,
    "rollback": _rollback,
    "acknowledge": _acknowledge,
    "actuate": _actuate,
    "outcome": _outcome,
    "rolled_back": _rolled_back,
    "expire": _expire,
    "supersede": _supersede,
}
