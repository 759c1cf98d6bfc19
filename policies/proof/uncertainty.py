"""Systematic uncertainty, GUM style: what does not shrink with n, and what cancels between two arms.

JCGM 100:2008 (GUM) combines standard uncertainties in quadrature, correlated ones with their sign. A meter, an
attribution rule, a PUE or a grid intensity that both arms share is the same error on both sides of a ratio.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from policies.proof.checked import Floats, Interval, probability, z_two_sided
from policies.proof.errors import EvidenceMixed, ValuesInvalid
from policies.proof.intervals import exp

DRAWS = 10_000
SHARED = 0.8  # correlation of two arms' errors of one meter class: the same kind of meter, not always the same meter


@dataclass(frozen=True)
class Systematic:
    """One source of error of an arm: relative standard uncertainty, and the class of what causes it."""

    name: str  # meter, attribution, pue, intensity
    relative_sd: float
    cause: str  # such as `nvml`, `rack PDU`, `GB 2026-11`: equal causes cancel partly
    correlation: float = SHARED  # between arms of the same cause; 1 where it is the very same instrument

    def __post_init__(self) -> None:
        if not (self.relative_sd >= 0 and math.isfinite(self.relative_sd)):
            raise ValuesInvalid(f"relative_sd of {self.name} is {self.relative_sd}.", fix="give a share of at least 0")
        if not 0 <= self.correlation <= 1:
            raise ValuesInvalid(f"correlation of {self.name} is {self.correlation}.", fix="give a number from 0 to 1")


def one_arm(parts: Sequence[Systematic]) -> float:
    """Relative standard uncertainty of one arm's figure: parts of different names in quadrature."""
    return math.sqrt(math.fsum(part.relative_sd**2 for part in parts))


def contrast(candidate: Sequence[Systematic], control: Sequence[Systematic]) -> float:
    """Relative standard uncertainty of the ratio candidate / control that no number of requests removes.

    Per name: u1^2 + u0^2 - 2 r u1 u0, r the correlation where the causes are equal and 0 otherwise. Raises
    EvidenceMixed where the meters of the two arms differ in class: such a contrast is refused, not widened.
    """
    one, zero = _by_name(candidate), _by_name(control)
    meters = one.get("meter"), zero.get("meter")
    if meters[0] and meters[1] and meters[0].cause != meters[1].cause:
        raise EvidenceMixed(
            f"the candidate was metered by {meters[0].cause}, the control by {meters[1].cause}.",
            fix="measure both arms with one class of meter",
        )
    total = 0.0
    for name in one.keys() | zero.keys():
        a, b = one.get(name), zero.get(name)
        u1, u0 = (a.relative_sd if a else 0.0), (b.relative_sd if b else 0.0)
        r = min(a.correlation, b.correlation) if a and b and a.cause == b.cause else 0.0
        total += u1**2 + u0**2 - 2 * r * u1 * u0
    return math.sqrt(max(total, 0.0))


def widened(estimate: float, interval: Interval, relative_sd: float, confidence: float = 0.95) -> Interval:
    """A sampling interval of a positive figure with systematic uncertainty added in quadrature on the log scale.

    Each side of the estimate is widened by itself, so that skewed intervals stay skewed and open ends stay open.
    """
    low, high = interval
    if not (relative_sd >= 0 and math.isfinite(relative_sd)):
        raise ValuesInvalid(f"relative_sd is {relative_sd}.", fix="give a share of at least 0")
    extra = z_two_sided(confidence) * relative_sd
    if 0 < low <= estimate:
        low = estimate * exp(-math.hypot(math.log(estimate / low), extra))
    if estimate <= high < math.inf:
        high = estimate * exp(math.hypot(math.log(high / estimate), extra))
    return low, high


@dataclass(frozen=True)
class Uncertain:
    """A value and its standard uncertainty, in the unit that the name of its holder tells."""

    value: float
    sd: float


@dataclass(frozen=True)
class Footprint:
    """Joules, dollars and grams intervals by Monte Carlo, and each sd by linear propagation."""

    energy_j: Interval
    energy_usd: Interval
    carbon_g: Interval
    linear_sd: Mapping[str, float]


def footprint(
    energy_j: Uncertain,
    pue: Uncertain,
    tariff_usd_per_kwh: Uncertain,
    intensity_g_per_kwh: Uncertain,
    *,
    confidence: float = 0.95,
    draws: int = DRAWS,
    seed: int = 0,
) -> Footprint:
    """Propagate a board's joules to facility joules, dollars of electricity and grams of CO2-equivalent.

    Inputs are log-normal (positive, given mean and sd), the supplement of the GUM (JCGM 101:2008) with `draws` draws.
    """
    rng = np.random.default_rng(seed)
    inputs = (energy_j, pue, tariff_usd_per_kwh, intensity_g_per_kwh)
    e, p, tariff, intensity = (_lognormal(x, rng.standard_normal(draws)) for x in inputs)
    joules = e * p
    kwh = joules / 3.6e6
    r = [x.sd / x.value for x in inputs]
    facility = energy_j.value * pue.value
    linear = {
        "energy_j": facility * math.hypot(r[0], r[1]),
        "energy_usd": facility / 3.6e6 * tariff_usd_per_kwh.value * math.hypot(r[0], r[1], r[2]),
        "carbon_g": facility / 3.6e6 * intensity_g_per_kwh.value * math.hypot(r[0], r[1], r[3]),
    }
    tail = (1 - probability(confidence)) / 2

    def middle(x: Floats) -> Interval:
        low, high = np.quantile(x, [tail, 1 - tail])
        return float(low), float(high)

    return Footprint(middle(joules), middle(kwh * tariff), middle(kwh * intensity), linear)


def _lognormal(x: Uncertain, normal: Floats) -> Floats:
    if not (x.value > 0 and x.sd >= 0 and math.isfinite(x.value) and math.isfinite(x.sd)):
        raise ValuesInvalid(f"value {x.value} with sd {x.sd}.", fix="give a value above 0 and an sd of at least 0")
    variance = math.log1p((x.sd / x.value) ** 2)
    return np.asarray(np.exp(math.log(x.value) - variance / 2 + math.sqrt(variance) * normal))


def _by_name(parts: Sequence[Systematic]) -> dict[str, Systematic]:
    named = {part.name: part for part in parts}
    if len(named) < len(parts):
        raise ValuesInvalid(f"{[p.name for p in parts]} names a source twice.", fix="combine them into one first")
    return named
