"""Discrete-event simulation of a fleet: continuous batching, queues, failures, balancing, and joules per request."""

from policies.fleet.length_cdf import LengthCdf
from policies.fleet.sim.balancing import OBLIVIOUS, POLICIES, Balancer, Intensity, Slo, Telemetry
from policies.fleet.sim.fleet import ChangeAt, Deployment, Pool, random_failures
from policies.fleet.sim.layout import Ended, Mode, Status
from policies.fleet.sim.log import RequestLog
from policies.fleet.sim.result import APPORTION, SimResult
from policies.fleet.sim.routing import Routed, Routing, by_length
from policies.fleet.sim.run import Scenario, simulate, stream, sweep
from policies.fleet.sim.workload import Workload, from_frame, generate, poisson

__all__ = [
    "APPORTION",
    "OBLIVIOUS",
    "POLICIES",
    "Balancer",
    "ChangeAt",
    "Deployment",
    "Ended",
    "Intensity",
    "LengthCdf",
    "Mode",
    "Pool",
    "RequestLog",
    "Routed",
    "Routing",
    "Scenario",
    "SimResult",
    "Slo",
    "Status",
    "Telemetry",
    "Workload",
    "by_length",
    "from_frame",
    "generate",
    "poisson",
    "random_failures",
    "simulate",
    "stream",
    "sweep",
]
