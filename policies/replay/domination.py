"""Is a policy better than no policy? Against every fixed arm, and against random mixing of fixed arms.

A point dominates another when it has no less accuracy at no more joules per query, and is strictly better in one.
The mixing hull dominates a policy when some mixture of fixed arms does. `confidence` is the share of paired
bootstrap replicates in which that holds, so 0.5 is a toss-up and it is no p-value.

For the margin of a policy that is cheaper than every arm, the hull runs straight from the cheapest arm to (0 J, 0
accuracy): that arm for some of the queries and no answer for the rest. So the margin is always defined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from policies.replay.bootstrap import CONFIDENCE, REPLICATES, Interval, percentile, resample
from policies.replay.picks import known_rows, picked
from policies.replay.policy import Choices
from policies.replay.table import Bools, Floats, OutcomeTable

_EQUAL = 1e-9  # relative: rounding of sums


@dataclass(frozen=True)
class Dominator:
    """A fixed arm that dominates the policy on the data, and in which share of the replicates."""

    arm: str
    confidence: float


@dataclass(frozen=True)
class Verdict:
    """One policy against the fixed arms, on `n` queries of which every cell that counts is known.

    `hull_confidence`: share of replicates in which the hull dominates. `margin`: accuracy above the hull (or below)
    at the policy's joules, with its percentile interval. `gain`: accuracy above the best fixed arm that costs no
    more; None where the policy is cheaper than all. None throughout where no query is known.
    """

    n: int
    accuracy: float | None
    energy_j: float | None
    dominated_by: tuple[Dominator, ...]
    by_hull: bool
    hull_confidence: float | None
    margin: Interval
    gain: Interval
    best_arm_within: str | None
    dominates: tuple[str, ...]  # fixed arms that the policy dominates on the data


def verdicts(
    table: OutcomeTable,
    choices: Sequence[Choices],
    *,
    replicates: int = REPLICATES,
    seed: int = 0,
    confidence: float = CONFIDENCE,
    clusters: Floats | None = None,
) -> list[Verdict]:
    """A verdict on each policy; all see the same replicates.

    Queries with a missing cell, of any fixed arm or of any pick, are left out for all: `n` tells what is left.
    """
    keep = complete_rows(table, choices)
    n = int(keep.sum())
    if not n:
        none = Interval(None, None, None, "paired bootstrap, percentile", confidence)
        return [Verdict(0, None, None, (), False, None, none, none, None, ()) for _ in choices]
    columns = _columns(table, choices)[keep]
    units = None if clusters is None else np.asarray(clusters)[keep]
    sums, drawn = resample(columns, replicates, seed, units)
    return verdicts_of(table.names, columns.mean(axis=0), sums / drawn[:, None], n, confidence)


def verdicts_of(
    arms: Sequence[str], means: Floats, draws: Floats, n: int, confidence: float = CONFIDENCE
) -> list[Verdict]:
    """Verdicts from means of `n` queries (2K + 2P,) and of their replicates (R, 2K + 2P), for tables read in portions.

    Columns: correctness of the K arms, joules of the arms, then correctness and joules of each policy in turn.
    """
    k = len(arms)
    point = means.reshape(1, -1)
    return [
        _verdict(arms, _Split.of(point, k, p), _Split.of(draws, k, p), n, confidence)
        for p in range((point.shape[1] - 2 * k) // 2)
    ]


def complete_rows(table: OutcomeTable, choices: Sequence[Choices] = ()) -> Bools:
    """Queries (N,) of which every fixed arm's cell and every pick is known."""
    every = (np.isfinite(table.correct) & np.isfinite(table.energy_j)).all(axis=1)
    return np.asarray(every & known_rows(table, *choices))


def hull_at(energy_j: Floats, accuracy: Floats, at_j: Floats, *, declining: bool = False) -> Floats:
    """Best accuracy (R,) of mixtures of arms (R, K) that cost at most `at_j` (R,), row by row.

    Below the cheapest arm: -inf, or with `declining` the line from there to the origin. O(R K^2).
    """
    within = energy_j <= at_j[:, None]
    best = np.where(within, accuracy, -np.inf).max(axis=1)
    for i in range(energy_j.shape[1]):
        span = energy_j - energy_j[:, i, None]
        between = within[:, i, None] & ~within
        share = np.divide(at_j[:, None] - energy_j[:, i, None], span, out=np.zeros_like(span), where=between)
        mixed = accuracy[:, i, None] + share * (accuracy - accuracy[:, i, None])
        best = np.maximum(best, np.where(between, mixed, -np.inf).max(axis=1))
    if declining:
        least = energy_j.min(axis=1)
        there = np.where(energy_j == least[:, None], accuracy, -np.inf).max(axis=1)
        best = np.where(at_j < least, at_j / least * there, best)
    return np.asarray(best)


