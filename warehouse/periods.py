"""Sums by day in any time zone: every row falls into exactly one day, so the days add up to their range.

A day is half-open, [midnight, next midnight) of its zone, and is 23, 24 or 25 hours long where clocks change. A
row belongs to the day in which it begins: 2026-11-01T03:30Z is 31 October in New York. A row that is itself a
sum of a longer time (grain day or period) belongs to a local day only where it lies inside one; otherwise no day
can be told, and it is summed under day NULL rather than split by guess.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import polars as pl

from warehouse.clock import to_utc

FIGURES = ("requests", "prompt_tokens", "completion_tokens", "billed_cost_usd", "list_cost_usd", "energy_j", "carbon_g")
_DAY = timedelta(days=1)
_QUARTER = "15m"  # since 1972 every zone has changed its offset at a quarter of an hour, so within one it is constant


def zone_of(name: str) -> ZoneInfo:
    """The zone of that IANA name. Raises ValueError, which says how to write one."""
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        raise ValueError(f"{name!r} is no known time zone; write an IANA name such as Europe/Paris or UTC") from None


def day_of(at: datetime, zone: str) -> date:
    """The local date of `at` (naive UTC)."""
    return at.replace(tzinfo=UTC).astimezone(zone_of(zone)).date()


def day_bounds(day: date, zone: str) -> tuple[datetime, datetime]:
    """The half-open span of a local day, as naive UTC."""
    tz = zone_of(zone)
    start, end = (to_utc(datetime.combine(d, time(), tz), what="day") for d in (day, day + _DAY))
    return start, end


def with_day(usage: pl.DataFrame, zone: str) -> pl.DataFrame:
    """`usage` (period_start_at, period_end_at, grain) with the local `day` of each row; NULL where none can be told."""
    tz = zone_of(zone)
    one_instant = pl.col("grain") == "request"
    last = pl.when(one_instant | (pl.col("period_end_at") <= pl.col("period_start_at"))).then("period_start_at")
    spans = usage.with_columns(last_=last.otherwise(pl.col("period_end_at") - pl.duration(microseconds=1)))
    spans = spans.with_columns(
        first_day_=_local_day(spans["period_start_at"], tz), last_day_=_local_day(spans["last_"], tz)
    )
    inside = pl.when(pl.col("first_day_") == pl.col("last_day_")).then("first_day_")
    return spans.with_columns(day=inside).drop("last_", "first_day_", "last_day_")


def _local_day(instants: pl.Series, tz: ZoneInfo) -> pl.Series:
    quarters = instants.dt.truncate(_QUARTER)
    known = quarters.unique().drop_nulls().to_list()
    offsets = [q.replace(tzinfo=UTC).astimezone(tz).utcoffset() for q in known]
    table = pl.DataFrame(
        {"quarter": known, "offset": offsets}, schema={"quarter": pl.Datetime("us"), "offset": pl.Duration("us")}
    )
    joined = quarters.to_frame("quarter").join(table, on="quarter", how="left", maintain_order="left")
    return (instants + joined["offset"]).dt.date()


def day_sums(usage: pl.DataFrame, zone: str, figures: Sequence[str] = FIGURES) -> pl.DataFrame:
    """Per local day: rows, the sum of each figure, and in `<figure>_unknown` of how many rows it is not known.

    A sum over rows none of which is known is NULL; over some of them it is a lower bound. Sorted by day, NULL last.
    """
    return _sums(with_day(usage, zone).group_by("day"), figures).sort("day", nulls_last=True)


def range_sums(
    usage: pl.DataFrame, first: date, last: date, zone: str, figures: Sequence[str] = FIGURES
) -> pl.DataFrame:
    """One row like those of `day_sums`, over the local days `first` to `last`, both included."""
    start_at, end_at = day_bounds(first, zone)[0], day_bounds(last, zone)[1]
    begun = usage.filter((pl.col("period_start_at") >= start_at) & (pl.col("period_start_at") < end_at))
    inside = begun.filter((pl.col("grain") == "request") | (pl.col("period_end_at") <= end_at))
    return _sums(inside.group_by(pl.lit(1).alias("day")), figures).drop("day")


def _sums(groups: pl.dataframe.group_by.GroupBy, figures: Sequence[str]) -> pl.DataFrame:
    return groups.agg(
        pl.len().alias("rows"),
        *(pl.when(pl.col(f).count() > 0).then(pl.col(f).sum()).alias(f) for f in figures),
        *(pl.col(f).null_count().alias(f"{f}_unknown") for f in figures),
    )
