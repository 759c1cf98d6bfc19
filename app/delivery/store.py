"""Alerts in the warehouse: read them, write a plan, and keep what each channel has taken."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import polars as pl

from policies.alerts import Alert, Plan
from warehouse.clock import utcnow
from warehouse.engine import Transaction, Warehouse
from warehouse.ids import canonical_json
from warehouse.tables import columns

BATCH = 100
_COLUMNS = [c.name for c in columns("ops.alert")]
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM ops.alert"
# A cleared alert that a channel never heard of is nothing to tell.
_DUE = """
  coalesce(CAST(json_extract(delivered, '$.{0}.version') AS INTEGER), 0) < version
  AND (cleared_at IS NULL OR json_extract(delivered, '$.{0}') IS NOT NULL)
"""
# Columns that a sight of the condition changes; `delivered` belongs to the couriers.
_CHANGED = (
    "severity",
    "title",
    "detail",
    "last_seen_at",
    "times_seen",
    "cleared_at",
    "acknowledged_at",
    "acknowledged_by",
    "version",
)


def alert_of(row: Mapping[str, Any]) -> Alert:
    return Alert(**{**row, "detail": json.loads(row["detail"]), "delivered": json.loads(row["delivered"])})


def _alerts(frame: pl.DataFrame) -> list[Alert]:
    return [alert_of(row) for row in frame.iter_rows(named=True)]


def open_alerts(source: Warehouse | Transaction) -> list[Alert]:
    """Every alert whose condition still holds: bad before warning, newest first."""
    return _alerts(
        source.query(f"{_SELECT} WHERE cleared_at IS NULL ORDER BY severity = 'bad' DESC, first_seen_at DESC, alert_id")
    )


def latest(source: Warehouse | Transaction, limit: int) -> list[Alert]:
    """Open ones first, then the cleared ones, newest first."""
    order = "cleared_at IS NOT NULL, severity = 'bad' DESC, coalesce(cleared_at, first_seen_at) DESC, alert_id"
    return _alerts(source.query(f"{_SELECT} ORDER BY {order} LIMIT $n", {"n": limit}))


def by_id(source: Warehouse | Transaction, text: str) -> list[Alert]:
    """The alerts whose id begins with `text`; at most two, which is enough to tell that it is not one."""
    return _alerts(
        source.query(f"{_SELECT} WHERE starts_with(alert_id, $id) ORDER BY alert_id LIMIT 2", {"id": text.lower()})
    )


# writing ----------------------------------------------------------------------------------------------


def _frame(alerts: Iterable[Alert]) -> pl.DataFrame:
    schema = {c.name: c.polars for c in columns("ops.alert")}
    rows = [
        {
            **{name: getattr(a, name) for name in _COLUMNS},
            "detail": canonical_json(dict(a.detail)),
            "delivered": canonical_json(dict(a.delivered)),
        }
        for a in alerts
    ]
    return pl.DataFrame(rows, schema=schema, orient="row")


def write(tx: Transaction, plan: Plan) -> None:
    """Write a plan in the caller's transaction; a row whose version has moved on meanwhile is left alone."""
    tx.append("ops.alert", _frame(plan.raised))
    changed = [*((a, a.version) for a in plan.seen), *((a, a.version - 1) for a in (*plan.worse, *plan.cleared))]
    if not changed:
        return
    frame = _frame(a for a, _ in changed).with_columns(
        pl.Series("seen_version", [v for _, v in changed], dtype=pl.Int32)
    )
    updates = ", ".join(f"{name} = s.{name}" for name in _CHANGED)
    with tx.staged(frame) as staged:
        tx.execute(
            f"MERGE INTO ops.alert t USING {staged} s ON (t.alert_id = s.alert_id AND t.version = s.seen_version) "
            f"WHEN MATCHED THEN UPDATE SET {updates}"
        )


def acknowledge(tx: Transaction, alert: Alert, by: str, at: datetime) -> bool:
    """Mark an open alert as acknowledged; False where its version has moved on."""
    done = tx.execute(
        "UPDATE ops.alert SET acknowledged_at = $at, acknowledged_by = $by, version = version + 1 "
        "WHERE alert_id = $id AND version = $version AND cleared_at IS NULL",
        {"at": at, "by": by, "id": alert.alert_id, "version": alert.version},
    )
    return done == 1


# the outbox -------------------------------------------------------------------------------------------


def due(warehouse: Warehouse, channel: str) -> list[tuple[Alert, bool]]:
    """What a channel has not taken yet, oldest first, and whether a newer open alert stands for the same."""
    frame = warehouse.query(
        f"""
        SELECT {", ".join(_COLUMNS)}, cleared_at IS NOT NULL AND EXISTS (
          SELECT 1 FROM ops.alert n WHERE n.kind = a.kind AND n.subject = a.subject AND n.cleared_at IS NULL
        ) AS superseded
        FROM ops.alert a WHERE {_DUE.format(channel)} ORDER BY first_seen_at, alert_id LIMIT {BATCH}
        """
    )
    return [
        (alert_of({k: v for k, v in row.items() if k != "superseded"}), row["superseded"])
        for row in frame.iter_rows(named=True)
    ]


def waiting(warehouse: Warehouse, channel: str) -> int:
    """How many alerts a channel has not taken yet."""
    return int(warehouse.scalar(f"SELECT count(*) FROM ops.alert WHERE {_DUE.format(channel)}"))


def taken(warehouse: Warehouse, alert: Alert, channel: str, *, event: str | None) -> None:
    """The channel has taken this version; `event` None: there was nothing to tell it."""
    told: dict[str, Any] = {"version": alert.version, "error": None, "failed_at": None, "attempts": 0}
    if event is not None:
        told |= {"event": event, "at": utcnow()}
    _keep(warehouse, alert.alert_id, channel, told)


def not_taken(warehouse: Warehouse, alert: Alert, channel: str, error: str) -> None:
    """The channel could not be told; the alert stays due."""
    before = alert.delivered.get(channel) or {}
    _keep(
        warehouse,
        alert.alert_id,
        channel,
        {"error": error, "failed_at": utcnow(), "attempts": int(before.get("attempts") or 0) + 1, "tried": True},
    )


def _keep(warehouse: Warehouse, alert_id: str, channel: str, told: Mapping[str, Any]) -> None:
    with warehouse.transaction() as tx:
        found = tx.query("SELECT delivered FROM ops.alert WHERE alert_id = $id", {"id": alert_id})
        if not found.height:
            return
        delivered = json.loads(found.item())
        delivered[channel] = {**delivered.get(channel, {}), **told}
        tx.execute(
            "UPDATE ops.alert SET delivered = $told WHERE alert_id = $id",
            {"told": canonical_json(delivered), "id": alert_id},
        )
