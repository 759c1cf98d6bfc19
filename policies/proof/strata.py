"""Post-stratification: figures at a fixed reference mix of category and size band.

A candidate that happened to get the small requests looks frugal (Simpson's paradox). Weights come from a mix that is
fixed before the shadow, not from the sample. A stratum of the mix without a request is told, never filled in.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from policies.proof.checked import Floats, Interval, probability, same_length, vector, z_two_sided
from policies.proof.errors import StratumMissing, ValuesInvalid
from policies.proof.intervals import exp, fieller_limits
from policies.proof.rates import Pairs, is_binary, pairs
from policies.proof.ratios import cluster_index, cluster_sums


@dataclass(frozen=True)
class Standardised:
    """A figure at the reference mix. `estimate` is None, the interval open, where a stratum of the mix has no data.

    covered: share of the mix with data; missing: strata of the mix without a request; thin: those with one request,
    whose spread is unknown; unused: requests in strata outside the mix. g: Fieller's g of the successes at the mix,
    the larger of both arms.
    """

    estimate: float | None
    low: float
    high: float
    n: int
    covered: float
    missing: tuple[str, ...]
    thin: tuple[str, ...]
    unused: int
    g: float = 0.0


def ratio_columns(e1: npt.ArrayLike, s1: npt.ArrayLike, e0: npt.ArrayLike, s0: npt.ArrayLike) -> list[Floats]:
    """Amounts and successes of candidate and control. Raises what `vector` raises, by their names."""
    return [vector(e1, "e1"), vector(s1, "s1"), vector(e0, "e0"), vector(s0, "s0")]


def ratio_standardised(
    e1: npt.ArrayLike,
    s1: npt.ArrayLike,
    e0: npt.ArrayLike,
    s0: npt.ArrayLike,
    strata: Sequence[str],
    mix: Mapping[str, float],
    confidence: float = 0.95,
    *,
    clusters: npt.ArrayLike | None = None,
    renormalise: bool = False,
    fieller: bool = False,
) -> Standardised:
    """R1/R0 with R = sum_k w_k mean_k(e) / sum_k w_k mean_k(s), over paired requests; w the mix.

    Delta method on the logarithm; the variance is that within strata, summed per cluster where there are any.
    `renormalise` drops empty strata and spreads their weight over the others: another estimand, so it must be asked
    for. `fieller`: without the logarithm, for few successes (`policies.proof.ratios.ratio_fieller`).
    """
    columns = ratio_columns(e1, s1, e0, s0)
    split = Split.of(columns, strata, mix, renormalise)
    z = z_two_sided(confidence)
    found = split.log_ratio(columns)
    if found is None:
        return split.told(None, (0.0, math.inf))
    centre, (x1, y1, x0, y0) = found
    g = z * z * max(split.variance(y1, clusters), split.variance(y0, clusters))
    if split.thin:
        return split.told(exp(centre), (0.0, math.inf), g)
    if fieller:  # in units of each mean both products are 1
        top, bottom = x1 + y0, x0 + y1
        own, other = split.variance(top, clusters), split.variance(bottom, clusters)
        shared = (split.variance(top + bottom, clusters) - split.variance(top - bottom, clusters)) / 4
        low, high = fieller_limits(1.0, 1.0, np.array([[own, shared], [shared, other]]), z * z)
        return split.told(exp(centre), (low * exp(centre), high * exp(centre)), g)
    half = z * math.sqrt(split.variance((x1 - y1) - (x0 - y0), clusters))
    return split.told(exp(centre), (exp(centre - half), exp(centre + half)), g)


def difference_standardised(
    candidate: npt.ArrayLike,
    control: npt.ArrayLike,
    strata: Sequence[str],
    mix: Mapping[str, float],
    confidence: float = 0.95,
    *,
    clusters: npt.ArrayLike | None = None,
    renormalise: bool = False,
) -> Standardised:
    """Paired difference of rates at the mix: Tango's limits of every stratum, joined by MOVER.

    d +- sqrt(sum_k w_k^2 (d_k - limit_k)^2), Zou and Donner (2008): never of width 0, even without discordance.
    Clusters widen both sides by the root of their design effect, at least 1.
    """
    one, zero = vector(candidate, "candidate"), vector(control, "control")
    if not (is_binary(one) and is_binary(zero)):
        raise ValuesInvalid("success is not 0 or 1.", fix="standardise graded success by ratio_standardised")
    split = Split.of([one, zero], strata, mix, renormalise)
    probability(confidence)
    if split.stopped or not split.rows:
        return split.told(None, (-1.0, 1.0))
    tables: list[Pairs] = [pairs(one[rows], zero[rows]) for rows in split.rows]
    d = np.array([table.difference for table in tables])
    limits = np.array([table.tango(confidence) for table in tables])
    estimate = float(split.weights @ d)
    below, above = (float(np.sqrt((split.weights**2) @ (d - limits[:, k]) ** 2)) for k in (0, 1))
    if clusters is not None:
        effect = math.sqrt(split.design_effect(one - zero, clusters))
        below, above = below * effect, above * effect
    return split.told(estimate, (max(estimate - below, -1.0), min(estimate + above, 1.0)))


@dataclass(frozen=True)
class Split:
    """Requests by stratum of the mix, with the weights; stopped: a stratum is missing, so that no figure exists."""

    rows: list[npt.NDArray[np.int64]]  # per stratum with data
    weights: Floats
    n: int
    covered: float
    missing: tuple[str, ...]
    thin: tuple[str, ...]
    unused: int
    stopped: bool

    @classmethod
    def of(cls, columns: Sequence[Floats], strata: Sequence[str], mix: Mapping[str, float], renormalise: bool) -> Split:
        labels = np.asarray(strata)
        same_length(values=columns[0], **{f"column {i}": c for i, c in enumerate(columns)}, strata=labels)
        wanted = _checked_mix(mix)
        found = {name: np.flatnonzero(labels == name) for name in wanted}
        held = [name for name in wanted if found[name].size]
        missing = tuple(name for name in wanted if not found[name].size)
        covered = sum(wanted[name] for name in held)
        weights = np.array([wanted[name] for name in held])
        return cls(
            rows=[found[name] for name in held],
            weights=weights / weights.sum() if held else weights,
            n=sum(found[name].size for name in held),
            covered=covered,
            missing=missing,
            thin=tuple(name for name in held if found[name].size == 1),
            unused=int(labels.size - sum(found[name].size for name in held)),
            stopped=bool(missing) and not (renormalise and held),
        )

    def log_ratio(self, columns: Sequence[Floats]) -> tuple[float, list[Floats]] | None:
        """(log of R1/R0 at the mix, e1, s1, e0, s0 in units of their means at it); None where a mean is 0 or none."""
        if self.stopped or not self.rows:
            return None
        means = [float(self.weights @ [column[rows].mean() for rows in self.rows]) for column in columns]
        if min(means) <= 0:
            return None
        centre = math.log(means[0] / means[1]) - math.log(means[2] / means[3])
        return centre, [column / mean for column, mean in zip(columns, means, strict=True)]

    def design_effect(self, values: Floats, clusters: npt.ArrayLike) -> float:
        """Variance by clusters over the plain one, at least 1; n per cluster without spread within strata."""
        plain = self.variance(values, None)
        if plain == 0:
            return max(values.size / cluster_index(clusters, values.size)[1], 1.0)
        return max(self.variance(values, clusters) / plain, 1.0)

    def variance(self, psi: Floats, clusters: npt.ArrayLike | None) -> float:
        """Variance of sum_k w_k mean_k(psi); inf for one cluster."""
        part = np.zeros(psi.size)
        for weight, rows in zip(self.weights, self.rows, strict=True):
            if rows.size > 1:
                deviation = psi[rows] - psi[rows].mean()
                part[rows] = weight / rows.size * deviation * math.sqrt(rows.size / (rows.size - 1))
        if clusters is None:
            return float(part @ part)
        index, groups = cluster_index(clusters, psi.size)
        sums = cluster_sums(part, index, groups)
        return groups / (groups - 1) * float(sums @ sums) if groups > 1 else math.inf

    def told(self, estimate: float | None, interval: Interval, g: float = 0.0) -> Standardised:
        return Standardised(
            estimate, interval[0], interval[1], self.n, self.covered, self.missing, self.thin, self.unused, g
        )


def _checked_mix(mix: Mapping[str, float]) -> dict[str, float]:
    """The positive weights, summing to 1. Raises StratumMissing for an empty mix, ValuesInvalid for bad weights."""
    total = math.fsum(mix.values())
    if not mix or total == 0:
        raise StratumMissing("the reference mix is empty.", fix="fix a mix before the shadow starts")
    for name, weight in mix.items():
        if not (weight >= 0 and math.isfinite(weight)):
            raise ValuesInvalid(f"weight of {name!r} is {weight}.", fix="give shares of at least 0")
    return {name: weight / total for name, weight in mix.items() if weight > 0}
