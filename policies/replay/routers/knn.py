"""k-NN: the mean of the neighbours' scores and joules per arm. It regresses; it never votes for a best arm.

Most queries have several arms with the best score. A label "the best arm" must break such ties by the order
of the arms, and a classifier then learns that order (facts: .45 accuracy against .62 by mean scores).
Rule and cosine distance as in RouterBench (Hu et al., arXiv 2403.12031).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from policies.errors import ParametersInvalid
from policies.replay.policy import About
from policies.replay.routers.means import column_means, embeddings_of, has_energy, lesson, unit_rows, usable_arms
from policies.replay.routers.operating import FittedTradeoff, Point, Prediction, fitted_at, masked
from policies.replay.table import Floats, Ints, OutcomeTable, Queries

Singles = npt.NDArray[np.float32]
DECIMALS = 6  # similarities that agree to this are a tie: single precision has no more
BLOCK_CELLS = 16_000_000  # similarities held at once: 64 MB
BUDGET_SAMPLE = 4_000  # training queries that a joule budget is calibrated on


def nearest(train: Singles, queries: Singles, k: int, *, own_rows: Ints | None = None) -> Iterator[tuple[slice, Ints]]:
    """Blocks of (rows, (n, k) indices of the nearest rows of `train`) by cosine of unit rows.

    Neighbours that tie at rank k are taken in the order of the training part. `own_rows` names the row of
    `train` that each query is itself, to be left out.
    """
    block = max(1, BLOCK_CELLS // max(len(train), 1))
    for start in range(0, len(queries), block):
        rows = slice(start, min(start + block, len(queries)))
        similarity = np.round(queries[rows] @ train.T, DECIMALS)
        if own_rows is not None:
            similarity[np.arange(rows.stop - rows.start), own_rows[rows]] = -2.0
        yield rows, _top(similarity, k)


def _top(similarity: Singles, k: int) -> Ints:
    if k >= similarity.shape[1]:
        return np.tile(np.arange(similarity.shape[1]), (len(similarity), 1))
    found = np.argpartition(-similarity, k - 1, axis=1)[:, :k]
    last = np.take_along_axis(similarity, found, axis=1).min(axis=1)
    for row in np.flatnonzero((similarity >= last[:, None]).sum(axis=1) > k):
        ahead = np.flatnonzero(similarity[row] > last[row])
        found[row] = np.r_[ahead, np.flatnonzero(similarity[row] == last[row])[: k - len(ahead)]]
    return found


@dataclass(frozen=True)
class Knn:
    """Mean score and joules of the `k` nearest training queries; `energy` says whose joules are predicted.

    `energy` "neighbours": mean joules of the neighbours per arm; "model": one mean per arm. An arm that none
    of the neighbours has a cell for gets its mean over the training part.
    """

    k: int = 40
    energy: str = "neighbours"
    point: Point = field(default_factory=Point)

    def __post_init__(self) -> None:
        if self.k < 1:
            raise ParametersInvalid(f"k is {self.k}.", fix="give a number of neighbours from 1")
        if self.energy not in ("neighbours", "model"):
            raise ParametersInvalid(f"energy is {self.energy!r}.", fix="use neighbours or model")

    @property
    def about(self) -> About:
        name = f"knn-{self.k}{':model' if self.energy == 'model' else ''}{self.point.suffix}"
        parameters = {"k": self.k, "energy": self.energy, **self.point.describe()}
        return About(name, "k-NN", needs_embeddings=True, parameters=parameters)

    def fit(self, train: OutcomeTable, seed: int) -> FittedTradeoff:
        """Raises NothingToLearn, EmbeddingInvalid, BudgetUnreachable."""
        notes = lesson(train, self.about.name)
        units = unit_rows(embeddings_of(train.queries, self.about.name)).astype(np.float32)
        neighbourhood = _Neighbourhood(self, train, units)
        notes["k"] = neighbourhood.k
        return fitted_at(self.point, neighbourhood.predict, lambda: neighbourhood.leave_one_out(seed), notes)


class _Neighbourhood:
    def __init__(self, rule: Knn, train: OutcomeTable, units: Singles) -> None:
        self.name, self.units, self.usable = rule.about.name, units, usable_arms(train)
        self.k = min(rule.k, len(train))
        self.score, self.energy_j = train.correct, train.energy_j
        self.score_mean, self.energy_mean = column_means(train.correct), column_means(train.energy_j)
        self.has_energy, self.per_query = has_energy(train), rule.energy == "neighbours"

    def predict(self, queries: Queries) -> Prediction:
        return self._predict(unit_rows(embeddings_of(queries, self.name)).astype(np.float32), None)

    def leave_one_out(self, seed: int) -> tuple[Prediction, Floats]:
        """The training part predicted without itself: with itself every query would look better than it is."""
        at = np.arange(len(self.units))
        if len(at) > BUDGET_SAMPLE:
            at = np.sort(np.random.default_rng(seed).choice(at, BUDGET_SAMPLE, replace=False))
        return self._predict(self.units[at], at), self.energy_j[at]

    def _predict(self, units: Singles, own_rows: Ints | None) -> Prediction:
        shape = (len(units), len(self.usable))
        score = np.empty(shape)
        energy_j = np.tile(self.energy_mean, (len(units), 1)) if self.has_energy else None
        for rows, found in nearest(self.units, units, self.k, own_rows=own_rows):
            score[rows] = _means(self.score, found, self.score_mean)
            if energy_j is not None and self.per_query:
                energy_j[rows] = _means(self.energy_j, found, self.energy_mean)
        return masked(np.nan_to_num(1.0 - score, nan=1.0), energy_j, self.usable)


def _means(values: Floats, found: Ints, fallback: Floats) -> Floats:
    """(n, K) means of (N, K) `values` over the (n, k) rows `found`; `fallback` (K,) where none is known."""
    known = np.isfinite(values)
    total, n = np.zeros((len(found), values.shape[1])), np.zeros((len(found), values.shape[1]))
    filled = np.where(known, values, 0.0)  # 0 adds nothing to the sum and is not counted in n
    for column in found.T:
        total += filled[column]
        n += known[column]
    return np.where(n > 0, total / np.maximum(n, 1), fallback)
