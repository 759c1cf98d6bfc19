"""Portions of requests give the same run in memory that does not grow, and sweeps the same results in parallel."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from policies.fleet.errors import FleetError
from policies.fleet.sim import POLICIES, Intensity, Scenario, Telemetry, Workload, simulate, stream, sweep
from policies.fleet.sim.layout import METRICS, REQUEST
from policies.fleet.sim.result import RESOLUTION
from tests.fleet.sim.made import pool, requests, work

CLEAN = Intensity.constant({"NO": 30.0}, "test 1")


@pytest.mark.parametrize("policy", POLICIES)
def test_portions_of_any_size_give_the_same_run(policy: str) -> None:
    made = work(3000, 60.0)
    whole = Scenario(pools=[pool(zone="NO", error_rate=0.05)], workload=made, intensity=CLEAN, max_attempts=2)
    whole = replace(
        whole.with_policy(policy), telemetry=Telemetry(interval_s=0.7, dropout=0.2), expected_output=np.array([70.0])
    )
    one = simulate(whole)
    for rows in (1, 777, 5000):
        other = stream(replace(whole, workload=None), made.portions(rows))
        assert (other.memory["accounts"] == one.memory["accounts"]).all()
        assert (other.completed, other.retries, other.fallbacks) == (one.completed, one.retries, one.fallbacks)


def test_percentiles_of_a_stream_are_right_within_the_resolution_of_its_bins() -> None:
    made = work(20_000, 60.0)
    kept, streamed = (simulate(Scenario(pools=[pool()], workload=made, keep_requests=k)) for k in (True, False))
    assert streamed.requests is None
    for metric in METRICS:
        for q in (50, 90, 99, 99.9):
            told, exact = streamed.percentile(metric, q), kept.percentile(metric, q)
            assert told == pytest.approx(exact, rel=RESOLUTION, abs=1e-6), (metric, q)
    assert streamed.summary()["slo_attainment"] == kept.summary()["slo_attainment"]


def test_settling_leaves_early_requests_out_of_percentiles_alone() -> None:
    burst = requests(*((0.0, 900, 50) for _ in range(200)), *((100.0 + k, 50, 50) for k in range(200)))
    for keep in (True, False):
        scenario = Scenario(pools=[pool(instances=1)], workload=burst, keep_requests=keep)
        assert simulate(scenario).percentile("wait_s", 99) > 1.0
        settled = simulate(replace(scenario, settle_s=100.0))
        assert settled.percentile("wait_s", 99) == 0.0 and settled.completed == 400


def test_memory_of_a_stream_holds_only_what_is_in_flight() -> None:
    def portions(count: int) -> object:
        first = work(1000, 40.0)
        for k in range(count):
            yield replace(first, arrival_s=first.arrival_s + k * (first.arrival_s[-1] + 0.1))

    told = stream(Scenario(pools=[pool()]), portions(60))  # type: ignore[arg-type]
    assert told.completed == 60_000
    assert len(told.memory["requests"]) < 3000 and REQUEST.itemsize <= 96


def test_a_stream_that_goes_back_in_time_is_refused() -> None:
    with pytest.raises(FleetError, match="begins before the one above"):
        stream(Scenario(pools=[pool()]), [work(100), work(100)])
    with pytest.raises(FleetError, match="no portions"):
        stream(Scenario(pools=[pool()]), iter([]))


def test_progress_is_told() -> None:
    told: list[int] = []
    made = work(3000, 60.0)
    stream(Scenario(pools=[pool()]), made.portions(1000), progress=told.append)
    assert told == [1000, 2000, 3000]


def test_a_sweep_gives_every_result_in_order_whatever_the_number_of_workers() -> None:
    made: list[Workload] = [work(1000, 20.0 + 5 * k, seed=k) for k in range(8)]
    scenarios = [Scenario(pools=[pool(instances=1 + k % 4)], workload=w) for k, w in enumerate(made)]
    alone, together = sweep(scenarios, workers=1), sweep(scenarios, workers=4)
    assert [r.energy_j for r in alone] == [r.energy_j for r in together]
    assert len({r.energy_j for r in alone}) == 8


def test_summaries_are_plain_values() -> None:
    told = simulate(Scenario(pools=[pool(zone="NO")], workload=work(200), intensity=CLEAN)).summary()
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert {"energy_j", "j_per_success", "p99_ttft_s", "slo_attainment", "cost_usd", "carbon_g", "rejections"} <= {
        *told
    }
