"""Ad hoc SQL for pages, command line and API: `run_sql` on a snapshot, `export` of the result.

Neither the statement nor its rows can harm this process: a worker with limits parses and runs it,
the check of the syntax tree happens here in between (see the package's docstring).
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from warehouse.errors import SqlFailed, SqlRefused
from warehouse.sandbox.export import export
from warehouse.sandbox.process import Worker
from warehouse.sandbox.validate import ALLOWED_SCHEMAS, DENIED_TABLES, check_parsed, check_text

__all__ = ["SqlResult", "export", "run_sql"]

DEFAULT_TIMEOUT_S = 10.0
MAX_TIMEOUT_S = 120.0
DEFAULT_ROW_CAP = 10_000
MAX_ROW_CAP = 1_000_000
_OUT_OF_SCRATCH = ("File too large", "max_temp_directory_size", "No space left")

_PATH_REST = r"[\w./+@~-]*"
_ABSOLUTE_PATH = rf"(?<![\w.:*/)\]])/[\w.+@~-]+/{_PATH_REST}"


@dataclass(frozen=True)
class SqlResult:
    """The rows of one statement.

    `table` has at most row_cap rows, and `truncated` says that there were more. Column names are
    unique (a second `a` is `a_1`); `columns` pairs them with their DuckDB types. Intervals are text.
    `elapsed_s` is the time of the statement itself, without the start of the worker.
    """

    table: pa.Table
    truncated: bool
    elapsed_s: float
    columns: tuple[tuple[str, str], ...]
    sql: str


def run_sql(
    snapshot_path: Path,
    sql: str,
    *,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    row_cap: int = DEFAULT_ROW_CAP,
    explain: bool = False,
    allowed_schemas: frozenset[str] = ALLOWED_SCHEMAS,
    denied_tables: frozenset[str] = DENIED_TABLES,
) -> SqlResult:
    """Run one SELECT on the snapshot file; with `explain` return its plan instead of rows.

    Blocks up to `timeout_s`, of which about 0.15 s is the start of the worker. At most four statements
    run at once, others wait within their time. Raises SqlRefused (not allowed, nothing ran),
    SqlFailed (an error of the statement, or too much memory) and SqlTimeout. No error text holds a
    path of this machine that the statement did not hold itself.
    """
    if not 0 < timeout_s <= MAX_TIMEOUT_S:
        raise SqlRefused(f"The time limit is {timeout_s} s.", fix=f"use more than 0 and at most {MAX_TIMEOUT_S:g} s")
    if not 1 <= row_cap <= MAX_ROW_CAP:
        raise SqlRefused(f"The row cap is {row_cap}.", fix=f"use 1 to {MAX_ROW_CAP}")
    check_text(sql)
    snapshot = Path(snapshot_path).absolute()
    if not snapshot.is_file():
        raise SqlFailed("There is no snapshot of the warehouse to query.", fix="refresh the snapshot and try again")
    if snapshot.stem.lower() in allowed_schemas:
        # DuckDB names the database after the file, and `core.offer` would then be ambiguous.
        raise SqlFailed(
            f"The snapshot file is named like the schema {snapshot.stem.lower()}.", fix="give the file another name"
        )
    with Worker(timeout_s=timeout_s) as worker:
        header, body = _ask(worker, {"op": "parse", "sql": sql, "database": str(snapshot)}, sql, snapshot)
        checked = check_parsed(
            header, body, allowed_schemas=allowed_schemas, denied_tables=denied_tables, explain=explain
        )
        request = {
            "op": "run",
            "text": checked.sql,
            "tables": sorted(checked.tables),
            "schemas": sorted(allowed_schemas),
            "denied": sorted(denied_tables),
            "explain": checked.is_explain,
            "row_cap": row_cap,
        }
        header, body = _ask(worker, request, sql, snapshot)
    if header["status"] == "refused":
        raise SqlRefused(header["message"], fix=header["fix"])
    if header["status"] != "ok":
        raise SqlFailed(header["message"], fix=_fix_for(header["message"]))
    return _result(header, body, checked.sql)


def _ask(worker: Worker, request: dict[str, Any], sql: str, snapshot: Path) -> tuple[dict[str, Any], bytes]:
    header, body = worker.exchange(request)
    return {**header, "message": _clean(header.get("message", ""), sql, snapshot)}, body


def _result(header: dict[str, Any], body: bytes, sql: str) -> SqlResult:
    try:
        with pa.ipc.open_stream(body) as reader:
            table = reader.read_all()
        table.validate()
        columns = tuple((str(name), str(kind)) for name, kind in header["columns"])
        return SqlResult(table, bool(header["truncated"]), float(header["elapsed_s"]), columns, sql)
    except (pa.ArrowException, KeyError, TypeError, ValueError):
        raise SqlFailed("The SQL worker sent rows that could not be read.", fix="try a simpler statement") from None


def _clean(message: str, sql: str, snapshot: Path) -> str:
    """DuckDB's error without paths of this machine and without its advice on settings."""
    for tail in ("\n\nStack Trace:", "\n\nPossible solutions:"):
        message = message.partition(tail)[0].strip()
    if any(sign in message for sign in _OUT_OF_SCRATCH):
        return "The statement needed more memory and scratch space than allowed."
    known = {snapshot, snapshot.resolve(), snapshot.parent, snapshot.parent.resolve()}
    known |= {Path(tempfile.gettempdir()), Path(sys.prefix), Path(os.path.expanduser("~")), Path.cwd()}
    starts = sorted((str(path) for path in known if len(path.parts) > 1), key=len, reverse=True)
    paths = "|".join([*(re.escape(start) + _PATH_REST for start in starts), _ABSOLUTE_PATH])
    return re.sub(paths, lambda match: match[0] if match[0] in sql else "<path>", message)


def _fix_for(message: str) -> str:
    if any(sign in message for sign in ("Out of Memory", "out of memory", "bad_alloc", "scratch space")):
        return "read fewer rows or columns, aggregate earlier, or avoid huge lists and texts"
    if message.startswith(("Catalog Error", "Binder Error")):
        return "check the names in the schema browser"
    return "correct the SQL"
