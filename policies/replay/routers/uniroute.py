"""UniRoute and the benchmark table: error and joules per group of queries, argmin of error + lambda x joules.

UniRoute (Jitkrittum et al., arXiv 2502.08773): groups are k-means clusters of the training embeddings, and an
arm is described by its mean error in each. The paper leaves clusters without a graded answer open and uses
one cost per model; here a group shrinks to its parent (the arm's mean), and joules are a group's own.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from policies.errors import ParametersInvalid
from policies.replay.policy import About
from policies.replay.routers.kmeans import assign, kmeans
from policies.replay.routers.means import (
    column_means,
    embeddings_of,
    has_energy,
    lesson,
    positions,
    unit_rows,
    usable_arms,
)
from policies.replay.routers.operating import FittedTradeoff, Point, Prediction, fitted_at, masked
from policies.replay.table import Floats, Ints, OutcomeTable, Queries


@dataclass(frozen=True)
class UniRoute:
    """`clusters` k-means clusters of the embeddings (unit length). `energy` "cluster" or "model".

    A cell's mean is (sum + shrinkage x the arm's mean) / (n + shrinkage).
    """

    clusters: int = 8
    energy: str = "cluster"
    shrinkage: float = 1.0
    point: Point = field(default_factory=Point)

    def __post_init__(self) -> None:
        if self.clusters < 1:
            raise ParametersInvalid(f"clusters is {self.clusters}.", fix="give a number of clusters from 1")
        _check(self.energy, "cluster", self.shrinkage)

    @property
    def about(self) -> About:
        name = f"uniroute-{self.clusters}{':model' if self.energy == 'model' else ''}{self.point.suffix}"
        parameters = {
            "clusters": self.clusters,
            "energy": self.energy,
            "shrinkage": self.shrinkage,
            **self.point.describe(),
        }
        return About(name, "UniRoute", needs_embeddings=True, parameters=parameters)

    def fit(self, train: OutcomeTable, seed: int) -> FittedTradeoff:
        """Raises NothingToLearn, EmbeddingInvalid, BudgetUnreachable."""
        name = self.about.name
        notes = lesson(train, name)
        centroids = kmeans(unit_rows(embeddings_of(train.queries, name)), self.clusters, seed)

        def group(queries: Queries) -> Ints:
            return assign(unit_rows(embeddings_of(queries, name)), centroids)

        cells = Cells(train, group(train.queries), len(centroids), self.shrinkage, self.energy == "cluster")
        return fitted_at(
            self.point,
            lambda queries: cells.predict(group(queries)),
            lambda: (cells.predict(group(train.queries)), train.energy_j),
            {**notes, "clusters": len(centroids), "empty_cells": cells.empty},
        )


@dataclass(frozen=True)
class ByBenchmark:
    """The same per benchmark: it knows the name of the task and nothing of the query.

    The control for every router that reads texts (LLMRouterBench finds that this explains nearly all gains).
    It is deployable where callers declare the kind of request. An unseen benchmark gets the arms' means.
    """

    energy: str = "benchmark"
    shrinkage: float = 1.0
    point: Point = field(default_factory=Point)

    def __post_init__(self) -> None:
        _check(self.energy, "benchmark", self.shrinkage)

    @property
    def about(self) -> About:
        name = f"benchmark{':model' if self.energy == 'model' else ''}{self.point.suffix}"
        parameters = {"energy": self.energy, "shrinkage": self.shrinkage, **self.point.describe()}
        return About(name, "benchmark", parameters=parameters)

    def fit(self, train: OutcomeTable, seed: int) -> FittedTradeoff:
        """Raises NothingToLearn, BudgetUnreachable."""
        notes = lesson(train, self.about.name)
        names = tuple(sorted({str(name) for name in train.queries.benchmarks}))
        where = positions(train.queries.benchmarks, names)
        cells = Cells(train, where, len(names), self.shrinkage, self.energy == "benchmark")
        return fitted_at(
            self.point,
            lambda queries: cells.predict(positions(queries.benchmarks, names)),
            lambda: (cells.predict(where), train.energy_j),
            {**notes, "benchmarks": len(names), "empty_cells": cells.empty},
        )


class Cells:
    """Mean error and joules per (group, arm), shrunk to the arm's mean; the last row is the parent's."""

    def __init__(self, train: OutcomeTable, group: Ints, n: int, shrinkage: float, own_energy: bool) -> None:
        self.usable = usable_arms(train)
        score, known = group_means(train.correct, group, n, shrinkage)
        self.error = np.nan_to_num(1.0 - score, nan=1.0)
        self.empty = int((known == 0).sum())
        self.energy_j: Floats | None = None
        if has_energy(train):
            self.energy_j = group_means(train.energy_j, group, n, shrinkage)[0]
            if not own_energy:
                self.energy_j[:] = self.energy_j[-1]

    def predict(self, group: Ints) -> Prediction:
        """`group` (N,): index of each query's group, -1 for none: then the parent's row."""
        return masked(self.error[group], None if self.energy_j is None else self.energy_j[group], self.usable)


def group_means(values: Floats, group: Ints, n: int, shrinkage: float) -> tuple[Floats, Ints]:
    """(n + 1, K) shrunk means per group, the parent's in the last row, and (n, K) known cells per group."""
    parent = column_means(values)
    known = np.isfinite(values)
    total, count = np.zeros((n, values.shape[1])), np.zeros((n, values.shape[1]), dtype=np.int64)
    np.add.at(total, group, np.where(known, values, 0.0))
    np.add.at(count, group, known)
    prior = np.where(np.isfinite(parent), parent, 0.0)
    weight = count + shrinkage
    means = np.where(weight > 0, (total + shrinkage * prior) / np.where(weight > 0, weight, 1.0), parent)
    return np.vstack([np.where(np.isfinite(parent), means, np.nan), parent]), count


def _check(energy: str, own: str, shrinkage: float) -> None:
    if energy not in (own, "model"):
        raise ParametersInvalid(f"energy is {energy!r}.", fix=f"use {own} or model")
    if not (np.isfinite(shrinkage) and shrinkage >= 0):
        raise ParametersInvalid(f"shrinkage is {shrinkage!r}.", fix="give a number of queries from 0")
