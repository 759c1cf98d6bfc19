"""CSV, Parquet, JSON lines or a JSON list as one frame of text columns; and refusals by name.

Both kinds of this package check whole columns at once: 10,000 pairs are a fraction of a second.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl

from ingest.base import Payload, Reject
from ingest.billing.sheets import open_sheet
from ingest.fields import Row, plain_json
from ingest.outcomes.columns import sound_rows
from ingest.read import loads, parse_json, read_text, refuse, shape_of
from ingest.stream import Stream
from warehouse.clock import parse_utc

_JSON = re.compile(rb"^(?:\xef\xbb\xbf)?\s*[\[{]")
_A_QUANTITY = re.compile(
    r"energy|joule|power|watt|latency|duration|runtime|cost|price|carbon|co2|_usd|_kwh|seconds", re.I
)
_TRUE, _FALSE = ("true", "1", "1.0"), ("false", "0", "0.0")
RAW = "row_no"

Check = tuple[str, str, pl.Expr]
"""(field, why the row is refused, where)."""


def text_rows(
    payload: Payload, columns: Sequence[str], rows_under: str
) -> tuple[pl.DataFrame, list[Reject], int, list[str]]:
    """(all `columns` as text beside `row_no`, refusals of what is no row, rows that came, notes).

    Raises PayloadError where the payload is no table, and for a column that looks like a figure in another unit.
    """
    if _JSON.match(payload.body[:200]):
        told, rejects, came = _json(payload, rows_under)
    else:
        told, rejects, came = _sheet(payload)
    told = told.rename({name: name.strip().lower() for name in told.columns})
    ignored = [name for name in told.columns if name not in columns and name != RAW]
    if strange := [name for name in ignored if _A_QUANTITY.search(name)]:
        near = ", ".join(name for name in columns if _A_QUANTITY.search(name))
        refuse(payload, f"the column {strange[0]!r} is none that is known; a figure tells its unit by its name",
               field=strange[0], fix=f"name it one of {near}" if near else "leave it out")  # fmt: skip
    stripped = [
        (pl.col(name).str.strip_chars() if name in told.columns else pl.lit(None, pl.String)).alias(name)
        for name in columns
    ]
    frame = told.select(RAW, *stripped).with_columns(
        pl.when(pl.col(name) != "").then(pl.col(name)).alias(name) for name in columns
    )
    notes = [f"columns that were left out: {', '.join(n[:40] for n in ignored[:12])}"] if ignored else []
    return frame, rejects, came, notes


def _sheet(payload: Payload) -> tuple[pl.DataFrame, list[Reject], int]:
    about = Stream(payload.source_id, payload.kind, Path("payload"), payload.fetched_at, payload.options)
    frames, rejects, came = [], [], 0
    with open_sheet(about, io.BytesIO(payload.body)) as sheet:
        names = sheet.names
        for chunk in sheet.chunks:
            frame, bad, rows = sound_rows(chunk)
            frames.append(frame)
            rejects += bad
            came += rows
    empty = pl.DataFrame(schema={**dict.fromkeys(names, pl.String), RAW: pl.Int64})
    return pl.concat([empty, *frames]), rejects, came


def _json(payload: Payload, rows_under: str) -> tuple[pl.DataFrame, list[Reject], int]:
    rows = _documents(payload, rows_under)
    rejects = [
        Reject(f"the row is {shape_of(row)}, not an object", row_no=i, raw=plain_json(row)[:4000])
        for i, row in enumerate(rows)
        if not isinstance(row, dict)
    ]
    sound = [(i, row) for i, row in enumerate(rows) if isinstance(row, dict)]
    names = list(dict.fromkeys(str(name) for _, row in sound for name in row))
    columns = {name: [_text(row.get(name)) for _, row in sound] for name in names if name != RAW}
    frame = pl.DataFrame(
        {**columns, RAW: [i for i, _ in sound]}, schema={**dict.fromkeys(columns, pl.String), RAW: pl.Int64}
    )
    return frame, rejects, len(rows)


def _documents(payload: Payload, rows_under: str) -> list[Any]:
    """The rows of a JSON list, of an object that wraps them, or of JSON lines."""
    text = read_text(payload)
    lines = [line for line in text.splitlines() if line.strip()]
    if text.lstrip().startswith("{") and len(lines) > 1:
        try:
            return [loads(line, allow_nan=True) for line in lines]
        except ValueError:
            pass  # one document over several lines, or broken: said by the reader of the whole
    found = parse_json(text, payload, allow_nan=True)
    if isinstance(found, dict):
        found = found[rows_under] if isinstance(found.get(rows_under), list) else [found]
    if not isinstance(found, list):
        refuse(
            payload,
            f"the payload is {shape_of(found)}, not a list of rows",
            fix=f"send a list, or {{{rows_under!r}: [...]}}",
        )
    return found


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | Decimal) else plain_json(value)


# typing whole columns --------------------------------------------------------------------------------


def number(name: str) -> pl.Expr:
    """The finite number of a text column, else NULL."""
    value = pl.col(name).cast(pl.Float64, strict=False)
    return pl.when(value.is_finite()).then(value)


def whole(name: str) -> pl.Expr:
    value = number(name)
    return pl.when((value == value.floor()) & (value.abs() < 2**53)).then(value).cast(pl.Int64)


def boolean(name: str) -> pl.Expr:
    lower = pl.col(name).str.to_lowercase()
    return pl.when(lower.is_in(_TRUE)).then(True).when(lower.is_in(_FALSE)).then(False)


def instants(column: pl.Series) -> pl.Series:
    """ISO 8601 with a zone as naive UTC; NULL where it is none."""
    return pl.Series(column.name, [_instant(text) for text in column], dtype=pl.Datetime("us"))


def _instant(text: str | None) -> datetime | None:
    try:
        return None if text is None else parse_utc(text, what="time")
    except (ValueError, OverflowError):
        return None


# refusing ----------------------------------------------------------------------------------------------


class Refusals:
    """Refusals of a payload: `data` is its text, so that a refusal shows what came; `key` names a row."""

    def __init__(self, data: pl.DataFrame, key: str) -> None:
        self._data, self._key = data, key
        self._places: dict[int, int] = {}
        self.found: list[Reject] = []

    def rows(self, frame: pl.DataFrame, checks: Sequence[Check]) -> pl.DataFrame:
        """The rows that hold; each of the others is refused with the first thing that is wrong with it."""
        place = pl.coalesce(
            pl.when(where.fill_null(False)).then(pl.lit(i, pl.Int16)) for i, (_, _, where) in enumerate(checks)
        )
        placed = frame.with_columns(refused_=place)
        for at, which in placed.filter(pl.col("refused_").is_not_null()).select(RAW, "refused_").iter_rows():
            name, why, _ = checks[which]
            self._refuse(at, name, why, whole_row=True)
        return placed.filter(pl.col("refused_").is_null()).drop("refused_")

    def fields(self, frame: pl.DataFrame, words: dict[str, str]) -> None:
        """Fields that were told and could not be read: NULL, with a refusal; their rows load."""
        beside = frame.join(self._data.select(RAW, *(pl.col(n).alias(f"told_{n}") for n in words)), on=RAW, how="left")
        for name, why in words.items():
            lost = beside.filter(pl.col(f"told_{name}").is_not_null() & pl.col(name).is_null())
            for at in lost[RAW]:
                self._refuse(at, name, why, whole_row=False)

    def _refuse(self, at: int, name: str, why: str, *, whole_row: bool) -> None:
        if not self._places:
            self._places = {row_no: place for place, row_no in enumerate(self._data[RAW])}
        told = self._data.row(self._places[at], named=True)
        known = {k: v for k, v in told.items() if v is not None and k != RAW}
        row = Row(at, known, known.get(self._key))
        row.refuse(name, known.get(name), why, whole_row=whole_row)
        self.found += row.rejects
