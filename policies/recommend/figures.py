"""Figures of a promise: totals over successes, and the relative difference of two independent offers.

Estimand: R = sum(x) / sum(successes) over *all* attempts, so that failures and retries weigh in
(facts: averaging only successful requests is wrong). Interval: linearised (delta) on log R,
psi_i = x_i / mean(x) - s_i / mean(s), se = sd(psi) / sqrt(n), Student's t with n - 1 degrees of freedom.
Two independent samples: log(R1 / R0) +- t * sqrt(se0^2 + se1^2), degrees of freedom after Welch and Satterthwaite,
rounded down. Where g = t^2 var(mean s) / mean(s)^2 >= 1 (Fieller) the interval is unbounded and none is given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from policies.router.score import t_975


@dataclass(frozen=True)
class Ratio:
    """sum(x) / sum(s) of one offer. `se_log` and `interval` are None where the sample cannot tell them."""

    value: float
    n: int
    se_log: float | None
    interval: tuple[float, float] | None


@dataclass(frozen=True)
class Comparison:
    """new / old - 1 and its 95 % interval. `separable`: the interval excludes 0; None: no interval exists."""

    difference: float
    interval: tuple[float, float] | None
    separable: bool | None


def ratio(amounts: Sequence[float], denominators: Sequence[float]) -> Ratio | None:
    """The ratio of totals of n runs; None without a run or without anything to divide by."""
    n = len(amounts)
    if n == 0 or n != len(denominators) or not all(map(math.isfinite, (*amounts, *denominators))):
        return None
    total, units = math.fsum(amounts), math.fsum(denominators)
    if units <= 0:
        return None
    value = total / units
    se = _se_log(amounts, denominators, total, units)
    if se is None:
        return Ratio(value, n, None, None)
    half = t_975(n - 1) * se
    return Ratio(value, n, se, (value * math.exp(-half), value * math.exp(half)))


def _se_log(amounts: Sequence[float], denominators: Sequence[float], total: float, units: float) -> float | None:
    n = len(amounts)
    if n < 2 or total <= 0:
        return None
    mean_x, mean_s = total / n, units / n
    t = t_975(n - 1)
    var_mean_s = math.fsum((s - mean_s) ** 2 for s in denominators) / (n - 1) / n
    if t * t * var_mean_s / mean_s**2 >= 1:
        return None
    psi = [x / mean_x - s / mean_s for x, s in zip(amounts, denominators, strict=True)]
    centre = math.fsum(psi) / n
    return math.sqrt(math.fsum((p - centre) ** 2 for p in psi) / (n - 1) / n)


def compare(old: Ratio | None, new: Ratio | None) -> Comparison | None:
    """How much more (+) or less (-) the new offer takes, relative to the old; None where either is unknown."""
    if old is None or new is None or old.value <= 0:
        return None
    quotient = new.value / old.value
    if old.se_log is None or new.se_log is None or quotient <= 0:
        return Comparison(quotient - 1, None, None)
    variance = old.se_log**2 + new.se_log**2
    if variance == 0:
        return Comparison(quotient - 1, (quotient - 1, quotient - 1), quotient != 1)
    degrees = variance**2 / (old.se_log**4 / (old.n - 1) + new.se_log**4 / (new.n - 1))
    half = t_975(max(1, math.floor(degrees + 1e-9))) * math.sqrt(variance)
    low, high = quotient * math.exp(-half) - 1, quotient * math.exp(half) - 1
    return Comparison(quotient - 1, (low, high), low > 0 or high < 0)


def success_difference(s1: int, n1: int, s0: int, n0: int, z: float = 1.959963984540054) -> tuple[float, float]:
    """95 % interval of p1 - p0 for independent samples: Newcombe's hybrid score (1998, method 10).

    Never of width zero: five successes of five on both sides leave -43 to +43 percentage points open.
    """
    p1, p0 = s1 / n1, s0 / n0
    l1, u1 = wilson_bounds(s1, n1, z)
    l0, u0 = wilson_bounds(s0, n0, z)
    gap = p1 - p0
    low, high = gap - math.hypot(p1 - l1, u0 - p0), gap + math.hypot(u1 - p1, p0 - l0)
    return max(-1.0, low), min(1.0, high)  # rounding alone could step outside


def wilson_bounds(successes: int, attempts: int, z: float = 1.6448536269514722) -> tuple[float, float]:
    """Wilson score bounds of a success rate, one-sided at 95 % each with the default z."""
    p = successes / attempts
    centre = (p + z * z / (2 * attempts)) / (1 + z * z / attempts)
    half = z / (1 + z * z / attempts) * math.sqrt(p * (1 - p) / attempts + z * z / (4 * attempts**2))
    return max(0.0, centre - half), min(1.0, centre + half)
