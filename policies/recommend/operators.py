"""What operators and the gate do to a recommendation; see lifecycle.py for the machine as a whole."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from policies.recommend.command import Command, Drafts, refuse
from policies.recommend.governance import SHADOW, step_too_large
from policies.recommend.state import HANDED_OVER, UNDECIDED, RecState, State


def shadow(state: RecState, command: Command, out: Drafts, now: datetime, blocked: str | None) -> None:
    """Store the margins, before any evidence that counts."""
    if state.state not in UNDECIDED and not state.uncollected:
        raise refuse(state, command, f"it is {state.label}, and margins are set before a decision", "read it again")
    _not_over(state, command, now)
    out.add("shadowing", state=State.SHADOWING, reason=command.reason, **command.data)


def judge(state: RecState, command: Command, out: Drafts, now: datetime, blocked: str | None) -> None:
    """Take the verdict of a gate: before any traffic, or on a stage that all targets carry."""
    stage, verdict = command.data["stage"], command.data["verdict"]
    told = {k: v for k, v in command.data.items() if k != "complete"}
    if stage == SHADOW:
        if state.shadow is None or state.state not in UNDECIDED:
            raise refuse(state, command, f"it is {state.label} and not shadowing", "start a shadow first")
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
        raise refuse(state, command, f"it is {state.label}, not observing {stage}", "nothing is to be judged")
    out.add("judged", bump=True, **told)
    if verdict == "FAIL":
        out.add("failed", state=State.FAILED, reason=told.get("why"))
        automatic_rollback(state, out, told.get("why"))


def automatic_rollback(state: RecState, out: Drafts, why: str | None) -> None:
    if state.governance.auto_rollback and any(t.has_change for t in state.targets):
        out.add("rollback_requested", bump=True, pending="rollback", automatic=True, reason=f"automatic: {why}")


def _not_over(state: RecState, command: Command, now: datetime) -> None:
    if state.expires_at is not None and now >= state.expires_at:
        raise refuse(
            state, command, f"it expired at {state.expires_at:%Y-%m-%d %H:%M} UTC", "refresh the recommendations"
        )


def approve(state: RecState, command: Command, out: Drafts, now: datetime, blocked: str | None) -> None:
    rules, person, role = state.governance, command.data.get("person"), command.data.get("role")
    allowed = (State.READY,) if rules.require_pass else (State.PROPOSED, State.READY)
    if state.state not in allowed:
        names = " or ".join(allowed)
        why = f"it is {state.label}, and only {names} can be approved"
        if rules.require_pass and state.state in UNDECIDED:
            why += f": {state.gate.why}" if state.gate else "; its gate has not passed"
        raise refuse(state, command, why, "wait for the gate to pass" if state.state in UNDECIDED else "read it again")
    _not_over(state, command, now)
    if blocked:
        raise refuse(state, command, blocked, "refresh the recommendations")
    if role is not None and role not in rules.roles:
        raise refuse(state, command, f"{role} may not approve here", f"ask one of: {', '.join(rules.roles)}")
    if person in state.asked_by and not rules.self_approval:
        raise refuse(
            state, command, f"{person} set its margins, and nobody approves their own request", "ask somebody else"
        )
    large = step_too_large(rules, 0)
    if large:
        raise refuse(state, command, large, "add a stage with a smaller share")
    given = [a for a in state.approvals if a.content_hash == state.content_hash and not lapsed(state, a.at, now)]
    if person and any(a.person == person for a in given):
        raise refuse(
            state,
            command,
            f"{person} has approved it, and {rules.approvals} different people must "
            f"({len(given)} of {rules.approvals}: {', '.join(a.person for a in given)})",
            "ask somebody else",
        )
    told: dict[str, Any] = {
        "content_hash": state.content_hash, "reason": command.reason, "person": person, "role": role
    }  # fmt: skip
    if len(given) + 1 < rules.approvals:
        out.add("approval_given", bump=True, k=len(given) + 1, n=rules.approvals, **told)
    else:
        out.add("approved", state=State.APPROVED, **told)


def lapsed(state: RecState, at: datetime, now: datetime) -> bool:
    """Whether what was said `at` no longer counts: an approval, or the verdict that a promotion stands on."""
    within = state.governance.approval_expires_s
    return within is not None and (now - at).total_seconds() >= within


def promote(state: RecState, command: Command, out: Drafts, now: datetime, blocked: str | None) -> None:
    """Move on to the next share of the traffic, after this one's gate has passed."""
    following = state.next_stage
    if state.state is not State.OBSERVING or state.pending is not None:
        raise refuse(state, command, f"it is {state.label}, and only OBSERVING can be promoted", "read it again")
    if following is None:
        raise refuse(state, command, "it is on its last stage", "wait for the outcome")
    said = state.verdicts.get(state.stage.name)
    if said is None or said.verdict != "PASS":
        why = f": {said.why}" if said and said.why else ""
        raise refuse(state, command, f"the gate of {state.stage.name} has not passed{why}", "wait for the gate to pass")
    if lapsed(state, said.at, now):  # what was measured then says nothing of a stage whose telemetry has stopped since
        why = f"the gate of {state.stage.name} passed at {said.at:%Y-%m-%d %H:%M} UTC, and nothing newer confirms it"
        raise refuse(state, command, why, "send newer pairs, judge again, or roll it back")
    large = step_too_large(state.governance, state.stage_no + 1)
    if large:
        raise refuse(state, command, large, "add a stage between")
    if blocked:
        raise refuse(state, command, blocked, "refresh the recommendations")
    out.add(
        "promoted",
        state=State.APPROVED,
        stage=following.name,
        share=following.share,
        reason=command.reason,
        **command.data,
    )


def dismiss(state: RecState, command: Command, out: Drafts, now: datetime, blocked: str | None) -> None:
    if state.state not in UNDECIDED:
        fix = "roll it back instead" if state.state in HANDED_OVER | {State.APPROVED} else "nothing is left to do"
        raise refuse(state, command, f"it is {state.label}, and only what is undecided can be dismissed", fix)
    out.add("dismissed", state=State.DISMISSED, reason=command.reason)


def rollback(state: RecState, command: Command, out: Drafts, now: datetime, blocked: str | None) -> None:
    if state.pending == "rollback":
        raise refuse(state, command, "a rollback is already under way", "wait for the targets to report")
    if state.state in UNDECIDED:
        raise refuse(state, command, "it was never approved, so there is nothing to undo", "dismiss it instead")
    if state.state not in HANDED_OVER | {State.APPROVED} or (state.closed and state.state is State.FAILED):
        raise refuse(state, command, f"it is {state.label}, so there is nothing to undo", "nothing is left to do")
    if blocked:
        raise refuse(state, command, blocked, "roll the newer change back first, or declare the table you want")
    if not any(t.has_change for t in state.targets):
        # Nobody holds the new content: withdrawing the approval is all there is to undo.
        out.add(
            "dismissed", state=State.DISMISSED, withdrawn=True, reason=command.reason or "withdrawn before any change"
        )
        return
    out.add("rollback_requested", bump=True, pending="rollback", reason=command.reason)
