"""Parquet, in slices; see ingest/billing/tabular.py. The file is held in memory, as Parquet is read from its end."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import polars as pl

from ingest.billing.pieces import POLARS_ERRORS, Chunk, Columns, Rest, reason, refuse
from ingest.stream import Stream

_ROWS = 50_000
_LARGEST = 1 << 30


def records(about: Stream, file: Rest, columns: Columns) -> Iterator[Chunk]:
    """The wanted columns of a Parquet file, row by row. Raises PayloadError where it is none."""
    body = bytearray()
    while block := file.read(1 << 20):
        body += block
        if len(body) > _LARGEST:
            refuse(about, f"the Parquet file is larger than {_LARGEST} bytes", fix="export JSON lines instead")
    try:
        scan = pl.scan_parquet(io.BytesIO(bytes(body)))
        names = scan.collect_schema().names()
        missing = [name for name in columns.required if name not in names]
        if missing:
            refuse(about, f"the Parquet file has no column {', '.join(missing)}", fix="check the kind")
        wanted = scan.select(name for name in columns.names if name in names)
        height = int(scan.select(pl.len()).collect().item())
        for first in range(0, height, _ROWS):
            yield _chunk(first, wanted.slice(first, _ROWS).collect())
    except POLARS_ERRORS as error:
        refuse(about, f"the Parquet file is broken: {reason(error)}", fix="export it again")


def _chunk(first: int, frame: pl.DataFrame) -> Chunk:
    def read(index: int) -> tuple[dict[str, Any] | None, str]:
        row = frame.row(index, named=True)
        return {name: _plain(value) for name, value in row.items() if value is not None}, ""

    return Chunk(range(first, first + frame.height), None, read)


def _plain(value: Any) -> Any:
    """A value as JSON would have told it: times as text, fractions as Decimal, maps as objects."""
    if isinstance(value, float):
        return Decimal(repr(value))
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        if value and all(isinstance(v, dict) and v.keys() == {"key", "value"} for v in value):
            return {v["key"]: _plain(v["value"]) for v in value}
        return [_plain(v) for v in value]
    return value
