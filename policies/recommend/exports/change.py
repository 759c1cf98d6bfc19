"""Which change is exported: the stage of a recommendation that may be carried out now, and the figures it rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any, Literal

from policies.recommend.exports.eligibility import Proof
from policies.recommend.exports.errors import ExportInvalid, ExportNotAllowed
from policies.recommend.exports.shares import as_fraction
from policies.recommend.state import IN_FLIGHT, TERMINAL, UNDECIDED, RecState, State
from policies.recommend.table import Table
from warehouse.clock import iso
from warehouse.evidence import weakest

Only = Literal["apply", "rollback"]


@dataclass(frozen=True)
class Asked:
    """`only` leaves out the other document; `change_only` leaves untouched cells out of a routing table."""

    stage: str | None = None
    only: Only | None = None
    draft: bool = False
    change_only: bool = False


@dataclass(frozen=True)
class Change:
    """Move `share` of the requests of `cells` from offer `old` to `new`; `share_before` have moved already.

    `shares` are those of all stages up to this one, from 0. `table` is the routing table before the
    recommendation, `told` what every document says about its origin.
    """

    id: str
    old: str | None
    new: str
    cells: tuple[str, ...]
    table: Mapping[str, str | None]
    fallbacks: Mapping[str, str]
    shares: tuple[Fraction, ...]
    asked: Asked
    logical_models: Mapping[str, str]
    told: Mapping[str, Any]
    warnings: tuple[str, ...]

    @property
    def share(self) -> Fraction:
        return self.shares[-1]

    @property
    def share_before(self) -> Fraction:
        return self.shares[-2]


def change_of(state: RecState, asked: Asked, *, table: Table, proof: Proof, max_step: float, now: datetime) -> Change:
    """The change that `state` allows now.

    `table` is the one in force; `max_step` the largest share (0..1] that one stage may move now, below which the
    frozen one of the content holds. Raises
    ExportInvalid for a stage it does not have, ExportNotAllowed (NotEligible) where nothing may be exported.
    """
    number = _stage_number(state, asked)
    stages = state.governance.stages
    shares = (Fraction(0), *(as_fraction(s.share) for s in stages[: number + 1]))
    expires = expires_at(state)
    _check_state(state, asked)
    _check_table(state, table)
    if asked.only != "rollback":
        step, largest = shares[-1] - shares[-2], min(max_step, state.governance.max_step)
        if step > as_fraction(largest):
            raise ExportNotAllowed(
                f"The stage {stages[number].name} of {state.id} moves {float(step):.0%} of the traffic at once, and "
                f"environments.{state.governance.environment}.max_step is {largest:.0%}.",
                fix="propose it with smaller stages, or raise max_step",
            )
        if expires is not None and now >= expires and state.state in UNDECIDED | {State.APPROVED}:
            raise ExportNotAllowed(
                f"{state.id} expired at {iso(expires)}.", fix="refresh the recommendations; a rollback can still be had"
            )
        proof.check(state, partial=shares[-1] < 1)
    offers = {c["from"] for c in state.content["cells"]} | {c["to"] for c in state.content["cells"]}
    before = {**table.offers, **{key: c["from"] for key, c in zip(state.routes, state.content["cells"], strict=True)}}
    return Change(
        id=state.id,
        old=state.content["from"],
        new=state.content["to"],
        cells=tuple(state.routes),
        table=before,
        fallbacks=dict(table.fallbacks),
        shares=shares,
        asked=asked,
        logical_models={o: m for o, m in proof.logical_models.items() if o in offers},
        told={**_origin(state, number, asked, max_step, expires), "table_basis": table.basis},
        warnings=proof.warnings(state),
    )


def expires_at(state: RecState) -> datetime | None:
    """Until when it may be taken up: the end of its approval and, on the first stage, of its content; naive UTC."""
    known = [state.expires_at] if state.expires_at is not None and state.stage_no == 0 else []
    within = state.governance.approval_expires_s
    if within is not None and state.approved_at is not None:
        known.append(state.approved_at + timedelta(seconds=within))
    return min(known) if known else None


def _stage_number(state: RecState, asked: Asked) -> int:
    stages = state.governance.stages
    if asked.stage is None:
        return state.stage_no
    names = [s.name for s in stages]
    if asked.stage not in names:
        raise ExportInvalid(f"{state.id} has no stage {asked.stage!r}.", fix=f"use one of {', '.join(names)}")
    number = names.index(asked.stage)
    if number != state.stage_no and not asked.draft:
        where = "has not reached" if number > state.stage_no else "is past"
        raise ExportNotAllowed(
            f"{state.id} {where} the stage {asked.stage}; it is on {state.stage.name} ({state.label}).",
            fix=f"export {state.stage.name}" + (f", or promote {state.id} first" if number > state.stage_no else ""),
        )
    return number


def _check_state(state: RecState, asked: Asked) -> None:
    if asked.draft:
        if state.state in TERMINAL:
            raise ExportNotAllowed(f"{state.id} is {state.label}; nothing will come of it.", fix="choose an open one")
        return
    if state.approved_at is None:
        raise ExportNotAllowed(
            f"{state.id} is {state.label}, not approved, so its content is not frozen.",
            fix="approve it, or ask for a draft to look at",
        )
    if asked.only == "rollback":
        return
    if state.state not in IN_FLIGHT | {State.SUCCEEDED} or state.pending is not None:
        raise ExportNotAllowed(
            f"{state.id} is {state.label}, so it is not to be applied.", fix="export only its rollback"
        )


def _check_table(state: RecState, table: Table) -> None:
    """The table in force must be what this change was made for, or an older content would overwrite a newer one.

    A cell that nobody declared or changed is assumed, and follows list prices: it says nothing against it.
    """
    if state.state is State.ROLLED_BACK:
        return
    for cell, key in zip(state.content["cells"], state.routes, strict=True):
        route = table.routes.get(key)
        routed, by = (route.offer_id, route.by) if route else (None, "nobody")
        if state.in_force and by != state.id:
            raise ExportNotAllowed(f"{key} was changed since ({by}), and {state.id} is older.", fix="export that one")
        if not state.in_force and by != "assumed" and routed != cell["from"]:
            raise ExportNotAllowed(
                f"{key} routes to {routed} by now ({by}), and {state.id} was made for {cell['from']}.",
                fix="refresh the recommendations",
            )


def _origin(state: RecState, number: int, asked: Asked, max_step: float, expires: datetime | None) -> dict[str, Any]:
    content, stage = state.content, state.governance.stages[number]
    before = state.governance.stages[number - 1].share if number else 0.0
    metrics = content["promise"]["metrics"]
    classes = [c for m in metrics.values() for c in (m["from"]["evidence_class"], m["to"]["evidence_class"]) if c]
    return {
        "recommendation": state.id,
        "title": content["title"],
        "decision_revision": state.decision_revision,
        "draft": asked.draft and (state.approved_at is None or number != state.stage_no or state.state in UNDECIDED),
        "environment": state.governance.environment,
        "stage": stage.name,
        "share": stage.share,
        "share_before": before,
        "max_step": max_step,
        "content_sha256": state.content_hash,
        "expires_at": iso(expires) if expires else None,
        "approved_at": iso(state.approved_at) if state.approved_at else None,
        "approved_by": [{"person": a.person, "role": a.role} for a in state.approvals],
        "evidence_class": weakest(classes).value if classes else None,  # type: ignore[union-attr]
        "promise": {name: _metric(m) for name, m in metrics.items()},
        "promise_per": content["promise"]["per"],
        "gate": _gate(state),
        "policy_id": content["policy_id"],
        "policy_name": content["policy_name"],
        "snapshot_digest": content["snapshot_digest"],
        "as_of": content["as_of"],
        "is_sample": content["is_sample"],
    }


def _metric(told: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **{name: told[name] for name in ("unit", "difference", "interval", "separable", "note")},
        "evidence_class": {"from": told["from"]["evidence_class"], "to": told["to"]["evidence_class"]},
        "n": {"from": told["from"]["n"], "to": told["to"]["n"]},
    }


def _gate(state: RecState) -> dict[str, Any]:
    said = state.gate
    if said is None:
        why = "the environment asks for none" if not state.governance.require_pass else "it has not judged"
        return {"verdict": None, "why": why}
    margins = state.shadow.margins_sha256 if state.shadow else None
    return {
        "verdict": said.verdict,
        "why": said.why,
        "n": said.n,
        "gate_id": said.gate_id,
        "judged_at": iso(said.at),
        "margins_sha256": margins,
    }
