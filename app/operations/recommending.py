"""Recommendations: refresh, list, show, and the operator's decisions. Every change is an event of the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, StringConstraints

from app.operations import Actor, NoParams, Params, operation, reporting
from app.operations.routing import known_table
from app.policy_errors import policy_errors
from app.recommendations import buttons, margins, refresh, shown, store
from app.shadow.mixes import fixed_mix
from policies.recommend.lifecycle import Command
from policies.recommend.state import LedgerEvent, RecState, State
from warehouse import ledger
from warehouse.clock import iso, utcnow
from warehouse.engine import Transaction

if TYPE_CHECKING:
    from app.desk import Desk

__all__ = ["refresh_recommendations", "reporting", "withdraw_sample"]


def refresh_recommendations(desk: Desk, actor: Actor) -> dict[str, Any]:
    """Bring the proposals up to date; answers ids per change, what is held back, and the open recommendations."""
    from app.recommendations import gate  # brings numba and scipy, which only a verdict needs

    with desk.command_lock, policy_errors():
        found = refresh.compare(desk)
        with desk.warehouse.transaction() as tx:
            told = refresh.write(tx, desk, actor, found)
        verdicts = gate.judge_all(desk, actor)
        ledger.anchor(desk.warehouse)
        states = reversed(store.states(store.all_events(desk.warehouse)))
    return {
        "as_of": iso(found.as_of),
        "table_basis": found.table.basis,
        "table_version": found.table.version,
        **asdict(told),
        "judged": verdicts,
        "held": [h.to_dict() for h in found.held],
        "recommendations": [shown.summary(s) for s in states if not s.closed],
    }


def withdraw_sample(tx: Transaction, actor: Actor) -> list[str]:
    """Withdraw what was recommended from sample data, in the caller's transaction; the ids."""
    with policy_errors():
        return refresh.withdraw_sample(tx, actor, utcnow())


@operation("recommend.refresh", scope="operator", params=NoParams)
def refresh_(desk: Desk, actor: Actor, params: NoParams) -> dict[str, Any]:
    """Compare the routing table with the ranked one and propose the differences."""
    return refresh_recommendations(desk, actor)


class ListParams(Params):
    """`include_held` computes the differences afresh and adds those that are held back, with the reason."""

    state: State | None = None
    include_closed: bool = False
    include_held: bool = False


@operation("recommend.list", scope="read", params=ListParams)
def list_(desk: Desk, actor: Actor, params: ListParams) -> dict[str, Any]:
    """List the recommendations, newest first."""
    states = reversed(store.states(store.all_events(desk.warehouse)))
    wanted = [
        s
        for s in states
        if (params.state is None or s.state is params.state)
        and (params.include_closed or params.state is not None or not s.closed)
    ]
    now, freeze = utcnow(), desk.settings.approval_policy.freeze
    proved = store.proved_success(desk.warehouse, wanted)
    rows = [{**shown.summary(s), **shown.now(s, now, freeze), "proved_success": proved.get(s.id)} for s in wanted]
    told: dict[str, Any] = {"recommendations": rows, "as_of": iso(now)}
    if params.include_held:
        with policy_errors():
            told["held"] = [h.to_dict() for h in refresh.compare(desk).held]
    return told


class ShowParams(Params):
    id: Annotated[str, StringConstraints(min_length=1, max_length=64)]


@operation("recommend.show", scope="read", params=ShowParams)
def show(desk: Desk, actor: Actor, params: ShowParams) -> dict[str, Any]:
    """Show one recommendation with its evidence, timeline and what can be done about it."""
    with desk.warehouse.reading() as reader:
        state, events = store.one(reader, params.id)
        everything = store.all_events(reader)
        known = known_table(reader, desk.settings)
        proved = store.gate_report(reader, state)
    terms = store.limits(desk.settings)
    commands = buttons.commands(state, actor, known=known, everything=everything, terms=terms, proved=proved)
    return {**shown.detail(state, events), **shown.now(state, utcnow(), terms.freeze), "commands": commands}


class DecisionParams(ShowParams):
    """`revision` is the one that was seen; `idempotency_key` is new for each command, the same for its retry."""

    revision: int | None = Field(None, ge=1)
    idempotency_key: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    reason: Annotated[str, StringConstraints(max_length=2000)] | None = None


def _decide(
    desk: Desk, actor: Actor, name: str, params: DecisionParams, data: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    def prepare(state: RecState, events: Sequence[LedgerEvent], tx: Transaction) -> tuple[Command, str | None]:
        hindrance = buttons.blocked(
            state,
            name,
            known=known_table(tx, desk.settings),
            everything=store.all_events(tx),
            terms=store.limits(desk.settings),
            proved=store.gate_report(tx, state) if name == "approve" else None,
        )
        return Command(name, revision=params.revision, reason=params.reason, data=data or {}), hindrance

    return store.execute(desk, actor, name, params, prepare)


@operation("recommend.approve", scope="operator", params=DecisionParams)
def approve(desk: Desk, actor: Actor, params: DecisionParams) -> dict[str, Any]:
    """Approve a recommendation, so that its targets collect it."""
    return _decide(desk, actor, "approve", params, {"person": actor.person, "role": actor.role})


class ShadowParams(DecisionParams):
    """`margins`: names of [shadow.margins] with other values; the others stay as configured."""

    margins: dict[str, Any] = Field(default_factory=dict)


@operation("recommend.shadow", scope="operator", params=ShadowParams)
def shadow(desk: Desk, actor: Actor, params: ShadowParams) -> dict[str, Any]:
    """Store margins and begin to shadow; evidence from before, votes and verdicts no longer count."""
    with policy_errors():
        told = margins.asked(desk.settings, params.margins)
        with desk.warehouse.reading() as reader:
            state, _ = store.one(reader, params.id)
            mix = fixed_mix(reader, desk.settings, state.content, utcnow())
    return _decide(desk, actor, "shadow", params, margins.shadow_data(told, actor.person, mix))


class JudgeParams(Params):
    id: Annotated[str, StringConstraints(min_length=1, max_length=64)] | None = None


@operation("recommend.judge", scope="operator", params=JudgeParams)
def judge(desk: Desk, actor: Actor, params: JudgeParams) -> dict[str, Any]:
    """Judge what waits for its gate by the evidence there is now; nothing is written where nothing is new."""
    from app.recommendations import gate  # brings numba and scipy, which only a verdict needs

    with desk.command_lock, policy_errors():
        if params.id is not None:
            store.one(desk.warehouse, params.id)
        verdicts = gate.judge_all(desk, actor, params.id)
        ledger.anchor(desk.warehouse)
    return {"judged": verdicts}


@operation("recommend.promote", scope="operator", params=DecisionParams)
def promote(desk: Desk, actor: Actor, params: DecisionParams) -> dict[str, Any]:
    """Move on to the next share of the traffic, once the gate of this one has passed."""
    return _decide(desk, actor, "promote", params, {"person": actor.person})


@operation("recommend.dismiss", scope="operator", params=DecisionParams)
def dismiss(desk: Desk, actor: Actor, params: DecisionParams) -> dict[str, Any]:
    """Dismiss a recommendation."""
    return _decide(desk, actor, "dismiss", params)


@operation("recommend.rollback", scope="operator", params=DecisionParams)
def rollback(desk: Desk, actor: Actor, params: DecisionParams) -> dict[str, Any]:
    """Roll a recommendation back to the content it replaced."""
    return _decide(desk, actor, "rollback", params)
