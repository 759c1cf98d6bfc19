"""Small CSV tables of other tools: a header, then rows; each row as a Row whose numbers are exact.

Such files hold thousands of rows at most, so they are read whole, row by row. A row without all its cells, as a
file that was cut off ends with, is refused; so is a header that is not the expected one.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation

from ingest.base import Payload
from ingest.fields import Row
from ingest.read import read_text, refuse

_EMPTY = frozenset({"", "nan", "none", "null", "n/a"})
LATEST = datetime(2100, 1, 1)
EARLIEST = datetime(2000, 1, 1)


def header_and_rows(
    payload: Payload, required: Sequence[str], *, split: str | None = None
) -> tuple[list[str], Iterator[tuple[Row, bool]]]:
    """The header, and (row, whether it has all cells and no more) per data line; rows count from 1.

    `split`: a column of free text that its writer does not quote, so that commas in it are taken back in.

    Raises PayloadError where the header lacks a `required` column or names one twice.
    """
    lines = csv.reader(io.StringIO(read_text(payload), newline=""))
    try:
        header = [cell.strip() for cell in next(lines)]
    except (StopIteration, csv.Error) as error:
        refuse(payload, f"the file has no header: {error}", fix="check that it is the right file")
    missing = [name for name in required if name not in header]
    if missing:
        known = ", ".join(header)[:200]
        refuse(payload, f"the file has no column {', '.join(missing)}; it has {known}", fix="check kind and file")
    if len(set(header)) < len(header):
        refuse(payload, "the header names a column twice", fix="export it again")
    return header, _rows(lines, header, header.index(split) if split else None)


def _rows(lines: Iterator[list[str]], header: list[str], split: int | None) -> Iterator[tuple[Row, bool]]:
    row_no = 0
    while True:
        try:
            cells = next(lines)
        except StopIteration:
            return
        except csv.Error as error:
            row_no += 1
            yield Row(row_no, {"line": str(error)}), False
            continue
        if not any(cell.strip() for cell in cells):
            continue
        row_no += 1
        spare = len(cells) - len(header)
        if split is not None and spare > 0:
            cells = [*cells[:split], ",".join(cells[split : split + spare + 1]), *cells[split + spare + 1 :]]
        yield Row(row_no, dict(zip(header, cells, strict=False))), len(cells) == len(header)


def cell_number(row: Row, name: str, *, low: int | None = 0, high: int = 10**15) -> Decimal | None:
    """The number in a cell; None where it is empty, absent, or refused (which leaves a Reject)."""
    text = str(row.data.get(name) or "").strip()
    if text.lower() in _EMPTY:
        return None
    try:
        value = Decimal(text)
    except InvalidOperation:
        row.refuse(name, text[:200], "is no number")
        return None
    return row.number(name, value, low=low, high=high)


def cell_text(row: Row, name: str) -> str | None:
    text = str(row.data.get(name) or "").strip()
    return text or None


def plus_seconds(at: datetime, seconds: Decimal) -> datetime | None:
    """`at` moved by exact seconds, at the microsecond; None outside of 2000 to 2100."""
    if abs(seconds) > 4 * 10**9:
        return None
    moved = at + timedelta(microseconds=int((seconds * 1_000_000).to_integral_value()))
    return moved if EARLIEST <= moved < LATEST else None
