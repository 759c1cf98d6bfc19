"""Run scenarios: one, one in portions of requests, or many on all cores."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from policies.fleet.errors import FleetError
from policies.fleet.sim.balancing import Balancer, Intensity, Slo, Telemetry
from policies.fleet.sim.fleet import ChangeAt, Pool
from policies.fleet.sim.layout import Balance, Ended, Floats, Memory
from policies.fleet.sim.log import RequestLog
from policies.fleet.sim.loop import begin, close, events
from policies.fleet.sim.memory import Plan, make_room, memory
from policies.fleet.sim.result import SimResult
from policies.fleet.sim.routing import Routed, Routing, enforceable
from policies.fleet.sim.workload import Workload

PORTION = 65_536
_EVENTS_PER_ATTEMPT = 8  # arrival and end make two; the rest is room for nothing that should happen

Progress = Callable[[int], None]  # told the requests offered so far


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Everything that a run depends on: the same scenario gives the same result, bit for bit.

    `speed` is "live": an iteration lasts as the requests that run make it; or "analytic": every request is served at
    the speed of a full batch and prefills as if alone, which are the conventions of the M/G/c model. `routed`, an
    eligible matrix of the caller's, takes the place of `routing`. `expected_output` (C,) are the output tokens that
    the energy-aware choice expects by class; None: the mean of the requests at hand. Requests that arrive before
    `settle_s` are left out of percentiles alone.
    """

    pools: Sequence[Pool]
    workload: Workload | None = None  # None: given to `stream` in portions
    balancer: Balancer = field(default_factory=Balancer)
    routing: Routing = field(default_factory=Routing)
    routed: Routed | None = None
    slo: Slo = field(default_factory=Slo)
    telemetry: Telemetry = field(default_factory=Telemetry)
    intensity: Intensity | None = None
    changes: Sequence[ChangeAt] = ()
    speed: str = "live"
    max_attempts: int = 1
    horizon_s: float = math.inf
    settle_s: float = 0.0
    expected_output: Floats | None = None
    keep_requests: bool = True
    seed: int = 0
    max_events: int | None = None

    def __post_init__(self) -> None:
        if self.speed not in ("live", "analytic"):
            raise FleetError(f"speed is {self.speed!r}.", fix="use live or analytic")
        if self.max_attempts < 1:
            raise FleetError(f"max_attempts is {self.max_attempts}.", fix="give 1 or more")
        if not (self.horizon_s > 0 and 0 <= self.settle_s < math.inf):
            raise FleetError(f"horizon {self.horizon_s} s, settling {self.settle_s} s.", fix="give times above 0")
        if self.balancer.code is Balance.CARBON_AWARE and self.intensity is None:
            raise FleetError(
                "the carbon-aware policy has no intensity to weigh.", fix="give an Intensity, or energy_aware"
            )

    def with_policy(self, policy: str) -> Scenario:
        """The same requests, failures and seed under another policy, to be compared in pairs."""
        return replace(self, balancer=replace(self.balancer, policy=policy))


def simulate(scenario: Scenario, progress: Progress | None = None) -> SimResult:
    """Run the scenario's workload. Raises FleetError and its kinds for input that no run can have."""
    workload = scenario.workload
    if workload is None:
        raise FleetError("the scenario has no workload.", fix="give one, or stream portions of one")
    run = _Run(scenario, workload, kept=len(workload) if scenario.keep_requests else 0)
    for portion in workload.portions(PORTION):
        if not run.take(portion, progress):
            break
    return run.finish(workload)


def stream(
    scenario: Scenario, portions: Iterable[Workload], *, sessions: int = 0, progress: Progress | None = None
) -> SimResult:
    """The same for portions of any number of requests, in memory that does not grow with them: aggregates only.

    Portions continue each other: arrivals do not fall, names of models, categories and tenants are the same.
    `sessions` is one more than the largest session. Means that the energy-aware choice needs come from the first.
    """
    run: _Run | None = None
    for portion in portions:
        if run is None:
            run = _Run(scenario, portion, kept=0, sessions=sessions)
        if not run.take(portion, progress):
            break
    if run is None:
        raise FleetError("there are no portions to simulate.", fix="give at least one")
    return run.finish(None)


def sweep(scenarios: Sequence[Scenario], *, workers: int | None = None) -> list[SimResult]:
    """Every scenario, on all cores (threads: the loop releases the interpreter). Results in the order given."""
    count = min(workers or os.cpu_count() or 1, max(len(scenarios), 1))
    if count == 1:
        return [simulate(scenario) for scenario in scenarios]
    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(simulate, scenarios))


