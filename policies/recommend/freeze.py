"""Freeze windows: times in which nothing new reaches traffic. A rollback is never frozen.

Two forms, both half-open and in UTC: every week, `Fri 16:00 - Mon 08:00`; once, two ISO dates or instants,
`2026-12-19 - 2027-01-02`. A last day without a time is frozen to its end. An instant may carry an offset.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache

from policies.errors import ParametersInvalid
from warehouse.clock import parse_utc

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_WEEK = timedelta(days=7)
_BETWEEN = re.compile(r"\s+[-\u2013]\s+")
_WEEKLY = re.compile(r"^([a-z]{3})[a-z]*\s+(\d{1,2}):(\d{2})$", re.I)
_DATE = re.compile(r"^\d{4}-\d{2}-\d{2}$")
_FORMS = "write 'Fri 16:00 - Mon 08:00', or two ISO dates or instants such as '2026-12-19 - 2027-01-02'"


@dataclass(frozen=True)
class Window:
    """One window. Weekly: `start` and `end` are counted from Monday 00:00; else they are instants."""

    text: str
    start: datetime | timedelta
    end: datetime | timedelta

    def until(self, now: datetime) -> datetime | None:
        """When the window that holds `now` (naive UTC) ends; None outside it."""
        start, end = self.start, self.end
        if isinstance(start, datetime) and isinstance(end, datetime):
            return end if start <= now < end else None
        assert isinstance(start, timedelta) and isinstance(end, timedelta)
        monday = datetime(now.year, now.month, now.day) - timedelta(days=now.weekday())
        if end <= start:
            end += _WEEK
        begins = (monday + start, monday + start - _WEEK)  # one that began last week may still last
        return next((b + (end - start) for b in begins if b <= now < b + (end - start)), None)


@cache
def parse(text: str) -> Window:
    """A window from its text. Raises ParametersInvalid naming the text and the forms that are read."""
    parts = _BETWEEN.split(text.strip())
    if len(parts) != 2:
        raise ParametersInvalid(f"freeze: {text!r} has no begin and end.", fix=_FORMS)
    weekly = [_of_week(part, text) for part in parts]
    if weekly[0] is not None and weekly[1] is not None:
        if weekly[0] == weekly[1]:
            raise ParametersInvalid(f"freeze: {text!r} begins when it ends.", fix=_FORMS)
        return Window(text, weekly[0], weekly[1])
    start, end = _instant(parts[0], text), _instant(parts[1], text)
    if _DATE.match(parts[1].strip()):
        end += timedelta(days=1)
    if end <= start:
        raise ParametersInvalid(f"freeze: {text!r} ends before it begins.", fix=_FORMS)
    return Window(text, start, end)


def _of_week(part: str, text: str) -> timedelta | None:
    found = _WEEKLY.match(part.strip())
    if found is None:
        return None
    day, hour, minute = found[1].lower(), int(found[2]), int(found[3])
    if day not in _DAYS or minute > 59 or hour > 24 or (hour == 24 and minute):
        raise ParametersInvalid(f"freeze: {part.strip()!r} in {text!r} is no time of a week.", fix=_FORMS)
    return timedelta(days=_DAYS.index(day), hours=hour, minutes=minute)


def _instant(part: str, text: str) -> datetime:
    try:
        return parse_utc(part, what="freeze", assume_utc=True)
    except ValueError as error:
        raise ParametersInvalid(f"freeze: {part.strip()!r} in {text!r} is no time.", fix=_FORMS) from error


def frozen(freezes: Iterable[str], now: datetime) -> str | None:
    """Why nothing is approved or handed out at `now`, and until when; None outside every window.

    Windows that follow or overlap each other count as one.
    """
    windows = [parse(text) for text in freezes]
    first = next((w for w in windows if w.until(now) is not None), None)
    if first is None:
        return None
    until = now
    for _ in range(len(windows) * 53 + 1):  # two weekly windows may cover all time: then it says a year
        ends = max((end for w in windows if (end := w.until(until)) is not None), default=None)
        if ends is None or ends <= until:
            break
        until = ends
    return f"changes are frozen until {until:%Y-%m-%d %H:%M} UTC ({first.text})"
