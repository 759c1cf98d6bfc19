"""Fields of usage logs, row by row: numbers that came as numbers or as text, names, times, plausible windows.

Logs of usage are exported by many ways (an API, a database, a spreadsheet), so a number may come as text;
either way it must be one. Everything that does not hold is refused by name, like in `ingest.fields`.
"""

from __future__ import annotations

import re
from datetime import datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from ingest.billing.pieces import refuse
from ingest.fields import LARGEST_INT, LARGEST_MONEY, Row, money
from ingest.stream import Stream
from warehouse.clock import to_utc

EARLIEST = datetime(2017, 7, 1)  # before any of these logs could be written; zeros and milliseconds fall outside
LATEST = datetime(2100, 1, 1)
LARGEST_TOKENS = LARGEST_INT
UTC = ZoneInfo("UTC")
_NUMBER = re.compile(r"[+-]?(\d{1,40}(\.\d{0,60})?|\.\d{1,60})([eE][+-]?\d{1,3})?", re.ASCII)


def told(value: Any) -> bool:
    """Whether there is anything: empty text is nothing."""
    return value is not None and not (isinstance(value, str) and not value.strip())


def number(row: Row, name: str, value: Any, *, high: Decimal | int = 10**15) -> Decimal | None:
    """A number of at least 0, also from text; None where it is not told or refused."""
    if not told(value):
        return None
    if isinstance(value, str):
        if not _NUMBER.fullmatch(value.strip()):
            row.refuse(name, value, "is not a finite number")
            return None
        value = Decimal(value.strip())
    return row.number(name, value, high=high)


def whole(row: Row, name: str, value: Any, *, high: int = LARGEST_INT) -> int | None:
    """A whole number of at least 0, also from text."""
    found = number(row, name, value, high=high)
    if found is None:
        return None
    return row.whole(name, found, high=high)


def usd(row: Row, name: str, value: Any) -> Decimal | None:
    """Money as the warehouse keeps it."""
    found = number(row, name, value, high=LARGEST_MONEY)
    return None if found is None else money(found)


def name_of(row: Row, name: str, value: Any) -> str | None:
    """Text that names something; a bare whole number is taken as its digits."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return row.text(name, value)


def instant(row: Row, name: str, value: Any, zone: ZoneInfo | None = UTC) -> datetime | None:
    """ISO 8601 time as naive UTC, from 2017 to 2100. A time without an offset is of `zone`; without a zone it is
    refused, because then nobody has said when it was."""
    text = row.text(name, value)
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        row.refuse(name, value, "is not an ISO 8601 time")
        return None
    if at.tzinfo is None:
        if zone is None:
            row.refuse(name, value, "has no offset; declare its zone with the option timezone")
            return None
        at = at.replace(tzinfo=zone)
    try:
        found = to_utc(at, what=name)
    except OverflowError:
        found = None
    if found is None or not EARLIEST <= found < LATEST:
        row.refuse(name, value, f"is not between {EARLIEST:%Y} and {LATEST:%Y}; check its unit")
        return None
    return found


def declared_zone(about: Stream) -> ZoneInfo | None:
    """The zone that a person declared for times without an offset. Raises PayloadError for an unknown one."""
    name = about.options.get("timezone")
    if name is None:
        return None
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        refuse(about, f"the option timezone is {name!r}, no known time zone", fix="write one as Europe/Paris")


def cached_of(row: Row, name: str, value: Any, prompt_tokens: int | None) -> int | None:
    """Cached tokens, which are part of the prompt; more of them than prompt cannot be."""
    cached = whole(row, name, value)
    if cached is None or prompt_tokens is None:
        return None
    if cached > prompt_tokens:
        row.refuse(name, cached, f"is more than the {prompt_tokens} tokens of the prompt")
        return None
    return cached
