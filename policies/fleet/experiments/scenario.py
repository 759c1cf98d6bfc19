"""What an experiment is about: a fleet, what it is asked to serve, how requests are spread, and what must be kept.

Plain values only, so that a scenario is a JSON or TOML document, has a hash, and can be run again. Names of profiles,
traces and zones are looked up when it is resolved against a snapshot.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

from policies.fleet.errors import CapacityZero, ScenarioInvalid
from policies.fleet.sim import Balancer, ChangeAt, Slo, Telemetry

OTHER = "other"  # class of requests that no declared class describes
MOST_SEEDS = 200
MOST_REQUESTS = 20_000_000


@dataclass(frozen=True, kw_only=True)
class DeploymentSpec:
    """Another version on a `share` of a pool's instances: a partial deployment, or what a change brings later."""

    name: str
    profile: str | Mapping[str, Any] | None = None  # None: the pool's
    share: float = 0.0
    error_rate: float = 0.0
    slots: int | None = None


@dataclass(frozen=True, kw_only=True)
class PoolSpec:
    """Equal instances. `profile`: the name of a shipped profile, a GPU, `calibration:ID`, or a profile of one's own.

    `residency` and `safety` are tags that the pool has, `authorized` the tenants that it may serve (none named: all).
    `declared` gives parameters that the profile does not know, or other ones, such as chunk_tokens or usd_per_hour.
    """

    name: str
    profile: str | Mapping[str, Any]
    instances: int
    context_tokens: int = 8192
    slots: int | None = None
    queue_limit: int | None = None
    max_wait_s: float | None = None
    error_rate: float = 0.0
    warmup_s: float = 0.0
    parked: int = 0
    failure_rate_per_s: float = 0.0
    failed_w: float = 0.0
    idle_empty_w: float | None = None  # W of an instance
    idle_loaded_w: float | None = None  # W of an instance
    extrapolate: bool = False
    zone: str | None = None
    residency: tuple[str, ...] = ()
    safety: tuple[str, ...] = ()
    authorized: tuple[str, ...] = ()
    throughput: str | None = None  # calibration of throughput beside one of power; None: the newest that fits
    declared: Mapping[str, Any] = field(default_factory=dict)
    deployments: tuple[DeploymentSpec, ...] = ()

    def __post_init__(self) -> None:
        if self.instances < 1:
            raise CapacityZero(f"pool {self.name} has {self.instances} instances.", fix="give 1 or more")
        if self.context_tokens < 1:
            raise CapacityZero(f"pool {self.name} holds {self.context_tokens} tokens.", fix="give 1 or more")
        if self.slots is not None and self.slots < 1:
            raise CapacityZero(f"pool {self.name} has {self.slots} slots.", fix="give 1 or more")
        _unique([d.name for d in self.deployments], f"deployment of pool {self.name}")


@dataclass(frozen=True, kw_only=True)
class RequestClass:
    """Requests that the router treats alike: which they are, and what their backend must have.

    Which: a `share` of all requests, drawn; or those of a `category` or `model` of the trace. Their backend must have
    every tag of `residency` and `safety`, be authorized for `tenant`, serve `logical_model`, hold `context_tokens`,
    and be among `pools` where the router names them.
    """

    name: str
    share: float | None = None
    category: str | None = None
    model: str | None = None
    residency: tuple[str, ...] = ()
    safety: tuple[str, ...] = ()
    tenant: str | None = None
    logical_model: str | None = None
    context_tokens: int | None = None
    pools: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if (self.share is None) == (self.category is None and self.model is None):
            raise ScenarioInvalid(
                f"class {self.name} does not say which requests it holds.",
                fix="give either a share, or a category or model of the trace",
            )
        if self.share is not None and not 0 < self.share <= 1:
            raise ScenarioInvalid(f"the share of class {self.name} is {self.share}.", fix="give one above 0, at most 1")
        if self.name == OTHER:
            raise ScenarioInvalid(f"a class is called {OTHER!r}.", fix="call it otherwise: that is the rest")


