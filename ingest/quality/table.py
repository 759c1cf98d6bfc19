"""Rows of a small table, whichever way it is written: CSV with a header, a JSON list, or a list in a JSON object."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from ingest.base import Payload
from ingest.fields import Refused, number
from ingest.read import loads, parse_json, read_text, refuse, shape_of
from warehouse.clock import parse_utc

MISSHAPEN = "row"  # the key under which a row that has not the columns of the header keeps its cells
_NUMBER = re.compile(r"-?\d{1,30}(\.\d{1,30})?([eE][+-]?\d{1,3})?", re.ASCII)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
LATEST = timedelta(days=1)  # how far a date may lie after the file: it is noon somewhere


def read_rows(payload: Payload, listed_under: Collection[str] = ()) -> tuple[list[dict[str, Any]], list[str]]:
    """(rows, columns). Raises PayloadError.

    A JSON object must hold the list under one of `listed_under`; what else it tells in plain values holds for
    every row that does not tell it itself.
    """
    text = read_text(payload)
    if text.lstrip()[0] in "[{":
        return _json_rows(text, payload, listed_under)
    return _csv_rows(text, payload)


def _csv_rows(text: str, payload: Payload) -> tuple[list[dict[str, Any]], list[str]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[dict[str, Any]] = []
    try:
        header = [name.strip().lower() for name in next(reader)]
        if len(header) == 1 and (";" in header[0] or "\t" in header[0]):
            refuse(payload, f"the columns are separated by {';' if ';' in header[0] else 'tabs'}, not by commas",
                   fix="save it comma separated, with decimal points")  # fmt: skip
        if repeated := sorted({name for name in header if header.count(name) > 1}):
            refuse(payload, f"the column {repeated[0]!r} comes twice", field=repeated[0], fix="keep one")
        for cells in reader:
            if any(cell.strip() for cell in cells):
                padded = [cell.strip() or None for cell in cells]
                extra = {MISSHAPEN: cells} if len(cells) != len(header) else {}
                rows.append({**dict(zip(header, padded, strict=False)), **extra})
    except csv.Error as error:
        refuse(payload, f"the payload is no CSV: {error}", fix="save it as comma separated UTF-8")
    return rows, header


def _json_rows(text: str, payload: Payload, listed_under: Collection[str]) -> tuple[list[dict[str, Any]], list[str]]:
    document = parse_json(text, payload, allow_nan=True)
    head: dict[str, Any] = {}
    if isinstance(document, dict):
        name = next((n for n in listed_under if isinstance(document.get(n), list)), None)
        if name is None:
            wanted = " or ".join(repr(n) for n in listed_under)
            known = ", ".join(sorted(map(str, document))[:8]) or "nothing"
            refuse(payload, f"the object has no list {wanted}; it has {known}", fix="write [{…}, …]")
        head = {str(k).strip().lower(): v for k, v in document.items() if isinstance(v, str | int | Decimal)}
        document = document[name]
    if not isinstance(document, list):
        refuse(payload, f"the payload is {shape_of(document)}, not a list of rows", fix="write [{…}, …]")
    rows = [
        {**head, **{str(k).strip().lower(): v for k, v in row.items()}} if isinstance(row, dict) else {MISSHAPEN: row}
        for row in document
    ]
    columns = sorted({name for row in rows for name in row} - {MISSHAPEN})
    if document and not columns:
        refuse(payload, "the list holds no objects", fix="write [{…}, …]")
    return rows, columns


def text_of(data: Mapping[str, Any], name: str, *, longest: int = 200) -> str:
    """A cell's text. Raises Refused where it is missing."""
    value = data.get(name)
    if value is None or (isinstance(value, str) and not value.strip()):
        raise Refused(f"{name} is missing")
    if not isinstance(value, str):
        raise Refused(f"{name} is {shape_of(value)}, not text")
    if len(value.strip()) > longest:
        raise Refused(f"{name} is longer than {longest} characters")
    return value.strip()


def number_of(
    data: Mapping[str, Any], name: str, *, low: Decimal | int = 0, high: Decimal | int = 10**9
) -> Decimal | None:
    """A JSON number, or the text of one in a CSV cell; None where it is missing. Raises Refused."""
    value = data.get(name)
    if isinstance(value, str):
        if not value.strip():
            return None
        if not _NUMBER.fullmatch(value.strip()):
            raise Refused(f"{name} is not a number with a decimal point")
        value = loads(re.sub(r"^(-?)0+(?=\d)", r"\1", value.strip()))
    try:
        return number(value, low=low, high=high)
    except Refused as refused:
        raise Refused(f"{name} {refused}") from None


def needed(data: Mapping[str, Any], name: str, *, low: Decimal | int = 0, high: Decimal | int = 10**9) -> Decimal:
    """`number_of`, which must be there."""
    found = number_of(data, name, low=low, high=high)
    if found is None:
        raise Refused(f"{name} is missing")
    return found


def count_of(data: Mapping[str, Any], name: str, *, low: int = 0, high: int = 10**12) -> int | None:
    """A whole number; None where it is missing. Raises Refused."""
    found = number_of(data, name, low=low, high=high)
    if found is not None and found != found.to_integral_value():
        raise Refused(f"{name} is not a whole number")
    return None if found is None else int(found)


def day_of(text: str, name: str, *, not_after: datetime) -> datetime:
    """A date (its first instant, UTC) or a time with a zone, as naive UTC. Raises Refused."""
    try:
        if _DATE.fullmatch(text):
            at = datetime.combine(date.fromisoformat(text), datetime.min.time())
        else:
            at = parse_utc(text, what=name)
    except (ValueError, OverflowError):
        raise Refused(f"{name} is no date like 2026-08-11 and no time with a zone") from None
    if not datetime(2000, 1, 1) <= at <= not_after + LATEST:
        raise Refused(f"{name} is {at:%Y-%m-%d}, before 2000 or after the file")
    return at
