"""Sample data: load it, remove it, say whether it is there. Everything of it has a source id `sample:...`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from app.desk import Desk
from app.errors import AppError
from app.operations import Actor, NoParams, operation
from app.operations.ingesting import outcome_dict
from app.operations.recommending import refresh_recommendations, withdraw_sample
from ingest.base import Payload
from ingest.kinds import kind
from ingest.pipeline import refresh
from ingest.sample import sample_payloads
from warehouse import ledger
from warehouse.clock import utcnow
from warehouse.constraints import KEYS
from warehouse.engine import Transaction
from warehouse.runs import SourceRow, register_source
from warehouse.tables import columns

_SAMPLE = "source_id LIKE 'sample:%'"
_DAY_S = 86_400.0


@operation("sample.status", scope="read", params=NoParams)
def status(desk: Desk, actor: Actor, params: NoParams) -> dict[str, Any]:
    """Say whether sample data is loaded."""
    sources = desk.warehouse.query(f"SELECT source_id FROM ops.source WHERE {_SAMPLE} ORDER BY source_id")
    return {"loaded": sources.height > 0, "sources": sources["source_id"].to_list()}


@operation("sample.load", scope="operator", params=NoParams)
def load(desk: Desk, actor: Actor, params: NoParams) -> dict[str, Any]:
    """Load the sample data, through the same parsers as real payloads."""
    from app.fleet.sample import sample_fleet
    from app.replay.sample import sample_replay
    from app.shadow.sample import sample_proof

    with desk.command_lock:
        if sample_is_half_loaded(desk):
            # Times of the sample follow from the moment of loading, so a second load would stand beside the first.
            with desk.warehouse.transaction() as tx:
                _delete(tx)
        if status(desk, actor, params)["loaded"]:
            return {"loaded": True, "already_loaded": True, "runs": []}
        payloads = sample_payloads(utcnow())
        outcomes = load_payloads(desk, payloads)
        refresh_recommendations(desk, actor)
        outcomes += sample_proof(desk, actor)
        _event(desk, actor, "sample.loaded", {"rows": sum(o["rows_loaded"] or 0 for o in outcomes)})
        sample_replay(desk, actor)
        sample_fleet(desk, actor)
    return {"loaded": True, "already_loaded": False, "runs": outcomes}


@operation("sample.remove", scope="operator", params=NoParams)
def remove(desk: Desk, actor: Actor, params: NoParams) -> dict[str, Any]:
    """Remove every row of the sample data and withdraw what was recommended from it."""
    with desk.command_lock:
        if not status(desk, actor, params)["loaded"]:
            return {"removed": {}, "withdrawn": [], "was_loaded": False}
        with desk.warehouse.transaction() as tx:
            withdrawn = withdraw_sample(tx, actor)
            removed = _delete(tx)
            ledger.append(
                tx,
                kind="sample.removed",
                subject="sample",
                body={"rows": sum(removed.values())},
                actor=actor.name,
                role=actor.role,
                channel=actor.channel,
            )
        ledger.anchor(desk.warehouse)
    refresh_recommendations(desk, actor)
    return {"removed": removed, "withdrawn": withdrawn, "was_loaded": True}


def load_payloads(desk: Desk, payloads: Sequence[Payload]) -> list[dict[str, Any]]:
    """Register and load sample payloads. Raises AppError where one does not load."""
    with desk.warehouse.transaction() as tx:
        for payload in payloads:
            found = kind(payload.kind)
            register_source(
                tx,
                SourceRow(
                    payload.source_id,
                    found.name,
                    f"Sample: {found.title}",
                    "generated",
                    None,
                    None,
                    30 * _DAY_S,
                    90 * _DAY_S,
                    is_sample=True,
                ),
            )
    outcomes = []
    for payload in payloads:
        outcome = refresh(
            desk.warehouse, kind(payload.kind), payload.source_id, partial(_itself, payload), trigger="sample"
        )
        outcomes.append(outcome_dict(desk, outcome))
        if outcome.state == "FAILED":
            raise AppError(f"The sample data did not load: {outcome.error}", fix=outcome.fix or "see Sources")
    return outcomes


def sample_is_half_loaded(desk: Desk) -> bool:
    """Whether a load was cut off: sources are there, and no event says that it ended since the last removal."""
    return bool(
        desk.warehouse.scalar(
            f"SELECT EXISTS (SELECT 1 FROM ops.source WHERE {_SAMPLE}) AND coalesce((SELECT arg_max(kind, seq) "
            "FROM ledger.event WHERE kind IN ('sample.loaded', 'sample.removed')), '') <> 'sample.loaded'"
        )
    )


def _delete(tx: Transaction) -> dict[str, int]:
    """Delete every sample row; table -> rows. Safe here alone: nothing else ever updates a row of a sample source."""
    tables = [t for t in KEYS if any(c.name == "source_id" for c in columns(t))]
    counts = {table: tx.execute(f"DELETE FROM {table} WHERE {_SAMPLE}") for table in tables}
    return {table: count for table, count in counts.items() if count}


def _itself(payload: Payload) -> Payload:
    return payload


def _event(desk: Desk, actor: Actor, kind_: str, body: dict[str, Any]) -> None:
    with desk.warehouse.transaction() as tx:
        ledger.append(
            tx, kind=kind_, subject="sample", body=body, actor=actor.name, role=actor.role, channel=actor.channel
        )
    ledger.anchor(desk.warehouse)
