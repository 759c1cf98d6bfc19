"""Text columns of a chunk, checked column by column: what does not hold becomes a Reject, its siblings stay.

A whole-row refusal takes the row out of the chunk (the first reason is the one that is told); a refused
field becomes NULL. Empty text and the word NULL are NULL. Decimals are exact; numbers with thousands
separators or a currency sign, and dates with slashes, are read only where a person declared how.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal, InvalidOperation
from zoneinfo import ZoneInfo

import polars as pl

from ingest.base import Reject
from ingest.billing.sheets import Chunk
from ingest.fields import LARGEST_MONEY, money, plain_json
from warehouse.clock import to_utc

MONEY = pl.Decimal(28, 12)
_UTC = ZoneInfo("UTC")
_RAW_LIMIT, _VALUE_LIMIT = 4000, 200
_PLAIN = r"^[+-]?(\d{1,13}(\.\d{0,12})?|\.\d{1,12})$"
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?")
_US = re.compile(r"(?P<sign>-?)\$?(?P<whole>\d{1,3}(,\d{3})+|\d+)(?P<rest>\.\d+)?")
_DOLLARS = frozenset({"USD", "AUD", "CAD", "NZD", "SGD", "HKD"})
_ISO = re.compile(
    r"(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?))?\s?(Z|UTC|[+-]\d{2}:?\d{2})?", re.IGNORECASE
)
_SLASHED = re.compile(r"(\d{1,4})/(\d{1,2})/(\d{2,4})(?: (\d{1,2}:\d{2}(?::\d{2})?))?")
_ORDERS = {"mdy": (2, 0, 1), "dmy": (2, 1, 0), "ymd": (0, 1, 2)}  # places of year, month and day


def _plausible(at: datetime) -> datetime:
    if not 2000 <= at.year < 2200:
        raise ValueError("is not in this century or the next")
    return at


@dataclass(frozen=True)
class Reading:
    """What was declared about the file: the zone of times without one, the order of slash dates, US numbers."""

    zone: ZoneInfo = _UTC
    date_order: str | None = None
    us_numbers: bool = False


@dataclass
class Columns:
    """One chunk under its checks. `names` maps the name of a column, in lower case, to its name in the file."""

    chunk: Chunk
    names: dict[str, str]
    reading: Reading
    key_column: str | None = None
    rejects: list[Reject] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._alive = pl.repeat(True, self.height, eager=True, dtype=pl.Boolean)
        for misfit in self.chunk.misfits:
            self.rejects.append(
                Reject(
                    f"the row has {misfit.fields} fields, the header {misfit.expected}",
                    row_no=misfit.row_no,
                    raw=misfit.text,
                )
            )
        for place in sorted(self.chunk.not_utf8):
            self._refuse_place(place, None, "the row holds bytes that are no UTF-8 text", whole_row=True)

    @property
    def height(self) -> int:
        return self.chunk.frame.height

    @property
    def rows_in(self) -> int:
        return self.height + len(self.chunk.misfits)

    @property
    def alive(self) -> pl.Series:
        """Which rows stand so far."""
        return self._alive

    def has(self, name: str) -> bool:
        return name.lower() in self.names

    def text(self, name: str, *, required: bool = False) -> pl.Series:
        """The column as trimmed text, NULL where empty; all NULL where the file has no such column."""
        if not self.has(name):
            return pl.repeat(None, self.height, eager=True, dtype=pl.String).alias(name)
        found = self.chunk.frame[self.names[name.lower()]].str.strip_chars()
        null = found.str.to_uppercase().is_in(["", "NULL"])
        values = pl.select(pl.when(~null).then(found)).to_series().alias(name)
        if required:
            self.refuse(values.is_null(), name, "is missing", whole_row=True)
        return values

    def one_of(self, name: str, allowed: Collection[str], *, required: bool) -> pl.Series:
        """Text that must be one of `allowed`; anything else costs its row, because meaning is not guessed."""
        values = self.text(name, required=required)
        wrong = values.is_not_null() & ~values.is_in(list(allowed))
        self.refuse(wrong, name, f"is none of {', '.join(allowed)}", whole_row=True)
        return values

    def decimal(
        self, name: str, *, required: bool = False, low: int | None = None, currency: pl.Series | None = None
    ) -> pl.Series:
        """The column as DECIMAL(28,12). `required`: a row without it, or with an unreadable one, is refused."""
        text = self.text(name, required=required)
        plain = text.str.contains(_PLAIN).fill_null(False)
        values = pl.select(pl.when(plain).then(text)).to_series().cast(MONEY)
        odd = {i: text[i] for i in (text.is_not_null() & ~plain).arg_true()}
        found = values.to_list() if odd else []
        for place, value in odd.items():
            try:
                found[place] = self._number(value, currency[place] if currency is not None else None)
            except ValueError as error:
                self._refuse_place(place, name, str(error), whole_row=required)
        if odd:
            values = pl.Series(name, found, dtype=MONEY)
        for mask, why in (
            (values.abs() > int(LARGEST_MONEY), f"is beyond {LARGEST_MONEY:.0e}, which is not plausible"),
            (values < low if low is not None else values.is_null() & False, f"is below {low}"),
        ):
            bad = mask.fill_null(False)
            if bad.any():
                self.refuse(bad, name, why, whole_row=required)
                values = pl.select(pl.when(~bad).then(values)).to_series()
        return values.alias(name)

    def _number(self, text: str, currency: str | None) -> Decimal:
        if _NUMBER.fullmatch(text):
            return self._exact(text)
        if found := _US.fullmatch(text):
            if not self.reading.us_numbers:
                raise ValueError(
                    "has a thousands separator or a currency sign, which the format forbids; "
                    "declare number_format=us where that is how they are meant"
                )
            if "$" in text and currency is not None and currency not in _DOLLARS:
                raise ValueError(f"has a $ sign, but the currency is {currency}")
            return self._exact(found["sign"] + found["whole"].replace(",", "") + (found["rest"] or ""))
        raise ValueError("is not a number")

    def _exact(self, text: str) -> Decimal:
        try:
            value = Decimal(text)
        except InvalidOperation as error:
            raise ValueError("is not a number") from error
        if value and not -30 < value.adjusted() < 13:
            raise ValueError("is larger or smaller than any amount")
        return money(value)

    def time(self, name: str, *, required: bool = False) -> pl.Series:
        """The column as UTC. ISO 8601; a time without a zone is in the declared one; slash dates as declared."""
        text = self.text(name, required=required)
        read: dict[str, datetime | None] = {}
        wrong: dict[str, str] = {}
        for value in text.unique().drop_nulls():
            try:
                read[value] = _plausible(self._time(value))
            except (ValueError, OverflowError) as error:
                read[value], wrong[value] = None, str(error)
        values = text.replace_strict(read, default=None, return_dtype=pl.Datetime("us")) if read else None
        for value, why in wrong.items():
            self.refuse((text == value).fill_null(False), name, why, whole_row=required)
        if values is None:
            values = pl.repeat(None, self.height, eager=True, dtype=pl.Datetime("us"))
        return values.alias(name)

    def _time(self, text: str) -> datetime:
        if found := _ISO.fullmatch(text):
            day, clock, zone = found.groups()
            offset = "" if zone is None else "+00:00" if zone.upper() in ("Z", "UTC") else zone
            value = datetime.fromisoformat(f"{day}T{clock or '00:00'}{offset}")
            return self._utc(value)
        if found := _SLASHED.fullmatch(text):
            if self.reading.date_order is None:
                raise ValueError(
                    "is a date with slashes, which the format forbids and which may mean two days; "
                    "declare date_order (mdy, dmy or ymd)"
                )
            parts = found.groups()[:3]
            year, month, day = (int(parts[i]) for i in _ORDERS[self.reading.date_order])
            year += 2000 if year < 100 else 0
            clock = found[4] or "00:00"
            hour, minute, second = (int(p) for p in (*clock.split(":"), "0")[:3])
            return self._utc(datetime(year, month, day, hour, minute, second))
        raise ValueError("is not an ISO 8601 time")

    def _utc(self, value: datetime) -> datetime:
        if value.tzinfo is None:
            value = value.replace(tzinfo=self.reading.zone)
            if value.utcoffset() != value.replace(fold=1).utcoffset():
                raise ValueError(f"is an hour that {self.reading.zone} skips or has twice; write it with an offset")
        return to_utc(value, what="time")

    def refuse(
        self, mask: pl.Series, name: str | None, reason: str | Callable[[int], str], *, whole_row: bool = False
    ) -> None:
        """Refuse `name` (or the row) wherever `mask` holds in a row that still stands."""
        for place in (mask.fill_null(False) & self._alive).arg_true():
            told = reason(place) if callable(reason) else reason
            self._refuse_place(place, name, told, whole_row=whole_row)

    def _refuse_place(self, place: int, name: str | None, reason: str, *, whole_row: bool) -> None:
        if not self._alive[place]:
            return
        row = {k: v for k, v in self.chunk.frame.row(place, named=True).items() if v}
        column = self.names.get((name or "").lower())
        key = self.names.get((self.key_column or "").lower())
        value = row.get(column) if column else None
        self.rejects.append(
            Reject(
                reason=f"{name} {reason}" if name else reason,
                row_no=self.chunk.row_nos[place],
                natural_key=row.get(key) if key else None,
                field=name,
                value=None if value is None else value[:_VALUE_LIMIT],
                raw=plain_json(row)[:_RAW_LIMIT],
                whole_row=whole_row,
            )
        )
        if whole_row:
            self._alive[place] = False
