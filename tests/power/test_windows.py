"""Energy windows: counter first, integrated power next, NULL with a reason otherwise, never across a reset."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from ingest.power.sensors import DeviceInfo, Reading
from ingest.power.verdict import Poll, integrate
from ingest.power.windows import DeviceWindows, Timed, Window, observations, once_per_board, windows_of
from tests.support import shared
from warehouse.tables import frame_schema

START = datetime(2026, 8, 1, 12, 0, 0)
GPU = DeviceInfo(
    uuid="GPU-a",
    name="NVIDIA L40S",
    gpu_arch="Ada",
    driver_version="570.86.10",
    power_limit_w=350.0,
    counter_supported=True,
    sensor_class="inst_100ms_win100ms",
    power_method="instant",
)


def reading(
    counter_mj: int | None = None,
    power_w: float | None = None,
    *,
    method: str = "instant",
    reason: str = "not supported",
    sensor_us: int | None = None,
) -> Reading:
    return Reading(
        counter_mj,
        "" if counter_mj is not None else "not supported",
        power_w,
        method if power_w is not None else "unavailable",
        "" if power_w is not None else reason,
        sensor_us,
    )


def timed(t_s: float, what: Reading, uuid: str = "GPU-a") -> Timed:
    return Timed(uuid, START + timedelta(seconds=t_s), round(t_s * 1e9) + 10**15, what)


def run(readings: list[Timed], device: DeviceInfo = GPU, window_s: float = 10.0) -> list[Window]:
    return windows_of(readings, {device.uuid: device}, window_s=window_s)


def steady(seconds: float, power_w: float, *, step_s: float = 0.2, counter: bool = True) -> list[Timed]:
    return [
        timed(i * step_s, reading(round(power_w * i * step_s * 1000) if counter else None, power_w))
        for i in range(round(seconds / step_s) + 1)
    ]


# counter --------------------------------------------------------------------------------------


def test_the_counter_is_taken_first_and_checked_against_polled_power() -> None:
    (window,) = run(steady(10, 300.0))
    assert (window.method, window.energy_j, window.gap_reason) == ("counter", 3000.0, None)
    assert window.polled_w == pytest.approx(300.0)
    assert window.quality == "HIGH"
    assert window.relative_uncertainty == pytest.approx(0.05, abs=0.001)
    assert (window.start_at, window.end_at) == (START, START + timedelta(seconds=10))


@pytest.mark.parametrize("window_s", [1.0, 10.0])
def test_a_reset_counter_gives_300_j_and_one_gap(window_s: float) -> None:
    # codecarbon 1309, compute-runtime 938, sem-community 782; zeus 0.16.0 answers such a step with -7960 J
    counters_mj = [1_000_000, 1_200_000, 5_000, 105_000]
    windows = run([timed(i, reading(mj)) for i, mj in enumerate(counters_mj)], window_s=window_s)
    assert [w.energy_j for w in windows] == [200.0, None, 100.0]
    assert sum(w.energy_j or 0 for w in windows) == 300.0
    assert [w.gap_reason for w in windows] == [None, "counter_reset", None]
    assert [w.epoch for w in windows] == [0, 0, 1]


@pytest.mark.parametrize(
    ("delta_mj", "duration_s", "energy_j"),
    [
        (952_000, 60, 952.0),  # pyJoules 23: about 16 W for a minute, shown as 0.95 J when mJ are taken for uJ
        (3_600_000_000, 36_000, 3_600_000.0),  # 3,600,000,000 mJ is 1 kWh
    ],
)
def test_millijoules_become_joules(delta_mj: int, duration_s: int, energy_j: float) -> None:
    start_mj = 18_446_744_073_709  # beyond 32 bit, and beyond what a float holds to the mJ when scaled
    windows = run([timed(0, reading(start_mj)), timed(duration_s, reading(start_mj + delta_mj))])
    assert [w.energy_j for w in windows] == [energy_j]


def test_counter_and_polled_power_that_disagree_are_marked() -> None:
    # zeus 181: idle 5.0 s, counter 187.44 J (37.5 W), polled 326.88 J (65.4 W)
    polls = [timed(i * 0.2, reading(None, 65.376)) for i in range(26)]
    polls[0] = timed(0, reading(1_000_000, 65.376))
    polls[-1] = timed(5, reading(1_187_440, 65.376))
    (window,) = run(polls)
    assert window.energy_j == pytest.approx(187.44)
    assert window.quality == "FAIR"
    assert "37.49 W, polled power 65.38 W: 43% apart" in window.notes[0]


def test_a_counter_that_is_half_the_power_or_less_is_low() -> None:
    readings = [timed(i * 0.2, reading(round(i * 0.2 * 100_000), 300.0)) for i in range(51)]
    (window,) = run(readings)
    assert (window.energy_j, window.quality) == (1000.0, "LOW")


def test_a_counter_without_polled_power_is_fair() -> None:
    (window,) = run([timed(0, reading(0)), timed(10, reading(1_000_000))])
    assert (window.energy_j, window.quality) == (100.0 * 10, "FAIR")


def test_a_window_below_the_resolution_of_the_counter_is_unknown_not_zero() -> None:
    # pyJoules 17: more than half of the short windows read 0
    (window,) = run([timed(0, reading(1_000, 60.0)), timed(0.05, reading(1_000, 60.0))])
    assert (window.energy_j, window.gap_reason, window.quality) == (None, "below_resolution", "LOW")
    assert window.counter_delta_mj == 0


def test_a_counter_that_stands_is_replaced_by_integrated_power_until_it_moves_again() -> None:
    counters_mj = [500_000] * 51 + [500_000 + 8_000_000 + 40_000 * i for i in range(1, 101)]
    readings = [timed(i * 0.2, reading(mj, 200.0)) for i, mj in enumerate(counters_mj)]
    windows = run(readings)
    assert [w.method for w in windows] == ["integrated_instant", "integrated_instant", "counter"]
    assert [w.energy_j for w in windows] == pytest.approx([2000.0, 2000.0, 2000.0])  # the jump is not booked again


def test_a_counter_that_stands_without_any_power_is_below_resolution() -> None:
    (window,) = run([timed(0, reading(7)), timed(10, reading(7))])
    assert (window.energy_j, window.gap_reason) == (None, "below_resolution")


def test_a_counter_that_misses_one_answer_at_the_edge_is_waited_for() -> None:
    readings = steady(12, 100.0)
    readings[50] = timed(10.0, reading(None, 100.0))
    first, last = run(readings)
    assert (first.method, last.method) == ("counter", "counter")
    assert [first.energy_j, last.energy_j] == pytest.approx([1020.0, 180.0])
    assert [first.duration_s, last.duration_s] == pytest.approx([10.2, 1.8])


@pytest.mark.parametrize(
    ("delta_mj", "limit_w"),
    [
        (3_690_000_000_000 * 1000, 700.0),  # xpumanager 130: a glitch of 3.69e12 W
        (4_300_000, 350.0),  # 430 W over 1.2 x 350 W
        (20_100_000, None),  # 2010 W on a board of unknown limit
    ],
)
def test_impossible_energy_is_unknown(delta_mj: int, limit_w: float | None) -> None:
    device = replace(GPU, power_limit_w=limit_w)
    (window,) = run([timed(0, reading(0)), timed(10, reading(delta_mj))], device)
    assert (window.energy_j, window.gap_reason, window.quality) == (None, "implausible", "LOW")


# integrated power -----------------------------------------------------------------------------


def test_without_a_counter_power_is_integrated_and_says_so() -> None:
    # codecarbon 1316: 26 W for an hour is 0.026 kWh, where the tool said 0
    readings = [timed(i, reading(None, 26.0, method="average")) for i in range(3601)]
    windows = run(readings, window_s=60.0)
    assert {w.method for w in windows} == {"integrated_average"}
    assert sum(w.energy_j or 0 for w in windows) == pytest.approx(0.026 * 3.6e6)
    assert {w.quality for w in windows} <= {"FAIR", "LOW"}


def test_instant_power_is_integrated_by_trapezoids() -> None:
    # a ramp from 100 W to 200 W over 10 s: 1500 J
    readings = [timed(i * 0.2, reading(None, 100.0 + 2.0 * i)) for i in range(51)]
    (window,) = run(readings)
    assert (window.method, window.quality) == ("integrated_instant", "FAIR")
    assert window.energy_j == pytest.approx(1500.0)
    assert window.relative_uncertainty is not None


def test_polls_with_a_hole_do_not_make_energy_up() -> None:
    readings = [timed(t, reading(None, 200.0)) for t in (0, 0.2, 0.4, 6.0, 6.2, 10.0)]
    (window,) = run(readings)
    assert (window.energy_j, window.gap_reason) == (None, "below_resolution")


def test_a_device_that_tells_nothing_has_unknown_energy_not_zero() -> None:
    (window,) = run([timed(i, reading()) for i in range(11)])
    assert (window.method, window.energy_j, window.gap_reason) == ("unavailable", None, "unsupported")


def test_garbage_power_is_not_integrated() -> None:
    refused = reading(None, None, reason="implausible: 3700 W is above 2000 W")
    (window,) = run([timed(i, refused) for i in range(11)])
    assert (window.energy_j, window.gap_reason) == (None, "implausible")
    (window,) = run([timed(i, reading(None, 3700.0)) for i in range(11)])
    assert (window.energy_j, window.gap_reason) == (None, "implausible")


def test_one_garbage_reading_costs_one_poll_only() -> None:
    readings = steady(10, 250.0, counter=False)
    readings[20] = timed(4.0, reading(None, 3700.0))
    (window,) = run(readings)
    assert window.energy_j == pytest.approx(2500.0)


def test_a_frozen_sensor_is_not_believed() -> None:
    frozen = [timed(i * 0.2, reading(None, 300.0, sensor_us=1_700_000_000_000_000)) for i in range(51)]
    (window,) = run(frozen)
    assert (window.energy_j, window.gap_reason) == (None, "implausible")
    alive = [timed(i * 0.2, reading(None, 300.0, sensor_us=1_700_000_000_000_000 + i)) for i in range(51)]
    (window,) = run(alive)
    assert window.energy_j == pytest.approx(3000.0)


@pytest.mark.parametrize(
    ("card", "meter_j", "board_j"),
    # public traces of arXiv 2312.02741: external meter against nvidia-smi, trapezoid
    [("A100", 1155.3, 1147.9), ("3090", 2689.0, 2530.5)],
)
def test_public_traces_integrate_to_their_golden_energy(card: str, meter_j: float, board_j: float) -> None:
    def trace(kind: str) -> list[Poll]:
        lines = shared(f"data/nvidia_smi_vs_powermeter/{card}_{kind}.csv").read_text().splitlines()[1:]
        rows = [tuple(map(float, line.split(","))) for line in lines]
        return [Poll(round(t_ms * 1000), power_w, True) for t_ms, power_w in rows]

    meter, board = trace("meter_5ms"), trace("smi")
    start_us, end_us = meter[0].mono_us, meter[-1].mono_us
    inside = [poll for poll in board if start_us <= poll.mono_us <= end_us]
    by_meter, by_board = integrate(meter, start_us, end_us), integrate(inside, start_us, end_us)
    assert by_meter is not None
    assert by_board is not None
    assert by_meter.energy_j == pytest.approx(meter_j, rel=1e-3)
    assert by_board.energy_j == pytest.approx(board_j, rel=1e-3)
    # the stated uncertainty covers what the meter says
    sensor = {"A100": "inst_100ms_win25ms", "3090": "inst_100ms_win100ms"}[card]
    readings = [Timed("GPU-a", START, p.mono_us * 1000 + 10**12, reading(None, p.power_w)) for p in inside]
    (window,) = run(readings, replace(GPU, sensor_class=sensor), window_s=60.0)
    assert window.relative_uncertainty is not None
    assert abs(by_board.energy_j / by_meter.energy_j - 1) < 1.5 * window.relative_uncertainty


# epochs, losses and clocks --------------------------------------------------------------------


def test_a_lost_gpu_is_a_gap_until_it_answers_again() -> None:
    board = DeviceWindows(GPU)
    windows: list[Window] = []
    for item in steady(4, 300.0):
        windows += board.add(item.at, item.mono_ns, item.reading)
    for t_s in (5.0, 6.0, 16.0):
        item = timed(t_s, reading())
        windows += board.lost(item.at, item.mono_ns)
    back = timed(20.0, reading(9_000_000, 300.0))
    windows += board.add(back.at, back.mono_ns, back.reading)
    assert [(w.gap_reason, w.energy_j) for w in windows] == [
        (None, pytest.approx(1200.0)),
        ("gpu_lost", None),
        ("gpu_lost", None),
    ]
    assert [w.duration_s for w in windows] == pytest.approx([4.0, 12.0, 4.0])
    assert board.epoch == 1


def test_a_gpu_that_stays_lost_until_the_end_leaves_its_gap() -> None:
    board = DeviceWindows(GPU)
    first = timed(0.0, reading(0, 300.0))
    assert board.add(first.at, first.mono_ns, first.reading) == []
    gone = timed(3.0, reading())
    assert board.lost(gone.at, gone.mono_ns) == []
    (gap,) = board.close()
    assert (gap.gap_reason, gap.duration_s, gap.energy_j) == ("gpu_lost", 3.0, None)


def test_a_new_session_or_driver_starts_a_new_epoch_even_when_the_counter_went_on() -> None:
    board = DeviceWindows(GPU)
    windows: list[Window] = []
    for item in steady(4, 300.0):
        windows += board.add(item.at, item.mono_ns, item.reading)
    board.rebind(replace(GPU, driver_version="580.95.05"))
    for item in (timed(t, reading(round(300_000 * t), 300.0)) for t in (4.2, 5.2, 6.2)):
        windows += board.add(item.at, item.mono_ns, item.reading)
    windows += board.close()
    assert [(w.gap_reason, w.energy_j) for w in windows] == [
        (None, pytest.approx(1200.0)),
        ("counter_reset", None),
        (None, pytest.approx(600.0)),
    ]
    assert [w.device.driver_version for w in windows] == ["570.86.10", "570.86.10", "580.95.05"]


def test_a_reset_hidden_behind_failed_readings_is_still_a_reset() -> None:
    readings = [timed(0, reading(900_000)), timed(1, reading()), timed(2, reading(1_000)), timed(4, reading(201_000))]
    windows = run(readings)
    assert sum(w.energy_j or 0 for w in windows) == 200.0
    assert "counter_reset" in [w.gap_reason for w in windows]


def test_a_wall_clock_that_is_set_back_makes_no_negative_window() -> None:
    readings = [
        item._replace(at=item.at - timedelta(hours=1)) if i > 25 else item for i, item in enumerate(steady(20, 300.0))
    ]
    first, second = run(readings)
    assert (first.end_at - first.start_at, second.end_at - second.start_at) == (timedelta(seconds=10),) * 2
    assert (first.energy_j, second.energy_j) == (3000.0, 3000.0)
    assert first.start_at == START
    assert second.start_at == START + timedelta(seconds=10) - timedelta(hours=1)


def test_a_monotonic_instant_already_seen_is_ignored() -> None:
    board = DeviceWindows(GPU)
    first, again = timed(1.0, reading(5_000)), timed(1.0, reading(1_000))
    assert board.add(first.at, first.mono_ns, first.reading) == []
    assert board.add(again.at, again.mono_ns - 5, again.reading) == []
    assert board.epoch == 0
    assert board.close() == []


def test_windows_of_a_board_touch() -> None:
    windows = run(steady(35, 120.0, step_s=0.3))
    assert all(a.end_at == b.start_at for a, b in pairwise(windows))
    assert len(windows) == 4


def test_a_window_shorter_than_the_counter_resolves_is_refused() -> None:
    with pytest.raises(ValueError, match=r"window_s is 0\.2"):
        DeviceWindows(GPU, window_s=0.2)


# one board, one figure ------------------------------------------------------------------------


def test_slices_of_one_board_are_one_board() -> None:
    # dcgm-exporter 353, 317: each MIG slice repeats the power of the board; 52.7 W, not 210.8 W
    slices = [52.636, 52.636, 52.746, 52.746]
    readings = [timed(t * 0.2, reading(None, power_w)) for t in range(51) for power_w in slices]
    assert [r.reading.power_w for r in once_per_board(readings)] == [52.746] * 51
    (window,) = run(readings, replace(GPU, mig_enabled=True))
    assert window.polled_w == pytest.approx(52.7, abs=0.05)


def test_the_same_board_and_window_reported_eight_times_counts_once() -> None:
    # codecarbon 936: eight processes each log the whole machine
    windows = [window for _ in range(8) for window in run(steady(10, 300.0))]
    table = observations(windows)
    assert len(windows) == 8
    assert table.height == 1
    assert table["energy_gross_j"].sum() == 3000.0


def test_boards_do_not_mix() -> None:
    other = replace(GPU, uuid="GPU-b")
    readings = steady(10, 300.0) + [item._replace(device_uuid="GPU-b") for item in steady(10, 100.0)]
    table = observations(windows_of(readings, {"GPU-a": GPU, "GPU-b": other}))
    assert dict(zip(table["device_uuid"], table["energy_gross_j"], strict=True)) == {"GPU-a": 3000.0, "GPU-b": 1000.0}


def test_an_observation_carries_its_evidence() -> None:
    (row,) = observations(run(steady(10, 300.0))).to_dicts()
    assert row.keys() == frame_schema("core.energy_observation").keys()
    told = {key: value for key, value in row.items() if value is not None}
    assert len(told.pop("observation_id")) == 64
    assert told.pop("relative_uncertainty") > 0
    assert told == {
        "provider": "local",
        "hardware_model": "NVIDIA L40S",
        "hardware_count": 1,
        "gpu_arch": "Ada",
        "driver_version": "570.86.10",
        "device_uuid": "GPU-a",
        "meter_scope": "gpu",
        "window_start_at": START,
        "window_end_at": START + timedelta(seconds=10),
        "evidence_class": "measured",
        "method": "counter",
        "quality": "HIGH",
        "energy_gross_j": 3000.0,
        "workload": "device",
    }
