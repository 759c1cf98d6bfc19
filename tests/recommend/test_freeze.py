"""Freeze windows: every week and once, their ends, and what is no window."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.errors import ParametersInvalid
from policies.recommend.freeze import frozen, parse

WEEKEND = "Fri 16:00 - Mon 08:00"  # 2026-08-14 is a Friday


@pytest.mark.parametrize(
    ("now", "until"),
    [
        (datetime(2026, 8, 14, 15, 59, 59), None),
        (datetime(2026, 8, 14, 16), "2026-08-17 08:00"),
        (datetime(2026, 8, 16, 23, 59), "2026-08-17 08:00"),
        (datetime(2026, 8, 17, 7, 59), "2026-08-17 08:00"),
        (datetime(2026, 8, 17, 8), None),
        (datetime(2026, 8, 12), None),
    ],
)
def test_a_weekend_is_frozen_from_its_begin_up_to_its_end(now: datetime, until: str | None) -> None:
    told = frozen([WEEKEND], now)
    assert told == (until and f"changes are frozen until {until} UTC ({WEEKEND})")


@pytest.mark.parametrize(
    ("text", "now", "inside"),
    [
        ("2026-12-19 - 2027-01-02", datetime(2026, 12, 18, 23, 59), False),
        ("2026-12-19 - 2027-01-02", datetime(2026, 12, 19), True),
        ("2026-12-19 - 2027-01-02", datetime(2027, 1, 2, 23, 59), True),  # the last day is meant whole
        ("2026-12-19 - 2027-01-02", datetime(2027, 1, 3), False),
        ("2026-12-19T18:00+02:00 \u2013 2026-12-20T06:00Z", datetime(2026, 12, 19, 16), True),
        ("2026-12-19T18:00+02:00 \u2013 2026-12-20T06:00Z", datetime(2026, 12, 20, 6), False),
        ("Tuesday 08:00 - Tue 12:00", datetime(2026, 8, 11, 9), True),
        ("Tuesday 08:00 - Tue 12:00", datetime(2026, 8, 12, 9), False),
        ("Sun 00:00 - Sun 24:00", datetime(2026, 8, 16, 23, 59), True),
        ("Sun 00:00 - Sun 24:00", datetime(2026, 8, 17), False),
    ],
)
def test_dates_instants_and_days_are_read_as_utc(text: str, now: datetime, inside: bool) -> None:
    assert (frozen([text], now) is not None) is inside


def test_windows_that_follow_each_other_are_one() -> None:
    told = frozen([WEEKEND, "Mon 08:00 - Mon 12:00", "2026-08-17T11:00 - 2026-08-18T09:00"], datetime(2026, 8, 15))
    assert told is not None and "until 2026-08-18 09:00" in told


def test_windows_that_cover_all_time_end_nowhere_and_still_answer() -> None:
    assert frozen(["Mon 00:00 - Fri 00:00", "Thu 00:00 - Mon 00:00"], datetime(2026, 8, 12)) is not None


@pytest.mark.parametrize(
    "text",
    ["weekends", "Fri 16:00", "Fri 16:00-Mon 08:00", "Foo 16:00 - Mon 08:00", "Fri 25:00 - Mon 08:00",
     "Fri 16:00 - Fri 16:00", "2026-13-01 - 2026-12-01", "2026-12-02 - 2026-12-01", "Fri 16:00 - 2026-12-01"],
)  # fmt: skip
def test_what_is_no_window_is_refused_with_the_forms_that_are_read(text: str) -> None:
    with pytest.raises(ParametersInvalid) as refused:
        parse(text)
    assert text in refused.value.message and "Fri 16:00 - Mon 08:00" in refused.value.fix


@given(st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1)))
def test_the_end_that_is_told_is_the_first_instant_outside(now: datetime) -> None:
    until = parse(WEEKEND).until(now)
    if until is None:
        return
    assert now < until <= now + timedelta(days=3)
    assert parse(WEEKEND).until(until) is None
    assert parse(WEEKEND).until(until - timedelta(microseconds=1)) == until
