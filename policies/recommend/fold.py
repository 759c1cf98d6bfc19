"""The state of a recommendation as a fold over its ledger events, and nothing else.

Advice, hand-over, acknowledgement, actuation and outcome are separate events; the state is what they add up to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from policies.recommend.governance import SHADOW
from policies.recommend.state import (
    PREFIX,
    TERMINAL,
    Approval,
    LedgerEvent,
    RecState,
    Shadow,
    Standing,
    State,
    TargetState,
    Verdict,
    cell_key,
)
from warehouse.clock import parse_utc

# What each kind of event stamps on its target.
_STAMPS = {
    "sent": "sent_at",
    "acknowledged": "acknowledged_at",
    "actuated": "actuated_at",
    "rejected": "rejected_at",
    "rollback_sent": "rollback_sent_at",
    "rollback_acknowledged": "rollback_acknowledged_at",
    "rolled_back": "rolled_back_at",
}


def fold(events: Iterable[LedgerEvent]) -> RecState | None:
    """The state that the events of one recommendation, in order of seq, add up to; None without a proposal."""
    state: RecState | None = None
    for event in events:
        state = advance(state, event)
    return state


def advance(state: RecState | None, event: LedgerEvent) -> RecState | None:
    """The state after one more event."""
    return _apply(state, event, event.data) if event.kind.startswith(PREFIX) else state


def _apply(state: RecState | None, event: LedgerEvent, body: Mapping[str, Any]) -> RecState | None:
    kind = event.kind.removeprefix(PREFIX)
    if kind == "proposed":
        return _proposed(state, event, body)
    if state is None or kind == "refused":
        return state
    changed = state if event.revision is None else replace(state, revision=event.revision)
    changed = replace(changed, last_seq=event.seq)
    if body.get("state"):
        reason = body.get("reason")
        changed = replace(changed, state=State(body["state"]), changed_at=event.happened_at, reason=reason)
        if changed.state in TERMINAL:
            changed = replace(changed, pending=None, pending_since=None)
    if kind in ("approved", "approval_given") and body.get("person"):
        given = Approval(body["person"], body.get("role") or "", event.happened_at, body["content_hash"])
        changed = replace(changed, approvals=(*changed.approvals, given))
    if kind == "approved":
        changed = replace(changed, approved_at=event.happened_at, decision_revision=changed.revision)
    elif kind == "shadowing":
        changed = _shadowing(changed, event.happened_at, body)
    elif kind == "judged":
        changed = _judged(changed, event.happened_at, body)
    elif kind == "promoted":
        changed = _promoted(changed, event.happened_at)
    elif kind == "promotion_lapsed":
        changed = _promotion_lapsed(changed)
    elif kind == "observing":
        in_force = changed.in_force or bool(body.get("routes"))
        changed = replace(changed, stage_since=event.happened_at, in_force=in_force)
    elif kind == "rollback_requested":
        changed = replace(changed, pending="rollback", pending_since=event.happened_at, reason=body.get("reason"))
        changed = replace(changed, decision_revision=changed.revision)
    elif kind == "outcome":
        changed = replace(changed, outcomes=(*changed.outcomes, body))
    name = body.get("target")
    if isinstance(name, str) and (kind in _STAMPS or kind == "rollback_rejected"):
        changed = replace(changed, targets=_stamped(changed.targets, name, kind, event.happened_at, body))
    return changed


def _proposed(state: RecState | None, event: LedgerEvent, body: Mapping[str, Any]) -> RecState:
    content = body["content"]
    expires = content.get("expires_at")
    revision = event.revision or 1
    kept = state.shadow if state and body["state"] == State.SHADOWING else None
    return RecState(
        id=event.subject,
        state=State(body["state"]),
        revision=revision,
        decision_revision=revision,
        content=content,
        content_hash=body["content_hash"],
        targets=tuple(TargetState(t) for t in content["targets"]),
        proposed_at=state.proposed_at if state else event.happened_at,
        changed_at=event.happened_at,
        expires_at=parse_utc(expires, what="expires_at", assume_utc=True) if expires else None,
        last_seq=event.seq,
        routes={cell_key(c): c["to"] for c in content["cells"]},
        shadow=kept,
        asked_by=state.asked_by if state and kept else (),
    )


def _shadowing(state: RecState, at: datetime, body: Mapping[str, Any]) -> RecState:
    """New margins: whatever was approved or judged under others no longer counts."""
    told = Shadow(
        margins=body["margins"],
        margins_sha256=body["margins_sha256"],
        started_at=at,
        person=body.get("person"),
        planned_n=body.get("planned_n"),
        mix=body.get("mix"),
        mix_basis=body.get("mix_basis"),
    )
    asked = (*state.asked_by, told.person) if told.person and told.person not in state.asked_by else state.asked_by
    return replace(state, shadow=told, asked_by=asked, approvals=(), verdicts={}, approved_at=None)


def _judged(state: RecState, at: datetime, body: Mapping[str, Any]) -> RecState:
    said = Verdict(
        stage=body["stage"],
        verdict=body["verdict"],
        at=at,
        gate_id=body.get("gate_id"),
        why=body.get("why") or "",
        n=int(body.get("n") or 0),
        planned_n=body.get("planned_n"),
    )
    # A gate that no longer passes takes the approvals with it that were given because it did.
    approvals = () if said.stage == SHADOW and said.verdict != "PASS" else state.approvals
    return replace(state, verdicts={**state.verdicts, said.stage: said}, approvals=approvals)


def _promoted(state: RecState, at: datetime) -> RecState:
    """Every target starts anew on the next stage; what it carried out of the earlier ones it still holds."""
    fresh = tuple(
        replace(t, sent_at=None, acknowledged_at=None, actuated_at=None, held=t.held or t.actuated_at is not None)
        for t in state.targets
    )
    return replace(
        state,
        targets=fresh,
        stage_no=state.stage_no + 1,
        stage_since=None,
        decision_revision=state.revision,
        approved_at=at,
        before_stage=Standing(state.targets, state.stage_since, state.approved_at, state.decision_revision),
    )


def _promotion_lapsed(state: RecState) -> RecState:
    """Back to the stage that every target still carries; its gate goes on, and the next stage is asked for anew."""
    stood = state.before_stage
    assert stood is not None
    return replace(
        state,
        targets=stood.targets,
        stage_no=state.stage_no - 1,
        stage_since=stood.stage_since,
        decision_revision=stood.decision_revision,
        approved_at=stood.approved_at,
        before_stage=None,
    )


def _stamped(
    targets: tuple[TargetState, ...], name: str, kind: str, at: datetime, body: Mapping[str, Any]
) -> tuple[TargetState, ...]:
    values: dict[str, Any] = {_STAMPS[kind]: at} if kind in _STAMPS else {}
    if kind == "rejected":
        values["rejection"] = body.get("reason")
    elif kind == "rollback_rejected":
        values["rollback_rejection"] = body.get("reason")
    elif kind == "rolled_back":
        values["rollback_rejection"] = None
    return tuple(replace(t, **values) if t.target == name else t for t in targets)
