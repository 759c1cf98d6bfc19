"""What a training part can teach: rewards, oracle labels, the cells there are, and counts of what was left out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from policies.replay.controller.settings import Settings
from policies.replay.errors import NothingToLearn
from policies.replay.reward import rewards_of
from policies.replay.routers.means import lesson
from policies.replay.table import Bools, Floats, OutcomeTable


@dataclass(frozen=True)
class Lessons:
    """(N, K) rewards of both stages, NaN where a cell is missing; (N, K) label distributions, a row of 0: no label.

    `known` marks cells with a reward in both stages; `usable` queries with two of them at least.
    """

    rewards: Floats
    labels: Floats
    known: Bools
    usable: Bools
    correct: Floats
    energy_j: Floats
    counts: dict[str, int]


def lessons(train: OutcomeTable, settings: Settings) -> Lessons:
    """Raises NothingToLearn: nothing graded, all wrong, all tied, or no query with rewards of two arms."""
    counts = lesson(train, settings.name)
    told = rewards_of(train, settings.label_weights)
    if settings.reward == "joules" and settings.stage != "sft":
        rewards = np.asarray(train.correct - settings.lam * train.energy_j)
    else:
        rewards = rewards_of(train, settings.weights)
    known = np.isfinite(rewards) & np.isfinite(told)
    usable = known.sum(axis=1) >= 2
    if not usable.any():
        weights = settings.label_weights
        weighed = [what for what, weight in (("seconds", weights.per_s), ("watts", weights.per_w)) if weight]
        raise NothingToLearn(
            f"{settings.name}: none of the {len(train)} training queries of {train.dataset} has the outcome and the "
            f"{' and the '.join(['joules', *weighed])} of two arms.",
            fix="join joules to the outcomes (a GPU and a batch), or import them"
            + (f"; or give no weight to {' and '.join(weighed)}" if weighed else ""),
        )
    labels, unanswered = _labels(train, told, known, settings)
    labels[~usable] = 0.0
    counts |= {
        "missing_cells": int((~known).sum()),
        "queries_left_out": int((~usable).sum()),
        "unanswered_queries": int((unanswered & usable).sum()),
        "labels": int((labels.sum(axis=1) > 0).sum()),
        "labels_from_partial_rows": int(((labels.sum(axis=1) > 0) & ~known.all(axis=1)).sum()),
    }
    return Lessons(rewards, labels, known, usable, train.correct, train.energy_j, counts)


def _labels(train: OutcomeTable, rewards: Floats, known: Bools, settings: Settings) -> tuple[Floats, Bools]:
    """One arm of the highest reward per query, in equal shares where several tie; (N,) queries nobody answers."""
    unanswered = np.where(known, train.correct, 0.0).max(axis=1, initial=0.0) <= 0.0
    aim = np.where(known, rewards, -np.inf)
    if settings.unanswered == "cheapest":
        aim[unanswered] = np.where(known[unanswered], -train.energy_j[unanswered], -np.inf)
    best = known & (aim == aim.max(axis=1, keepdims=True, initial=-np.inf))
    if settings.unanswered == "exclude":
        best[unanswered] = False
    share = best / np.maximum(best.sum(axis=1, keepdims=True), 1)
    return share.astype(np.float64), unanswered