@dataclass(frozen=True, kw_only=True)
class LengthRule:
    """Requests of up to so many prompt and output tokens go to these pools; None: however long."""

    tokens: int | None = None
    pools: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class WorkloadSpec:
    """Requests: of a `trace`, kept as recorded; or Poisson arrivals with lengths of a `cdf`, of `lengths`
    ([tokens, share] pairs), or of one prompt and output length.

    requests_per_s  of generated requests; of a trace it sets the speed at which the trace is played
    scale           times the rate, in any case
    output_share    of the tokens of a distribution, which tells totals only
    block_s         every seed but the first draws blocks of the trace of so many seconds, with replacement
    """

    trace: str | None = None
    cdf: str | None = None
    lengths: tuple[tuple[float, float], ...] = ()
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    requests_per_s: float | None = None
    requests: int | None = None
    duration_s: float | None = None
    from_s: float = 0.0
    scale: float = 1.0
    output_share: float = 0.2
    block_s: float | None = None
    sessions: int = 0

    def __post_init__(self) -> None:
        sources = [self.trace, self.cdf, self.lengths or None, self.prompt_tokens or self.output_tokens]
        if sum(s is not None for s in sources) != 1:
            raise ScenarioInvalid(
                "the workload does not name one source of requests.",
                fix="give one of trace, cdf, lengths, or prompt_tokens with output_tokens",
            )
        if (self.prompt_tokens is None) != (self.output_tokens is None):
            raise ScenarioInvalid("one of two lengths is missing.", fix="give prompt_tokens and output_tokens")
        for name in ("requests_per_s", "duration_s", "scale", "block_s"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ScenarioInvalid(f"{name} of the workload is {value}.", fix="give a number above 0")
        if self.from_s < 0 or self.sessions < 0:
            raise ScenarioInvalid("from_s or sessions is below 0.", fix="give 0 or more")
        for name in ("requests", "prompt_tokens", "output_tokens"):
            value = getattr(self, name)
            if value is not None and not 1 <= value <= MOST_REQUESTS:
                raise ScenarioInvalid(f"{name} of the workload is {value}.", fix=f"give 1 to {MOST_REQUESTS}")
        if self.trace is None:
            if self.requests_per_s is None:
                raise ScenarioInvalid("generated requests have no rate.", fix="give requests_per_s")
            if self.block_s is not None:
                raise ScenarioInvalid("block_s is for traces.", fix="leave it out: every seed draws other requests")


@dataclass(frozen=True, kw_only=True)
class FailureSpec:
    """Random failures of every instance: mean time between them, and mean time to repair."""

    mtbf_s: float
    repair_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class IntensitySpec:
    """Where the carbon intensity of the pools' zones comes from: declared gCO2eq/kWh by zone with a `version`, or the
    warehouse's figures from `at` on. What is older than `max_age_s` is unknown."""

    g_per_kwh: Mapping[str, float] = field(default_factory=dict)
    version: str = ""
    at: str | None = None
    signal: str = "average"
    basis: str = "lifecycle"
    carry_s: float = 0.0
    fallback: bool = True
    max_age_s: float | None = None
    ttl_s: float | None = None  # in the simulation: a value older than this is stale

    def __post_init__(self) -> None:
        if bool(self.g_per_kwh) == (self.at is not None):
            raise ScenarioInvalid(
                "the intensity is neither declared nor looked up, or both.", fix="give g_per_kwh by zone, or `at`"
            )
        if self.g_per_kwh and not self.version.strip():
            raise ScenarioInvalid("the declared intensity has no version.", fix="say source and date in `version`")


@dataclass(frozen=True, kw_only=True)
class QualitySpec:
    """What was right, by logical model, on one set of outcomes: controls for quality where models differ."""

    outcome_set: str
    success: Mapping[str, float] = field(default_factory=dict)  # empty: read from the recorded outcomes

    def __post_init__(self) -> None:
        for model, share in self.success.items():
            if not 0 <= share <= 1:
                raise ScenarioInvalid(f"success of {model} is {share}.", fix="give a share from 0 to 1")


@dataclass(frozen=True, kw_only=True)
class FleetScenario:
    """`slo_target` is the share of offered requests that must meet the SLO; `settle_s` is left out of percentiles."""

    pools: tuple[PoolSpec, ...]
    workload: WorkloadSpec
    title: str = ""
    classes: tuple[RequestClass, ...] = ()
    routing: tuple[LengthRule, ...] = ()
    balancer: Balancer = field(default_factory=Balancer)
    slo: Slo = field(default_factory=Slo)
    slo_target: float = 0.99
    telemetry: Telemetry = field(default_factory=Telemetry)
    intensity: IntensitySpec | None = None
    changes: tuple[ChangeAt, ...] = ()
    failures: FailureSpec | None = None
    quality: QualitySpec | None = None
    affinity: bool = False
    prefix_reuse: float = 0.0
    max_attempts: int = 1
    horizon_s: float | None = None
    settle_s: float = 0.0
    speed: str = "live"
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)

    def __post_init__(self) -> None:
        if not self.pools:
            raise CapacityZero("the fleet has no pool.", fix="give one or more")
        _unique([p.name for p in self.pools], "pool")
        _unique([c.name for c in self.classes], "class of requests")
        if not self.seeds or len(self.seeds) > MOST_SEEDS or min(self.seeds) < 0:
            wrong = f"a seed is {min(self.seeds)}" if self.seeds and min(self.seeds) < 0 else f"{len(self.seeds)} seeds"
            raise ScenarioInvalid(f"{wrong}.", fix=f"give 1 to {MOST_SEEDS} numbers of 0 or more")
        _unique([str(s) for s in self.seeds], "seed")
        if not 0 < self.slo_target <= 1:
            raise ScenarioInvalid(f"slo_target is {self.slo_target}.", fix="give a share above 0, at most 1")
        shares = [c.share for c in self.classes if c.share is not None]
        if shares and len(shares) < len(self.classes):
            raise ScenarioInvalid("some classes have a share and others a category.", fix="use one kind for all")
        if sum(shares) > 1 + 1e-9:
            raise ScenarioInvalid(f"the shares of the classes sum to {sum(shares):g}.", fix="give at most 1 together")
        names = {p.name for p in self.pools}
        named = [*(c.pools or () for c in self.classes), *(r.pools for r in self.routing)]
        for pools in named:
            if unknown := sorted(set(pools) - names):
                raise ScenarioInvalid(f"there is no pool {unknown[0]!r}.", fix=f"use {', '.join(sorted(names))}")

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; `read` reads them. What has its default is left out."""
        found: dict[str, Any] = _told(self)
        return found

    def with_pools(self, pools: tuple[PoolSpec, ...]) -> FleetScenario:
        return replace(self, pools=pools)


def _told(value: Any) -> Any:
    if is_dataclass(value):
        told = {f.name: (getattr(value, f.name), f) for f in fields(value)}
        return {name: _told(v) for name, (v, f) in told.items() if v != _default(f)}
    if isinstance(value, Mapping):
        return {str(k): _told(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_told(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _default(f: Any) -> Any:
    return f.default_factory() if callable(f.default_factory) else f.default


def _unique(names: list[str], what: str) -> None:
    for name in names:
        if not name.strip():
            raise ScenarioInvalid(f"a {what} has no name.", fix="name it")
        if names.count(name) > 1:
            raise ScenarioInvalid(f"two are called {name!r}.", fix=f"give every {what} a name of its own")
