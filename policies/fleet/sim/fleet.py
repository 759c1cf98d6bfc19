"""A fleet as a simulation takes it: pools of instances, what they run, and what happens to them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from policies.fleet.errors import CapacityZero, FleetError, ProfileIncomplete
from policies.fleet.power.models import Array
from policies.fleet.power.profiles import Profile

BASE = "base"  # name of a pool's own deployment
QUEUE_UNLIMITED = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """What an instance runs. `error_rate` is the share of answers that are errors, after their joules are spent."""

    profile: Profile
    error_rate: float = 0.0
    slots: int | None = None  # requests at once; None: the profile's, at the pool's context
    extrapolate: bool = False  # allow concurrencies outside the power model's range

    def __post_init__(self) -> None:
        if not 0 <= self.error_rate <= 1:
            raise FleetError(f"error_rate is {self.error_rate}.", fix="give a share from 0 to 1")

    def slots_at(self, context_tokens: int) -> int:
        """Requests at once: as many as KV memory and the slot budget hold, or as configured.

        A configured number may be above what fits with every request at full context; KV blocks are checked for
        each request anyway. Raises CapacityZero.
        """
        held = self.profile.n_slots(context_tokens)
        if self.slots is None:
            return held
        if self.slots < 1:
            raise CapacityZero(f"{self.profile.name} has {self.slots} slots.", fix="give 1 or more")
        return self.slots

    def power_w(self, slots: int) -> Array:
        """W per instance at 0..slots requests."""
        return self.profile.power.tabulated(slots, extrapolate=self.extrapolate)


@dataclass(frozen=True, kw_only=True)
class Pool:
    """Instances that the balancer may choose among for the same requests.

    `alternatives` are further deployments by name, `mix` the share of instances that run one from the start
    (a partial deployment); changes may bring others. `parked` instances start empty.
    """

    name: str
    profile: Profile
    instances: int
    context_tokens: int = 8192  # longest request, prompt and output; a hard limit
    slots: int | None = None
    error_rate: float = 0.0
    extrapolate: bool = False
    queue_limit: int | None = None  # waiting per instance; None: no limit
    max_wait_s: float = math.inf
    warmup_s: float = 0.0
    zone: str | None = None
    alternatives: Mapping[str, Deployment] = field(default_factory=dict)
    mix: Mapping[str, float] = field(default_factory=dict)
    parked: int = 0
    failure_rate_per_s: float = 0.0  # expected by the energy-aware choice; `random_failures` makes them happen
    failed_w: float = 0.0  # W of an instance that is down; stated, not measured
    idle_empty_w: float | None = None  # W of an instance without a model; None: the profile's

    def __post_init__(self) -> None:
        if self.instances < 1:
            raise CapacityZero(f"pool {self.name} has {self.instances} instances.", fix="give 1 or more")
        if not 0 <= self.parked <= self.instances:
            raise FleetError(f"{self.parked} of {self.instances} instances are parked.", fix="park at most all")
        if self.queue_limit is not None and self.queue_limit < 0:
            raise FleetError(f"queue_limit of {self.name} is {self.queue_limit}.", fix="give 0 or more, or None")
        for name in ("max_wait_s", "warmup_s", "failure_rate_per_s", "failed_w"):
            value = getattr(self, name)
            if not value >= 0 or (name != "max_wait_s" and value == math.inf):
                raise FleetError(f"{name} of pool {self.name} is {value}.", fix="give 0 or more")
        if BASE in self.alternatives:
            raise FleetError(f"an alternative of pool {self.name} is called {BASE!r}.", fix="give it another name")
        if unknown := sorted(set(self.mix) - set(self.alternatives)):
            raise FleetError(f"pool {self.name} has no deployment {unknown[0]!r}.", fix="declare it in alternatives")
        if any(not 0 <= share <= 1 for share in self.mix.values()) or sum(self.mix.values()) > 1 + 1e-9:
            raise FleetError(
                f"shares of pool {self.name} are {dict(self.mix)}.", fix="give shares that sum to 1 at most"
            )
        for deployment in self.deployments.values():
            deployment.slots_at(self.context_tokens)

    @property
    def deployments(self) -> dict[str, Deployment]:
        """The pool's own first."""
        own = Deployment(
            profile=self.profile, error_rate=self.error_rate, slots=self.slots, extrapolate=self.extrapolate
        )
        return {BASE: own, **self.alternatives}

    def assigned(self) -> list[str]:
        """Deployment of each instance at the start: the last ones run the alternatives."""
        counts = {name: round(share * self.instances) for name, share in self.mix.items()}
        rest = self.instances - sum(counts.values())
        return [BASE] * rest + [name for name, count in counts.items() for _ in range(count)]

    def empty_w(self, deployment: Deployment) -> float:
        """W of an instance without a model, NaN where it is not known."""
        if self.idle_empty_w is not None:
            return self.idle_empty_w
        try:
            return deployment.profile.power.idle_empty_w
        except ProfileIncomplete:
            return math.nan


ChangeKind = Literal["fail", "start", "park", "redeploy", "unhealthy", "healthy"]


@dataclass(frozen=True, kw_only=True)
class ChangeAt:
    """Something that happens to instances of a pool.

    fail       running requests are lost; down until `repair_s` have passed and the warm-up is over (None: for good)
    start      an empty or failed instance warms up
    park       it serves what it holds, then gives its model up
    redeploy   it serves what it holds, then warms up with deployment `to`
    unhealthy  the balancer leaves it out; it serves what it holds
    healthy    the balancer takes it back
    """

    at_s: float
    pool: str
    kind: ChangeKind
    instances: Sequence[int] = ()  # within the pool
    share: float | None = None  # instead of `instances`: the last so many of the pool
    to: str = BASE
    repair_s: float | None = None


def random_failures(
    pools: Sequence[Pool], *, mtbf_s: float, repair_s: float, until_s: float, seed: int
) -> list[ChangeAt]:
    """Failures of every instance: exponential times between failures (mean `mtbf_s`) and to repair (`repair_s`)."""
    if not (mtbf_s > 0 and repair_s >= 0 and 0 < until_s < math.inf):
        raise FleetError(
            f"failures every {mtbf_s} s, repair in {repair_s} s, until {until_s} s.", fix="give finite positive times"
        )
    rng, found = np.random.default_rng(seed), []
    for pool in pools:
        for i in range(pool.instances):
            at = float(rng.exponential(mtbf_s))
            while at < until_s:
                down = float(rng.exponential(repair_s)) if repair_s > 0 else 0.0
                found.append(ChangeAt(at_s=at, pool=pool.name, kind="fail", instances=(i,), repair_s=down))
                at += down + pool.warmup_s + float(rng.exponential(mtbf_s))
    return sorted(found, key=lambda c: (c.at_s, c.pool, c.instances))
