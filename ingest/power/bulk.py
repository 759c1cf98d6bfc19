"""Many polled readings of one board at once: the windows of `DeviceWindows.add`, without a step per reading.

Logs hold millions of readings that have power and nothing else. Window edges are found by bisection and
energies by one grouped sum; the verdict on each window is that of ingest/power/verdict.py. The open window
stays in the same `DeviceWindows`, so chunks of a log and single readings may follow each other in any mix.
"""

from __future__ import annotations

from bisect import bisect_left
from datetime import datetime, timedelta
from typing import NamedTuple

import polars as pl

from ingest.power.sensors import Reading
from ingest.power.verdict import MAX_HOLE_S, Integral, Poll, judge
from ingest.power.windows import DeviceWindows, OpenWindow, Window

_UNIX = datetime(1970, 1, 1)
_HOLE_US = round(MAX_HOLE_S * 1e6)
_EMPTY = pl.DataFrame(schema={"us": pl.Int64, "w": pl.Float64, "instant": pl.Boolean})


class _Sums(NamedTuple):
    """The believed polls of one window, its edges included; times in us."""

    n: int
    first_us: int
    first_w: float
    last_us: int
    last_w: float
    inner_j: float
    widest_us: int
    instant: bool

    def integral(self, start_us: int, end_us: int) -> Integral | None:
        """As verdict.integrate: the nearest power is held to the edges, and a hole makes it unknown."""
        before_us, after_us = self.first_us - start_us, end_us - self.last_us
        if self.n < 2 or max(before_us, after_us, self.widest_us) > _HOLE_US:
            return None
        energy_j = before_us / 1e6 * self.first_w + self.inner_j + after_us / 1e6 * self.last_w
        return Integral(energy_j, self.instant, (self.last_us - self.first_us) / 1e6 / (self.n - 1))


def feed(board: DeviceWindows, readings: pl.DataFrame) -> list[Window]:
    """The windows that close while `readings` of `board` are taken, in order; as many `add` calls would give.

    `readings`: at (naive UTC), power_w (None where there is none to believe), refused (a reading was there and
    was not believed), instant. Wall time serves as the monotonic clock; a reading that is not later than all
    before it is ignored. For readings that have neither counter nor sensor stamp.
    """
    frame = readings.with_columns(us=pl.col("at").cast(pl.Datetime("us")).to_physical())
    latest = pl.max_horizontal(pl.col("us").cum_max().shift(1), pl.lit(board.last_us, pl.Int64))
    frame = frame.filter((pl.col("us") > latest).fill_null(True))
    if frame.is_empty():
        return []
    return _at_once(board, frame) if board.only_polled else _one_by_one(board, frame)


def _one_by_one(board: DeviceWindows, frame: pl.DataFrame) -> list[Window]:
    windows: list[Window] = []
    for at, us, power_w, refused, instant in frame.select("at", "us", "power_w", "refused", "instant").iter_rows():
        method = "unavailable" if power_w is None else "instant" if instant else "average"
        reason = "" if power_w is not None else "implausible" if refused else "not supported"
        windows += board.add(at, us * 1000, Reading(None, "not supported", power_w, method, reason))
    return windows


