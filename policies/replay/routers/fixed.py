"""Policies that look at no query: every fixed arm, random mixing of two of them, and a uniform draw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from policies.errors import ParametersInvalid
from policies.pareto import mixing_hull
from policies.replay.errors import BudgetUnreachable, NothingToLearn
from policies.replay.policy import About, Choices, Tradeoff
from policies.replay.routers.means import column_means, usable_arms
from policies.replay.routers.operating import Point
from policies.replay.table import Bools, Floats, Ints, OutcomeTable, Queries

ROLES = ("smallest", "medium", "large")


@dataclass(frozen=True)
class FittedMix:
    """The same arm, or the same (K,) probabilities, for every query."""

    arm: int | None = None
    probability: Floats | None = None
    corners: tuple[Floats, Floats] | None = None  # (K,) error and joules per arm, for the curve
    notes: Mapping[str, Any] = field(default_factory=dict)

    def route(self, queries: Queries) -> Choices:
        if self.arm is not None:
            return Choices(arms=np.full(len(queries), self.arm, dtype=np.int32))
        assert self.probability is not None
        return Choices(probability=np.tile(self.probability, (len(queries), 1)))

    def curve(self, queries: Queries) -> Tradeoff | None:
        if self.corners is None:
            return None
        error, energy_j = (np.tile(values, (len(queries), 1)) for values in self.corners)
        return Tradeoff(error, energy_j)


@dataclass(frozen=True)
class FixedArm:
    """Always the same arm. `role` is smallest, medium or large where it is one of these."""

    arm: str
    role: str | None = None

    @property
    def about(self) -> About:
        return About(f"always-{self.arm}", "fixed", parameters={"arm": self.arm, "role": self.role})

    def fit(self, train: OutcomeTable, seed: int) -> FittedMix:
        """Raises ArmUnknown."""
        return FittedMix(arm=train.arm_index(self.arm))


@dataclass(frozen=True)
class Random:
    """Each arm with the same probability; replayed as an expectation, so without luck."""

    about = About("random", "random")

    def fit(self, train: OutcomeTable, seed: int) -> FittedMix:
        n = len(train.arms)
        return FittedMix(probability=np.full(n, 1.0 / n))


@dataclass(frozen=True)
class MixingHull:
    """Random mixing of the two fixed arms whose mean joules on the training part enclose the budget."""

    budget_j: float

    def __post_init__(self) -> None:
        Point(budget_j=self.budget_j)

    @property
    def about(self) -> About:
        return About(f"hull{Point(budget_j=self.budget_j).suffix}", "hull", parameters={"budget_j": self.budget_j})

    def fit(self, train: OutcomeTable, seed: int) -> FittedMix:
        """Raises NothingToLearn without joules or scores, BudgetUnreachable below the cheapest arm."""
        figures = fixed_arms(train)
        arms = figures.hull()
        cost = figures.energy_j[arms]
        if self.budget_j < cost[0]:
            raise BudgetUnreachable(
                f"A budget of {self.budget_j:g} J per query is below the cheapest arm "
                f"{train.names[arms[0]]}, {cost[0]:.4g} J.",
                fix=f"give at least {cost[0]:.4g} J",
            )
        probability = np.zeros(len(train.arms))
        for at, arm in enumerate(arms.tolist()):  # each corner's hat function at the budget; flat beyond the last
            probability[arm] = np.interp(self.budget_j, cost, np.eye(len(arms))[at])
        # An arm that is off the hull or unknown stands where no lambda picks it.
        error = np.where(np.isin(np.arange(len(train.arms)), arms), 1.0 - figures.accuracy, 2.0)
        energy_j = np.where(error < 2.0, figures.energy_j, cost.max())
        return FittedMix(
            probability=probability,
            corners=(error, energy_j),
            notes={"corners": [train.names[arm] for arm in arms], "means_over": figures.over},
        )


@dataclass(frozen=True)
class FixedFigures:
    """(K,) mean score and joules per fixed arm, NaN where unknown. `over` says over which queries."""

    accuracy: Floats
    energy_j: Floats
    usable: Bools
    over: str

    def hull(self) -> Ints:
        """Indices of the arms on the mixing hull, by ascending joules."""
        at = np.flatnonzero(self.usable)
        return np.asarray(at[mixing_hull(self.energy_j[at], self.accuracy[at])], dtype=np.int64)


def fixed_arms(train: OutcomeTable) -> FixedFigures:
    """Means of every arm over the training queries that all usable arms were asked.

    Arms that were asked different queries cannot be compared by their own means. Where no such common query
    exists there is no other way, and `over` says so. Raises NothingToLearn without scores or joules.
    """
    usable = usable_arms(train) & np.isfinite(train.energy_j).any(axis=0)
    if not usable.any():
        raise NothingToLearn(
            f"No arm of {train.dataset} has both scores and joules among {len(train)} training queries.",
            fix="join joules to the outcomes, or give more queries the split 'train'",
        )
    both = np.isfinite(train.correct) & np.isfinite(train.energy_j)
    common = both[:, usable].all(axis=1)
    rows = common if common.any() else both.any(axis=1)
    over = f"{int(rows.sum())} queries " + ("of all arms" if common.any() else "of differing arms")
    accuracy = np.where(usable, column_means(train.correct[rows]), np.nan)
    energy_j = np.where(usable, column_means(train.energy_j[rows]), np.nan)
    usable = usable & np.isfinite(accuracy) & np.isfinite(energy_j)
    return FixedFigures(accuracy, energy_j, usable, over)


def roles(table: OutcomeTable) -> dict[str, str]:
    """Which arm is smallest, medium (the lower middle) and large.

    By parameters where every arm tells them, ties by mean training joules; else by mean training joules;
    without both there are no roles. Two arms have no medium, one arm is only the smallest.
    """
    size = np.array([np.nan if arm.parameters_b is None else arm.parameters_b for arm in table.arms])
    energy_j = column_means(table.train().energy_j)
    if not np.isfinite(size).all():
        if not np.isfinite(energy_j).all():
            return {}
        size = energy_j
    order = np.lexsort((np.arange(len(size)), np.nan_to_num(energy_j, nan=np.inf), size))
    found = {"smallest": table.names[order[0]]} if len(order) else {}
    if len(order) > 2:
        found["medium"] = table.names[order[(len(order) - 1) // 2]]
    if len(order) > 1:
        found["large"] = table.names[order[-1]]
    return found


def half_of_best(table: OutcomeTable) -> float | None:
    """The default joule budget: half of what the most accurate fixed arm takes per training query.

    Halfway to the cheapest arm where that is more; None where the most accurate arm is the cheapest, or
    joules are unknown.
    """
    try:
        figures = fixed_arms(table.train())
    except NothingToLearn:
        return None
    cost = figures.energy_j[figures.hull()]
    if cost.size < 2:
        return None
    half = cost[-1] / 2
    return float(f"{half if half > cost[0] else (cost[0] + cost[-1]) / 2:.3g}")


def check_arms(table: OutcomeTable, *arms: str) -> None:
    """Raises ArmUnknown, or ParametersInvalid where one arm is named twice."""
    for arm in arms:
        table.arm_index(arm)
    if len(set(arms)) < len(arms):
        raise ParametersInvalid(f"The arms {', '.join(arms)} are not distinct.", fix="name two different arms")
