"""Many polled readings of one board at once: the windows of `DeviceWindows.add`, without a step per reading.

Logs hold millions of readings that have power and nothing else. Window edges are found by bisection and
energies by one grouped sum; the verdict on each window is that of ingest/power/verdict.py. The open window
stays in the same `DeviceWindows`, so chunks of a log and single readings may follow each other in any mix.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import polars as pl

from ingest.power.sensors import DeviceInfo, Reading, uncertainty_of_polls
from ingest.power.verdict import MAX_HOLE_S, UNCERTAIN_LOW, Poll
from ingest.power.windows import DeviceWindows, OpenWindow, Window, filled, observation_id, observations
from warehouse.evidence import EvidenceClass, Quality

_UNIX = datetime(1970, 1, 1)
_HOLE_US = round(MAX_HOLE_S * 1e6)
_POLL = {"us": pl.Int64(), "w": pl.Float64(), "instant": pl.Boolean()}


class Fed(NamedTuple):
    """The windows that closed, in either form, and the epoch of each reading; see `rows_of`."""

    device: DeviceInfo
    sums: pl.DataFrame | None
    windows: list[Window]
    epochs: list[int]


def feed(board: DeviceWindows, readings: pl.DataFrame) -> Fed:
    """Take `readings` of `board`, in order; what as many calls of `add` and `lost` would do.

    `readings`: at (naive UTC), power_w (None where there is none to believe), refused (a reading was there and
    was not believed), instant, lost (the board did not answer). Wall time serves as the monotonic clock; a
    reading that is not later than all before it is ignored. For readings that have neither counter nor sensor
    stamp.
    """
    device = board.device
    frame = readings.with_columns(us=pl.col("at").cast(pl.Datetime("us")).to_physical())
    if not board.only_polled or frame["lost"].any():
        return Fed(device, None, *_one_by_one(board, frame))
    latest = pl.max_horizontal(pl.col("us").cum_max().shift(1), pl.lit(board.last_us, pl.Int64))
    frame = frame.filter((pl.col("us") > latest).fill_null(True))
    return Fed(device, _at_once(board, frame) if frame.height else None, [], [board.epoch] * readings.height)


def rows_of(fed: Sequence[Fed]) -> pl.DataFrame:
    """The windows of several boards as rows of core.energy_observation."""
    sums = [f.sums.with_columns(place=pl.lit(n, pl.Int64)) for n, f in enumerate(fed) if f.sums is not None]
    rows = observations([window for f in fed for window in f.windows])
    closed = pl.concat(sums) if sums else None
    return (
        rows if closed is None or closed.is_empty() else pl.concat([_verdicts([f.device for f in fed], closed), rows])
    )


def _one_by_one(board: DeviceWindows, frame: pl.DataFrame) -> tuple[list[Window], list[int]]:
    windows: list[Window] = []
    epochs: list[int] = []
    columns = frame.select("at", "us", "power_w", "refused", "instant", "lost")
    for at, us, power_w, refused, instant, lost in columns.iter_rows():
        if lost:
            windows += board.lost(at, us * 1000)
        else:
            method = "unavailable" if power_w is None else "instant" if instant else "average"
            reason = "" if power_w is not None else "implausible" if refused else "not supported"
            windows += board.add(at, us * 1000, Reading(None, "not supported", power_w, method, reason))
        epochs.append(board.epoch)
    return windows, epochs


def _at_once(board: DeviceWindows, frame: pl.DataFrame) -> pl.DataFrame:
    times: list[int] = frame["us"].to_list()
    believed = frame.filter(pl.col("power_w").is_not_null()).select("us", w="power_w", instant="instant")
    opened = board.open_window()
    if opened is None:
        unsure = frame["power_w"][0] is None and (bool(frame["refused"][0]) or board.refused_so_far)
        opened = OpenWindow(times[0], [], times[0], unsure)
    if opened.polls:
        believed = pl.concat([pl.DataFrame(opened.polls, schema=_POLL, orient="row"), believed])
    edges = _edges(opened.start_us, times, round(board.window_s * 1e6))
    starts = [opened.start_us, *edges]
    refused, unsure = _refused(frame, believed, starts, opened.refused)
    windows = _sums(believed, starts).with_columns(refused=pl.Series(refused, dtype=pl.Boolean))
    rest = believed.filter(pl.col("us") >= starts[-1])
    polls = [Poll(us, w, instant) for us, w, instant in rest.iter_rows()]
    board.resume(_UNIX, OpenWindow(starts[-1], polls, times[-1], unsure))
    return windows


def _edges(start_us: int, times: list[int], window_us: int) -> list[int]:
    """The readings at which a window closes: each the first that is a whole window after the one before."""
    edges: list[int] = []
    place, due_us = 0, start_us + window_us
    while (place := bisect_left(times, due_us, place)) < len(times):
        edges.append(times[place])
        due_us = times[place] + window_us
    return edges


def _refused(frame: pl.DataFrame, believed: pl.DataFrame, starts: list[int], before: bool) -> tuple[list[bool], bool]:
    """Per closed window whether a reading since the last believed one on an edge was refused; and of the open one."""
    if not before and not frame["refused"].any():
        return [False] * (len(starts) - 1), False
    edges = starts[1:]
    where = {bisect_left(edges, us) for us in frame.filter("refused")["us"]}
    on_edge = set(believed.filter(pl.col("us").is_in(edges))["us"])
    found: list[bool] = []
    unsure = before
    for place, end_us in enumerate(edges):
        unsure = unsure or place in where
        found.append(unsure)
        unsure = unsure and end_us not in on_edge
    return found, unsure or len(edges) in where


def _sums(believed: pl.DataFrame, starts: list[int]) -> pl.DataFrame:
    """One row per closed window: start_us, end_us, and what its polls add up to; a poll on an edge ends one window
    and begins the next. Without polls: n is 0."""
    windows = pl.DataFrame(
        {"place": range(len(starts) - 1), "start_us": starts[:-1], "end_us": starts[1:]},
        schema={"place": pl.Int64, "start_us": pl.Int64, "end_us": pl.Int64},
    )
    place = windows["end_us"].search_sorted(believed["us"], side="left").cast(pl.Int64)
    polls = (
        believed.with_columns(place=place)
        .with_columns(pl.col("us", "w", "instant").shift(1).name.prefix("last_"))
        .filter(pl.col("place") < windows.height)
        .with_columns(start_us=windows["start_us"].gather(place.filter(place < windows.height)))
    )
    joined = (pl.col("last_us") >= pl.col("start_us")).fill_null(False)  # the poll before lies within or on the edge
    step_us = pl.col("us") - pl.col("last_us")
    from_edge = joined.first()
    told = polls.group_by("place").agg(
        n=pl.len().cast(pl.Int64) + from_edge.cast(pl.Int64),
        first_us=pl.when(from_edge).then(pl.col("last_us").first()).otherwise(pl.col("us").first()),
        first_w=pl.when(from_edge).then(pl.col("last_w").first()).otherwise(pl.col("w").first()),
        last_us=pl.col("us").last(),
        last_w=pl.col("w").last(),
        inner_j=(step_us * (pl.col("w") + pl.col("last_w")) / 2e6).filter(joined).sum(),
        widest_us=step_us.filter(joined).max().fill_null(0),
        instant=pl.col("instant").all() & (~from_edge | pl.col("last_instant").first()),
    )
    on_start = windows["start_us"].is_in(believed["us"].implode())
    return windows.join(told, on="place", how="left", maintain_order="left").with_columns(
        pl.col("n").fill_null(on_start.cast(pl.Int64))
    )


def _verdicts(devices: Sequence[DeviceInfo], sums: pl.DataFrame) -> pl.DataFrame:
    """Rows of core.energy_observation, as verdict.judge decides where there are polls and nothing else.

    `sums`: see `_sums`, with `refused`, and `place` the number of the device.
    """
    before_us, after_us = pl.col("first_us") - pl.col("start_us"), pl.col("end_us") - pl.col("last_us")
    holes = pl.max_horizontal(before_us, after_us, "widest_us")
    energy_j = before_us / 1e6 * pl.col("first_w") + pl.col("inner_j") + after_us / 1e6 * pl.col("last_w")
    gap_s = (pl.col("last_us") - pl.col("first_us")) / 1e6 / (pl.col("n") - 1)
    duration_s = (pl.col("end_us") - pl.col("start_us")) / 1e6
    uncertainty: pl.Expr = pl.lit(None, pl.Float64)
    for sensor in {device.sensor_class for device in devices}:
        of_sensor = pl.col("place").is_in([n for n, d in enumerate(devices) if d.sensor_class == sensor])
        uncertainty = pl.when(of_sensor).then(uncertainty_of_polls(sensor, duration_s, gap_s)).otherwise(uncertainty)
    told = sums.with_columns(known=((pl.col("n") >= 2) & (holes <= _HOLE_US)).fill_null(False)).select(
        "place",
        "known",
        pl.col("start_us", "end_us").cast(pl.Datetime("us")).name.map(lambda n: f"window_{n[:-3]}_at"),
        method=pl.when("known")
        .then(pl.when("instant").then(pl.lit("integrated_instant")).otherwise(pl.lit("integrated_average")))
        .otherwise(pl.lit("unavailable")),
        energy_gross_j=pl.when("known").then(energy_j),
        relative_uncertainty=pl.when("known").then(uncertainty),
        gap_reason=pl.when("known")
        .then(None)
        .when("refused")
        .then(pl.lit("implausible"))
        .when(pl.col("n") > 0)
        .then(pl.lit("below_resolution"))
        .otherwise(pl.lit("unsupported")),
    )
    sure = pl.col("known") & (pl.col("relative_uncertainty") <= UNCERTAIN_LOW)
    named = told.select("place", "window_start_at", "method").iter_rows()
    ids = [observation_id(devices[place].uuid, at, method) for place, at, method in named]
    about = pl.DataFrame(
        {
            "place": range(len(devices)),
            "hardware_model": [d.name for d in devices],
            "hardware_count": [d.boards for d in devices],
            "gpu_arch": [d.gpu_arch for d in devices],
            "driver_version": [d.driver_version for d in devices],
            "device_uuid": [d.uuid for d in devices],
            "meter_scope": [d.scope for d in devices],
        },
        schema_overrides={"place": pl.Int64, "hardware_count": pl.Int32},
    ).cast(dict.fromkeys(("hardware_model", "gpu_arch", "driver_version"), pl.String))
    rows = told.join(about, on="place", how="left", maintain_order="left").select(
        pl.exclude("known", "place"),
        quality=pl.when(sure).then(pl.lit(Quality.FAIR.value)).otherwise(pl.lit(Quality.LOW.value)),
        observation_id=pl.Series(ids, dtype=pl.String),
        provider=pl.lit("local"),
        evidence_class=pl.lit(EvidenceClass.MEASURED.value),
        workload=pl.lit("device"),
    )
    return filled(rows)
