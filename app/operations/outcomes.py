"""What changes did: the desk's own measurement, and what is saved by what is in force, with the harm beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import StringConstraints

from app.operations import Actor, NoParams, Params, operation
from app.operations.routing import known_table
from app.policy_errors import policy_errors
from app.recommendations import measuring, savings, store
from warehouse import ledger
from warehouse.clock import iso
from warehouse.snapshots import snapshot

if TYPE_CHECKING:
    from app.desk import Desk


class MeasureParams(Params):
    id: Annotated[str, StringConstraints(min_length=1, max_length=64)] | None = None


@operation("recommend.measure", scope="operator", params=MeasureParams)
def measure(desk: Desk, actor: Actor, params: MeasureParams) -> dict[str, Any]:
    """Measure what is carried out by its own traffic and judge it against the promise."""
    with desk.command_lock, policy_errors():
        if params.id is not None:
            store.one(desk.warehouse, params.id)
        told = measuring.measure_all(desk, actor, params.id)
        ledger.anchor(desk.warehouse)
    return {"measured": told}


@operation("recommend.savings", scope="read", params=NoParams)
def saved(desk: Desk, actor: Actor, params: NoParams) -> dict[str, Any]:
    """Tell joules, dollars and grams per success of what is in force against the incumbent's own traffic before."""
    with policy_errors(), snapshot(desk.warehouse) as snap:
        states = store.states(store.all_events(desk.warehouse))
        table = known_table(desk.warehouse, desk.settings)
        changes = savings.of_changes(snap, states, table)
        return {"changes": changes, "totals": savings.totals(changes), "as_of": iso(snap.as_of)}
