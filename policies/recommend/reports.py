"""What targets report about a recommendation, and what the desk measures itself; see lifecycle.py."""

from __future__ import annotations

from datetime import datetime

from policies.recommend.command import DESK, Command, Drafts, refuse, target
from policies.recommend.operators import automatic_rollback
from policies.recommend.state import RecState, State


def acknowledge(state: RecState, command: Command, out: Drafts, now: datetime, blocked: str | None) -> None:
    mine = target(state, command)
    name = mine.target
    if state.pending == "rollback":
        if mine.rollback_sent_at is None:
            raise refuse(state, command, f"{name} has not collected the rollback", "collect the commands first")
        if mine.rolled_back_at is not None:
            raise refuse(state, command, f"{name} has already rolled it back", "nothing is left to do")
        if command.rejection:
            out.add("rollback_rejected", target=name, reason=command.rejection, **command.data)
            return
        if mine.rollback_acknowledged_at is not None:
            raise refuse(state, command, f"{name} has acknowledged the rollback before", "report rolled_back")
        out.add("rollback_acknowledged", target=name, **command.data)
        return
    _must_be_under_way(state, command)
    if mine.sent_at is None:
        raise refuse(state, command, f"{name} has not collected it", "collect the commands first")
    if mine.rejected_at is not None:
        raise refuse(state, command, f"{name} has rejected it before", "nothing is left to do for this target")
    if mine.actuated_at is not None:
        raise refuse(state, command, f"{name} has actuated it before", "nothing is left to do for this target")
    if command.rejection:
        out.add("rejected", target=name, reason=command.rejection, **command.data)
        others = [t for t in state.targets if t.target != name]
        if not mine.held and all(t.rejected_at is not None and not t.has_change for t in others):
            out.add("rejected_by_target", state=State.REJECTED_BY_TARGET, reason=command.rejection)
        return
    if mine.acknowledged_at is not None:
        raise refuse(state, command, f"{name} has acknowledged it before", "carry it out and report actuate")
    out.add("acknowledged", state=State.ACKED if state.state is State.SENT else None, target=name, **command.data)


def _must_be_under_way(state: RecState, command: Command) -> None:
    if state.pending == "rollback":
        raise refuse(state, command, "a rollback is under way", "collect the commands and roll back")
    if state.state not in (State.SENT, State.ACKED, State.ACTUATED):
        raise refuse(state, command, f"it is {state.label}", "collect the commands to see what is to be done")


def actuate(state: RecState, command: Command, out: Drafts, now: datetime, blocked: str | None) -> None:
    mine = target(state, command)
    name = mine.target
    _must_be_under_way(state, command)
    if mine.rejected_at is not None:
        raise refuse(state, command, f"{name} has rejected it", "nothing is left to do for this target")
    if mine.acknowledged_at is None:
        raise refuse(state, command, f"{name} has not acknowledged it", "acknowledge first, then actuate")
    if mine.actuated_at is not None:
        raise refuse(state, command, f"{name} has actuated it before", "nothing is left to do for this target")
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


def outcome(state: RecState, command: Command, out: Drafts, now: datetime, blocked: str | None) -> None:
    mine = target(state, command)
    if state.pending == "rollback":
        raise refuse(state, command, "a rollback is under way", "report rolled_back")
    if state.state is not State.OBSERVING:
        raise refuse(
            state, command, f"it is {state.label}, and only OBSERVING takes an outcome", "actuate on every target first"
        )
    out.add("outcome", target=mine.target, by=mine.target, **command.data)
    _concluded(state, command, out)


def measure(state: RecState, command: Command, out: Drafts, now: datetime, blocked: str | None) -> None:
    """The desk's own measurement of what every target carries; told apart from what a target reports."""
    if state.state is not State.OBSERVING or state.pending is not None:
        raise refuse(state, command, f"it is {state.label}, not observing", "nothing is to be measured")
    out.add("outcome", by=DESK, stage=state.stage.name, **command.data)
    _concluded(state, command, out)


def _concluded(state: RecState, command: Command, out: Drafts) -> None:
    verdict, why = command.data.get("verdict"), command.data.get("why")
    if verdict == State.SUCCEEDED and state.next_stage is None:
        out.add("succeeded", state=State.SUCCEEDED, reason=why)
    elif verdict == State.FAILED:
        out.add("failed", state=State.FAILED, reason=why)
        automatic_rollback(state, out, why)


def rolled_back(state: RecState, command: Command, out: Drafts, now: datetime, blocked: str | None) -> None:
    mine = target(state, command)
    name = mine.target
    if state.pending != "rollback":
        raise refuse(
            state, command, f"no rollback of it is under way (it is {state.label})", "ask an operator to roll it back"
        )
    if mine.rollback_sent_at is None:
        raise refuse(state, command, f"{name} has not collected the rollback", "collect the commands first")
    if mine.rollback_acknowledged_at is None:
        raise refuse(state, command, f"{name} has not acknowledged the rollback", "acknowledge first")
    if mine.rolled_back_at is not None:
        raise refuse(state, command, f"{name} has rolled it back before", "nothing is left to do for this target")
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
