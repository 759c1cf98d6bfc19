"""The tables as the migrations declare them: one place of truth for columns, types and meaning.

`TABLES` is read from `migrations/*.sql`, so that parsers, loaders and the schema browser can never
disagree with the file. A trailing SQL comment is the meaning of its column.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import polars as pl

from warehouse.errors import SchemaMismatch

_TABLE = re.compile(r"CREATE TABLE (?P<name>\w+\.\w+) \((?P<body>.*?)^\);", re.S | re.M)
_COLUMN = re.compile(
    r"^\s+(?P<name>\w+)\s+(?P<type>[A-Z]+(?:\(\d+,\d+\))?)(?P<not_null> NOT NULL)?,?\s*(?:--\s*(?P<about>.*))?$"
)

_POLARS: dict[str, pl.DataType] = {
    "VARCHAR": pl.String(),
    "TIMESTAMP": pl.Datetime("us"),
    "DOUBLE": pl.Float64(),
    "BIGINT": pl.Int64(),
    "INTEGER": pl.Int32(),
    "BOOLEAN": pl.Boolean(),
    "BLOB": pl.Binary(),
    "DECIMAL(28,12)": pl.Decimal(28, 12),
}


@dataclass(frozen=True)
class Column:
    name: str
    type: str
    nullable: bool
    about: str

    @property
    def polars(self) -> pl.DataType:
        return _POLARS[self.type]


@cache
def tables() -> Mapping[str, tuple[Column, ...]]:
    """Every table of the migrations, as `schema.name -> columns`."""
    found: dict[str, tuple[Column, ...]] = {}
    for file in sorted(resources.files("warehouse.migrations").iterdir(), key=lambda f: f.name):
        if not file.name.endswith(".sql"):
            continue
        for table in _TABLE.finditer(file.read_text(encoding="utf-8")):
            columns = [m for line in table["body"].splitlines() if (m := _COLUMN.match(line))]
            found[table["name"]] = tuple(
                Column(m["name"], m["type"], m["not_null"] is None, (m["about"] or "").strip()) for m in columns
            )
    return found


def columns(table: str) -> tuple[Column, ...]:
    try:
        return tables()[table]
    except KeyError:
        raise SchemaMismatch(f"There is no table {table}.", fix=f"use one of {', '.join(sorted(tables()))}") from None


# What the loader fills in, so that no parser has to.
LOADER_COLUMNS = frozenset({"source_id", "run_id", "known_from", "content_sha256", "row_sha256"})


def frame_schema(table: str) -> dict[str, pl.DataType]:
    """Column types of the frame that a parser hands over for `table` (without the loader's columns)."""
    return {c.name: c.polars for c in columns(table) if c.name not in LOADER_COLUMNS}


def frame(table: str, rows: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """`rows` as a typed frame for `table`; missing keys become NULL, unknown keys are refused."""
    schema = frame_schema(table)
    listed = list(rows)
    unknown = {key for row in listed for key in row} - schema.keys()
    if unknown:
        raise SchemaMismatch(
            f"Rows for {table} have unknown columns {', '.join(sorted(unknown))}.",
            fix=f"use {', '.join(schema)}",
        )
    return typed({name: [row.get(name) for row in listed] for name in schema}, schema)


def typed(values: Mapping[str, list[Any]], schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """Columns as a frame of exactly these types; text that cannot be stored is mended, anything else is refused."""
    try:
        return pl.DataFrame(values, schema=schema, strict=True)
    except UnicodeEncodeError:  # a lone surrogate, as JSON escapes can spell it: no text that can be stored
        mended = {name: [_storable(v) for v in column] for name, column in values.items()}
        return pl.DataFrame(mended, schema=schema, strict=True)


def _storable(value: Any) -> Any:
    """`value`, with U+FFFD for each lone surrogate of a text."""
    return value.encode("utf-8", "surrogatepass").decode("utf-8", "replace") if isinstance(value, str) else value
