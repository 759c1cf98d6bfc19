"""Intervals of the four estimands every proof rests on: paired success rates and joules per success.

All return (low, high) at a two-sided `confidence`; a one-sided bound at 97.5 % is one end of the 95 % interval.
Nothing here returns NaN: what the data cannot bound is (0, inf) or (low, inf), which a gate reads as INCONCLUSIVE.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import SupportsIndex

import numpy as np
import numpy.typing as npt

from policies.proof.checked import (
    Floats,
    Interval,
    count,
    probability,
    same_length,
    t_two_sided,
    total,
    vector,
    z_two_sided,
)
from policies.proof.errors import CountsInvalid

Count = SupportsIndex | float


def tango(b: Count, c: Count, n: Count, confidence: float = 0.95) -> Interval:
    """Score interval of a paired difference of success rates, candidate minus control.

    b: only the candidate succeeded, c: only the control did, n: all pairs. Unlike Wald's it keeps a width
    where b = c = 0. Tango (1998), Statistics in Medicine 17, 891-908: the set of differences d with
    (b - c - n d)^2 <= z^2 n (2 q(d) + d (1 - d)), q(d) the maximum likelihood estimate of P(only control).
    Raises CountsInvalid, NoData, ConfidenceInvalid.
    """
    n = total(n)
    b, c = count(b, "b"), count(c, "c")
    if b + c > n:
        raise CountsInvalid(f"b + c is {b + c}, above n = {n}.", fix="b and c count pairs among the n that differ")
    return score_limits(b, c, n, z_two_sided(confidence) ** 2)


def newcombe_paired(a: Count, b: Count, c: Count, d: Count, confidence: float = 0.95) -> Interval:
    """Hybrid score interval of the same difference from the whole table, as a check of `tango`.

    a: both succeeded, b: only the candidate, c: only the control, d: neither. Newcombe (1998), Statistics in
    Medicine 17, 2635-2650, method 10: Wilson limits of both rates, joined by the continuity corrected phi.
    Raises CountsInvalid, NoData, ConfidenceInvalid.
    """
    a, b, c, d = count(a, "a"), count(b, "b"), count(c, "c"), count(d, "d")
    n = total(a + b + c + d)
    z = z_two_sided(confidence)
    p1, p0 = (a + b) / n, (a + c) / n
    low1, high1 = wilson(p1, n, z)
    low0, high0 = wilson(p0, n, z)
    phi = _phi(a, b, c, d)

    def half(x: float, y: float) -> float:
        return math.sqrt(max(x * x - 2 * phi * x * y + y * y, 0.0))

    diff = p1 - p0
    return (
        max(diff - half(p1 - low1, high0 - p0), -1.0),
        min(diff + half(high1 - p1, p0 - low0), 1.0),
    )


def ratio_delta(
    e1: npt.ArrayLike, s1: npt.ArrayLike, e0: npt.ArrayLike, s0: npt.ArrayLike, confidence: float = 0.95
) -> Interval:
    """Interval of R1/R0, R = sum of energy / sum of successes, over paired requests.

    e (n,): J of all attempts of a request, s (n,): its successes (0 or 1, or a share), of the candidate (1) and
    the control (0). Grams or USD in the place of J give the interval of their ratio. Linearised logarithm:
    psi_i = (e1_i/mean - s1_i/mean) - (e0_i/mean - s0_i/mean), se = sd(psi)/sqrt(n), normal quantile.
    (0, inf) where the ratio or its error is undefined: one pair, or a sum of 0. Raises ValuesInvalid, NoData,
    LengthsDiffer, ConfidenceInvalid.
    """
    z = z_two_sided(confidence)
    found = log_ratio(e1, s1, e0, s0)
    if found is None:
        return 0.0, math.inf
    centre, psi = found
    half = z * float(psi.std(ddof=1)) / math.sqrt(psi.size)
    return exp(centre - half), exp(centre + half)


def log_ratio(
    e1: npt.ArrayLike, s1: npt.ArrayLike, e0: npt.ArrayLike, s0: npt.ArrayLike
) -> tuple[float, Floats] | None:
    """(log R1/R0, its influence values psi (n,), of mean 0); None where a sum is 0 or there is one pair."""
    e1, s1, e0, s0 = vector(e1, "e1"), vector(s1, "s1"), vector(e0, "e0"), vector(s0, "s0")
    same_length(e1=e1, s1=s1, e0=e0, s0=s0)
    candidate, control = arm_log(e1, s1), arm_log(e0, s0)
    if candidate is None or control is None:
        return None
    return candidate[0] - control[0], candidate[1] - control[1]


def fieller(energy: npt.ArrayLike, success: npt.ArrayLike, confidence: float = 0.95) -> Interval:
    """Interval of sum(energy) / sum(success) of one arm, exact where both means are normal (Fieller 1954).

    energy (n,): J per request over all attempts, success (n,): its successes. Where every request succeeds this is
    Student's t interval of the mean. With g = t^2 var(mean s) / (mean s)^2 >= 1 the successes do not exclude 0, so
    the set has no upper end: (low, inf), low its smallest positive ratio. (0, inf) for one request or no energy.
    Raises ValuesInvalid, NoData, LengthsDiffer, ConfidenceInvalid.
    """
    e, s = vector(energy, "energy"), vector(success, "success")
    n = same_length(energy=e, success=s)
    probability(confidence)
    scale = float(e.mean())  # the equation is solved in units of the mean energy
    if n < 2 or scale == 0:
        return 0.0, math.inf
    cov = np.cov(e / scale, s) / n
    found = fieller_limits(1.0, float(s.mean()), cov, t_two_sided(confidence, n - 1) ** 2)
    return found[0] * scale, found[1] * scale


def fieller_limits(top: float, bottom: float, cov: Floats, t2: float) -> Interval:
    """The non-negative ratios top/bottom that the test of top - r bottom = 0 does not reject.

    cov (2, 2): covariance of the two estimates; t2: squared quantile. inf is the upper end where g >= 1.
    """
    square = bottom**2 - t2 * float(cov[1, 1])  # ratios r with square r^2 - 2 half r + const <= 0
    half = top * bottom - t2 * float(cov[0, 1])
    const = top**2 - t2 * float(cov[0, 0])
    root = math.sqrt(max(half * half - square * const, 0.0))
    if square > 0:  # g < 1
        return max((half - root) / square, 0.0), max((half + root) / square, 0.0)
    if const <= 0 or half + root <= 0:
        return 0.0, math.inf
    return const / (half + root), math.inf  # the roots have opposite signs: the positive one, without cancellation


def fieller_g(success: npt.ArrayLike, confidence: float = 0.95) -> float:
    """Fieller's g, how uncertain the successes are: above 0.05 the delta method is not trusted, from 1 nothing is."""
    s = vector(success, "success")
    probability(confidence)
    if s.size < 2 or float(s.mean()) == 0:
        return math.inf
    spread = float(s.var(ddof=1)) / s.size
    return t_two_sided(confidence, s.size - 1) ** 2 * spread / float(s.mean()) ** 2


