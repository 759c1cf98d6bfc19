"""Operations of the fleet lab: profiles, calibrations, live backends, experiments on a modelled fleet.

What they need of the lab is imported where it is used: compiled loops and scipy take a second to load, which every
other command would pay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import AwareDatetime, Field

from app.desk import Desk
from app.errors import NotFound
from app.operations import Actor, NoParams, Params, operation
from app.operations.plain import plain
from app.policy_errors import policy_errors
from app.replay import progress
from warehouse.clock import utcnow
from warehouse.snapshots import snapshot

if TYPE_CHECKING:
    from app.fleet.runs import Experiment

WHAT = "fleet experiment"
Name = Field(None, max_length=200)


@operation("fleet.profiles", scope="read", params=NoParams)
def profiles(desk: Desk, actor: Actor, params: NoParams) -> dict[str, Any]:
    """List power and throughput profiles, published and calibrated, with their curves."""
    from app.fleet import listed

    with policy_errors(), snapshot(desk.warehouse) as snap:
        return {"profiles": plain(listed.profiles(snap)), "as_of": plain(snap.as_of)}


@operation("fleet.workloads", scope="read", params=NoParams)
def workloads(desk: Desk, actor: Actor, params: NoParams) -> dict[str, Any]:
    """List the traces, distributions of lengths, zones and policies that a scenario may name."""
    from app.fleet import listed

    with policy_errors(), snapshot(desk.warehouse) as snap:
        return {**plain(listed.workloads(snap)), "as_of": plain(snap.as_of)}


class BackendsParams(Params):
    since_s: float = Field(3600.0, gt=0, le=366 * 86_400.0)
    """Joules per success over so many seconds before now."""


@operation("fleet.backends", scope="read", params=BackendsParams)
def list_backends(desk: Desk, actor: Actor, params: BackendsParams) -> dict[str, Any]:
    """Tell what live backends draw and do, and measured beside modelled power."""
    from policies.fleet.experiments import backends

    with policy_errors(), snapshot(desk.warehouse) as snap:
        return {
            "backends": plain(backends(snap, since_s=params.since_s)),
            "since_s": params.since_s,
            "as_of": plain(snap.as_of),
        }


class CalibrateParams(Params):
    model: str | None = Name
    hardware: str | None = Name
    provider: str | None = Name
    quantity: Literal["both", "power", "throughput"] = "both"
    form: str = Field("best", max_length=40)
    """best (smallest hold-out error), logistic_log2, linear or table."""
    keep: bool = True
    """Store what was fitted; without it the answer alone."""
    task: str | None = Field(None, max_length=64)


@operation("fleet.calibrate", scope="operator", params=CalibrateParams)
def calibrate(desk: Desk, actor: Actor, params: CalibrateParams) -> dict[str, Any]:
    """Fit power and throughput to measured windows, one calibration for each binding, and store them."""
    from app.fleet import calibrating

    with policy_errors(), progress.running(desk, params.task, "calibration") as running:
        return calibrating.calibrate(desk, actor, params, running)


class HoldoutParams(Params):
    provider: str | None = Field("ml.energy", max_length=200)
    model: str | None = Name
    hardware: str | None = Name


@operation("fleet.holdout", scope="read", params=HoldoutParams)
def holdout(desk: Desk, actor: Actor, params: HoldoutParams) -> dict[str, Any]:
    """Tell how well joules per token of a left-out concurrency are predicted, by model, GPU and form."""
    from app.fleet import calibrating

    with policy_errors(), snapshot(desk.warehouse) as snap:
        return calibrating.holdout(snap, params.provider, params.model, params.hardware)


class CalibrationsParams(Params):
    id: str | None = Field(None, min_length=8, max_length=64)
    """One calibration, by its id or the first eight characters of it or more: with windows, residuals and band."""
    quantity: Literal["power", "throughput"] | None = None
    model: str | None = Name
    hardware: str | None = Name


@operation("fleet.calibrations", scope="read", params=CalibrationsParams)
def calibrations(desk: Desk, actor: Actor, params: CalibrationsParams) -> dict[str, Any]:
    """List stored calibrations, newest first."""
    from app.fleet import calibrating

    with policy_errors(), snapshot(desk.warehouse) as snap:
        return calibrating.stored(snap, params)


class ScenarioParams(Params):
    scenario: dict[str, Any] = Field(default_factory=dict)
    """A whole scenario (docs/fleet.md); what follows is laid over it."""
    title: str | None = Name
    pool: list[str] = Field(default_factory=list, max_length=200)
    """PROFILE:INSTANCES or NAME=PROFILE:INSTANCES, then :ZONE; these take the place of the scenario's pools."""
    trace: str | None = Name
    cdf: str | None = Name
    requests_per_s: float | None = Field(None, gt=0)
    requests: int | None = Field(None, ge=1)
    duration_s: float | None = Field(None, gt=0)
    scale: float | None = Field(None, gt=0)
    """Times the rate."""
    from_s: float | None = Field(None, ge=0)
    prompt_tokens: int | None = Field(None, ge=1)
    output_tokens: int | None = Field(None, ge=1)
    output_share: float | None = Field(None, gt=0, lt=1)
    block_s: float | None = Field(None, gt=0)
    """Seeds after the first draw blocks of the trace of so many seconds."""
    policy: str | None = Field(None, max_length=40)
    fallback: str | None = Field(None, max_length=40)
    hysteresis: float | None = Field(None, ge=0, le=1)
    dwell_s: float | None = Field(None, ge=0)
    ttft_s: float | None = Field(None, gt=0)
    tpot_s: float | None = Field(None, gt=0)
    e2e_s: float | None = Field(None, gt=0)
    slo_target: float | None = Field(None, gt=0, le=1)
    """Share of offered requests that must meet the SLO."""
    context_tokens: int | None = Field(None, ge=1)
    slots: int | None = Field(None, ge=1)
    queue_limit: int | None = Field(None, ge=0)
    max_wait_s: float | None = Field(None, ge=0)
    telemetry_s: float | None = Field(None, ge=0)
    """Every instance reports so often; 0: the balancer sees the truth."""
    telemetry_ttl_s: float | None = Field(None, gt=0)
    telemetry_dropout: float | None = Field(None, ge=0, le=1)
    at: AwareDatetime | None = None
    """Instant from which the zones' carbon intensity is read from the warehouse."""
    signal: Literal["average", "marginal"] | None = None
    basis: Literal["lifecycle", "direct"] | None = None
    horizon_s: float | None = Field(None, gt=0)
    settle_s: float | None = Field(None, ge=0)
    """Requests that arrive before this are left out of percentiles."""
    max_attempts: int | None = Field(None, ge=1)
    seeds: list[int] = Field(default_factory=list, max_length=200)
    keep: bool = True
    """Store the report; without it the answer alone."""
    task: str | None = Field(None, max_length=64)
    """A name under which `fleet.progress` and `fleet.cancel` speak of this run."""


