"""One set of resampled sums for a whole report, so that every interval in it is over the same draws of queries.

Each policy has two columns, correct answers and joules per query. A replicate draws queries with replacement; every
figure is a function of the replicate's sums: paired by construction, ratios are ratios of sums. Where replicates x
queries x columns would take longer than a reader waits, the sums are drawn from the normal distribution that they
tend to (mean and covariance of the columns): with that many queries the two agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from policies.replay.bootstrap import CONFIDENCE, REPLICATES, resample
from policies.replay.picks import picked
from policies.replay.policy import Choices
from policies.replay.table import Bools, Floats, OutcomeTable

MOST_WORK = 3e9  # replicates x queries x columns that are drawn one by one
NORMAL_FROM = 2000  # queries from which the normal approximation is taken to hold


@dataclass(frozen=True)
class Draws:
    """Means per query, of the data (P,) and of each replicate (R, P). NaN where a policy picks a missing cell."""

    accuracy: Floats
    energy_j: Floats
    accuracies: Floats
    energies_j: Floats
    n: int
    method: str
    pairs: Pairs | None = None  # where the rows themselves are not in memory

    def take(self, policies: Sequence[int] | Bools) -> Draws:
        at = np.asarray(policies)
        return Draws(
            self.accuracy[at], self.energy_j[at], self.accuracies[:, at], self.energies_j[:, at], self.n, self.method,
            None if self.pairs is None else self.pairs.take(at),
        )  # fmt: skip


@dataclass(frozen=True)
class Pairs:
    """Sums over queries from which the closed forms of any two policies follow, without a row.

    right (P,): right answers. both (P, P): queries that both answer right. binary (P,): whether every answer is known
    and right or wrong. Columns of `spread`: correct of all policies, then joules of all (2P, 2P), the covariance of
    single queries. Whole numbers below 2^53, so counts are exact.
    """

    right: Floats
    both: Floats
    binary: Bools
    spread: Floats

    def take(self, at: npt.NDArray[Any]) -> Pairs:
        places = np.arange(len(self.right))[at]
        twice = np.concatenate([places, places + len(self.right)])
        return Pairs(
            self.right[at], self.both[np.ix_(places, places)], self.binary[at], self.spread[np.ix_(twice, twice)]
        )


def draw(table: OutcomeTable, choices: Sequence[Choices], *, seed: int, replicates: int = REPLICATES) -> Draws:
    """Resample the queries of `table` for all `choices` at once. Raises ReplayError for an empty table."""
    right = np.column_stack([picked(table.correct, c) for c in choices])
    joules = np.column_stack([picked(table.energy_j, c) for c in choices])
    columns = np.column_stack([right, joules])
    unknown = np.isnan(columns).any(axis=0)
    means, found, method = _means(np.where(np.isnan(columns), 0.0, columns), replicates, seed)
    means[unknown] = np.nan
    found[:, unknown] = np.nan
    p = len(choices)
    return Draws(means[:p], means[p:], found[:, :p], found[:, p:], len(table), method)


def _means(columns: Floats, replicates: int, seed: int) -> tuple[Floats, Floats, str]:
    n, m = columns.shape
    means = columns.mean(axis=0)
    if n < NORMAL_FROM or replicates * n * m <= MOST_WORK:
        sums, drawn = resample(columns, replicates, seed)
        return means, sums / drawn[:, None], f"paired bootstrap over queries, percentile, {replicates} replicates"
    spread = np.cov(columns, rowvar=False, bias=True).reshape(m, m)
    found = normal_draws(means, spread, n, replicates, seed)
    return means, found, f"normal limit of the paired bootstrap over queries, {replicates} draws"


def normal_draws(means: Floats, covariance: Floats, n: int, replicates: int, seed: int) -> Floats:
    """Means (R, M) of replicates of `n` queries whose columns have these `means` (M,) and `covariance` (M, M)."""
    values, vectors = np.linalg.eigh(covariance / n)
    noise = np.random.default_rng(seed).standard_normal((replicates, len(means)))
    return np.asarray(means + (noise * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def interval(found: Floats, confidence: float = CONFIDENCE) -> tuple[float | None, float | None]:
    """Percentile interval of replicates (R,); (None, None) where one of them is unknown."""
    if not np.isfinite(found).all():
        return None, None
    low, high = np.quantile(found, [(1 - confidence) / 2, (1 + confidence) / 2], method="inverted_cdf")
    return float(low), float(high)


def ratio(above: Floats, below: Floats) -> Floats:
    """Their quotient; infinite where something is divided by nothing, NaN for 0/0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(above / below)
