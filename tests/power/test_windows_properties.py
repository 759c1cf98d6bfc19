"""What holds for any course of events: time tiles, energy is never negative, counters are conserved per epoch."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ingest.power.sensors import DeviceInfo, Reading
from ingest.power.windows import DeviceWindows, Window

GPU = DeviceInfo(uuid="GPU-a", power_limit_w=700.0, sensor_class="avg_1s")
START = datetime(2026, 8, 1)
START_NS = 10**12


@dataclass(frozen=True)
class Step:
    kind: str  # read | reset | lost | session
    dt_ns: int
    delta_mj: int
    power_w: float | None
    clock_step_s: float
    counter_answers: bool = True


def steps(*, counter_always: bool) -> st.SearchStrategy[list[Step]]:
    step = st.builds(
        Step,
        kind=st.sampled_from(["read"] * 12 + ["reset", "lost", "session"]),
        dt_ns=st.integers(1_000, 4_000_000_000),
        delta_mj=st.integers(0, 3_000_000),
        power_w=st.none() | st.floats(-10, 5000, allow_nan=False),
        clock_step_s=st.sampled_from([0.0] * 8 + [-3600.0, 0.1, 7200.0]),
        counter_answers=st.just(True) if counter_always else st.booleans(),
    )
    return st.lists(step, min_size=2, max_size=40)


@dataclass
class Outcome:
    windows: list[Window]
    counters_mj: dict[int, list[int]]  # epoch -> readings of it, in order
    span_s: float


def play(course: list[Step], window_s: float) -> Outcome:
    board = DeviceWindows(GPU, window_s)
    windows: list[Window] = []
    counters: dict[int, list[int]] = defaultdict(list)
    mono_ns, wall, counter_mj = START_NS, START, 10**9
    first_ns: int | None = None
    for step in course:
        mono_ns += step.dt_ns
        wall += timedelta(microseconds=step.dt_ns // 1000, seconds=step.clock_step_s)
        first_ns = mono_ns if first_ns is None else first_ns
        if step.kind == "lost":
            windows += board.lost(wall, mono_ns)
            continue
        if step.kind == "session":
            board.rebind(GPU)
        if step.kind == "reset":
            counter_mj = counter_mj // 2
        else:
            counter_mj += step.delta_mj
        method = "instant" if step.power_w is not None else "unavailable"
        answer = Reading(counter_mj if step.counter_answers else None, "", step.power_w, method, "")
        windows += board.add(wall, mono_ns, answer)
        if step.counter_answers:
            counters[board.epoch].append(counter_mj)
    windows += board.close()
    assert first_ns is not None
    return Outcome(windows, counters, (mono_ns // 1000 - first_ns // 1000) / 1e6)


any_window = st.sampled_from([1.0, 2.5, 10.0])


@given(steps(counter_always=False), any_window)
def test_energy_is_positive_or_unknown_with_a_reason(course: list[Step], window_s: float) -> None:
    for window in play(course, window_s).windows:
        if window.energy_j is None:
            assert window.gap_reason in {"counter_reset", "gpu_lost", "unsupported", "below_resolution", "implausible"}
            assert window.quality == "LOW"
            assert window.relative_uncertainty is None
        else:
            assert window.energy_j > 0
            assert window.gap_reason is None
            assert window.energy_j / window.duration_s <= 1.2 * 700 + 1e-6
            assert window.relative_uncertainty is not None


@given(steps(counter_always=False), any_window)
def test_windows_tile_the_time_whatever_the_wall_clock_does(course: list[Step], window_s: float) -> None:
    outcome = play(course, window_s)
    assert abs(sum(window.duration_s for window in outcome.windows) - outcome.span_s) < 1e-6
    for window in outcome.windows:
        assert window.duration_s > 0
        assert abs((window.end_at - window.start_at).total_seconds() - window.duration_s) < 1e-6


@given(steps(counter_always=True), any_window)
def test_counter_deltas_are_conserved_within_an_epoch_and_never_cross_it(course: list[Step], window_s: float) -> None:
    outcome = play(course, window_s)
    moved: dict[int, int] = defaultdict(int)
    for window in outcome.windows:
        moved[window.epoch] += window.counter_delta_mj or 0
        if window.method == "counter" and window.energy_j is not None:
            assert window.energy_j == (window.counter_delta_mj or 0) / 1000
        if window.gap_reason in {"counter_reset", "gpu_lost"}:
            assert window.counter_delta_mj is None
    for epoch, counters_mj in outcome.counters_mj.items():
        assert all(a <= b for a, b in pairwise(counters_mj)), "an epoch never holds a decrease"
        assert moved.get(epoch, 0) == counters_mj[-1] - counters_mj[0]


@given(steps(counter_always=False), any_window)
def test_no_counter_is_booked_beyond_what_it_moved(course: list[Step], window_s: float) -> None:
    outcome = play(course, window_s)
    for epoch in {window.epoch for window in outcome.windows}:
        booked_mj = sum(w.counter_delta_mj or 0 for w in outcome.windows if w.epoch == epoch)
        counters_mj = outcome.counters_mj.get(epoch, [0])
        assert 0 <= booked_mj <= counters_mj[-1] - counters_mj[0]


@given(steps(counter_always=False), any_window)
def test_the_same_readings_give_the_same_rows(course: list[Step], window_s: float) -> None:
    first = [window.row() for window in play(course, window_s).windows]
    assert first == [window.row() for window in play(course, window_s).windows]
