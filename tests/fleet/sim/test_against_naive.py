"""Every request has the same fate in the compiled loop as in the naive simulator of the same rules."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.fleet.errors import EligibleSetEmpty
from policies.fleet.sim import Balancer, ChangeAt, Routing, Scenario, Status, Workload, simulate
from tests.fleet.sim.made import LINEAR, PROFILE, pool, work
from tests.fleet.sim.naive import Naive


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    n = draw(st.integers(1, 60))
    tight = replace(PROFILE, kv_blocks=draw(st.sampled_from([63, 100, 4000])))
    slots = draw(st.integers(1, 5))
    limits = {
        "queue_limit": draw(st.sampled_from([None, 0, 1, 5])),
        "max_wait_s": draw(st.sampled_from([np.inf, 0.3, 2.0])),
    }
    pools = [pool(profile=tight, instances=draw(st.integers(1, 3)), slots=slots, **limits)]
    if draw(st.booleans()):
        pools.append(pool(name="b", profile=LINEAR, instances=2, slots=3, context_tokens=500, **limits))
    made = work(
        n, draw(st.sampled_from([0.5, 5.0, 50.0])), seed=draw(st.integers(0, 2**32)), categories={"x": 0.7, "y": 0.3}
    )
    allowed = draw(st.sampled_from([{}, {"x": ["a"], "y": ["a"]}, {"x": ["a"]}, {"x": [p.name for p in pools]}]))
    fails = draw(st.lists(st.floats(0.01, 20.0), max_size=2, unique=True))
    return Scenario(
        pools=pools,
        workload=made,
        routing=Routing(categories=allowed),
        balancer=Balancer(
            policy=draw(st.sampled_from(["round_robin", "least_loaded", "spillover"])),
            order=tuple(p.name for p in pools),
            threshold=0.5,
        ),
        changes=[ChangeAt(at_s=t, pool="a", kind="fail", instances=(0,)) for t in fails],
        speed=draw(st.sampled_from(["live", "analytic"])),
        max_attempts=draw(st.integers(1, 2)),
    )


@given(scenarios())
@settings(max_examples=80, deadline=None)
def test_every_request_has_the_same_fate(scenario: Scenario) -> None:
    expected = Naive(scenario).run()
    try:
        result = simulate(scenario)
    except EligibleSetEmpty:
        assert all(r.status == Status.NO_ELIGIBLE_BACKEND for r in expected.done)
        return
    log = result.requests
    assert log is not None and result.conserved
    assert [r.status for r in expected.done] == log.status.tolist()
    assert [r.instance for r in expected.done] == log.instance.tolist()
    for name in ("end_s", "energy_j"):
        np.testing.assert_allclose(getattr(log, name), [getattr(r, name) for r in expected.done], rtol=1e-6, atol=1e-7)
    for name in ("start_s", "first_s"):
        told = [getattr(r, name) for r in expected.done]
        np.testing.assert_allclose(
            getattr(log, name)[log.completed], np.array(told)[log.completed], rtol=1e-6, atol=1e-7
        )
    np.testing.assert_allclose(
        result.energy_by_state_j["idle"], sum(i.idle_j for i in expected.all), rtol=1e-6, atol=1e-6
    )


def test_the_same_seed_gives_the_same_result_bit_for_bit() -> None:
    made = work(1500, 40.0)
    for policy in ("random", "power_of_two", "energy_aware"):
        one, two, other = (
            simulate(
                Scenario(pools=[pool(error_rate=0.05)], workload=made, balancer=Balancer(policy=policy), seed=seed)
            )
            for seed in (5, 5, 6)
        )
        assert one.requests is not None and two.requests is not None and other.requests is not None
        assert one.memory["log"].tobytes() == two.memory["log"].tobytes()
        assert one.energy_j == two.energy_j
        assert (one.requests.status != other.requests.status).any()


def test_the_same_seed_gives_the_same_requests() -> None:
    one, two, other = work(seed=3), work(seed=3), work(seed=4)
    assert isinstance(one, Workload)
    assert (one.arrival_s == two.arrival_s).all() and (one.l_in == two.l_in).all() and (one.l_out == two.l_out).all()
    assert (one.arrival_s != other.arrival_s).any()