class PoliciesParams(ScenarioParams):
    policies: list[str] = Field(default_factory=list, max_length=20)


def _run(desk: Desk, actor: Actor, params: ScenarioParams, experiment: Experiment) -> dict[str, Any]:
    """Run it under `params.task` and store its report, unless `keep` is False."""
    from app.fleet import runs

    with policy_errors(), progress.running(desk, params.task, WHAT) as running:
        return runs.run(desk, actor, params, running, experiment)


@operation("fleet.simulate", scope="operator", params=ScenarioParams)
def simulate(desk: Desk, actor: Actor, params: ScenarioParams) -> dict[str, Any]:
    """Simulate a fleet under one policy and store what came of it."""
    from policies.fleet.experiments import simulated

    return _run(desk, actor, params, simulated)


class CompareParams(PoliciesParams):
    baseline: str | None = Field(None, max_length=40)
    loads: list[float] = Field(default_factory=lambda: [1.0], min_length=1, max_length=100)
    """Factors on the rate."""
    caps: list[float] = Field(default_factory=lambda: [0.0], min_length=1, max_length=50)
    """Shares of the power of full instances to give back."""


@operation("fleet.compare", scope="operator", params=CompareParams)
def compare(desk: Desk, actor: Actor, params: CompareParams) -> dict[str, Any]:
    """Compare load-balancing policies on the same requests and store what came of it."""
    from policies.fleet.experiments import DEFAULT_POLICIES, compared_policies

    return _run(
        desk,
        actor,
        params,
        lambda found, step: compared_policies(
            found,
            params.policies or DEFAULT_POLICIES,
            baseline=params.baseline,
            loads=params.loads,
            caps=params.caps,
            step=step,
        ),
    )


class QueueParams(ScenarioParams):
    convention: Literal["physical", "peer"] = "physical"
    """peer: its figures are printed beside the physical ones."""
    verify: bool = True
    """Simulate what closed forms say."""
    utilization_max: float = Field(0.85, gt=0, lt=1)
    quantile: float = Field(0.99, gt=0, lt=1)

    def closed_forms(self) -> dict[str, Any]:
        """Keyword arguments of the experiments that closed forms answer."""
        told = self.model_dump(include={"verify", "utilization_max", "quantile"})
        return {"peer": self.convention == "peer", **told}


