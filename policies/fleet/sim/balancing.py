"""How requests are spread: the policy and its limits, what it is told, and the carbon that it may weigh."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from policies.fleet.errors import FleetError
from policies.fleet.sim.layout import Balance, Floats

POLICIES = tuple(b.name.lower() for b in Balance)
OBLIVIOUS = tuple(b.name.lower() for b in Balance if b < Balance.ENERGY_AWARE)


@dataclass(frozen=True, kw_only=True)
class Balancer:
    """A load-balancing policy. The eligible set, context, health and queue limits bind every one of them.

    random         any instance, each with the same probability
    round_robin    in turn
    least_loaded   fewest requests per slot; among equals the one chosen longest ago
    spillover      the first pool in `order` until `threshold` of its slots are taken, then the next
    power_of_two   the less loaded of two random instances
    pack           the fullest instance below `pack_share` of its slots, pool by pool in `order`
    static         always the first eligible pool in `order`, least loaded within
    energy_aware   least expected marginal joules per successful request within the predicted SLO, queue and KV limits
    carbon_aware   the same, times the intensity of the pool's zone

    `order` None: as the pools are given for spillover, by joules per token at full batch for all others.
    `fallback` is taken where telemetry or intensity is stale, and where no instance is predicted to meet the SLO
    (unless `reject_on_slo`).
    """

    policy: str = "least_loaded"
    fallback: str = "round_robin"
    order: tuple[str, ...] | None = None
    threshold: float = 0.85
    pack_share: float = 1.0
    hysteresis: float = 0.05  # a class leaves its pool only for one that is cheaper by more than this share
    dwell_s: float = 0.0  # and not sooner than this after the last move
    dark_share: float = 0.0  # of eligible instances that may be without fresh telemetry before the policy falls back
    reject_on_slo: bool = False

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise FleetError(f"there is no policy {self.policy!r}.", fix=f"use one of {', '.join(POLICIES)}")
        if self.fallback not in OBLIVIOUS:
            raise FleetError(
                f"{self.fallback!r} is no energy-oblivious policy to fall back to.",
                fix=f"use one of {', '.join(OBLIVIOUS)}",
            )
        for name, low, high in (
            ("threshold", 0.0, math.inf),
            ("pack_share", 0.0, 1.0),
            ("hysteresis", 0.0, 1.0),
            ("dwell_s", 0.0, math.inf),
            ("dark_share", 0.0, 1.0),
        ):
            if not low <= getattr(self, name) <= high:
                raise FleetError(f"{name} is {getattr(self, name)}.", fix=f"give {low:g} to {high:g}")

    @property
    def code(self) -> Balance:
        return Balance[self.policy.upper()]


@dataclass(frozen=True, kw_only=True)
class Slo:
    """Limits of latency per request. Infinite: none."""

    ttft_s: float = math.inf
    tpot_s: float = math.inf
    e2e_s: float = math.inf

    def __post_init__(self) -> None:
        for name in ("ttft_s", "tpot_s", "e2e_s"):
            if not getattr(self, name) > 0:
                raise FleetError(f"{name} of the SLO is {getattr(self, name)}.", fix="give seconds above 0")


@dataclass(frozen=True, kw_only=True)
class Telemetry:
    """What the balancer is told. Interval 0: the truth, at once.

    Else every instance reports each `interval_s` (they take turns), a report is lost with probability `dropout`,
    and what is older than `ttl_s` is stale. Between reports the balancer adds the requests that it sent itself.
    """

    interval_s: float = 0.0
    ttl_s: float = 5.0
    dropout: float = 0.0

    def __post_init__(self) -> None:
        if not (0 <= self.interval_s < math.inf and self.ttl_s > 0 and 0 <= self.dropout <= 1):
            raise FleetError(
                f"telemetry every {self.interval_s} s, valid {self.ttl_s} s, lost {self.dropout}.",
                fix="give an interval of 0 or more, a time to live above 0, a dropout from 0 to 1",
            )


@dataclass(frozen=True)
class Intensity:
    """gCO2eq/kWh of zones, piecewise constant: per zone (seconds since the start of the run, value from then on).

    `version` names the series (source, signal, time of knowledge); a value older than `ttl_s` is stale, NaN unknown.
    """

    zones: Mapping[str, tuple[Floats, Floats]]
    version: str
    ttl_s: float = math.inf

    def __post_init__(self) -> None:
        if not self.version.strip():
            raise FleetError("the series of intensity has no version.", fix="say source, signal and when it was known")
        if not self.ttl_s > 0:
            raise FleetError(f"ttl_s of the intensity is {self.ttl_s}.", fix="give seconds above 0")
        checked = {zone: _series(zone, *series) for zone, series in self.zones.items()}
        object.__setattr__(self, "zones", checked)

    @staticmethod
    def constant(g_per_kwh: Mapping[str, float], version: str) -> Intensity:
        return Intensity({zone: (np.zeros(1), np.array([g])) for zone, g in g_per_kwh.items()}, version)

    def at(self, zone: str | None, now_s: float) -> tuple[float, float]:
        """(g per J, time from which it holds); NaN where unknown."""
        if zone is None or zone not in self.zones:
            return math.nan, -math.inf
        times, values = self.zones[zone]
        k = int(np.searchsorted(times, now_s, side="right")) - 1
        return (float(values[k]) / 3.6e6, float(times[k])) if k >= 0 else (math.nan, -math.inf)

    def changes(self, zone: str | None, after_s: float) -> list[tuple[float, float]]:
        """(time, g per J) of every later value."""
        if zone is None or zone not in self.zones:
            return []
        times, values = self.zones[zone]
        return [(float(t), float(v) / 3.6e6) for t, v in zip(times, values, strict=True) if t > after_s]


def _series(zone: str, times: ArrayLike, values: ArrayLike) -> tuple[Floats, Floats]:
    t, v = np.asarray(times, np.float64), np.asarray(values, np.float64)
    if t.ndim != 1 or t.shape != v.shape or not len(t):
        raise FleetError(f"intensity of zone {zone} has {t.size} times and {v.size} values.", fix="give one per time")
    if not np.isfinite(t).all() or (np.diff(t) <= 0).any():
        raise FleetError(f"the times of zone {zone} do not rise.", fix="sort them, one value per time")
    if np.isinf(v).any() or (v < 0).any():
        raise FleetError(
            f"an intensity of zone {zone} is negative or infinite.", fix="give gCO2eq/kWh, NaN where unknown"
        )
    return t, v


def ordered(names: Sequence[str], order: tuple[str, ...] | None) -> list[int]:
    """Positions of the pools in the order asked for. Raises FleetError for one that is missing or unknown."""
    if order is None:
        return list(range(len(names)))
    if sorted(order) != sorted(names):
        raise FleetError(f"the order {', '.join(order)} is not one of all pools.", fix=f"order {', '.join(names)}")
    return [list(names).index(name) for name in order]
