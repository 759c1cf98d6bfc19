"""The run ledger: one row per attempt to refresh a source, and the quarantine that runs fill."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from importlib import metadata
from typing import Any

import polars as pl

from warehouse.clock import utcnow
from warehouse.engine import Transaction, Warehouse
from warehouse.ids import content_hash, uuid7
from warehouse.tables import columns, typed


@dataclass(frozen=True)
class RunStart:
    run_id: str
    source_id: str
    kind: str
    trigger: str
    started_at: datetime
    attempt: int = 1
    scheduled_for: datetime | None = None


def _typed(table: str, row: Mapping[str, Any]) -> pl.DataFrame:
    schema = {c.name: c.polars for c in columns(table)}
    return pl.DataFrame([{name: row.get(name) for name in schema}], schema=schema, orient="row")


def start(
    warehouse: Warehouse,
    *,
    source_id: str,
    kind: str,
    trigger: str,
    attempt: int = 1,
    scheduled_for: datetime | None = None,
) -> RunStart:
    """Write that a run began, so that a crash leaves a trace."""
    run = RunStart(uuid7(), source_id, kind, trigger, utcnow(), attempt, scheduled_for)
    with warehouse.transaction() as tx:
        tx.append("ops.run", _typed("ops.run", _row(run, state="RUNNING")))
    return run


def _row(run: RunStart, **values: Any) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "source_id": run.source_id,
        "kind": run.kind,
        "trigger": run.trigger,
        "attempt": run.attempt,
        "scheduled_for": run.scheduled_for,
        "started_at": run.started_at,
        "not_modified": False,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "code_version": metadata.version("joulebook"),
        **values,
    }


def finish(tx: Transaction, run: RunStart, *, state: str, **values: Any) -> None:
    """Write how a run ended, in the transaction that loads its data. `values` are columns of ops.run."""
    row = {"finished_at": utcnow(), "state": state, **values}
    assignments = ", ".join(f"{name} = ${name}" for name in row)
    tx.execute(f"UPDATE ops.run SET {assignments} WHERE run_id = $run_id", {**row, "run_id": run.run_id})


def record(warehouse: Warehouse, *, source_id: str, kind: str, trigger: str, state: str, **values: Any) -> None:
    """Write a run that never started: MISSED or SKIPPED by the scheduler."""
    run = RunStart(uuid7(), source_id, kind, trigger, utcnow())
    with warehouse.transaction() as tx:
        tx.append("ops.run", _typed("ops.run", _row(run, state=state, finished_at=utcnow(), **values)))


def abort_orphans(warehouse: Warehouse) -> int:
    """Mark RUNNING rows as ABORTED. Called at start, when no other process can hold the file."""
    with warehouse.transaction() as tx:
        return tx.execute(
            "UPDATE ops.run SET state = 'ABORTED', finished_at = $now, "
            "error_text = 'the process ended before the run did' WHERE state = 'RUNNING'",
            {"now": utcnow()},
        )


def quarantine(tx: Transaction, run: RunStart, payload_id: str | None, rejects: Iterable[Mapping[str, Any]]) -> int:
    """Keep refused rows with their reason; the same refusal of the same payload is kept once."""
    now = utcnow()
    rows = []
    for reject in rejects:
        identity = [payload_id or run.source_id, *(reject.get(k) for k in ("row_no", "field", "reason", "raw"))]
        rows.append(
            {
                **{k: reject.get(k) for k in ("row_no", "natural_key", "field", "value", "reason", "raw")},
                "quarantine_id": content_hash(identity),
                "run_id": run.run_id,
                "source_id": run.source_id,
                "kind": run.kind,
                "payload_id": payload_id,
                "quarantined_at": now,
            }
        )
    if not rows:
        return 0
    schema = {c.name: c.polars for c in columns("ops.quarantine")}
    frame = typed({n: [r[n] for r in rows] for n in schema}, schema).unique(subset="quarantine_id", maintain_order=True)
    names = ", ".join(frame.columns)
    with tx.staged(frame) as staged:
        return tx.execute(
            f"INSERT INTO ops.quarantine ({names}) SELECT {names} FROM {staged} s "
            "WHERE NOT EXISTS (SELECT 1 FROM ops.quarantine q WHERE q.quarantine_id = s.quarantine_id)"
        )


@dataclass(frozen=True)
class SourceRow:
    """A source as configuration or an import names it; ages are judged by its own limits."""

    source_id: str
    kind: str
    title: str
    transport: str
    url: str | None
    cadence_s: float | None
    stale_after_s: float
    expire_after_s: float
    enabled: bool = True
    is_sample: bool = False


def register_source(tx: Transaction, source: SourceRow) -> None:
    """Insert or update a source."""
    row = {**source.__dict__, "updated_at": utcnow()}
    with tx.staged(_typed("ops.source", row)) as staged:
        names = [c.name for c in columns("ops.source")]
        updates = ", ".join(f"{n} = s.{n}" for n in names if n != "source_id")
        tx.execute(
            f"MERGE INTO ops.source t USING {staged} s ON (t.source_id = s.source_id) "
            f"WHEN MATCHED THEN UPDATE SET {updates} "
            f"WHEN NOT MATCHED THEN INSERT ({', '.join(names)}) VALUES ({', '.join(f's.{n}' for n in names)})"
        )
