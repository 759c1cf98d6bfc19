"""Rates: pairs that differ, share over an SLO, violations of hard constraints, rates in clusters."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import SupportsIndex

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv

from policies.proof.checked import Floats, Interval, count, probability, same_length, total, vector, z_two_sided
from policies.proof.errors import CountsInvalid, ValuesInvalid
from policies.proof.intervals import newcombe_paired, score_limits, tango, wilson
from policies.proof.ratios import design_effect


@dataclass(frozen=True)
class Pairs:
    """A paired table. a: both, b: only the candidate, c: only the control, d: neither."""

    a: int
    b: int
    c: int
    d: int

    @property
    def n(self) -> int:
        return self.a + self.b + self.c + self.d

    @property
    def difference(self) -> float:
        """Rate of the candidate minus that of the control; NaN-free only for n > 0, which `pairs` guarantees."""
        return (self.b - self.c) / self.n

    @property
    def discordance(self) -> float:
        return (self.b + self.c) / self.n

    def tango(self, confidence: float = 0.95) -> Interval:
        return tango(self.b, self.c, self.n, confidence)

    def newcombe(self, confidence: float = 0.95) -> Interval:
        return newcombe_paired(self.a, self.b, self.c, self.d, confidence)


def pairs(candidate: npt.ArrayLike, control: npt.ArrayLike) -> Pairs:
    """The table of two arrays (n,) of 0 and 1. Raises ValuesInvalid where a value is neither."""
    one, zero = vector(candidate, "candidate"), vector(control, "control")
    n = same_length(candidate=one, control=zero)
    for name, array in (("candidate", one), ("control", zero)):
        if not is_binary(array):
            at = int(np.argmax((array != 0) & (array != 1)))
            raise ValuesInvalid(f"{name}[{at}] is {array[at]}.", fix="give 0 or 1 per request")
    a, both_or_one, both_or_other = int(one @ zero), int(one.sum()), int(zero.sum())
    return Pairs(a, both_or_one - a, both_or_other - a, n - both_or_one - both_or_other + a)


def is_binary(values: Floats) -> bool:
    return bool(np.isin(values, (0.0, 1.0)).all())


def over_slo(candidate_s: npt.ArrayLike, control_s: npt.ArrayLike, slo_s: float) -> Pairs:
    """The paired table of requests whose latency exceeds `slo_s`: its difference is the rise of the share over SLO."""
    if not (slo_s > 0 and math.isfinite(slo_s)):
        raise ValuesInvalid(f"slo_s is {slo_s}.", fix="give the latency objective in seconds, above 0")
    return pairs(vector(candidate_s, "candidate_s") > slo_s, vector(control_s, "control_s") > slo_s)


def tango_clustered(
    candidate: npt.ArrayLike, control: npt.ArrayLike, clusters: npt.ArrayLike, confidence: float = 0.95
) -> tuple[Interval, float]:
    """(`tango` at the effective number of pairs, that number) where pairs of one cluster are not independent.

    Counts are divided by the design effect, the clustered over the plain variance of the difference, at least 1
    (Rao and Scott 1992). Without discordance the design effect is unknown and each cluster counts as one pair.
    """
    table = pairs(candidate, control)
    effect = design_effect(vector(candidate, "candidate") - vector(control, "control"), clusters)
    n = table.n / effect
    return score_limits(table.b / effect, table.c / effect, n, z_two_sided(confidence) ** 2), n


def difference_independent(
    k1: SupportsIndex | float, n1: SupportsIndex | float, k0: SupportsIndex | float, n0: SupportsIndex | float,
    confidence: float = 0.95,
) -> Interval:  # fmt: skip
    """Difference of the rates of two independent samples (Newcombe 1998, hybrid score, unpaired method 10)."""
    rates = []
    z = z_two_sided(confidence)
    for k, n, which in ((k1, n1, "1"), (k0, n0, "0")):
        hits, size = count(k, f"k{which}"), total(n, f"n{which}")
        if hits > size:
            raise CountsInvalid(f"k{which} is {hits}, above n{which} = {size}.", fix="count hits among the n")
        rates.append((hits / size, *wilson(hits / size, size, z)))
    (p1, low1, high1), (p0, low0, high0) = rates
    return p1 - p0 - math.hypot(p1 - low1, high0 - p0), p1 - p0 + math.hypot(high1 - p1, p0 - low0)


def graded_difference(candidate: npt.ArrayLike, control: npt.ArrayLike, confidence: float = 0.95) -> Interval:
    """Mean of paired differences of graded success (shares between 0 and 1): Student's t. (-1, 1) for one pair."""
    one, zero = vector(candidate, "candidate"), vector(control, "control")
    n = same_length(candidate=one, control=zero)
    probability(confidence)
    if n < 2 or not (one - zero).std():
        return -1.0, 1.0
    from scipy import stats  # half a second: not at every start

    found = stats.ttest_rel(one, zero).confidence_interval(confidence)
    return max(float(found.low), -1.0), min(float(found.high), 1.0)


def violations_upper(k: SupportsIndex | float, n: SupportsIndex | float, confidence: float = 0.95) -> float:
    """Exact one-sided upper bound of a rate seen `k` times in `n` (Clopper and Pearson 1934).

    For k = 0 it is 1 - alpha^(1/n): 1 % at 299, 0.5 % at 598, 0.1 % at 2,995.
    """
    size, hits = total(n), count(k, "k")
    if hits > size:
        raise CountsInvalid(f"k is {hits}, above n = {size}.", fix="count violations among the n")
    level = probability(confidence)
    if hits == size:
        return 1.0
    return (
        float(-math.expm1(math.log1p(-level) / size)) if hits == 0 else float(betaincinv(hits + 1, size - hits, level))
    )


def n_without_violation(rate: float, confidence: float = 0.95) -> int:
    """How many requests without one violation bound its rate by `rate`."""
    return math.ceil(math.log1p(-probability(confidence)) / math.log1p(-probability(rate, "rate")) - 1e-9)
