"""GreenServ (arXiv 2601.17551): disjoint LinUCB on a small context, rewarded for accuracy less energy.

Reward (1 - weight) x score - weight x e, with e the joules of the call between the least and the most of the
training part, 0..1. Joules per call and not per token: per token a model that rambles looks efficient.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from policies.errors import ParametersInvalid
from policies.replay.errors import NothingToLearn
from policies.replay.policy import About
from policies.replay.routers.features import flesch_reading_ease, has_texts, one_hot, with_constant
from policies.replay.routers.means import embeddings_of, lesson, unit_rows, usable_arms
from policies.replay.routers.operating import FittedTradeoff, Prediction, masked
from policies.replay.table import Bools, Floats, Ints, OutcomeTable, Queries

ALPHA, REGULARISATION = 0.1, 0.05
CLUSTERS = 3
FLESCH_EDGES = (20.0, 30.0)
WARM_UP = 50_000  # training queries that are replayed at most


@dataclass(frozen=True)
class GreenServ:
    """`weight` is GreenServ's lambda, 0..1. `context` "full": benchmark, cluster, Flesch bin; "task": benchmark.

    Warmed by replaying the training part once in seeded order, seeing only the cell of the arm it chose (the
    best one that the query was asked); then frozen, without exploration.
    """

    weight: float = 0.4
    context: str = "full"

    def __post_init__(self) -> None:
        if not 0.0 <= self.weight <= 1.0:
            raise ParametersInvalid(f"weight is {self.weight!r}.", fix="give a number between 0 and 1")
        if self.context not in ("full", "task"):
            raise ParametersInvalid(f"context is {self.context!r}.", fix="use full or task")

    @property
    def about(self) -> About:
        task = self.context == "task"
        parameters = {
            "weight": self.weight,
            "context": self.context,
            "alpha": ALPHA,
            "regularisation": REGULARISATION,
            "clusters": CLUSTERS,
            "flesch_edges": list(FLESCH_EDGES),
        }
        name = f"greenserv{':task' if task else ''}-{self.weight:g}"
        return About(name, "GreenServ", needs_embeddings=not task, parameters=parameters)

    def fit(self, train: OutcomeTable, seed: int) -> FittedTradeoff:
        """Raises NothingToLearn (also without joules) and EmbeddingInvalid."""
        name = self.about.name
        notes = lesson(train, name)
        both = np.isfinite(train.correct) & np.isfinite(train.energy_j)
        if not both.any():
            raise NothingToLearn(f"{name} is rewarded in joules; none are known.", fix="join joules to the outcomes")
        order = np.random.default_rng(seed).permutation(np.flatnonzero(both.any(axis=1)))[:WARM_UP]
        context = _Context(self, train.queries, order)
        low, high = float(train.energy_j[both].min()), float(train.energy_j[both].max())
        spread = max(high - low, np.finfo(np.float64).tiny)
        normal = (train.energy_j - low) / spread
        bandit = _Bandit(len(train.arms), context.of(train.queries.take(order[:1])).shape[1], self.weight)
        x = context.of(train.queries)
        for row in order.tolist():
            bandit.step(x[row], train.correct[row], normal[row], both[row])
        usable = usable_arms(train) & (bandit.pulls > 0)
        score, energy = bandit.weights()

        def predict(queries: Queries) -> Prediction:
            seen = context.of(queries)
            energy_j = low + spread * np.clip(seen @ energy.T, 0.0, 1.0)
            return masked(1.0 - seen @ score.T, energy_j, usable)

        # (1 - w) score - w e  is, up to a constant and a factor, error + w / ((1 - w) spread) x joules.
        at = self.weight / (max(1.0 - self.weight, 1e-9) * spread)
        pulls = {name: int(n) for name, n in zip(train.names, bandit.pulls, strict=True)}
        return FittedTradeoff(predict, at, {**notes, "lambda_per_j": at, "warm_up": len(order), "pulls": pulls})


class _Context:
    """(N, d) contexts: one-hot blocks and a constant. Blocks are learned on the training part in replay order."""

    def __init__(self, rule: GreenServ, train: Queries, order: Ints) -> None:
        self.name, self.full = rule.about.name, rule.context == "full"
        self.benchmarks = tuple(sorted({str(b) for b in train.benchmarks}))
        self.texts = self.full and has_texts(train)
        self.centroids = online_clusters(unit_rows(embeddings_of(train, self.name))[order]) if self.full else None

    def of(self, queries: Queries) -> Floats:
        parts = [one_hot(queries.benchmarks, self.benchmarks)]
        if self.centroids is not None:
            units = unit_rows(embeddings_of(queries, self.name))
            parts.append(np.eye(len(self.centroids))[(units @ unit_rows(self.centroids).T).argmax(axis=1)])
        if self.texts:
            parts.append(_flesch_bins(queries))
        return with_constant(parts, len(queries))


def online_clusters(units: Floats, k: int = CLUSTERS) -> Floats:
    """(k', D) centroids after one pass: the first k distinct rows start them, each later one moves the nearest.

    Nearest by cosine; mu += (e - mu) / (n + 1).
    """
    centroids: list[Floats] = []
    counts: list[int] = []
    for row in units:
        if len(centroids) < k and not any(np.array_equal(row, centroid) for centroid in centroids):
            centroids.append(row.copy())
            counts.append(1)
            continue
        at = int(np.argmax([row @ c / max(float(np.linalg.norm(c)), 1e-12) for c in centroids]))
        centroids[at] += (row - centroids[at]) / (counts[at] + 1)
        counts[at] += 1
    return np.array(centroids)


def _flesch_bins(queries: Queries) -> Floats:
    """(N, 3) one-hot bins of the Flesch reading ease at 20 and 30; a row of zeros where the text is unknown."""
    found = np.zeros((len(queries), len(FLESCH_EDGES) + 1))
    assert queries.texts is not None or not len(queries)
    for row, text in enumerate(queries.texts if queries.texts is not None else ()):
        if text is not None:
            found[row, np.searchsorted(FLESCH_EDGES, flesch_reading_ease(text), side="right")] = 1.0
    return found


class _Bandit:
    """LinUCB with one ridge model per arm; the two parts of the reward are learned apart on the same design."""

    def __init__(self, n_arms: int, d: int, weight: float) -> None:
        self.weight = weight
        self.inverse = np.tile(np.eye(d) / REGULARISATION, (n_arms, 1, 1))
        self.score, self.energy = np.zeros((n_arms, d)), np.zeros((n_arms, d))  # sums of x times the part
        self.theta = np.zeros((n_arms, d))
        self.pulls = np.zeros(n_arms, dtype=np.int64)

    def step(self, x: Floats, score: Floats, energy: Floats, known: Bools) -> None:
        """Choose the arm of the highest upper confidence bound among the `known` cells, and learn from its cell."""
        spread = self.inverse @ x
        bound = self.theta @ x + ALPHA * np.sqrt(np.maximum(spread @ x, 0.0))
        arm = int(np.where(known, bound, -np.inf).argmax())
        self.inverse[arm] -= np.outer(spread[arm], spread[arm]) / (1.0 + spread[arm] @ x)  # Sherman-Morrison
        self.score[arm] += score[arm] * x
        self.energy[arm] += energy[arm] * x
        reward = (1.0 - self.weight) * self.score[arm] - self.weight * self.energy[arm]
        self.theta[arm] = self.inverse[arm] @ reward
        self.pulls[arm] += 1

    def weights(self) -> tuple[Floats, Floats]:
        """(K, d) weights of score and of normalised energy."""
        return (
            np.einsum("kij,kj->ki", self.inverse, self.score),
            np.einsum("kij,kj->ki", self.inverse, self.energy),
        )
