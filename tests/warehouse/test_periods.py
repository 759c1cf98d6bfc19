"""Sums by day: in any zone of the world the days add up to their range, and no row is counted twice or lost."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warehouse.periods import day_bounds, day_of, day_sums, range_sums, with_day
from warehouse.tables import frame

ZONES = sorted(z for z in available_timezones() if "/" in z or z == "UTC")
FIGURES = ("requests", "billed_cost_usd", "energy_j")


def usage(*rows: dict[str, Any]) -> pl.DataFrame:
    common = {
        "provider": "p", "account": "a", "grain": "request", "workload": "organic", "requested_offer": "m",
        "requests": 1, "attempts": 1, "evidence_class": "modeled", "method": "x",
    }  # fmt: skip
    made = []
    for i, row in enumerate(rows):
        start = row["period_start_at"]
        made.append({**common, "usage_key": str(i), "period_end_at": start + timedelta(seconds=1), **row})
    return frame("core.usage", made)


def test_t27_a_row_of_half_past_three_utc_is_of_the_day_before_in_new_york() -> None:
    # litellm#29568, #27780
    at = datetime(2026, 11, 1, 3, 30)
    assert day_of(at, "America/New_York") == date(2026, 10, 31)
    rows = usage({"period_start_at": at, "billed_cost_usd": Decimal("1.5")})
    (row,) = day_sums(rows, "America/New_York", FIGURES).to_dicts()
    assert (row["day"], row["billed_cost_usd"], row["rows"]) == (date(2026, 10, 31), Decimal("1.5"), 1)


@pytest.mark.parametrize(
    ("day", "zone", "hours"),
    [
        (date(2026, 11, 1), "America/New_York", 25), (date(2026, 3, 8), "America/New_York", 23),
        (date(2026, 10, 25), "Europe/Berlin", 25), (date(2026, 6, 1), "Asia/Kolkata", 24),
        (date(2026, 4, 5), "Australia/Lord_Howe", 24.5), (date(2026, 9, 6), "America/Santiago", 23),
    ],
)  # fmt: skip
def test_a_day_is_as_long_as_its_clocks_make_it(day: date, zone: str, hours: float) -> None:
    start, end = day_bounds(day, zone)
    assert (end - start) / timedelta(hours=1) == hours
    assert day_of(start, zone) == day
    assert day_of(end, zone) == day + timedelta(days=1)
    assert day_of(end - timedelta(microseconds=1), zone) == day


_instants = st.datetimes(datetime(2017, 7, 1), datetime(2037, 12, 31))
_costs = st.none() | st.decimals(0, 1000, places=12)
_rows = st.lists(
    st.fixed_dictionaries(
        {"period_start_at": _instants, "requests": st.integers(0, 9), "billed_cost_usd": _costs, "energy_j": st.none()}
    ),
    min_size=1,
    max_size=12,
)


@given(_rows, st.sampled_from(ZONES))
@settings(deadline=None)
def test_t27_the_days_add_up_to_their_range_in_every_zone(rows: list[dict[str, Any]], zone: str) -> None:
    made = usage(*rows)
    days = day_sums(made, zone, FIGURES)
    known = days["day"].drop_nulls()
    whole = range_sums(made, known.min(), known.max(), zone, FIGURES)  # type: ignore[arg-type]
    assert days["rows"].sum() == whole["rows"].item() == len(rows)
    assert days["requests"].sum() == whole["requests"].item()
    costs = [r["billed_cost_usd"] for r in rows if r["billed_cost_usd"] is not None]
    assert whole["billed_cost_usd"].item() == (sum(costs) if costs else None)
    assert days["billed_cost_usd"].drop_nulls().sum() == sum(costs)
    assert whole["billed_cost_usd_unknown"].item() == len(rows) - len(costs)
    assert whole["energy_j"].item() is None


@given(_instants, st.sampled_from(ZONES))
@settings(deadline=None)
def test_t27_every_instant_lies_in_the_day_that_the_clocks_of_its_zone_show(at: datetime, zone: str) -> None:
    day = with_day(usage({"period_start_at": at}), zone)["day"].item()
    assert day == at.replace(tzinfo=ZoneInfo("UTC")).astimezone(ZoneInfo(zone)).date()
    start, end = day_bounds(day, zone)
    assert start <= at < end


@given(st.dates(date(2018, 1, 1), date(2037, 1, 1)), st.sampled_from(ZONES))
@settings(deadline=None)
def test_days_leave_no_gap_and_do_not_overlap(day: date, zone: str) -> None:
    assert day_bounds(day, zone)[1] == day_bounds(day + timedelta(days=1), zone)[0]


def test_a_sum_of_a_longer_time_is_of_no_day_where_it_lies_in_none() -> None:
    local_day = day_bounds(date(2026, 8, 6), "America/New_York")
    rows = usage(
        {"grain": "day", "period_start_at": local_day[0], "period_end_at": local_day[1], "requests": 3},
        {"grain": "day", "period_start_at": datetime(2026, 8, 6), "period_end_at": datetime(2026, 8, 7), "requests": 5},
    )
    told = day_sums(rows, "America/New_York", ["requests"]).to_dicts()
    assert [(r["day"], r["requests"]) for r in told] == [(date(2026, 8, 6), 3), (None, 5)]
    assert [(r["day"], r["requests"]) for r in day_sums(rows, "UTC", ["requests"]).to_dicts()] == [
        (date(2026, 8, 6), 5),
        (None, 3),
    ]


def test_a_long_request_belongs_to_the_day_in_which_it_began() -> None:
    rows = usage({"period_start_at": datetime(2026, 8, 6, 23, 59), "period_end_at": datetime(2026, 8, 7, 0, 5)})
    assert with_day(rows, "UTC")["day"].to_list() == [date(2026, 8, 6)]


def test_an_unknown_zone_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="Mars/Olympus"):
        day_of(datetime(2026, 8, 6), "Mars/Olympus")
