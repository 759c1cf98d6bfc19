"""Asymptotic confidence sequences: intervals that hold at every look, so that looking does not cheat.

Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas (2024), Annals of Statistics 52, 2613-2640, theorem 2.2:
mean +- sd sqrt(2 (n rho^2 + 1) / (n^2 rho^2) log(sqrt(n rho^2 + 1) / alpha)), rho tuned to the planned n. At that n
it is about 1.55 times as wide as the interval of a single look.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from policies.proof.checked import Floats, Interval, probability, same_length, vector
from policies.proof.errors import CountsInvalid
from policies.proof.intervals import exp, log_ratio

FIRST_LOOK_N = 30  # below it the limit theorem has nothing to stand on, and the whole line is given


def tuned_rho(planned_n: int, confidence: float = 0.95) -> float:
    """The mixture parameter that makes the sequence narrowest at `planned_n` (ibid., appendix B.2)."""
    if planned_n < 1:
        raise CountsInvalid(f"planned_n is {planned_n}.", fix="plan for at least one request")
    log_alpha = math.log(1 - probability(confidence))
    return math.sqrt((-2 * log_alpha + math.log(1 - 2 * log_alpha)) / planned_n)


def half_width(n: npt.ArrayLike, sd: npt.ArrayLike, planned_n: int, confidence: float = 0.95) -> Floats:
    """Half the width at each n (array or number) for values of standard deviation `sd`."""
    rho2 = tuned_rho(planned_n, confidence) ** 2
    count = np.asarray(n, dtype=np.float64)
    inside = 2 * (count * rho2 + 1) / (count**2 * rho2) * np.log(np.sqrt(count * rho2 + 1) / (1 - confidence))
    return np.asarray(np.asarray(sd, dtype=np.float64) * np.sqrt(inside))


def mean_sequence(values: npt.ArrayLike, planned_n: int, confidence: float = 0.95) -> tuple[Floats, Floats]:
    """(lows, highs), each (n,): the interval of the mean after every value, in the order they came."""
    x = vector(values, "values", signed=True)
    n = np.arange(1, x.size + 1)
    mean = np.cumsum(x) / n
    sd = np.sqrt(np.maximum(np.cumsum(x * x) / n - mean**2, 0.0) * n / np.maximum(n - 1, 1))
    half = np.where(n < FIRST_LOOK_N, np.inf, half_width(n, sd, planned_n, confidence))
    return mean - half, mean + half


def difference_sequence(
    candidate: npt.ArrayLike,
    control: npt.ArrayLike,
    planned_n: int,
    confidence: float = 0.95,
    *,
    design_effect: float = 1.0,
) -> Interval:
    """The interval of a paired difference of rates now, valid whenever it is looked at.

    One discordant pair is added on each side in the variance alone, so that it never has width 0. (-1, 1) below
    `FIRST_LOOK_N` pairs. design_effect: variance by clusters over plain variance (`ratios.design_effect`).
    """
    one, zero = vector(candidate, "candidate"), vector(control, "control")
    n = same_length(candidate=one, control=zero)
    half_width(n, 0.0, planned_n, confidence)  # refuses a bad plan even before the first look
    if n < FIRST_LOOK_N:
        return -1.0, 1.0
    d = one - zero
    mean = float(d.mean())
    sd = math.sqrt((float(d @ d) + 2) / (n + 2) - (float(d.sum()) / (n + 2)) ** 2)
    half = float(half_width(n, sd * math.sqrt(design_effect), planned_n, confidence))
    return max(mean - half, -1.0), min(mean + half, 1.0)


def log_ratio_sequence(
    e1: npt.ArrayLike,
    s1: npt.ArrayLike,
    e0: npt.ArrayLike,
    s0: npt.ArrayLike,
    planned_n: int,
    confidence: float = 0.95,
    *,
    design_effect: float = 1.0,
) -> Interval:
    """The interval of R1/R0 now, valid whenever it is looked at: the sequence of its influence values.

    (0, inf) below `FIRST_LOOK_N` pairs or where the ratio is undefined.
    """
    found = log_ratio(e1, s1, e0, s0)
    half_width(1, 0.0, planned_n, confidence)
    if found is None or found[1].size < FIRST_LOOK_N:
        return 0.0, math.inf
    centre, psi = found
    sd = float(psi.std(ddof=1)) * math.sqrt(design_effect)
    half = float(half_width(psi.size, sd, planned_n, confidence))
    return exp(centre - half), exp(centre + half)
