"""Readings taken at once give the windows that they give one by one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.power.bulk import feed, rows_of
from ingest.power.sensors import DeviceInfo, Reading
from ingest.power.windows import DeviceWindows, Window, observation_id, observations
from warehouse.ids import content_hash

GPU = DeviceInfo(uuid="GPU-a", name="NVIDIA H100 80GB HBM3", power_limit_w=700.0, sensor_class="avg_1s")
START = datetime(2026, 8, 1)


@dataclass(frozen=True)
class Step:
    dt_us: int
    power_w: float | None
    refused: bool
    instant: bool


steps = st.lists(
    st.builds(
        Step,
        dt_us=st.sampled_from([0, -5, 1, 200_000, 1_000_000, 2_000_000, 2_000_001, 7_000_000, 25_000_000]),
        power_w=st.none() | st.floats(1, 800),
        refused=st.booleans(),
        instant=st.booleans(),
    ),
    max_size=60,
)


def frame(course: list[Step], at: datetime) -> pl.DataFrame:
    rows = []
    for step in course:
        at += timedelta(microseconds=step.dt_us)
        rows.append((at, step.power_w, step.refused and step.power_w is None, step.instant))
    schema = {"at": pl.Datetime("us"), "power_w": pl.Float64, "refused": pl.Boolean, "instant": pl.Boolean}
    return pl.DataFrame(rows, schema=schema, orient="row").with_columns(lost=pl.lit(False))


def one_by_one(readings: pl.DataFrame, board: DeviceWindows) -> list[Window]:
    windows: list[Window] = []
    for at, power_w, refused, instant, _ in readings.iter_rows():
        method = "unavailable" if power_w is None else "instant" if instant else "average"
        reason = "implausible: refused" if refused else "not supported"
        told = Reading(None, "not supported", power_w, method, "" if power_w is not None else reason)
        windows += board.add(at, round((at - datetime(1970, 1, 1)).total_seconds() * 1e6) * 1000, told)
    return windows


def assert_same(found: pl.DataFrame, expected: list[Window]) -> None:
    rows, wanted = found.to_dicts(), observations(expected).to_dicts()
    assert len(rows) == len(wanted)
    for row, want in zip(rows, wanted, strict=True):
        for name, value in want.items():
            if isinstance(value, float):
                assert row[name] == pytest.approx(value, rel=1e-9), name
            else:
                assert row[name] == value, name


@given(
    st.lists(steps, min_size=1, max_size=4),
    st.sampled_from([1.0, 2.5, 10.0]),
    st.lists(st.booleans(), max_size=4),
    st.sampled_from(["avg_1s", "inst_100ms_win25ms", "inst_100ms_win100ms", "log_100ms", "unknown"]),
)
@settings(max_examples=300, deadline=None)
def test_any_split_into_chunks_gives_the_windows_of_single_readings(
    chunks: list[list[Step]], window_s: float, at_once: list[bool], sensor: str
) -> None:
    gpu = replace(GPU, sensor_class=sensor)
    subject, model = DeviceWindows(gpu, window_s), DeviceWindows(gpu, window_s)
    found: list[pl.DataFrame] = []
    expected: list[Window] = []
    at = START
    for number, chunk in enumerate(chunks):
        readings = frame(chunk, at)
        if readings.height:
            at = readings["at"][-1]
        if number >= len(at_once) or at_once[number]:
            fed = feed(subject, readings)
            found.append(rows_of([fed]))
            assert fed.epochs == [subject.epoch] * readings.height
        else:
            found.append(observations(one_by_one(readings, subject)))
        expected += one_by_one(readings, model)
    found.append(observations(subject.close()))
    assert_same(pl.concat(found), expected + model.close())


def test_a_million_readings_are_one_window_per_ten_seconds() -> None:
    readings = pl.DataFrame(
        {
            "at": pl.datetime_range(START, START + timedelta(seconds=199_999.8), "200ms", eager=True, time_unit="us"),
            "power_w": pl.repeat(300.0, 1_000_000, eager=True),
        }
    ).with_columns(refused=pl.lit(False), instant=pl.lit(True), lost=pl.lit(False))
    board = DeviceWindows(GPU)
    windows = rows_of([feed(board, readings)])
    assert windows["energy_gross_j"].to_list() == pytest.approx([3000.0] * 19_999)
    (last,) = board.close()
    assert last.end_at == START + timedelta(seconds=199_999.8)


def test_a_board_with_a_counter_goes_one_by_one() -> None:
    board = DeviceWindows(GPU)
    zero_ns = round((START - datetime(1970, 1, 1)).total_seconds()) * 10**9
    board.add(START, zero_ns, Reading(1_000, "", 300.0, "instant", ""))
    assert not board.only_polled
    later = frame([Step(200_000, 300.0, False, True)] * 120, START)
    windows = rows_of(
        [feed(board, later)]
    )  # the counter does not come back, so power is integrated after twice the time
    (window,) = windows.to_dicts()
    assert (window["window_end_at"], window["method"]) == (START + timedelta(seconds=20), "integrated_instant")
    assert window["energy_gross_j"] == pytest.approx(6000.0)


@given(st.text(), st.datetimes(datetime(1980, 1, 1), datetime(2200, 1, 1)), st.sampled_from(["counter", "unavailable"]))
def test_an_observation_id_is_the_hash_of_its_canonical_json(key: str, at: datetime, method: str) -> None:
    try:
        expected = content_hash([key, at, method])
    except UnicodeEncodeError:
        return
    assert observation_id(key, at, method) == expected
