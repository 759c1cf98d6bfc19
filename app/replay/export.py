"""Choices of a run as a CSV or Parquet file, written in parts and put in place whole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pa_parquet

from app.errors import BadRequest
from app.replay import store
from warehouse.engine import Warehouse

SUFFIXES = (".csv", ".parquet")


def export_choices(warehouse: Warehouse, run_id: str, path: Path) -> int:
    """Rows written to `path`: policy, query_id, arm, probability_json.

    Raises BadRequest for another suffix and for a path that cannot be written.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise BadRequest(f"{path.name} is neither CSV nor Parquet.", fix="end the file name in .csv or .parquet")
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        rows = (_csv if path.suffix.lower() == ".csv" else _parquet)(partial, _parts(warehouse, run_id))
        os.replace(partial, path)
    except OSError as error:
        raise BadRequest(
            f"{path} could not be written: {error.strerror}.", fix="name a folder that exists and may be written"
        ) from error
    finally:
        partial.unlink(missing_ok=True)
    return rows


def _parts(warehouse: Warehouse, run_id: str) -> Iterator[pl.DataFrame]:
    for policy in store.policies_with_choices(warehouse, run_id):
        after: str | None = None
        while True:
            part = store.choices(warehouse, run_id, policy, after=after)
            if part.is_empty():
                break
            yield part
            after = str(part["query_id"][-1])


def _csv(path: Path, parts: Iterator[pl.DataFrame]) -> int:
    rows = 0
    with path.open("wb") as out:
        for i, part in enumerate(parts):
            part.write_csv(out, include_header=i == 0)
            rows += part.height
    return rows


def _parquet(path: Path, parts: Iterator[pl.DataFrame]) -> int:
    rows, writer = 0, None
    try:
        for part in parts:
            table: Any = part.to_arrow()
            if writer is None:
                writer = pa_parquet.ParquetWriter(path, table.schema)
            writer.write_table(table)
            rows += part.height
    finally:
        if writer is not None:
            writer.close()
    if writer is None:
        pl.DataFrame({n: [] for n in ("policy", "query_id", "arm", "probability_json")}).write_parquet(path)
    return rows