class _Run:
    def __init__(self, scenario: Scenario, workload: Workload, *, kept: int, sessions: int = 0) -> None:
        self.scenario = scenario
        self.plan = Plan(scenario.pools)
        routed = scenario.routed or scenario.routing.apply(workload, self.plan.names)
        enforceable(routed, self.plan.names)
        self.classes = routed.classes
        largest = int(workload.session.max()) + 1 if len(workload.session) and scenario.routing.affinity else 0
        self.memory = memory(
            self.plan,
            eligible=routed.eligible,
            expected_output=_expected(scenario, routed, workload),
            mean_tokens=float(workload.tokens.mean()),
            balancer=scenario.balancer,
            intensity=scenario.intensity,
            changes=scenario.changes,
            sessions=max(largest, sessions, 0),
            kept=kept,
        )
        _settings(self.memory, scenario)
        begin(self.memory.record)
        self.ended = Ended.MORE
        self.last_s = 0.0

    def take(self, portion: Workload, progress: Progress | None) -> bool:
        """Offer a portion; False where the run ended in it."""
        scenario, n = self.scenario, len(portion)
        if portion.arrival_s[0] < self.last_s:
            raise FleetError("a portion begins before the one above it ended.", fix="sort the portions by arrival")
        self.last_s = float(portion.arrival_s[-1])
        if scenario.routed is not None and self.memory.record["offered"] + n > len(scenario.routed.kind):
            raise FleetError("the routed classes are fewer than the requests.", fix="give one class per request")
        if scenario.routed is None:
            kind = scenario.routing.apply(portion, self.plan.names).kind
        else:
            first = int(self.memory.record["offered"])
            kind = np.ascontiguousarray(scenario.routed.kind[first : first + n], np.int32)
        make_room(self.memory, n)
        settings = self.memory.record
        if scenario.max_events is None:
            settings["event_budget"] += _EVENTS_PER_ATTEMPT * scenario.max_attempts * n
        session = portion.session if scenario.routing.affinity else portion.session[:0]
        if len(session) and session.max() >= len(self.memory["homes"]):
            raise FleetError(f"session {int(session.max())} is beyond those announced.", fix="tell stream how many")
        arrival_s, l_in, l_out = _read_only(portion.arrival_s), _read_only(portion.l_in), _read_only(portion.l_out)
        self.ended = Ended(
            events(self.memory.record, arrival_s, l_in, l_out, _read_only(kind), _read_only(session), False)
        )
        if progress is not None:
            progress(int(self.memory.record["offered"]))
        return self.ended is Ended.MORE

    def finish(self, workload: Workload | None) -> SimResult:
        scenario, none = self.scenario, _read_only(np.zeros(0, np.int32))
        if self.ended is Ended.MORE:
            self.ended = Ended(events(self.memory.record, _read_only(np.zeros(0)), none, none, none, none, True))
        now_s = float(self.memory.record["now_s"])
        end_s = (
            scenario.horizon_s if math.isfinite(scenario.horizon_s) and self.ended is not Ended.EVENT_BUDGET else now_s
        )
        close(self.memory.record, end_s)
        result = SimResult(
            plan=self.plan,
            memory=self.memory,
            ended=self.ended,
            end_s=end_s,
            settle_s=scenario.settle_s,
            requests=_log(self.memory, workload) if workload is not None and scenario.keep_requests else None,
            policy=scenario.balancer.policy,
            seed=scenario.seed,
            classes=self.classes,
            intensity_version=scenario.intensity.version if scenario.intensity else None,
        )
        assert result.conserved, f"requests or joules were lost: {result.summary()}"
        return result


def _read_only(column: NDArray[Any]) -> NDArray[Any]:
    """A view that nobody writes to: the loop is compiled anew, for seconds, for arrays that differ in this alone."""
    seen = column.view()
    seen.flags.writeable = False
    return seen


def _expected(scenario: Scenario, routed: Routed, workload: Workload) -> Floats:
    """Expected output tokens by class (C,): as given, else the mean of the class, else of all."""
    classes = len(routed.eligible)
    if scenario.expected_output is not None:
        given = np.asarray(scenario.expected_output, np.float64)
        if given.shape != (classes,) or not (np.isfinite(given) & (given > 0)).all():
            raise FleetError(f"expected_output is {given}.", fix=f"give {classes} numbers of tokens above 0")
        return given
    kind = routed.kind[: len(workload)]
    count = np.bincount(kind, minlength=classes)
    total = np.bincount(kind, weights=workload.l_out, minlength=classes)
    return np.where(count > 0, total / np.maximum(count, 1), float(workload.l_out.mean()))


def _settings(memory: Memory, scenario: Scenario) -> None:
    balancer, slo, telemetry = scenario.balancer, scenario.slo, scenario.telemetry
    settings = memory.record
    for name, value in {
        "policy": int(balancer.code),
        "fallback": int(Balance[balancer.fallback.upper()]),
        "analytic": int(scenario.speed == "analytic"),
        "keep": int(len(memory["log"]) > 0),
        "affinity": int(scenario.routing.affinity),
        "reject_on_slo": int(balancer.reject_on_slo),
        "max_attempts": scenario.max_attempts,
        "telemetry": int(telemetry.interval_s > 0),
        "threshold": balancer.threshold,
        "pack_share": balancer.pack_share,
        "hysteresis": balancer.hysteresis,
        "dwell_s": balancer.dwell_s,
        "dark_share": balancer.dark_share,
        "ttft_s": slo.ttft_s,
        "tpot_s": slo.tpot_s,
        "e2e_s": slo.e2e_s,
        "interval_s": telemetry.interval_s,
        "ttl_s": telemetry.ttl_s,
        "dropout": telemetry.dropout,
        "reuse": scenario.routing.prefix_reuse,
        "carbon_ttl_s": scenario.intensity.ttl_s if scenario.intensity else math.inf,
        "settle_s": scenario.settle_s,
        "horizon_s": scenario.horizon_s,
        "seed": scenario.seed,
        "event_budget": scenario.max_events if scenario.max_events is not None else 8 * len(memory["changes"]) + 1000,
    }.items():
        settings[name] = value


def _log(memory: Memory, workload: Workload) -> RequestLog:
    offered = int(memory.record["offered"])
    log = memory["log"][:offered]
    pool = np.where(log["instance"] >= 0, memory["instances"]["pool"][log["instance"]], -1).astype(np.int32)
    return RequestLog(
        workload=workload if offered == len(workload) else workload.rows(slice(0, offered)),
        status=log["status"],
        attempts=log["attempts"],
        instance=log["instance"],
        pool=pool,
        start_s=log["start_s"],
        first_s=log["first_s"],
        end_s=log["end_s"],
        energy_j=log["energy_j"],
    )
