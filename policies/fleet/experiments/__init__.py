"""Experiments on a modelled fleet: scenarios, simulate, compare, size, flex, sensitivity, and their reports."""

from policies.fleet.experiments.backends import backends
from policies.fleet.experiments.comparing import DEFAULT_POLICIES, compared_policies
from policies.fleet.experiments.flexing import flexed
from policies.fleet.experiments.profiles import calibrated
from policies.fleet.experiments.reading import read
from policies.fleet.experiments.report import metric_rows
from policies.fleet.experiments.resolve import Resolved, resolve
from policies.fleet.experiments.running import Step, silent
from policies.fleet.experiments.scenario import FleetScenario
from policies.fleet.experiments.sensitivity import studied
from policies.fleet.experiments.simulating import simulated
from policies.fleet.experiments.sizing import sized
from policies.fleet.queueing import LEVELS

__all__ = [
    "DEFAULT_POLICIES",
    "LEVELS",
    "FleetScenario",
    "Resolved",
    "Step",
    "backends",
    "calibrated",
    "compared_policies",
    "flexed",
    "metric_rows",
    "read",
    "resolve",
    "silent",
    "simulated",
    "sized",
    "studied",
]