def score_limits(b: float, c: float, n: float, z2: float) -> Interval:
    """The limits of `tango` for checked counts, which may be fractions (an effective sample size); z2 = z^2."""
    if b == c == 0:  # the estimate lies on the edge of the set: closed forms
        return -z2 / (n + z2), z2 / (n + z2)
    if n in (b, c):
        inner = (n - z2) / (n + z2)
        return (inner, 1.0) if b else (-1.0, -inner)

    def outside(d: float) -> float:
        """Above 0: a true difference of `d` is rejected."""
        minus = b + c - (2 * n - b + c) * d
        root = math.sqrt(max(minus * minus + 8 * n * c * d * (1 - d), 0.0))
        q = (root + minus) / (4 * n)
        return (b - c - n * d) ** 2 - z2 * n * (2 * q + d * (1 - d))

    estimate = (b - c) / n
    return _crossing(outside, estimate, -1.0), _crossing(outside, estimate, 1.0)


def wilson(p: float, n: float, z: float) -> Interval:
    """Wilson's score interval of a rate `p` seen in `n`."""
    centre = p + z * z / (2 * n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    return max((centre - half) / scale, 0.0), min((centre + half) / scale, 1.0)


def exp(x: float) -> float:
    """e^x, inf where a double cannot hold it."""
    return math.exp(x) if x < 709.0 else math.inf


def arm_log(e: Floats, s: Floats) -> tuple[float, Floats] | None:
    """(log of sum e / sum s of one arm, its influence values (n,)); None where it is undefined."""
    mean_e, mean_s = float(e.mean()), float(s.mean())
    if e.size < 2 or mean_e == 0 or mean_s == 0:
        return None
    return math.log(mean_e / mean_s), e / mean_e - s / mean_s


def _crossing(outside: Callable[[float], float], estimate: float, end: float) -> float:
    """Where `outside` turns positive between the estimate and -1 or 1."""
    if outside(end) <= 0:
        return end
    from scipy.optimize import brentq  # slow to import: not at every start

    return float(brentq(outside, estimate, end, xtol=1e-12, rtol=1e-14))


def _phi(a: int, b: int, c: int, d: int) -> float:
    product = (a + b) * (c + d) * (a + c) * (b + d)
    if product == 0:
        return 0.0
    n, cross = a + b + c + d, a * d - b * c
    corrected = max(cross - n / 2, 0.0) if cross > 0 else cross
    return corrected / math.sqrt(product)
