"""Queueing and the discrete-event simulation agree within the bounds that docs/fleet-queueing.md states."""

from __future__ import annotations

import numpy as np
import pytest

from policies.fleet.queueing import Pool, evaluate, size
from policies.fleet.queueing.lengths import share_out
from policies.fleet.sim import Balancer, Scenario, SimResult, Workload, simulate
from policies.fleet.sim import Pool as SimPool
from tests.fleet.queueing.worlds import OWN, pool


def simulated(asked: Pool, instances: int, requests: int = 60_000) -> SimResult:
    """Poisson arrivals with the same lengths, least loaded; the first tenth settles."""
    rng = np.random.default_rng(11)
    arrival_s = np.cumsum(rng.exponential(1 / asked.requests_per_s, requests))
    prompt, output = share_out(OWN.sample(requests, rng), 0.8)
    last = float(arrival_s[-1])
    return simulate(
        Scenario(
            pools=[SimPool(name="x", profile=asked.profile, instances=instances, context_tokens=asked.context_tokens)],
            workload=Workload(arrival_s=arrival_s, l_in=prompt, l_out=output),
            balancer=Balancer(policy="least_loaded"),
            settle_s=last / 10,
            horizon_s=last,
        )
    )


@pytest.mark.parametrize(("profile", "rate"), [("H100-80GB", 150.0), ("A100-80GB", 60.0)])
def test_a_sized_pool_simulates_as_it_was_worked_out(profile: str, rate: float) -> None:
    told = size(pool(profile, rate))
    found = simulated(pool(profile, rate), told.instances)
    log = found.requests
    assert log is not None
    settled = log.completed & (log.workload.arrival_s > found.settle_s)
    assert float(np.quantile(log.ttft_s[settled], 0.99)) == pytest.approx(told.ttft_s, rel=0.07)
    joules = sum(found.energy_by_state_j.values())
    assert joules / found.end_s == pytest.approx(told.power_w, rel=0.02)
    assert joules / found.completed == pytest.approx(told.j_per_request, rel=0.02)


def test_one_a100_at_200_requests_per_second_melts_down_in_both() -> None:
    told = evaluate(pool("A100-80GB", 200.0), 1)
    found = simulated(pool("A100-80GB", 200.0), 1, requests=20_000)
    assert not told.stable
    assert found.completed / found.end_s == pytest.approx(told.capacity_per_s, rel=0.1)
    assert found.in_flight > 0.7 * found.offered
    assert found.slo_attainment < 0.1
