"""How many requests run at once: the chain against Erlang-C, against its own balance, and against a simulation."""

from __future__ import annotations

import heapq
import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.fleet.errors import QueueInvalid
from policies.fleet.queueing import erlang_c, occupancy
from policies.fleet.queueing.occupancy import Speed

SLOWING = Speed(iterations=40.0, iteration_s=0.01, per_request_s=0.002)


@given(instances=st.integers(1, 20), slots=st.integers(1, 30), load=st.floats(0.01, 0.98))
@settings(max_examples=40)
def test_without_slowing_down_it_is_erlang_c(instances: int, slots: int, load: float) -> None:
    speed = Speed(100.0, 0.02, 0.0)
    servers = instances * slots
    found = occupancy.occupancy(instances, slots, load * servers / 2.0, speed)
    assert found.waiting == pytest.approx(erlang_c(servers, load * servers), rel=1e-9)
    assert found.mean * instances == pytest.approx(load * servers, rel=1e-9)  # Little


@given(instances=st.integers(1, 12), slots=st.integers(1, 40), load=st.floats(0.02, 0.97), slow=st.floats(0.0, 0.05))
@settings(max_examples=60)
def test_what_arrives_leaves(instances: int, slots: int, load: float, slow: float) -> None:
    speed = Speed(40.0, 0.01, slow)
    capacity = instances * float(speed.ends_per_s(np.array([float(slots)]))[0])
    found = occupancy.occupancy(instances, slots, load * capacity, speed)
    leaving = instances * float(speed.ends_per_s(np.arange(slots + 1.0)) @ found.time)
    assert leaving == pytest.approx(load * capacity, rel=1e-8)
    assert found.time.sum() == pytest.approx(1)
    assert found.starts.sum() + found.waiting == pytest.approx(1)
    assert found.utilization == pytest.approx(load)


def test_a_window_of_states_gives_what_all_states_give(monkeypatch: pytest.MonkeyPatch) -> None:
    for rate in (3.0, 300.0, 1_150.0, 1_239.0):
        whole = occupancy.occupancy(50, 32, rate, SLOWING)
        monkeypatch.setattr(occupancy, "_WIDE", 0)
        part = occupancy.occupancy(50, 32, rate, SLOWING)
        monkeypatch.undo()
        assert part.time == pytest.approx(whole.time, abs=1e-12)
        assert part.waiting == pytest.approx(whole.waiting, rel=1e-9, abs=1e-300)


def test_ten_thousand_instances_are_no_more_work_than_ten() -> None:
    one = float(SLOWING.ends_per_s(np.array([128.0]))[0])
    found = occupancy.occupancy(10_000, 128, 0.6 * 10_000 * one, SLOWING)
    assert found.mean == pytest.approx(occupancy.occupancy(1_000, 128, 0.6 * 1_000 * one, SLOWING).mean, rel=1e-3)


@pytest.mark.parametrize("rate", [25.0, 36.0])
def test_a_simulation_of_the_pool_agrees(rate: float) -> None:
    """Two instances of four slots that share one queue; every request in service advances at the same speed."""
    found = occupancy.occupancy(2, 4, rate, SLOWING)
    simulated_time, simulated_wait = simulate(2, 4, rate, SLOWING, requests=40_000)
    assert simulated_time == pytest.approx(found.time, abs=0.012)
    assert simulated_wait == pytest.approx(found.waiting, abs=0.012)


def simulate(instances: int, slots: int, rate: float, speed: Speed, requests: int) -> tuple[list[float], float]:
    """(share of time by requests on the first instance, share of arrivals that wait)."""
    rng = random.Random(7)
    ends: list[list[float]] = [[] for _ in range(instances)]  # iterations at which running requests are through
    done, queue = [0.0] * instances, []
    now, arrival, waited, came = 0.0, 0.0, 0, 0
    spent = [0.0] * (slots + 1)

    def per_iteration(i: int) -> float:
        return speed.iteration_s + speed.per_request_s * len(ends[i])

    while came < requests:
        due, which = arrival, -1
        for i, heap in enumerate(ends):
            if heap and (at := now + (heap[0] - done[i]) * per_iteration(i)) < due:
                due, which = at, i
        spent[len(ends[0])] += due - now
        for i in range(instances):
            done[i] += (due - now) / per_iteration(i)
        now = due
        if which >= 0:
            heapq.heappop(ends[which])
            if queue:
                heapq.heappush(ends[which], done[which] + queue.pop(0))
            continue
        came, arrival = came + 1, now + rng.expovariate(rate)
        work = rng.expovariate(1 / speed.iterations)
        least = min(range(instances), key=lambda i: (len(ends[i]), rng.random()))
        if len(ends[least]) < slots:
            heapq.heappush(ends[least], done[least] + work)
        else:
            waited += 1
            queue.append(work)
    return [s / sum(spent) for s in spent], waited / came


def test_a_load_beyond_capacity_fills_every_slot() -> None:
    found = occupancy.occupancy(3, 5, 1e6, SLOWING)
    assert not found.stable
    assert found.mean == 5
    assert found.waiting == 1


def test_an_idle_pool_runs_nothing() -> None:
    found = occupancy.occupancy(3, 5, 0.0, SLOWING)
    assert found.mean == 0
    assert found.time[0] == 1
    assert found.waiting == 0


@pytest.mark.parametrize(("instances", "slots", "rate"), [(0, 5, 1.0), (3, 0, 1.0), (3, 5, -1.0), (3, 5, math.nan)])
def test_what_no_pool_can_have_is_named(instances: int, slots: int, rate: float) -> None:
    with pytest.raises(QueueInvalid):
        occupancy.occupancy(instances, slots, rate, SLOWING)
