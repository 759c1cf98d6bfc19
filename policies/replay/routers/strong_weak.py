"""A strong and a weak arm, and a threshold on the probability that the strong one answers better.

The two-model setting of RouteLLM (Ong et al., arXiv 2406.18665), with a logistic regression on text embeddings
in place of its matrix factorisation, which needs a hosted embedding. Ties count as "weak suffices".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import expit

from policies.errors import ParametersInvalid
from policies.replay.errors import BudgetUnreachable, NothingToLearn
from policies.replay.policy import About, Choices, Threshold
from policies.replay.routers.features import Scale, with_constant
from policies.replay.routers.fixed import check_arms
from policies.replay.routers.linear import cross_validated, logistic, logistic_loss
from policies.replay.routers.means import embeddings_of, lesson
from policies.replay.routers.operating import Point
from policies.replay.table import Bools, Floats, OutcomeTable, Queries

PENALTIES = (1.0, 3.0, 10.0, 30.0, 100.0)


@dataclass(frozen=True)
class StrongWeak:
    """score = P(strong scores higher than weak); strong where score >= threshold.

    The threshold keeps `strong_share` of the training queries on the strong arm; with a `point` at lambda > 0
    it is lambda x (mean joules of strong - of weak), what the extra joules are worth; with a budget it is the
    least threshold whose training joules keep the budget.
    """

    strong: str
    weak: str
    strong_share: float = 0.5
    point: Point = field(default_factory=Point)

    def __post_init__(self) -> None:
        if not 0.0 <= self.strong_share <= 1.0:
            raise ParametersInvalid(f"strong_share is {self.strong_share!r}.", fix="give a share between 0 and 1")

    @property
    def about(self) -> About:
        by_share = not self.point.suffix
        at = {"strong_share": self.strong_share} if by_share else self.point.describe()
        share = f"@{self.strong_share:g}share" if by_share and self.strong_share != 0.5 else ""
        return About(
            f"strong-weak:{self.strong}:{self.weak}{self.point.suffix or share}",
            "strong/weak",
            needs_embeddings=True,
            parameters={"strong": self.strong, "weak": self.weak, **at},
        )

    def fit(self, train: OutcomeTable, seed: int) -> FittedStrongWeak:
        """Raises ArmUnknown, EmbeddingInvalid, BudgetUnreachable, and NothingToLearn where one arm never wins."""
        name = self.about.name
        check_arms(train, self.strong, self.weak)
        lesson(train, name)
        strong, weak = train.arm_index(self.strong), train.arm_index(self.weak)
        rows = np.isfinite(train.correct[:, strong]) & np.isfinite(train.correct[:, weak])
        wins = (train.correct[rows, strong] > train.correct[rows, weak]).astype(np.float64)
        if not 0 < wins.sum() < len(wins):
            raise NothingToLearn(
                f"{name}: {self.strong} scores higher than {self.weak} on {int(wins.sum())} of the {len(wins)} "
                "training queries that both were asked.",
                fix="name a pair of arms of which the strong one wins sometimes, and not always",
            )
        raw = embeddings_of(train.queries, name)[rows]
        scale = Scale.of(raw)
        chosen = cross_validated(logistic, _design(scale, raw), wins, PENALTIES, seed, loss=logistic_loss)
        held_out = np.asarray(expit(chosen.held_out))
        threshold = self._threshold(train, rows, held_out, strong, weak)
        notes = {
            "n_train": len(wins),
            "strong_wins": int(wins.sum()),
            "l2": chosen.l2,
            "threshold": float(threshold),
            "train_strong_share": float((held_out >= threshold).mean()),
        }
        return FittedStrongWeak(name, scale, chosen.weights, threshold, strong, weak, notes)

    def _threshold(self, train: OutcomeTable, rows: Bools, score: Floats, strong: int, weak: int) -> float:
        descending = np.sort(score)[::-1]
        if not self.point.suffix:
            return _at_rank(descending, round(self.strong_share * len(score)))
        joules = train.energy_j[rows][:, [strong, weak]]
        known = np.isfinite(joules).all(axis=1)
        if not known.any():
            raise NothingToLearn(
                f"{self.about.name}: no training query has joules of both arms.", fix="join joules, or use a share"
            )
        if self.point.budget_j is None:
            return float(self.point.lambda_per_j * (joules[known, 0] - joules[known, 1]).mean())
        order = np.argsort(-score[known], kind="stable")
        extra = (joules[known, 0] - joules[known, 1])[order]
        spent = (joules[known, 1].sum() + np.r_[0.0, np.cumsum(extra)]) / int(known.sum())
        fits = np.flatnonzero(spent <= self.point.budget_j)
        if not fits.size:
            raise BudgetUnreachable(
                f"A budget of {self.point.budget_j:g} J per query is below the least that {self.about.name} takes, "
                f"{spent.min():.4g} J.",
                fix=f"give at least {spent.min():.4g} J",
            )
        return _at_rank(score[known][order], int(fits[-1]))


def _at_rank(descending: Floats, n: int) -> float:
    """A threshold that lets `n` of the scores through; fewer where scores tie there, so a budget is kept."""
    if n >= len(descending):
        return float(descending[-1])
    return float(np.nextafter(descending[n], np.inf))


@dataclass(frozen=True)
class FittedStrongWeak:
    name: str
    scale: Scale
    weights: Floats
    threshold: float
    strong: int
    weak: int
    notes: Mapping[str, Any]

    def score(self, queries: Queries) -> Floats:
        """(N,) probability that the strong arm scores higher."""
        return np.asarray(expit(_design(self.scale, embeddings_of(queries, self.name)) @ self.weights))

    def route(self, queries: Queries) -> Choices:
        strong = self.score(queries) >= self.threshold
        return Choices(arms=np.where(strong, self.strong, self.weak).astype(np.int32))

    def curve(self, queries: Queries) -> Threshold:
        return Threshold(self.score(queries), self.weak, self.strong)


def _design(scale: Scale, embeddings: Floats) -> Floats:
    scaled = scale.apply(embeddings)
    return with_constant([scaled / np.sqrt(scaled.shape[1])], len(scaled))
