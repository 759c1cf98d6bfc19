"""Replicas: windows over all their boards at once, unknown as soon as one board is."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.power.attribution import REQUEST_COLUMNS, Method, attribute
from ingest.power.nvml import Nvml
from ingest.power.replicas import Replica
from ingest.power.sampler import PowerSampler
from ingest.power.sensors import DeviceInfo, Reading
from ingest.power.windows import Window, observations
from tests.power.standin import StandIn
from tests.power.test_sampler import Store, wait_for
from tests.support import shared

START = datetime(2026, 8, 1)


def board(index: int) -> DeviceInfo:
    return DeviceInfo(
        f"GPU-{index}", name="NVIDIA H100 80GB HBM3", power_limit_w=700.0, counter_supported=True,
        sensor_class="avg_1s", power_method="instant", index=index,
    )  # fmt: skip


def bound(*members: str | int, boards: int = 4, window_s: float = 10.0) -> Replica:
    replica = Replica("r1", members, window_s)
    replica.bind([board(i) for i in range(boards)])
    return replica


def told(counter_mj: int | None, power_w: float | None = 300.0) -> Reading:
    return Reading(counter_mj, "", power_w, "unavailable" if power_w is None else "instant", "")


def play(replica: Replica, ticks: list[dict[str, Reading]], step_s: float = 1.0) -> list[Window]:
    windows: list[Window] = []
    for n, readings in enumerate(ticks):
        windows += replica.add(START + timedelta(seconds=n * step_s), round((n * step_s + 1000) * 1e9), readings)
    return windows + replica.close()


def steady(n: int, *, watts: tuple[float, ...] = (300.0, 500.0)) -> dict[str, Reading]:
    return {f"GPU-{i}": told(round(w * n * 1000), w) for i, w in enumerate(watts)}


def test_a_replica_is_the_sum_of_its_boards_over_the_same_window() -> None:
    (window,) = play(bound("GPU-0", "GPU-1"), [steady(n) for n in range(11)])
    assert (window.energy_j, window.duration_s, window.method) == (8000.0, 10.0, "counter")
    assert window.polled_w == pytest.approx(800.0)
    (row,) = observations([window]).to_dicts()
    assert (row["backend_id"], row["device_uuid"], row["hardware_count"]) == ("r1", None, 2)
    assert (row["workload"], row["evidence_class"], row["hardware_model"]) == (
        "replica", "measured", "NVIDIA H100 80GB HBM3",
    )  # fmt: skip


def test_members_may_be_named_by_index_and_eight_boards_may_draw_more_than_one_may() -> None:
    replica = bound(*range(8), boards=8)
    watts = (690.0,) * 8  # 5520 W: above the 2000 W that no single board reaches
    (window,) = play(replica, [steady(n, watts=watts) for n in range(11)])
    assert (window.energy_j, window.gap_reason, window.quality) == (55_200.0, None, "HIGH")


def test_one_board_without_an_answer_makes_the_window_a_gap() -> None:
    ticks = [steady(n) for n in range(31)]
    for n in range(12, 18):
        del ticks[n]["GPU-1"]
    windows = play(bound("GPU-0", "GPU-1"), ticks)
    assert [(w.gap_reason, w.energy_j is None) for w in windows] == [
        (None, False), (None, False), ("gpu_lost", True), (None, False), (None, False),
    ]  # fmt: skip
    assert windows[2].duration_s == 7.0


def test_a_reset_that_a_busier_board_would_hide_is_a_gap() -> None:
    # board 0 falls by 1000 J while board 1 gains 2000 J: the sum only grows
    ticks = [{"GPU-0": told(5_000_000 + n * 10_000), "GPU-1": told(n * 1000)} for n in range(6)]
    ticks += [{"GPU-0": told(4_000_000 + n * 10_000), "GPU-1": told(2_000_000 + n * 1000)} for n in range(6, 12)]
    windows = play(bound("GPU-0", "GPU-1"), ticks)
    assert "counter_reset" in [w.gap_reason for w in windows]
    assert sum(w.energy_j or 0 for w in windows) == pytest.approx(5 * 11 + 5 * 11)


def test_a_member_that_this_host_does_not_have_makes_every_window_a_gap() -> None:
    replica = bound("GPU-0", "GPU-9")
    assert replica.missing == ("GPU-9",)
    windows = play(replica, [steady(n) for n in range(25)])
    assert {w.gap_reason for w in windows} == {"gpu_lost"}


def test_a_replica_of_other_hosts_says_nothing_here() -> None:
    assert play(bound("GPU-8", "GPU-9"), [steady(n) for n in range(25)]) == []


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), min_size=2, max_size=30))
def test_a_replica_conserves_what_its_boards_counted(steps: list[tuple[int, int]]) -> None:
    counters = [0, 0]
    ticks = []
    for step in steps:
        counters = [c + s for c, s in zip(counters, step, strict=True)]
        ticks.append({f"GPU-{i}": told(c, None) for i, c in enumerate(counters)})
    windows = play(bound("GPU-0", "GPU-1"), ticks)
    assert sum(w.counter_delta_mj or 0 for w in windows) == sum(sum(step) for step in steps[1:])


def test_the_sampler_gives_a_configured_replica_windows_and_states(
    gpus: StandIn, request: pytest.FixtureRequest
) -> None:
    gpus.set(count=3, power_mw=200_000, advance=1, processes=1, update_ms=0)
    store = Store()
    sampler = PowerSampler(Nvml(), store, period_s=0.05, window_s=1.0, flush_s=0.1, replicas={"pair": (0, 2)})
    request.addfinalizer(sampler.stop)
    sampler.start()

    def replica_rows() -> list[dict[str, object]]:
        return [r for frame in store.observations for r in frame.to_dicts() if r["workload"] == "replica"]

    wait_for(sampler, lambda status: len(replica_rows()) >= 2)
    row = replica_rows()[1]
    assert (row["backend_id"], row["hardware_count"], row["device_state"]) == ("pair", 2, "loaded")
    assert row["energy_gross_j"] == pytest.approx(400.0, rel=0.2)  # 2 boards x 200 W x 1 s


def test_a_published_run_of_four_boards_adds_up_to_its_energy() -> None:
    # TokenPowerBench, vllm Llama-3.1-8B: the mean powers of gpu0 to gpu3, over the duration, are its gpu_energy
    (run,) = json.loads(
        shared("data/tokenpowerbench/vllm_models--Llama-3.1-8B_128_1000_20250610_095633.json").read_text()
    )["Llama-3.1-8B"]
    watts = tuple(run[f"gpu{i}_power_watts"] for i in range(4))
    step_s = run["duration"] / 40
    ticks = [{f"GPU-{i}": told(round(w * n * step_s * 1000), w) for i, w in enumerate(watts)} for n in range(41)]
    windows = play(bound(0, 1, 2, 3), ticks, step_s)
    assert sum(w.energy_j or 0 for w in windows) == pytest.approx(run["gpu_energy"], rel=1e-4)
    # its own figure per response, 160.46 J, is not that energy over its 32 responses
    begin, end = windows[0].start_at, windows[-1].end_at
    asked = pl.DataFrame(
        [(f"r{i}", "m", begin, end, None, 500, 1, 1) for i in range(run["responses"])],
        schema=REQUEST_COLUMNS,
        orient="row",
    )
    shares = attribute(observations(windows), asked, Method.OUTPUT_TOKENS).filter(pl.col("workload") == "organic")
    assert shares["energy_gross_j"].to_list() == pytest.approx([run["gpu_energy"] / 32] * 32, rel=1e-4)
    assert run["gpu_energy_per_response"] == pytest.approx(160.46, abs=0.01)
