"""What targets do: collect commands, acknowledge, actuate, roll back, report outcomes. Each is its own event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AwareDatetime, Field, StringConstraints

from app.errors import Conflict, Forbidden, NotFound
from app.operations import Actor, Params, operation
from app.operations.routing import current_table
from app.policy_errors import as_desk_error, policy_errors
from app.recommendations import measuring, shown, store
from policies.recommend import lifecycle
from policies.recommend.errors import TargetUnknown
from policies.recommend.freeze import frozen as ice
from policies.recommend.lifecycle import Command
from policies.recommend.outcome import Outcome, judge
from policies.recommend.state import LedgerEvent, RecState
from policies.recommend.table import Table
from warehouse import ledger
from warehouse.clock import to_utc, utcnow
from warehouse.engine import Transaction
from warehouse.snapshots import snapshot

if TYPE_CHECKING:
    from app.desk import Desk

Name = Annotated[str, StringConstraints(min_length=1, max_length=100)]
Text = Annotated[str, StringConstraints(max_length=2000)]


class CollectParams(Params):
    target: Name


@operation("recommend.collect", scope="downstream", params=CollectParams)
def collect(desk: Desk, actor: Actor, params: CollectParams) -> dict[str, Any]:
    """Collect what a target has to carry out: changes to apply and to roll back."""
    target = params.target
    _check_bound(actor, target)
    states = store.states(store.all_events(desk.warehouse))
    names = {*desk.settings.guardrails.targets, *(t.target for s in states for t in s.targets)}
    if target not in names:
        raise as_desk_error(
            TargetUnknown(f"There is no target {target!r}.", fix=f"use one of {', '.join(sorted(names))}")
        )
    frozen = ice(desk.settings.approval_policy.freeze, utcnow())
    if not any(lifecycle.collect(s, target, now=utcnow(), frozen=frozen)[0] for s in states):
        return {"target": target, "commands": [], "frozen": frozen}
    handed: list[dict[str, Any]] = []
    with desk.command_lock, policy_errors():
        with snapshot(desk.warehouse) as snap:
            table = current_table(desk.warehouse, desk.settings, snap)
        with desk.warehouse.transaction() as tx:
            for state in store.states(store.all_events(tx)):
                # What is too old to be applied is left out; the next refresh marks it expired.
                kind, drafts = lifecycle.collect(state, target, now=utcnow(), frozen=frozen)
                if kind is not None:
                    store.append(tx, actor, state.id, drafts)
                    handed.append(_command(state, kind, drafts[-1].revision if drafts else state.revision, table))
        ledger.anchor(desk.warehouse)
    # Undo first, and the newest change first, so that changes come off in the order they lie on each other.
    undo = [c for c in reversed(handed) if c["kind"] == "rollback"]
    return {"target": target, "commands": [*undo, *(c for c in handed if c["kind"] == "apply")], "frozen": frozen}


def _command(state: RecState, kind: str, revision: int, table: Table) -> dict[str, Any]:
    """What a target has to do. `table_before` is for one that has no table yet.

    A stage with the whole traffic sets every cell from `old` to `new`. One with a share leaves the route as it is and
    gives `new` that share of the cell's traffic (`shares`). A rollback restores the route and ends every share.
    """
    whole = kind == "rollback" or state.stage.share >= 1
    sides = ("from", "to") if kind == "apply" else ("to", "from")
    cells = [
        {"key": key, "old": cell[sides[0]], "new": cell[sides[1]]}
        for key, cell in zip(state.routes, state.content["cells"], strict=True)
    ]
    before = {**table.offers, **{c["key"]: c["old"] for c in cells}}
    return {
        "id": state.id,
        "kind": kind,
        "revision": revision,
        "decision_revision": state.decision_revision,
        "targets": shown.target_json(state),
        "content_hash": state.content_hash,
        "content": dict(state.content),
        "cells": cells,
        "stage": {"no": state.stage_no, **asdict(state.stage), "of": len(state.governance.stages)},
        "shares": {} if whole else shares(state.id, cells, state.stage.share),
        "table_before": before,
        "table_after": {**before, **{c["key"]: c["new"] for c in cells}} if whole else before,
    }


def shares(rec_id: str, cells: Sequence[Mapping[str, Any]], share: float) -> dict[str, Any]:
    return {c["key"]: {"candidate": c["new"], "share": share, "recommendation": rec_id} for c in cells}


class ReportParams(Params):
    """`detail` is free text of the target, such as the checksum of what it wrote.

    `content_hash`: of the content that the target carries out; where it is told it must be the approved one.
    """

    id: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    target: Name
    revision: int | None = Field(None, ge=1)
    idempotency_key: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    detail: Text | None = None
    content_hash: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = None


class AcknowledgeParams(ReportParams):
    """`rejection`: the target does not carry the command out, and why."""

    rejection: Text | None = None


def _check_bound(actor: Actor, target: str) -> None:
    """A token that is bound to targets speaks for no other one. Raises Forbidden."""
    if actor.targets is not None and target not in actor.targets:
        mine = ", ".join(sorted(actor.targets))
        raise Forbidden(
            f"{actor.name} speaks for {mine} only, not for {target}.",
            fix="use the token of that target, or one for all",
        )


def _execute(desk: Desk, actor: Actor, name: str, params: ReportParams, prepare: store.Prepare) -> dict[str, Any]:
    """One report. Of a recommendation that this ledger does not know it is a conflict: the target knows more."""
    _check_bound(actor, params.target)
    try:
        return store.execute(desk, actor, name, params, prepare)
    except NotFound as error:
        raise Conflict(
            f"{params.target} reports {name} of {params.id}, which this ledger does not know: it may be older than "
            "what the target holds. Nothing was written.",
            fix="see `joulebook verify`; after a restore declare the table that routes, then collect again",
        ) from error


def _report(desk: Desk, actor: Actor, name: str, params: ReportParams, rejection: str | None = None) -> dict[str, Any]:
    def prepare(state: RecState, events: Sequence[LedgerEvent], tx: Transaction) -> tuple[Command, str | None]:
        data = {k: v for k, v in (("detail", params.detail), ("content_hash", params.content_hash)) if v}
        return Command(name, params.revision, params.target, rejection=rejection, data=data), None

    return _execute(desk, actor, name, params, prepare)


@operation("recommend.acknowledge", scope="downstream", params=AcknowledgeParams)
def acknowledge(desk: Desk, actor: Actor, params: AcknowledgeParams) -> dict[str, Any]:
    """Acknowledge a collected command, or reject it with a reason."""
    return _report(desk, actor, "acknowledge", params, params.rejection)


@operation("recommend.actuate", scope="downstream", params=ReportParams)
def actuate(desk: Desk, actor: Actor, params: ReportParams) -> dict[str, Any]:
    """Report that a target has carried a change out."""
    return _report(desk, actor, "actuate", params)


@operation("recommend.rolled_back", scope="downstream", params=ReportParams)
def rolled_back(desk: Desk, actor: Actor, params: ReportParams) -> dict[str, Any]:
    """Report that a target has restored the previous content."""
    return _report(desk, actor, "rolled_back", params)


class OutcomeParams(ReportParams):
    """Totals over all attempts since actuation; leave out what is unknown. `n`: requests of the window.

    `over_slo` of `latency_n` requests took longer than `slo_s`, which must be that of the stored margins.
    """

    window_start_at: AwareDatetime
    window_end_at: AwareDatetime
    evidence_class: str
    attempts: int | None = None
    successes: int | None = None
    n: int | None = None
    energy_j: float | None = None
    billed_cost_usd: Decimal | None = Field(None, allow_inf_nan=True)
    carbon_g: float | None = None
    carbon_evidence_class: str | None = None
    relative_uncertainty: float | None = None
    aborted: bool = False
    slo_s: float | None = None
    latency_n: int | None = None
    over_slo: int | None = None

    def outcome(self) -> Outcome:
        return Outcome(
            window_start_at=to_utc(self.window_start_at, what="window_start_at"),
            window_end_at=to_utc(self.window_end_at, what="window_end_at"),
            attempts=self.attempts,
            successes=self.successes,
            n=self.n,
            energy_j=self.energy_j,
            evidence_class=self.evidence_class,
            billed_cost_usd=self.billed_cost_usd,
            carbon_g=self.carbon_g,
            carbon_evidence_class=self.carbon_evidence_class,
            relative_uncertainty=self.relative_uncertainty,
            aborted=self.aborted,
            slo_s=self.slo_s,
            latency_n=self.latency_n,
            over_slo=self.over_slo,
        )


@operation("recommend.outcome", scope="downstream", params=OutcomeParams)
def outcome(desk: Desk, actor: Actor, params: OutcomeParams) -> dict[str, Any]:
    """Report what was measured after a change, to be judged against its promise."""

    def prepare(state: RecState, events: Sequence[LedgerEvent], tx: Transaction) -> tuple[Command, str | None]:
        reported = params.outcome()
        actuated = [t.actuated_at for t in state.targets if t.actuated_at is not None]
        data: dict[str, Any] = {"measured": reported.to_dict()}
        if actuated:
            terms = measuring.terms(state, desk.settings)
            found = judge(reported, state.content, terms, actuated_at=max(actuated))
            data |= {"verdict": found.verdict.value, "why": found.why, "judgement": found.to_dict()}
        if params.detail:
            data["detail"] = params.detail
        return Command("outcome", params.revision, params.target, data=data), None

    return _execute(desk, actor, "outcome", params, prepare)
