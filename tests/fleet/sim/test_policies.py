"""What each load-balancing policy does, and what none may do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from policies.fleet.errors import FleetError
from policies.fleet.sim import (
    OBLIVIOUS,
    POLICIES,
    Balancer,
    Intensity,
    Routing,
    Scenario,
    SimResult,
    Slo,
    Status,
    simulate,
)
from tests.fleet.sim.made import LINEAR, PROFILE, THRIFTY, pool, work

NOWHERE = Intensity.constant({"NO": 30.0, "PL": 700.0}, "test 1")


def run(policy: str, **changes: object) -> SimResult:
    made = {"pools": [pool()], "workload": work(3000, 40.0), "intensity": NOWHERE, "balancer": Balancer(policy=policy)}
    return simulate(Scenario(**{**made, **changes}))  # type: ignore[arg-type]


@pytest.mark.parametrize("policy", POLICIES)
def test_no_policy_leaves_the_eligible_set(policy: str) -> None:
    """Class x may use a and b, class y only the costly c, class z nothing."""
    pools = [
        pool(name="a", profile=THRIFTY, zone="NO"),
        pool(name="b", zone="NO", context_tokens=500),
        pool(name="c", profile=LINEAR, zone="PL"),
    ]
    told = run(
        policy,
        pools=pools,
        workload=work(4000, 60.0, categories={"x": 0.6, "y": 0.3, "z": 0.1}),
        routing=Routing(categories={"x": ["a", "b"], "y": ["c"]}),
    )
    log = told.requests
    assert log is not None and told.conserved
    category = log.workload.category
    assert set(log.pool[category == 0]) <= {0, 1} and set(log.pool[category == 1]) == {2}
    assert (log.status[category == 2] == Status.NO_ELIGIBLE_BACKEND).all()
    assert told.rejections == {"no_eligible_backend": int((category == 2).sum())}
    assert (log.workload.tokens[log.pool == 1] <= 500).all()


@pytest.mark.parametrize("policy", POLICIES)
def test_no_policy_passes_over_a_queue_limit(policy: str) -> None:
    told = run(policy, pools=[pool(slots=2, queue_limit=3, zone="NO")], workload=work(3000, 200.0))
    assert told.conserved and told.rejections["queue_full"] > 1000
    log = told.requests
    assert log is not None
    times = np.concatenate([log.start_s[log.completed], log.end_s[log.completed]])
    change = np.concatenate([np.ones(told.completed), -np.ones(told.completed)])[np.lexsort((times * 0, times))]
    assert np.cumsum(change).max() <= 4 * 2 + 1  # one starts as another ends


@pytest.mark.parametrize("policy", ["least_loaded", "round_robin", "random", "power_of_two", "spillover", "static"])
def test_ties_are_broken_fairly(policy: str) -> None:
    """20,000 requests that hardly overlap, on 12 instances: none gets twice the mean."""
    told = run(policy, pools=[pool(instances=12)], workload=work(20_000, 2.0))
    assert told.per_instance["started"].max() < 2 * 20_000 / 12
    assert told.per_instance["started"].min() > 20_000 / 12 / 2


def test_round_robin_takes_turns_exactly() -> None:
    assert run("round_robin", workload=work(4000, 5.0)).per_instance["started"].tolist() == [1000] * 4


def test_least_loaded_waits_less_than_random() -> None:
    pools = [pool(slots=4)]
    waits = {p: run(p, pools=pools, workload=work(5000, 14.0)).percentile("wait_s", 99) for p in OBLIVIOUS}
    assert waits["least_loaded"] < waits["power_of_two"] < waits["random"]


def test_spillover_keeps_to_the_first_pool_until_its_threshold() -> None:
    pools, half = [pool(name="first"), pool(name="second")], Balancer(policy="spillover", threshold=0.5)
    quiet = run("spillover", pools=pools, workload=work(1000, 5.0))
    assert quiet.per_pool()[1]["completed"] == 0
    first, second = run("spillover", pools=pools, workload=work(5000, 120.0), balancer=half).per_pool()
    assert second["completed"] > 1000 and first["completed"] > second["completed"]


def test_spillover_goes_the_way_it_is_told() -> None:
    order = Balancer(policy="spillover", order=("second", "first"))
    told = run("spillover", pools=[pool(name="first"), pool(name="second")], workload=work(500, 5.0), balancer=order)
    assert told.per_pool()[0]["completed"] == 0


def test_static_always_takes_the_pool_with_the_fewest_joules_per_token() -> None:
    told = run("static", pools=[pool(name="costly", profile=LINEAR), pool(name="thrifty", profile=THRIFTY)])
    assert [p["completed"] for p in told.per_pool()] == [0, 3000]


def test_pack_fills_the_fewest_instances() -> None:
    spread, packed = run("least_loaded"), run("pack")
    assert (packed.per_instance["started"] == 0).sum() == 0 or packed.per_instance["started"].min() < 100
    assert np.sort(packed.per_instance["started"])[-1] > 1.5 * np.sort(spread.per_instance["started"])[-1]
    share = run("pack", balancer=Balancer(policy="pack", pack_share=0.25), workload=work(3000, 20.0))
    assert share.per_instance["concurrency"].max() <= 8


def test_energy_aware_spends_fewer_joules_than_the_oblivious_ones_on_the_same_requests() -> None:
    pools = [pool(name="costly", profile=LINEAR), pool(name="thrifty", profile=THRIFTY)]
    told = {policy: run(policy, pools=pools, workload=work(5000, 60.0)) for policy in POLICIES[:-1]}
    for policy in ("random", "round_robin", "least_loaded", "power_of_two"):
        assert told["energy_aware"].active_j_per_success < 0.97 * told[policy].active_j_per_success
    assert all(t.completed == 5000 for t in told.values())


def test_energy_aware_gains_within_one_pool_where_power_is_not_linear() -> None:
    """A logistic curve is steep in its middle: instances that are nearly empty or nearly full cost least."""
    spread, aware = run("least_loaded", workload=work(6000, 60.0)), run("energy_aware", workload=work(6000, 60.0))
    assert aware.energy_j < 0.97 * spread.energy_j


@pytest.mark.parametrize("limit", ["ttft_s", "tpot_s"])
def test_energy_aware_keeps_the_predicted_slo(limit: str) -> None:
    """Filled up, an iteration takes 20 ms; the limits leave room for some seven requests per instance."""
    slo = Slo(**{limit: 0.11 if limit == "ttft_s" else 0.0125})
    free = run("energy_aware", workload=work(6000, 12.0))
    bound = run("energy_aware", workload=work(6000, 12.0), slo=slo)
    assert bound.percentile(limit, 95) < free.percentile(limit, 95)
    assert bound.slo_attainment > 0.95 > run("pack", workload=work(6000, 12.0), slo=slo).slo_attainment


def test_an_slo_out_of_reach_is_served_by_the_fallback_or_rejected_by_name() -> None:
    slo = Slo(tpot_s=0.001)
    served = run("energy_aware", slo=slo)
    assert served.fallbacks["slo"] == served.decisions == 3000 and served.completed == 3000
    refused = run("energy_aware", slo=slo, balancer=Balancer(policy="energy_aware", reject_on_slo=True))
    assert refused.rejections == {"slo_unreachable": 3000} and refused.fallbacks["slo"] == 0
    assert served.slo_attainment == 0.0


def test_energy_aware_weighs_the_chance_of_failure() -> None:
    pools = [pool(name="good", profile=LINEAR), pool(name="bad", profile=THRIFTY, error_rate=0.995)]
    told = run("energy_aware", pools=pools)
    assert told.per_pool()[0]["completed"] > 2900


def test_carbon_aware_goes_where_the_grid_is_clean() -> None:
    pools = [pool(name="dirty", zone="PL"), pool(name="clean", zone="NO")]
    told = run("carbon_aware", pools=pools)
    assert [p["completed"] for p in told.per_pool()] == [0, 3000]
    aware, oblivious = told.per_pool()[1]["carbon_g"], run("least_loaded", pools=pools).carbon_g
    assert aware < oblivious
    kept = run(
        "carbon_aware",
        pools=pools,
        workload=work(2000, 40.0, categories={"eu": 1.0}),
        routing=Routing(categories={"eu": ["dirty"]}),
    )
    assert [p["completed"] for p in kept.per_pool()] == [2000, 0]


def test_carbon_aware_follows_the_series_in_time() -> None:
    norway, poland = (np.array([0.0, 40.0]), np.array([50.0, 500.0])), (np.zeros(1), np.array([200.0]))
    pools = [pool(name="p", profile=LINEAR, zone="PL"), pool(name="n", profile=LINEAR, zone="NO")]
    told = run("carbon_aware", pools=pools, intensity=Intensity({"NO": norway, "PL": poland}, "v1"))
    log = told.requests
    assert log is not None
    early = log.workload.arrival_s < 40
    assert (log.pool[early] == 1).mean() > 0.99 and (log.pool[~early] == 0).mean() > 0.99
    assert 1 <= told.flips < 10


def test_stale_or_missing_intensity_falls_back_and_is_counted() -> None:
    pools = [pool(name="p", zone="PL"), pool(name="n", zone="NO")]
    old = replace(NOWHERE, ttl_s=30.0)
    told = run("carbon_aware", pools=pools, intensity=old)
    log = told.requests
    assert log is not None
    assert told.fallbacks["carbon"] == int((log.workload.arrival_s > 30).sum())
    assert run("carbon_aware", pools=[pool(name="p", zone="XX")]).fallbacks["carbon"] == 3000


def test_carbon_aware_without_any_intensity_is_refused() -> None:
    with pytest.raises(FleetError, match="no intensity"):
        run("carbon_aware", intensity=None)


def test_hysteresis_and_dwell_keep_a_class_where_it_is() -> None:
    """Two pools of the same machines: which one is cheaper changes with every request."""
    pools = [pool(name="a"), pool(name="b")]
    flips = [
        run("energy_aware", pools=pools, balancer=Balancer(policy="energy_aware", hysteresis=h, dwell_s=d)).flips
        for h, d in ((0.0, 0.0), (0.2, 0.0), (0.0, 5.0))
    ]
    assert flips[0] > 4 * max(flips[1], 1) and flips[0] > 4 * flips[2]
    assert flips[2] <= 3000 / 40.0 / 5.0 + 1


def test_names_outside_the_list_are_refused() -> None:
    with pytest.raises(FleetError, match="no policy 'greedy'"):
        Balancer(policy="greedy")
    with pytest.raises(FleetError, match="no energy-oblivious policy"):
        Balancer(fallback="energy_aware")
    with pytest.raises(FleetError, match="the order b is not one of all pools"):
        run("static", balancer=Balancer(policy="static", order=("b",)))


def test_an_instance_without_a_free_slot_is_never_packed() -> None:
    told = run("pack", pools=[replace(pool(), profile=PROFILE, slots=3)], workload=work(2000, 4.0))
    assert told.percentile("wait_s", 50) == 0.0
