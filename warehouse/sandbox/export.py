"""A result as a file to download: CSV (RFC 4180, UTF-8) or Parquet."""

from __future__ import annotations

import base64
import io
import json
from datetime import date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from warehouse.errors import SqlFailed

if TYPE_CHECKING:
    from warehouse.sandbox.client import SqlResult

Format = Literal["csv", "parquet"]


def export(result: SqlResult | pa.Table, fmt: Format) -> bytes:
    """The whole table, of a result or by itself, as a file's bytes.

    CSV: a header line, NULL as an empty field (an empty text is quoted), times in ISO 8601, decimals
    exact, bytes in base64, lists and structs as JSON. Parquet keeps the types. Raises SqlFailed for
    another format and where Parquet cannot hold a type.
    """
    table = result if isinstance(result, pa.Table) else result.table
    if fmt == "csv":
        return _csv(table)
    if fmt == "parquet":
        return _parquet(table)
    raise SqlFailed(f"There is no export format {fmt!r}.", fix="use csv or parquet")


def _parquet(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    try:
        pq.write_table(table, sink, compression="zstd")
    except pa.ArrowException as error:
        raise SqlFailed(f"Parquet cannot hold this result: {error}.", fix="cast that column to VARCHAR") from None
    return sink.getvalue()


def _csv(table: pa.Table) -> bytes:
    lines = [",".join(_field(name) for name in table.column_names)]
    columns = [column.to_pylist() for column in table.columns]
    lines += [",".join(_field(value) for value in values) for values in zip(*columns, strict=True)]
    return "".join(line + "\r\n" for line in lines).encode("utf-8")


def _field(value: Any) -> str:
    """One CSV field; only None becomes the empty, unquoted field."""
    if value is None:
        return ""
    text = _text(value)
    if text == "" or text != text.strip() or any(char in text for char in ',"\r\n'):
        return '"' + text.replace('"', '""') + '"'
    return text


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | dict | tuple):
        return json.dumps(value, default=_text, ensure_ascii=False)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return format(value, "f")
    return str(value)
