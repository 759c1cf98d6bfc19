"""Paired bootstrap: queries (or clusters of them) are drawn with replacement, and all policies see the same draw.

A replicate draws as many units as there are, counts how often each came, and sums the columns by those counts; every
figure is then a function of the sums, so ratios are ratios of sums. Intervals are percentile intervals. The stream of
random numbers is SplitMix64 per replicate, so a seed gives the same replicates everywhere, in any order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from policies.kernels import inline, jit
from policies.replay.errors import ReplayError
from policies.replay.picks import picked
from policies.replay.policy import Choices
from policies.replay.table import Floats, OutcomeTable

REPLICATES = 2000
CONFIDENCE = 0.95
_AT_ONCE = 16  # replicates


@dataclass(frozen=True)
class Interval:
    """A point estimate and its interval. None: not identifiable (a missing cell, no success)."""

    estimate: float | None
    low: float | None
    high: float | None
    method: str
    confidence: float


@dataclass(frozen=True)
class Paired:
    """A policy against a comparator on the same `n` queries; of `missing` of them either picks a missing cell."""

    n: int
    missing: int
    accuracy_difference: Interval
    energy_ratio: Interval  # J/query
    energy_per_correct_ratio: Interval  # J per correct answer: sum of J over sum of correct, over all queries
    replicates: int
    seed: int
    clusters: int | None = None


def resample(
    columns: npt.ArrayLike, replicates: int = REPLICATES, seed: int = 0, clusters: npt.ArrayLike | None = None
) -> tuple[Floats, Floats]:
    """Sums (R, M) of the (N, M) columns over each replicate's draws, and how many rows each drew (R,).

    `clusters` (N,): ids of units that are drawn whole. Raises ReplayError for no row, NaN, or a wrong shape.
    """
    values = np.ascontiguousarray(columns, dtype=np.float64)
    if values.ndim != 2 or not len(values) or np.isnan(values).any():
        raise ReplayError(
            f"The columns to resample have shape {values.shape}" + (" and hold NaN." if values.size else "."),
            fix="give at least one row of numbers; leave out queries of which a picked cell is missing",
        )
    sizes = np.ones(len(values))
    if clusters is not None:
        _, unit = np.unique(np.asarray(clusters).astype(str), return_inverse=True)
        if len(unit) != len(values):
            raise ReplayError(f"{len(unit)} clusters for {len(values)} queries.", fix="give one cluster per query")
        sizes = np.bincount(unit).astype(np.float64)
        values = np.column_stack([np.bincount(unit, weights=column) for column in values.T])
    sums = _resampled_sums(np.column_stack([values, sizes]), replicates, np.uint64(seed % 2**64))
    return sums[:, :-1], sums[:, -1]


def paired(
    table: OutcomeTable,
    policy: Choices,
    comparator: Choices,
    *,
    replicates: int = REPLICATES,
    seed: int = 0,
    confidence: float = CONFIDENCE,
    clusters: npt.ArrayLike | None = None,
) -> Paired:
    """Accuracy difference and energy ratios of `policy` against `comparator`, with percentile intervals."""
    columns = np.column_stack(
        [picked(matrix, each) for each in (policy, comparator) for matrix in (table.correct, table.energy_j)]
    )
    return paired_columns(columns, replicates=replicates, seed=seed, confidence=confidence, clusters=clusters)


def paired_columns(
    columns: Floats,
    *,
    replicates: int = REPLICATES,
    seed: int = 0,
    confidence: float = CONFIDENCE,
    clusters: npt.ArrayLike | None = None,
) -> Paired:
    """The same from (N, 4) columns: correct and J of the policy, correct and J of the comparator; NaN where missing.

    What misses in one measure leaves the figures of the other measure identifiable.
    """
    gaps = np.isnan(columns)
    known = [not gaps[:, m].any() for m in range(4)]
    sums, drawn = resample(np.where(gaps, 0.0, columns), replicates, seed, clusters)
    whole = np.where(gaps, 0.0, columns).sum(axis=0).reshape(1, -1)
    count = np.array([float(len(columns))])

    def interval(able: bool, point: Floats, found: Floats) -> Interval:
        if not able:
            return Interval(None, None, None, "paired bootstrap, percentile", confidence)
        return percentile(float(point[0]), found, confidence)

    right, joules = known[0] and known[2], known[1] and known[3]
    return Paired(
        n=len(columns),
        missing=int(gaps.any(axis=1).sum()),
        accuracy_difference=interval(right, _difference(whole, count), _difference(sums, drawn)),
        energy_ratio=interval(joules, _energy_ratio(whole), _energy_ratio(sums)),
        energy_per_correct_ratio=interval(right and joules, _per_correct_ratio(whole), _per_correct_ratio(sums)),
        replicates=replicates,
        seed=seed,
        clusters=None if clusters is None else len(np.unique(np.asarray(clusters).astype(str))),
    )


def percentile(estimate: float, found: Floats, confidence: float = CONFIDENCE) -> Interval:
    """The percentile interval of replicates (R,): order statistics, so that an infinite replicate stays one.

    A bound that is infinite or not a number is None.
    """
    tail = (1 - confidence) / 2
    low, high = np.full(2, np.nan)
    if not np.isnan(found).any():
        low, high = np.quantile(found, [tail, 1 - tail], method="inverted_cdf")
    return Interval(
        _finite(estimate), _finite(float(low)), _finite(float(high)), "paired bootstrap, percentile", confidence
    )


def _difference(sums: Floats, drawn: Floats) -> Floats:
    return (sums[:, 0] - sums[:, 2]) / drawn


def _energy_ratio(sums: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(sums[:, 1] / sums[:, 3])


def _per_correct_ratio(sums: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray((sums[:, 1] / sums[:, 0]) / (sums[:, 3] / sums[:, 2]))


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


@inline
def _mixed(state: np.uint64) -> np.uint64:
    """SplitMix64's output for a state."""
    z = state
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@jit
def _resampled_sums(values: Floats, replicates: int, seed: np.uint64) -> Floats:
    units, columns = values.shape
    sums = np.zeros((replicates, columns))
    counts = np.zeros((_AT_ONCE, units), np.int32)
    gamma = np.uint64(0x9E3779B97F4A7C15)
    for first in range(0, replicates, _AT_ONCE):
        some = min(_AT_ONCE, replicates - first)
        counts[:] = 0
        for i in range(some):
            state = _mixed(seed + np.uint64(first + i + 1) * gamma)
            for _ in range(units):
                state = state + gamma
                # The upper half scaled to 0..units-1; its bias is below units / 2**32.
                counts[i, ((_mixed(state) >> np.uint64(32)) * np.uint64(units)) >> np.uint64(32)] += 1
        for n in range(units):  # a row of values serves several replicates while it is in cache
            for i in range(some):
                if counts[i, n]:
                    times = np.float64(counts[i, n])
                    for m in range(columns):
                        sums[first + i, m] += times * values[n, m]
    return sums
