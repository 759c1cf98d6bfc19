"""`fleet simulate`: one fleet, one policy, every seed."""

from __future__ import annotations

from typing import Any

from policies.fleet.experiments.report import case, finished, head
from policies.fleet.experiments.resolve import Resolved
from policies.fleet.experiments.running import Step, run_all, silent


def simulated(found: Resolved, step: Step = silent) -> dict[str, Any]:
    """The report. Raises EligibleSetEmpty, ProfileIncomplete, ExtrapolationRefused, CapacityZero."""
    told = found.scenario
    ran = run_all([(seed, found.sim(seed), found) for seed in told.seeds], step)
    policy = told.balancer.policy
    return finished({**head("simulate", found), "cases": [case(policy, [r for _, r in ran], found, policy=policy)]})
