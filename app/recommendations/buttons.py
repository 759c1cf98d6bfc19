"""What the operator may do about a recommendation now: why not, and what would follow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.recommendations.store import states
from policies.recommend import guardrails
from policies.recommend.lifecycle import OPERATOR_COMMANDS, why_not
from policies.recommend.state import RecState, State
from policies.recommend.table import Table
from warehouse import ledger
from warehouse.clock import utcnow


def blocked(
    state: RecState, name: str, *, known: Table, everything: Sequence[ledger.Event], terms: guardrails.Limits
) -> str | None:
    """Why a guardrail or a newer change forbids `name` now; None where nothing does."""
    if name == "approve" and state.state is State.PROPOSED:
        others = [s for s in states(everything) if s.id != state.id]
        return (
            _moved_on(state, known)
            or guardrails.flight_hold(state.routes, others)
            or guardrails.budget_hold(everything, len(state.routes), terms, utcnow())
        )
    if name == "rollback" and state.state in (State.OBSERVING, State.SUCCEEDED, State.FAILED):
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


def _moved_on(state: RecState, known: Table) -> str | None:
    for cell in state.content["cells"]:
        key = f"{cell['category']}/{cell['tier']}/{cell['latency']}"
        route = known.routes.get(key)
        if route is not None and route.offer_id != cell["from"]:
            return f"{key} routes to {route.offer_id} by now, not to {cell['from']}"
    return None


def commands(
    state: RecState, *, known: Table, everything: Sequence[ledger.Event], terms: guardrails.Limits
) -> list[dict[str, Any]]:
    """The operator's commands with why not and what would follow, for buttons that explain themselves."""
    found = []
    for name in OPERATOR_COMMANDS:
        hindrance = blocked(state, name, known=known, everything=everything, terms=terms)
        why = why_not(state, name, now=utcnow(), blocked=hindrance)
        found.append(
            {"command": name, "allowed": why is None, "why_not": why, "consequence": _consequence(state, name)}
        )
    return found


def _consequence(state: RecState, name: str) -> str:
    content = state.content
    n, targets = len(content["cells"]), ", ".join(content["targets"])
    cells = "1 cell" if n == 1 else f"{n} cells"
    if name == "approve":
        seen = content["traffic"]["requests_7d"]
        traffic = (
            "how many requests that is, is unknown" if seen is None else f"{seen} requests in 7 d were billed to it"
        )
        return (
            f"Changes {cells} of {content['title']} on {len(content['targets'])} target(s) ({targets}) as soon as they "
            f"collect it; {traffic}. {content['undo']}"
        )
    if name == "dismiss":
        return "Nothing changes. The same proposal is not made again until its evidence changes."
    holders = [t.target for t in state.targets if t.has_change]
    if not holders:
        return "Withdraws the approval; no target has collected it, so no route changes."
    return f"Restores {content['from'] or 'no route'} in {cells} on {', '.join(holders)} as soon as they collect it."
