"""Naive stamps of a log in a declared zone -> naive UTC, in order; what the zone cannot place is None.

On the night when clocks go back an hour occurs twice. A log runs forward, so its first pass through that
hour is the earlier one, and where its clock then falls back, the later one begins. A log that starts within
that hour does not tell which it is: its stamps stay None until the clock falls back or the hour is over.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import polars as pl

from ingest.errors import PayloadError

_OFFSET = re.compile(r"([+-])(\d{2}):?(\d{2})")
_FELL_BACK = timedelta(minutes=20)  # no clock is corrected by this much; daylight saving moves 30 min or more


@dataclass
class LogClock:
    """The zone of one log, and how far it has come. Feed `to_utc` the stamps in the order of the file."""

    text: str
    _zone: ZoneInfo | None = None
    _shift: timedelta = timedelta(0)
    _before: datetime | None = field(default=None)  # the last naive stamp seen
    _pass: int | None = None  # within the doubled hour: 0 first, 1 second, None not known

    @classmethod
    def of(cls, text: str, *, source_id: str) -> LogClock:
        """`text`: UTC, an offset such as +02:00, or an IANA name. Raises PayloadError for any other."""
        if text.strip().upper() in {"UTC", "Z"}:
            return cls(text)
        offset = _OFFSET.fullmatch(text.strip())
        if offset is not None and int(offset[2]) <= 14 and int(offset[3]) < 60:
            shift = timedelta(hours=int(offset[2]), minutes=int(offset[3]))
            return cls(text, _shift=-shift if offset[1] == "+" else shift)
        try:
            return cls(text, _zone=ZoneInfo(text.strip()))
        except (KeyError, ValueError, OSError):
            raise PayloadError(
                f"{text!r} is no time zone",
                fix="give UTC, an offset such as +02:00 or a name such as Europe/Helsinki",
                source_id=source_id,
                field="timezone",
            ) from None

    def to_utc(self, naive: pl.Series) -> pl.Series:
        """`naive` (Datetime us, None where unreadable) as naive UTC."""
        if self._zone is None:
            return naive + self._shift if self._shift else naive
        name = self._zone.key
        placed = naive.dt.replace_time_zone(name, ambiguous="null", non_existent="null")
        unplaced = placed.is_null() & naive.is_not_null()
        if unplaced.any():
            first = naive.dt.replace_time_zone(name, ambiguous="earliest", non_existent="null")
            which = self._passes(naive, unplaced & first.is_not_null())
            placed = naive.dt.replace_time_zone(name, ambiguous=which, non_existent="null")
        else:
            self._remember(naive)
        return placed.dt.convert_time_zone("UTC").dt.replace_time_zone(None)

    def _remember(self, naive: pl.Series) -> None:
        known = naive.drop_nulls()
        if known.len():
            self._before, self._pass = known[-1], None

    def _passes(self, naive: pl.Series, doubled: pl.Series) -> pl.Series:
        """Per stamp what polars is to do with it: earliest, latest or null; only `doubled` ones need it."""
        words = {None: "null", 0: "earliest", 1: "latest"}
        told: list[str] = []
        for stamp, is_doubled in zip(naive.to_list(), doubled.to_list(), strict=True):
            if stamp is None:
                told.append("null")
                continue
            if not is_doubled:
                self._pass = None
            elif self._before is not None and stamp < self._before - _FELL_BACK:
                self._pass = 1
            elif self._pass is None and self._before is not None and not self._is_doubled(self._before):
                self._pass = 0
            told.append(words[self._pass] if is_doubled else "earliest")
            self._before = stamp
        return pl.Series(told, dtype=pl.String)

    def _is_doubled(self, stamp: datetime) -> bool:
        assert self._zone is not None
        early, late = (stamp.replace(tzinfo=self._zone, fold=fold).utcoffset() for fold in (0, 1))
        return early is not None and late is not None and early > late
