"""The SQL lab: one read-only statement, in a worker process, on a snapshot copy of the warehouse."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pyarrow as pa
from pydantic import Field

from app.desk import Desk
from app.operations import Actor, Params, operation
from app.operations.plain import plain
from warehouse.sandbox.client import SqlResult, run_sql


class SqlParams(Params):
    sql: str = Field(min_length=1, max_length=100_000)
    explain: bool = False
    row_cap: int | None = Field(None, ge=1, le=1_000_000)


def run_table(
    desk: Desk, sql: str, *, explain: bool = False, row_cap: int | None = None
) -> tuple[pa.Table, dict[str, Any]]:
    """The rows of one SELECT and what is to be said about them (as_of, elapsed_s, truncated, row_cap).

    Raises SqlRefused, SqlFailed or SqlTimeout.
    """
    result, as_of = _run(desk, sql, explain, row_cap)
    cap = row_cap or desk.settings.sql.row_cap
    meta = {"as_of": as_of, "elapsed_s": result.elapsed_s, "truncated": result.truncated, "row_cap": cap}
    return result.table, meta


def _run(desk: Desk, sql: str, explain: bool, row_cap: int | None) -> tuple[SqlResult, datetime]:
    copy = desk.settings.state_dir / "sql-snapshot.duckdb"
    as_of = desk.warehouse.snapshot_copy(copy)
    settings = desk.settings.sql
    result = run_sql(copy, sql, timeout_s=settings.timeout, row_cap=row_cap or settings.row_cap, explain=explain)
    return result, as_of


@operation("sql.run", scope="operator", params=SqlParams)
def run(desk: Desk, actor: Actor, params: SqlParams) -> dict[str, Any]:
    """Run one read-only SELECT on a snapshot."""
    table, meta = run_table(desk, params.sql, explain=params.explain, row_cap=params.row_cap)
    return {
        "columns": [{"name": f.name, "type": str(f.type)} for f in table.schema],
        "rows": [[plain(v) for v in row.values()] for row in _rows(table)],
        **plain(meta),
    }


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    unique = [f"c{i}" for i in range(table.num_columns)]  # two columns may share a name
    rows: list[dict[str, Any]] = table.rename_columns(unique).to_pylist()
    return rows