def _at_once(board: DeviceWindows, frame: pl.DataFrame) -> list[Window]:
    times: list[int] = frame["us"].to_list()
    believed = frame.filter(pl.col("power_w").is_not_null()).select("us", w="power_w", instant="instant")
    opened = board.open_window()
    if opened is None:
        unsure = frame["power_w"][0] is None and (bool(frame["refused"][0]) or board.refused_so_far)
        opened = OpenWindow(times[0], [], times[0], unsure)
    if opened.polls:
        believed = pl.concat([pl.DataFrame(opened.polls, schema=_EMPTY.schema, orient="row"), believed])
    edges = _edges(opened.start_us, times, round(board.window_s * 1e6))
    sums = _sums(believed, opened.start_us, edges)
    on_edge = set(believed.filter(pl.col("us").is_in(edges))["us"]) if edges else set()
    if believed.height and believed["us"][0] == opened.start_us:
        on_edge.add(opened.start_us)
    refused = {bisect_left(edges, us) for us in frame.filter("refused")["us"]}
    windows: list[Window] = []
    start_us, unsure = opened.start_us, opened.refused
    for place, end_us in enumerate(edges):
        unsure = unsure or place in refused
        windows.append(_window(board, start_us, end_us, sums.get(place), start_us in on_edge, unsure))
        start_us, unsure = end_us, unsure and end_us not in on_edge
    rest = believed.filter(pl.col("us") >= start_us)
    polls = [Poll(us, w, instant) for us, w, instant in rest.iter_rows()]
    board.resume(_UNIX, OpenWindow(start_us, polls, times[-1], unsure or len(edges) in refused))
    return windows


def _edges(start_us: int, times: list[int], window_us: int) -> list[int]:
    """The readings at which a window closes: each the first that is a whole window after the one before."""
    edges: list[int] = []
    place, due_us = 0, start_us + window_us
    while (place := bisect_left(times, due_us, place)) < len(times):
        edges.append(times[place])
        due_us = times[place] + window_us
    return edges


def _sums(believed: pl.DataFrame, start_us: int, edges: list[int]) -> dict[int, _Sums]:
    """Window number -> its sums; a poll on an edge ends one window and begins the next."""
    if not edges:
        return {}
    ends = pl.Series("end", edges, dtype=pl.Int64)
    starts = pl.Series("start", [start_us, *edges], dtype=pl.Int64)
    frame = believed.with_columns(place=ends.search_sorted(believed["us"], side="left").cast(pl.Int64))
    frame = frame.with_columns(
        pl.col("us", "w", "instant").shift(1).name.prefix("last_"), start=starts.gather(frame["place"])
    ).filter(pl.col("place") < len(edges))
    joined = (pl.col("last_us") >= pl.col("start")).fill_null(False)  # the poll before lies within, or on the edge
    step_us = pl.col("us") - pl.col("last_us")
    from_edge = joined.first()
    told = frame.group_by("place").agg(
        n=pl.len() + from_edge.cast(pl.Int64),
        first_us=pl.when(from_edge).then(pl.col("last_us").first()).otherwise(pl.col("us").first()),
        first_w=pl.when(from_edge).then(pl.col("last_w").first()).otherwise(pl.col("w").first()),
        last_us=pl.col("us").last(),
        last_w=pl.col("w").last(),
        inner_j=(step_us * (pl.col("w") + pl.col("last_w")) / 2e6).filter(joined).sum(),
        widest_us=step_us.filter(joined).max().fill_null(0),
        instant=pl.col("instant").all() & (~from_edge | pl.col("last_instant").first()),
    )
    return {row[0]: _Sums(*row[1:]) for row in told.iter_rows()}


def _window(
    board: DeviceWindows, start_us: int, end_us: int, sums: _Sums | None, starts_on_poll: bool, refused: bool
) -> Window:
    duration_s = (end_us - start_us) / 1e6
    polled = None if sums is None else sums.integral(start_us, end_us)
    seen = sums is not None or starts_on_poll
    verdict = judge(board.device, duration_s, None, polled, polls_refused=refused, polls_seen=seen)
    return Window(
        device=board.device,
        start_at=_UNIX + timedelta(microseconds=start_us),
        end_at=_UNIX + timedelta(microseconds=end_us),
        duration_s=duration_s,
        epoch=board.epoch,
        method=verdict.method,
        energy_j=verdict.energy_j,
        gap_reason=verdict.gap_reason,
        quality=verdict.quality,
        relative_uncertainty=verdict.relative_uncertainty,
        polled_w=verdict.polled_w,
        notes=verdict.notes,
    )
