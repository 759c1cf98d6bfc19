"""Regression: how hard a query is and how long its answers are, pooled over the arms; then each arm on these.

Two stages, as in item response theory (IRT-Router, ACL 2025, learns the same shape with gradient descent): the
mean score of the arms says more about a query than any one arm's right or wrong, so the many weights are
learned on it, and each arm only learns how it responds.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.special import expit

from policies.replay.policy import About
from policies.replay.routers.features import Scale, has_texts, one_hot, raw_features, with_constant
from policies.replay.routers.linear import (
    Chosen,
    cross_validated,
    logistic,
    logistic_loss,
    ridge,
    squared_loss,
)
from policies.replay.routers.means import column_means, embeddings_of, has_energy, lesson, positions, usable_arms
from policies.replay.routers.operating import FittedTradeoff, Point, Prediction, fitted_at, masked
from policies.replay.routers.uniroute import group_means
from policies.replay.table import Floats, Ints, OutcomeTable, Queries

PENALTIES = (3.0, 10.0, 30.0, 100.0, 300.0)
ARM_PENALTY = 1.0
SMEAR_QUERIES = 5.0  # a benchmark's own smearing counts as much as the arm's from so many queries on


@dataclass(frozen=True)
class Regression:
    """Counts of the text, prompt tokens and benchmark; with `embeddings` the text embedding, too."""

    embeddings: bool = False
    point: Point = field(default_factory=Point)

    @property
    def about(self) -> About:
        name = f"regression{'-embedding' if self.embeddings else ''}{self.point.suffix}"
        parameters = {"embeddings": self.embeddings, "l2": list(PENALTIES), **self.point.describe()}
        return About(name, "regression", needs_embeddings=self.embeddings, parameters=parameters)

    def fit(self, train: OutcomeTable, seed: int) -> FittedTradeoff:
        """Raises NothingToLearn, EmbeddingInvalid, BudgetUnreachable."""
        name = self.about.name
        notes = lesson(train, name)
        model = _Model(train, self.embeddings, name, seed)
        chosen = {"l2_score": model.hardness.l2, "texts": has_texts(train.queries)}
        if model.length is not None:
            chosen["l2_energy"] = model.length.l2
        return fitted_at(self.point, model.predict, lambda: (model.held_out(), train.energy_j), {**notes, **chosen})


class _Model:
    def __init__(self, train: OutcomeTable, embeddings: bool, name: str, seed: int) -> None:
        self.name, self.usable = name, usable_arms(train)
        self.benchmarks = tuple(sorted({str(b) for b in train.queries.benchmarks}))
        raw = raw_features(train.queries)
        self.scale = Scale.of(raw)
        self.embedding_scale = Scale.of(embeddings_of(train.queries, name)) if embeddings else None
        design = self._design(train.queries, raw)
        self.hardness = _pooled_score(design, train.correct, seed)
        log_j = np.log(train.energy_j)
        self.length = _pooled_energy(design, log_j, seed) if has_energy(train) else None
        traits = [self.hardness.held_out] + ([self.length.held_out] if self.length else [])
        self.trait_scale = Scale.of(np.column_stack(traits))
        arms = self._arm_design(train.queries, traits)
        self._train_design = arms
        self.score_weights = [_arm_logistic(arms, column) for column in train.correct.T]
        self.energy_weights = np.column_stack([_arm_ridge(arms, column) for column in log_j.T])
        # exp of a mean logarithm is below the mean: Duan's smearing (JASA 78, 1983), per benchmark and arm.
        kind = positions(train.queries.benchmarks, self.benchmarks)
        excess = np.exp(log_j - arms @ self.energy_weights)
        self.smear = np.nan_to_num(group_means(excess, kind, len(self.benchmarks), SMEAR_QUERIES)[0], nan=1.0)
        self._train_kind = kind

    def predict(self, queries: Queries) -> Prediction:
        design = self._design(queries, raw_features(queries))
        traits = [design @ self.hardness.weights] + ([design @ self.length.weights] if self.length else [])
        return self._respond(self._arm_design(queries, traits), positions(queries.benchmarks, self.benchmarks))

    def held_out(self) -> Prediction:
        """The training part by traits that were predicted without the query's own fold."""
        return self._respond(self._train_design, self._train_kind)

    def _respond(self, arms: Floats, kind: Ints) -> Prediction:
        score = np.column_stack([expit(arms @ weights) for weights in self.score_weights])
        energy_j = None
        if self.length is not None:
            energy_j = np.exp(arms @ self.energy_weights) * self.smear[kind]
        return masked(1.0 - score, energy_j, self.usable)

    def _design(self, queries: Queries, raw: Floats) -> Floats:
        parts = [self.scale.apply(raw), one_hot(queries.benchmarks, self.benchmarks)]
        if self.embedding_scale is not None:
            scaled = self.embedding_scale.apply(embeddings_of(queries, self.name))
            parts.append(scaled / 4.0)  # so that D embedding columns do not outweigh some thirty counts
        return with_constant(parts, len(queries))

    def _arm_design(self, queries: Queries, traits: list[Floats]) -> Floats:
        """Benchmark, traits, and each benchmark's own slope of each trait."""
        kind = one_hot(queries.benchmarks, self.benchmarks)
        scaled = self.trait_scale.apply(np.column_stack(traits))
        slopes = [kind * scaled[:, [at]] for at in range(scaled.shape[1])]
        return with_constant([kind, scaled, *slopes], len(queries))


def _per_query(values: Floats) -> tuple[Ints, Floats]:
    """(n,) rows with a known cell, and for each the mean over its known cells less what the arms' means explain.

    Without that correction a query that only weak arms were asked would look hard.
    """
    known = np.isfinite(values)
    rows = np.flatnonzero(known.any(axis=1)).astype(np.int64)
    means = column_means(values)
    grand = float(np.nanmean(means))
    target: Floats = np.nanmean(values[rows] - means, axis=1) + grand
    return rows, target


def _pooled_score(design: Floats, score: Floats, seed: int) -> Chosen:
    rows, target = _per_query(score)
    target = np.clip(target, 0.0, 1.0)
    return _spread(design, rows, cross_validated(logistic, design[rows], target, PENALTIES, seed, loss=logistic_loss))


def _pooled_energy(design: Floats, log_j: Floats, seed: int) -> Chosen:
    rows, target = _per_query(log_j)
    return _spread(design, rows, cross_validated(ridge, design[rows], target, PENALTIES, seed, loss=squared_loss))


def _spread(design: Floats, rows: Ints, chosen: Chosen) -> Chosen:
    """The same for all rows of the design: those that took no part in the fit are held out by nature."""
    linear = design @ chosen.weights
    linear[rows] = chosen.held_out
    return Chosen(chosen.weights, chosen.l2, linear)


def _arm_logistic(design: Floats, score: Floats) -> Floats:
    known = np.isfinite(score)
    return logistic(design[known], score[known], ARM_PENALTY) if known.any() else np.zeros(design.shape[1])


def _arm_ridge(design: Floats, log_j: Floats) -> Floats:
    known = np.isfinite(log_j)
    return ridge(design[known], log_j[known], ARM_PENALTY) if known.any() else np.zeros(design.shape[1])
