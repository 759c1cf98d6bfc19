"""How many requests a proof needs: planned before the shadow starts, and shown beside what is there."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from policies.proof.checked import Interval, probability
from policies.proof.errors import ValuesInvalid


def n_noninferiority(
    margin: float, discordance: float, *, alpha: float = 0.025, power: float = 0.9, difference: float = 0.0
) -> int:
    """Pairs for paired non-inferiority of a rate: (z_alpha + z_power)^2 psi / (margin + difference)^2.

    margin: largest loss, a share (0.02 = 2 pp); discordance psi: share of pairs that differ; alpha: one-sided;
    difference: the true difference that is hoped for. Liu et al. (2002), Statistics in Medicine 21, 231-245.
    """
    gap = _positive(margin, "margin") + difference
    if not gap > 0:
        raise ValuesInvalid(
            f"difference is {difference}, at or beyond the margin {margin}.", fix="plan for a smaller loss"
        )
    psi = probability(discordance, "discordance")
    if abs(difference) > psi:
        raise ValuesInvalid(
            f"difference {difference} exceeds the discordance {psi}.", fix="rates differ by at most that"
        )
    z = _z(probability(alpha, "alpha"), power)
    return math.ceil(z * z * (psi - difference**2) / gap**2 - 1e-9)


def n_separable(ratio: float, log_sd: float, *, alpha: float = 0.05, power: float = 0.8) -> int:
    """Runs per arm, independent, until a true ratio of means is told from 1: 2 (z z)^2 sd^2 / log(ratio)^2.

    log_sd: run-to-run standard deviation of the logarithm (see `log_sd_of_range`); alpha: two-sided.
    """
    step = math.log(_positive(ratio, "ratio"))
    if step == 0:
        raise ValuesInvalid("ratio is 1.", fix="plan for a ratio that differs from 1")
    z = _z(probability(alpha, "alpha") / 2, power)
    return math.ceil(2 * (z * _positive(log_sd, "log_sd") / step) ** 2 - 1e-9)


def n_ratio_gain(gain: float, sd_psi: float, *, required: float = 0.0, alpha: float = 0.025, power: float = 0.9) -> int:
    """Pairs until the upper bound of R1/R0 lies below 1 - required, where the true ratio is 1 - gain.

    sd_psi: standard deviation of the influence values of `policies.proof.intervals.log_ratio` in a pilot.
    """
    distance = math.log1p(-required) - math.log1p(-probability(gain, "gain"))
    if not distance > 0:
        raise ValuesInvalid(
            f"gain is {gain}, required {required}.", fix="the gain hoped for must exceed what is required"
        )
    z = _z(probability(alpha, "alpha"), power)
    return max(math.ceil((z * _positive(sd_psi, "sd_psi") / distance) ** 2 - 1e-9), 2)


def expected_range(n: int) -> float:
    """Mean range of n standard normal values (d2 of control charts): 2.326 for n = 5."""
    if n < 2:
        raise ValuesInvalid(f"n is {n}.", fix="a range needs at least 2 values")

    from scipy.integrate import quad  # slow to import: not at every start
    from scipy.special import log_ndtr, ndtr

    def above(x: float) -> float:
        return float(-np.expm1(n * log_ndtr(x)) - ndtr(-x) ** n)

    return 2 * float(quad(above, 0, 12, limit=200)[0])


def log_sd_of_range(fold: float, n: int) -> float:
    """Log standard deviation of n runs that range over a factor `fold`: 0.596 for 4 x in 5 runs."""
    return math.log(_positive(fold, "fold")) / expected_range(n)


def rank_intervals(intervals: Sequence[Interval]) -> list[tuple[int, int]]:
    """(best, worst) rank of each arm, 1 = least: arms whose intervals overlap are not separable, and share ranks."""
    lows, highs = (np.array([i[k] for i in intervals], dtype=np.float64) for k in (0, 1))
    return [
        (1 + int((highs < low).sum()), len(intervals) - int((lows > high).sum()))
        for low, high in zip(lows, highs, strict=True)
    ]


def separable(one: Interval, other: Interval) -> bool:
    """Whether two intervals leave no doubt about the order (strict: overlap says no)."""
    return one[1] < other[0] or other[1] < one[0]


def _z(tail: float, power: float) -> float:
    """Normal quantile of the test's tail and of its power together."""
    from scipy.special import ndtri  # slow to import: not at every start

    return float(ndtri(1 - tail) + ndtri(probability(power, "power")))


def _positive(value: float, name: str) -> float:
    if not (value > 0 and math.isfinite(value)):
        raise ValuesInvalid(f"{name} is {value}.", fix="give a finite number above 0")
    return float(value)