@dataclass(frozen=True)
class _Split:
    """Means per replicate: fixed arms (R, K), one policy (R,)."""

    arm_accuracy: Floats
    arm_energy_j: Floats
    accuracy: Floats
    energy_j: Floats

    @classmethod
    def of(cls, means: Floats, arms: int, policy: int) -> _Split:
        at = 2 * arms + 2 * policy
        return cls(means[:, :arms], means[:, arms : 2 * arms], means[:, at], means[:, at + 1])

    def dominated(self) -> Bools:
        """By which arm (R, K)."""
        return _dominates(self.arm_accuracy, self.arm_energy_j, self.accuracy[:, None], self.energy_j[:, None])

    def dominates(self) -> Bools:
        return _dominates(self.accuracy[:, None], self.energy_j[:, None], self.arm_accuracy, self.arm_energy_j)

    def by_hull(self) -> Bools:
        """(R,): a mixture is strictly better at the same joules, or as good at fewer."""
        level = hull_at(self.arm_energy_j, self.arm_accuracy, self.energy_j)
        cheaper = hull_at(self.arm_energy_j, self.arm_accuracy, self.energy_j * (1 - 2 * _EQUAL))
        above = level > self.accuracy + _EQUAL
        # Where the hull rises, a touch less energy gives a touch less accuracy; where it is flat, the same is cheaper.
        flat = (cheaper >= level) & (level >= self.accuracy - _EQUAL * np.abs(self.accuracy))
        return np.asarray(above | flat)

    def margin(self) -> Floats:
        return self.accuracy - hull_at(self.arm_energy_j, self.arm_accuracy, self.energy_j, declining=True)

    def best_within(self) -> Floats:
        """Accuracy of the best fixed arm that costs no more (R,); 0, declining, where there is none."""
        within = self.arm_energy_j <= self.energy_j[:, None] * (1 + _EQUAL)
        return np.asarray(np.where(within, self.arm_accuracy, 0.0).max(axis=1))


def _dominates(accuracy: Floats, energy_j: Floats, than_accuracy: Floats, than_energy_j: Floats) -> Bools:
    same_a = np.isclose(accuracy, than_accuracy, rtol=_EQUAL, atol=_EQUAL)
    same_j = np.isclose(energy_j, than_energy_j, rtol=_EQUAL, atol=0.0)
    more, less = (accuracy > than_accuracy) & ~same_a, (energy_j < than_energy_j) & ~same_j
    return np.asarray((more & (less | same_j)) | (same_a & less))


def _verdict(names: Sequence[str], point: _Split, draws: _Split, n: int, confidence: float) -> Verdict:
    shares = draws.dominated().mean(axis=0)
    found = [Dominator(names[k], float(shares[k])) for k in np.flatnonzero(point.dominated()[0]).tolist()]
    within = np.flatnonzero(point.arm_energy_j[0] <= point.energy_j[0] * (1 + _EQUAL))
    best = None
    if len(within):
        order = np.lexsort((point.arm_energy_j[0, within], -point.arm_accuracy[0, within]))
        best = names[int(within[order[0]])]
    return Verdict(
        n=n,
        accuracy=float(point.accuracy[0]),
        energy_j=float(point.energy_j[0]),
        dominated_by=tuple(sorted(found, key=lambda one: -one.confidence)),
        by_hull=bool(point.by_hull()[0]),
        hull_confidence=float(draws.by_hull().mean()),
        margin=percentile(float(point.margin()[0]), draws.margin(), confidence),
        gain=Interval(None, None, None, "paired bootstrap, percentile", confidence)
        if best is None
        else percentile(
            float(point.accuracy[0] - point.best_within()[0]), draws.accuracy - draws.best_within(), confidence
        ),
        best_arm_within=best,
        dominates=tuple(names[k] for k in np.flatnonzero(point.dominates()[0]).tolist()),
    )


def _columns(table: OutcomeTable, choices: Sequence[Choices]) -> Floats:
    """(N, 2K + 2P): correctness of the arms, joules of the arms, then both of each policy."""
    policies = [picked(matrix, each) for each in choices for matrix in (table.correct, table.energy_j)]
    return np.column_stack([table.correct, table.energy_j, *policies])