class SizeParams(QueueParams):
    split_tokens: int | None = Field(None, ge=1)
    """The first two pools share the load: requests of up to so many tokens, and the rest."""


@operation("fleet.size", scope="operator", params=SizeParams)
def size(desk: Desk, actor: Actor, params: SizeParams) -> dict[str, Any]:
    """Tell the fewest instances that keep an SLO, in closed form and simulated."""
    from policies.fleet.experiments import sized

    return _run(
        desk,
        actor,
        params,
        lambda found, step: sized(
            found,
            split_tokens=params.split_tokens,
            step=step,
            **params.closed_forms(),
        ),
    )


class FlexParams(QueueParams):
    levels: list[float] = Field(default_factory=list, max_length=50)
    """Shares of the power of full instances to give back."""


@operation("fleet.flex", scope="operator", params=FlexParams)
def flex(desk: Desk, actor: Actor, params: FlexParams) -> dict[str, Any]:
    """Tell what power caps save and cost at the load really carried, in closed form and simulated."""
    from policies.fleet.experiments import LEVELS, flexed

    return _run(
        desk,
        actor,
        params,
        lambda found, step: flexed(
            found,
            levels=params.levels or LEVELS,
            step=step,
            **params.closed_forms(),
        ),
    )


class SensitivityParams(PoliciesParams):
    sd: float | None = Field(None, gt=0, lt=1)
    """Relative error of power, instead of what the profiles tell."""
    draws: int = Field(100_000, ge=1000, le=10_000_000)
    sobol_n: int = Field(1024, ge=64, le=2**20)
    """Base sample of the Sobol indices, a power of 2."""
    seed: int = Field(0, ge=0, lt=2**31)


@operation("fleet.sensitivity", scope="operator", params=SensitivityParams)
def sensitivity(desk: Desk, actor: Actor, params: SensitivityParams) -> dict[str, Any]:
    """Tell whether the ranking of policies survives the error of the power model."""
    from policies.fleet.experiments import DEFAULT_POLICIES, studied

    return _run(
        desk,
        actor,
        params,
        lambda found, step: studied(
            found,
            params.policies or DEFAULT_POLICIES,
            sd=params.sd,
            draws=params.draws,
            sobol_n=params.sobol_n,
            seed=params.seed,
            step=step,
        ),
    )


class TaskParams(Params):
    task: str = Field(max_length=64)


@operation("fleet.progress", scope="read", params=TaskParams)
def fleet_progress(desk: Desk, actor: Actor, params: TaskParams) -> dict[str, Any]:
    """Say how far a running experiment or calibration is."""
    found = progress.of(desk, params.task)
    return {"running": found is not None, **(found.as_dict() if found is not None else {})}


@operation("fleet.cancel", scope="operator", params=TaskParams)
def fleet_cancel(desk: Desk, actor: Actor, params: TaskParams) -> dict[str, Any]:
    """Cancel a running experiment or calibration; nothing of it is kept."""
    found = progress.of(desk, params.task)
    if found is not None:
        found.cancelled = True
    return {"cancelled": found is not None}


EXPERIMENTS = Literal["simulate", "compare", "size", "flex", "sensitivity"]


class RunsParams(Params):
    experiment: EXPERIMENTS | None = None
    limit: int = Field(50, ge=1, le=1000)


@operation("fleet.runs", scope="read", params=RunsParams)
def list_runs(desk: Desk, actor: Actor, params: RunsParams) -> dict[str, Any]:
    """List the stored experiments, newest first."""
    from app.fleet import store

    return {"runs": plain(store.runs(desk.warehouse, params.experiment, params.limit)), "as_of": plain(utcnow())}


class ReportParams(Params):
    id: str | None = Field(None, max_length=64)
    """Run id, or its first eight characters or more; unset: the newest."""
    experiment: EXPERIMENTS | None = None


@operation("fleet.report", scope="read", params=ReportParams)
def report(desk: Desk, actor: Actor, params: ReportParams) -> dict[str, Any]:
    """Tell the report of a stored experiment."""
    from app.fleet import runs, store

    found = store.find(desk.warehouse, params.id, params.experiment)
    if found is None:
        what = params.experiment or "experiment"
        raise NotFound(f"No {what} is stored.", fix="run one with `joulebook fleet simulate --pool H100-80GB:4 …`")
    return runs.plain_report(store.report(desk.warehouse, found))
