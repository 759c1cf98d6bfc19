"""What an operator may do about a recommendation now: why not, and what would follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from app.operations import Actor
from app.recommendations.store import states
from policies.recommend import guardrails
from policies.recommend.freeze import frozen
from policies.recommend.lifecycle import OPERATOR_COMMANDS, why_not
from policies.recommend.state import RecState, State
from policies.recommend.table import Table
from policies.recommend.votes import votes
from warehouse import ledger
from warehouse.clock import utcnow


def blocked(
    state: RecState,
    name: str,
    *,
    known: Table,
    everything: Sequence[ledger.Event],
    terms: guardrails.Limits,
    proved: Mapping[str, Any] | None = None,
) -> str | None:
    """Why a guardrail, a freeze or a newer change forbids `name` now; None where nothing does.

    `proved`: the report of the gate that passed, where there is one.
    """
    now = utcnow()
    if name in ("approve", "promote") and (ice := frozen(terms.freeze, now)):
        return ice
    if name == "approve" and state.state in (State.PROPOSED, State.READY):
        others = [s for s in states(everything) if s.id != state.id]
        return (
            _moved_on(state, known)
            or guardrails.flight_hold(state.routes, others)
            or guardrails.dwell_hold(state.routes, known, terms, now)
            or guardrails.backoff_hold(state.routes, others, terms, now)
            or guardrails.budget_hold(everything, len(state.routes), terms, now)
            or guardrails.pool_hold(everything, state.content, terms, now)
            or guardrails.proof_hold(proved, terms)
        )
    if name == "promote" and state.state is State.OBSERVING:
        return _moved_on(state, known)
    if name == "rollback" and state.in_force:
        return _newer(state, known)
    return None


def _moved_on(state: RecState, known: Table) -> str | None:
    for key, cell in zip(state.routes, state.content["cells"], strict=True):
        route = known.routes.get(key)
        if route is not None and route.offer_id != cell["from"]:
            return f"{key} routes to {route.offer_id} by now, not to {cell['from']}"
    return None


def _newer(state: RecState, known: Table) -> str | None:
    for key in sorted(state.routes):
        route = known.routes.get(key)
        if route is None or route.by != state.id:
            if route is None:
                newer = f"{key} is no longer in the routing table"
            else:
                by = route.by
                newer = f"{by} has changed {key} since" if by.startswith("R-") else f"{key} was {by} anew since"
            return f"{newer}, and an older content would overwrite it"
    return None


def commands(
    state: RecState,
    actor: Actor,
    *,
    known: Table,
    everything: Sequence[ledger.Event],
    terms: guardrails.Limits,
    proved: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """The operator's commands with why not (to this person) and what would follow, for buttons that explain."""
    found, now = [], utcnow()
    for name in OPERATOR_COMMANDS:
        hindrance = blocked(state, name, known=known, everything=everything, terms=terms, proved=proved)
        why = why_not(state, name, now=now, blocked=hindrance, person=actor.person, role=actor.role)
        if why is None and not actor.may("operator"):
            why = f"{actor.name} is {actor.role}, and this needs an operator."
        found.append(
            {"command": name, "allowed": why is None, "why_not": why, "consequence": _consequence(state, name, now)}
        )
    return found


def _cells(n: int) -> str:
    return "1 cell" if n == 1 else f"{n} cells"


def _consequence(state: RecState, name: str, now: datetime) -> str:
    content = state.content
    if name == "dismiss":
        return "Nothing changes. The same proposal is not made again until its evidence changes."
    if name == "shadow":
        return _shadowed(state)
    if name == "approve":
        return _approved(state, now)
    cells, following = _cells(len(content["cells"])), state.next_stage
    if name == "promote":
        if following is None:
            return "There is no larger share of the traffic to move to."
        return (
            f"Moves {content['to']} from {state.stage.share:.0%} to {following.share:.0%} of the traffic of {cells} on "
            f"{', '.join(content['targets'])} as soon as they collect it. {content['undo']}"
        )
    holders = [t.target for t in state.targets if t.has_change]
    if not holders:
        return "Withdraws the approval; no target has collected it, so no route changes."
    return f"Restores {content['from'] or 'no route'} in {cells} on {', '.join(holders)} as soon as they collect it."


def _shadowed(state: RecState) -> str:
    begun = "Begins to collect evidence under new margins" if state.shadow else "Begins to collect evidence"
    void = []
    if state.verdicts:
        void.append("its verdict")
    if state.approvals:
        void.append(f"{len(state.approvals)} approval(s)")
    verb = "counts" if void == ["its verdict"] else "count"
    lost = f" {' and '.join(void).capitalize()} no longer {verb}." if void else ""
    alone = "" if state.governance.self_approval else " Whoever sets the margins cannot approve the result."
    return f"{begun}; nothing is routed differently.{lost}{alone}"


def _approved(state: RecState, now: datetime) -> str:
    content, told = state.content, votes(state, now)
    if told["counting"] + 1 < told["needed"]:
        return f"Counts as approval {told['counting'] + 1} of {told['needed']}; nothing changes until the last one."
    n, targets = len(content["cells"]), ", ".join(content["targets"])
    seen = content["traffic"]["requests_7d"]
    traffic = "how many requests that is, is unknown" if seen is None else f"{seen} requests in 7 d were billed to it"
    stage = state.governance.stages[0]
    share = "" if stage.share >= 1 else f"for {stage.share:.0%} of the traffic ({stage.name}) "
    by = ", ".join(g["person"] for g in told["given"] if not g["lapsed"])
    others = f" Approved before by {by}." if by else ""
    return (
        f"Changes {_cells(n)} of {content['title']} {share}on {len(content['targets'])} target(s) ({targets}) as soon "
        f"as they collect it; {traffic}. {content['undo']}{others}"
    )
