"""Joules: by hand on small cases, conserved on large ones, and never mixed between states."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from policies.fleet.errors import FleetError, ProfileIncomplete
from policies.fleet.sim import APPORTION, ChangeAt, Intensity, Scenario, simulate
from tests.fleet.sim.made import LINEAR, PROFILE, pool, requests, work


def test_one_request_alone_by_hand() -> None:
    """50 prompt tokens and 50 output tokens: 51 iterations of 10 + 1 x 0.1 ms at 110 W; idle at 100 W before."""
    told = simulate(Scenario(pools=[pool(profile=LINEAR, instances=1)], workload=requests((2.0, 50, 50))))
    log = told.requests
    assert log is not None
    assert log.e2e_s[0] == pytest.approx(51 * 10.1e-3)
    assert log.ttft_s[0] == pytest.approx(10.1e-3)
    assert log.tpot_s[0] == pytest.approx(10.1e-3)
    assert log.energy_j[0] == pytest.approx(110 * 51 * 10.1e-3)
    assert told.energy_by_state_j == pytest.approx(
        {"active": 110 * 51 * 10.1e-3, "idle": 200.0, "warming": 0.0, "empty": 0.0, "down": 0.0}
    )


def test_two_requests_share_power_and_slow_each_other_down_by_hand() -> None:
    """Two equal requests at once: iterations of 10 + 2 x 0.1 ms, and half of 120 W each."""
    told = simulate(Scenario(pools=[pool(profile=LINEAR, instances=1)], workload=requests((0, 50, 50), (0, 50, 50))))
    log = told.requests
    assert log is not None
    assert log.e2e_s == pytest.approx([51 * 10.2e-3] * 2)
    assert log.energy_j == pytest.approx([60 * 51 * 10.2e-3] * 2)


def test_a_request_that_joins_changes_the_speed_of_the_one_that_runs_by_hand() -> None:
    """The first runs 0.2525 s alone (25 iterations), then shares; the second ends alone."""
    told = simulate(
        Scenario(pools=[pool(profile=LINEAR, instances=1)], workload=requests((0, 50, 50), (0.2525, 50, 50)))
    )
    log = told.requests
    assert log is not None
    shared_s = 26 * 10.2e-3
    assert log.end_s == pytest.approx([0.2525 + shared_s, 0.2525 + shared_s + 25 * 10.1e-3])
    assert log.energy_j == pytest.approx([110 * 0.2525 + 60 * shared_s, 60 * shared_s + 110 * 25 * 10.1e-3])


@pytest.mark.parametrize("policy", ["least_loaded", "pack", "energy_aware"])
def test_joules_of_requests_are_the_joules_of_active_instances(policy: str) -> None:
    scenario = Scenario(pools=[pool(error_rate=0.1, warmup_s=3.0)], workload=work(8000, 60.0), max_attempts=3)
    told = simulate(
        replace(scenario.with_policy(policy), changes=[ChangeAt(at_s=20, pool="a", kind="fail", instances=(1,))])
    )
    log = told.requests
    assert log is not None
    assert log.energy_j.sum() == pytest.approx(told.energy_by_state_j["active"], rel=1e-10)
    assert sum(told.energy_by_state_j.values()) == pytest.approx(told.energy_j, rel=1e-12)
    assert told.per_instance["energy_j"].sum() == pytest.approx(told.energy_j, rel=1e-12)
    assert 0 < told.wasted_j < told.energy_j


def test_power_times_time_is_energy_on_every_instance() -> None:
    """Between its idle and its full power, and the time in all states is the length of the run."""
    told = simulate(Scenario(pools=[pool()], workload=work(4000, 60.0)))
    time_s = told.memory["accounts"]["time_s"].reshape(4, -1)
    assert time_s.sum(axis=1) == pytest.approx(np.full(4, told.end_s))
    assert (told.per_instance["mean_power_w"] >= PROFILE.power.idle_loaded_w).all()
    assert (told.per_instance["mean_power_w"] <= PROFILE.power.power_w(32)).all()


def test_an_idle_fleet_draws_idle_power_until_the_horizon() -> None:
    told = simulate(Scenario(pools=[pool(instances=3)], workload=requests((0, 10, 10)), horizon_s=100.0))
    assert told.energy_by_state_j["idle"] == pytest.approx(3 * 200 * 100, rel=0.01)
    assert told.end_s == 100.0 and told.mean_power_w == pytest.approx(600, rel=0.01)


def test_empty_and_loaded_idle_instances_are_different_states() -> None:
    told = simulate(Scenario(pools=[pool(instances=4, parked=3)], workload=requests((0, 10, 10)), horizon_s=50.0))
    assert told.energy_by_state_j["empty"] == pytest.approx(3 * 80 * 50)
    assert told.per_instance["completed"].tolist() == [0, 0, 0, 1]
    whole = simulate(Scenario(pools=[pool(parked=4), pool(name="b")], workload=requests((0, 10, 10)))).per_pool()
    assert math.isnan(whole[0]["utilization"]) and whole[1]["utilization"] > 0


def test_empty_instances_of_a_profile_that_does_not_know_their_power_are_refused() -> None:
    unknown = replace(PROFILE, power=replace(PROFILE.power, board_idle_empty_w=None))
    with pytest.raises(ProfileIncomplete, match="without a model"):
        simulate(Scenario(pools=[pool(profile=unknown, parked=1)], workload=work(10)))
    told = simulate(Scenario(pools=[pool(profile=unknown, parked=1, idle_empty_w=70.0)], workload=work(10)))
    assert told.energy_by_state_j["empty"] == pytest.approx(70 * told.end_s)


@pytest.mark.parametrize("rule", APPORTION)
def test_idle_energy_is_apportioned_by_name_and_conserved(rule: str) -> None:
    told = simulate(Scenario(pools=[pool()], workload=work(500)))
    spread = told.apportioned(rule)
    assert spread.sum() == pytest.approx(told.energy_j, rel=1e-12)
    assert told.requests is not None and (spread >= told.requests.energy_j).all()


def test_an_unknown_rule_is_refused() -> None:
    told = simulate(Scenario(pools=[pool()], workload=work(50)))
    with pytest.raises(FleetError, match=r"no rule 'fair'"):
        told.apportioned("fair")


def test_joules_per_success_count_everything() -> None:
    told = simulate(Scenario(pools=[pool(error_rate=0.5)], workload=work(400)))
    assert told.completed < told.offered
    assert told.j_per_success == pytest.approx(told.energy_j / told.completed)
    assert math.isnan(simulate(Scenario(pools=[pool(error_rate=1.0)], workload=work(20))).j_per_success)


def test_grams_follow_the_intensity_of_the_zone_in_time() -> None:
    """100 s at 200 W idle: half at 100 g/kWh, half at 300."""
    intensity = Intensity({"NO": (np.array([0.0, 50.0]), np.array([100.0, 300.0]))}, "test 1")
    scenario = Scenario(pools=[pool(instances=1, zone="NO")], workload=requests((0, 1, 1)), horizon_s=100.0)
    told = simulate(replace(scenario, intensity=intensity))
    assert told.carbon_g == pytest.approx(200 * 50 * (100 + 300) / 3.6e6, rel=0.01)
    assert told.intensity_version == "test 1"
    assert math.isnan(simulate(scenario).carbon_g)


def test_cost_is_boards_times_hours() -> None:
    told = simulate(Scenario(pools=[pool(instances=3)], workload=requests((0, 1, 1)), horizon_s=3600.0))
    assert told.cost_usd == pytest.approx(3 * 2 * 2.0)


def test_figures_say_their_class_and_quality() -> None:
    told = simulate(Scenario(pools=[pool()], workload=work(50))).summary()
    assert (told["evidence_class"], told["quality"]) == ("modeled", "FAIR")
