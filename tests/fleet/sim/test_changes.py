"""Failures, warm-up, draining, partial deployment and rollback: no request and no joule is lost on the way."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from policies.fleet.errors import FleetError
from policies.fleet.sim import (
    Balancer,
    ChangeAt,
    Deployment,
    Ended,
    Scenario,
    SimResult,
    Status,
    random_failures,
    simulate,
)
from tests.fleet.sim.made import LINEAR, THRIFTY, pool, requests, work

NEW = {"new": Deployment(profile=replace(THRIFTY, version="2"))}


def run(*changes: ChangeAt, **other: object) -> SimResult:
    made = {"pools": [pool()], "workload": work(4000, 40.0), "changes": changes}
    return simulate(Scenario(**{**made, **other}))  # type: ignore[arg-type]


def test_a_failure_loses_its_attempts_and_their_joules_are_counted_as_wasted() -> None:
    """One request, 60 % through when its instance fails at 0.3 s; the second attempt starts anew elsewhere."""
    made = {"pools": [pool(profile=LINEAR, instances=2)], "workload": requests((0.0, 50, 50)), "max_attempts": 2}
    fails = ChangeAt(at_s=0.3, pool="a", kind="fail", instances=(0,))
    told = run(fails, **made)
    log = told.requests
    assert log is not None
    assert (log.status[0], log.attempts[0], log.instance[0]) == (Status.COMPLETED, 2, 1)
    assert log.end_s[0] == pytest.approx(0.3 + 51 * 10.1e-3)
    assert told.wasted_j == pytest.approx(110 * 0.3)
    assert log.energy_j[0] == pytest.approx(110 * (0.3 + 51 * 10.1e-3))
    assert told.retries == 1
    once = run(fails, **{**made, "max_attempts": 1})
    assert once.rejections == {"failed": 1} and once.failed == 1
    assert once.requests is not None and once.requests.energy_j[0] == pytest.approx(33.0)


def test_what_waits_on_an_instance_that_fails_is_served_elsewhere_without_using_an_attempt() -> None:
    made = requests(*((0.01 * k, 50, 50) for k in range(8)))
    fails = ChangeAt(at_s=0.1, pool="a", kind="fail", instances=(0,))
    told = run(fails, pools=[pool(instances=2, slots=1)], workload=made)
    log = told.requests
    assert log is not None
    assert told.rejections == {"failed": 1}
    assert (log.attempts[log.completed] == 1).all() and (log.instance[log.completed] == 1).all()


def test_a_fleet_that_is_down_rejects_by_name() -> None:
    told = run(*(ChangeAt(at_s=30.0, pool="a", kind="fail", instances=(k,)) for k in range(4)))
    log = told.requests
    assert log is not None and told.conserved and told.ended is Ended.DRAINED
    late = log.workload.arrival_s > 30.0
    assert (log.status[late] == Status.NO_HEALTHY_BACKEND).all()
    assert set(told.rejections) == {"no_healthy_backend", "failed"}


def test_repair_and_warm_up_take_their_time_at_idle_power() -> None:
    """Down from 10 to 15 s, warming until 35 s at 2 x 100 W, then it serves again."""
    fails = ChangeAt(at_s=10.0, pool="a", kind="fail", instances=(0,), repair_s=5.0)
    told = run(fails, pools=[pool(warmup_s=20.0, failed_w=30.0)])
    log = told.requests
    assert log is not None
    assert told.per_instance["warming_j"].tolist() == pytest.approx([200.0 * 20.0, 0, 0, 0])
    assert told.per_instance["down_j"].tolist() == pytest.approx([30.0 * 5.0, 0, 0, 0])
    mine = log.start_s[log.completed & (log.instance == 0)]
    assert not ((mine > 10.0) & (mine < 35.0)).any() and (mine > 35.0).any()


def test_a_parked_instance_serves_what_it_holds_and_then_draws_its_empty_power() -> None:
    told = run(ChangeAt(at_s=10.0, pool="a", kind="park", instances=(0, 1)))
    log = told.requests
    assert log is not None
    parked = log.completed & (log.instance < 2)
    assert log.start_s[parked].max() <= 10.0 < log.end_s[parked].max()
    assert told.completed == 4000 and (told.per_instance["empty_j"] > 0).tolist() == [True, True, False, False]


def test_a_parked_instance_can_be_started() -> None:
    made = pool(parked=3, warmup_s=5.0)
    told = run(ChangeAt(at_s=20.0, pool="a", kind="start", instances=(0, 1, 2)), pools=[made])
    log = told.requests
    assert log is not None
    assert told.per_instance["warming_j"].tolist() == pytest.approx([1000.0, 1000.0, 1000.0, 0.0])
    assert log.start_s[log.completed & (log.instance < 3)].min() >= 25.0


def test_a_parked_instance_stays_parked_through_a_rollout_and_starts_with_the_new_version() -> None:
    made = pool(parked=1, alternatives=NEW)
    out = ChangeAt(at_s=5.0, pool="a", kind="redeploy", share=1.0, to="new")
    parked = run(out, pools=[made])
    assert parked.per_instance["started"][0] == 0
    assert parked.per_instance["empty_j"][0] == pytest.approx(80.0 * parked.end_s)
    begun = run(out, ChangeAt(at_s=50.0, pool="a", kind="start", instances=(0,)), pools=[made])
    assert begun.per_instance["deployment"].tolist() == ["new"] * 4 and begun.per_instance["started"][0] > 0


def test_an_unhealthy_instance_gets_nothing_until_it_is_healthy() -> None:
    told = run(
        ChangeAt(at_s=10.0, pool="a", kind="unhealthy", instances=(2,)),
        ChangeAt(at_s=60.0, pool="a", kind="healthy", instances=(2,)),
    )
    log = told.requests
    assert log is not None
    starts = log.start_s[log.completed & (log.instance == 2)]
    assert not ((starts > 10.0) & (starts < 60.0)).any() and (starts > 60.0).any()


def test_a_partial_deployment_runs_its_share_from_the_start() -> None:
    told = run(pools=[pool(instances=8, alternatives=NEW, mix={"new": 0.25})])
    assert told.per_instance["deployment"].tolist() == ["base"] * 6 + ["new"] * 2
    j_per_request = told.per_instance["active_j"] / told.per_instance["completed"]
    assert j_per_request[6:].max() < 0.5 * j_per_request[:6].min()


def test_a_rollout_and_its_rollback_leave_the_fleet_as_it_was() -> None:
    """A quarter gets the new version at 20 s and the old one back at 60 s; everything is served throughout."""
    made = pool(instances=8, alternatives=NEW, warmup_s=4.0)
    out = ChangeAt(at_s=20.0, pool="a", kind="redeploy", share=0.25, to="new")
    back = ChangeAt(at_s=60.0, pool="a", kind="redeploy", share=0.25)
    forward, both = run(out, pools=[made]), run(out, back, pools=[made])
    assert forward.per_instance["deployment"].tolist() == ["base"] * 6 + ["new"] * 2
    assert both.per_instance["deployment"].tolist() == ["base"] * 8
    assert forward.completed == both.completed == 4000
    assert both.per_instance["warming_j"][6:] == pytest.approx([2 * (100 * 4.0 + 200 * 4.0) / 2] * 2)
    log = both.requests
    assert log is not None
    watts = log.energy_j / (log.end_s - log.start_s)
    inside, outside = (
        (log.instance >= 6) & when
        for when in ((log.start_s > 40) & (log.end_s < 60), (log.start_s > 75) | (log.end_s < 20))
    )
    assert np.median(watts[inside]) < 0.5 * np.median(watts[outside])


def test_a_bad_version_shows_in_joules_per_success_and_rolling_back_ends_it() -> None:
    bad = {"bad": Deployment(profile=LINEAR, error_rate=0.5)}
    made = pool(profile=LINEAR, instances=8, alternatives=bad)
    out = ChangeAt(at_s=0.0, pool="a", kind="redeploy", share=0.5, to="bad")
    back = ChangeAt(at_s=50.0, pool="a", kind="redeploy", share=0.5)
    good, half, short = (run(*changes, pools=[made], max_attempts=3) for changes in ((), (out,), (out, back)))
    assert good.j_per_success < short.j_per_success < half.j_per_success
    assert good.wasted_j == 0.0 < short.wasted_j < half.wasted_j
    assert good.completed == 4000 and half.completed + half.failed == 4000


def test_energy_aware_moves_away_from_a_pool_that_fails_and_comes_back() -> None:
    pools = [pool(name="thrifty", profile=THRIFTY), pool(name="costly", profile=LINEAR)]
    fails = [ChangeAt(at_s=30.0, pool="thrifty", kind="fail", instances=(k,), repair_s=20.0) for k in range(4)]
    told = run(*fails, pools=pools, balancer=Balancer(policy="energy_aware"), max_attempts=2)
    log = told.requests
    assert log is not None and told.completed == 4000
    t = log.start_s
    down = (t > 30.0) & (t < 50.0)
    assert (log.pool[down] == 1).all()
    assert (log.pool[(t < 30.0) | (t > 51.0)] == 0).mean() > 0.95


def test_random_failures_are_seeded_and_survived() -> None:
    pools = [pool(instances=6, warmup_s=2.0)]
    changes = [random_failures(pools, mtbf_s=40.0, repair_s=5.0, until_s=100.0, seed=seed) for seed in (1, 1, 2)]
    assert changes[0] == changes[1] != changes[2] and len(changes[0]) > 3
    told = run(*changes[0], pools=pools, max_attempts=4)
    assert told.conserved and told.retries > 0 and told.completed > 0.99 * told.offered


def test_the_event_budget_ends_a_run_and_says_so() -> None:
    told = run(max_events=1000)
    assert told.ended is Ended.EVENT_BUDGET and told.conserved and told.in_flight > 0
    assert told.offered < 4000


def test_the_horizon_ends_a_run_and_what_is_unfinished_is_in_flight() -> None:
    told = run(horizon_s=50.0)
    log = told.requests
    assert log is not None
    assert told.ended is Ended.HORIZON and told.end_s == 50.0 and told.conserved
    assert told.in_flight > 0 and len(log.status) == told.offered < 4000
    unfinished = log.status == Status.IN_FLIGHT
    assert unfinished.sum() == told.in_flight and log.energy_j[unfinished].sum() > 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pool": "z"}, "names a pool 'z'"),
        ({"instances": (9,)}, r"instances \[9\] of pool a"),
        ({"kind": "explode"}, "no change 'explode'"),
        ({"kind": "redeploy", "to": "v9"}, "no deployment 'v9'"),
        ({"at_s": -1.0}, "happens at -1"),
        ({"share": 2.0}, "a share of 2"),
    ],
)
def test_a_change_that_names_nothing_is_refused(change: dict[str, object], message: str) -> None:
    made = {"at_s": 1.0, "pool": "a", "kind": "fail", "instances": (0,), **change}
    with pytest.raises(FleetError, match=message):
        run(ChangeAt(**made))  # type: ignore[arg-type]
