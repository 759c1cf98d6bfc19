"""The decision-table router of the desk, replayed: one arm per (category, tier), by the desk's own score.

How a replay table maps to it: category = benchmark; measured cost, carbon and proficiency = mean USD, joules
and score of the training queries of that benchmark. Under one condition grams are joules times one
intensity, so the carbon part, cheapest / value, is the same in joules. An arm's tier is its third of the
arms by parameters (or mean joules); a query asks for no tier, so the tier is the policy's parameter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from policies.errors import ParametersInvalid
from policies.replay.errors import NothingToLearn
from policies.replay.policy import About, Choices
from policies.replay.routers.means import column_means, lesson, positions
from policies.replay.table import Bools, Floats, Ints, OutcomeTable, Queries
from policies.router.parameters import Parameters, Weights
from policies.router.request import TIERS
from policies.router.score import with_score


@dataclass(frozen=True)
class DecisionTable:
    """Per benchmark the arm of the highest w_cost x cost + w_eco x eco + w_prof x proficiency, of `tier` or above.

    As at the desk: unknown carbon or proficiency is neutral (0.5); an arm without a known cost is out, unless no
    arm has one; ties go to the arm's name. A benchmark that training has not gets the row over all queries.
    """

    tier: int = 1
    weights: Weights = field(default_factory=Weights)

    def __post_init__(self) -> None:
        if self.tier not in TIERS:
            raise ParametersInvalid(f"tier is {self.tier!r}.", fix=f"use one of {', '.join(map(str, TIERS))}")

    @property
    def about(self) -> About:
        w = self.weights
        shares = "" if w == Weights() else f":{w.w_cost:g}/{w.w_eco:g}/{w.w_prof:g}"
        parameters = {"tier": self.tier, "w_cost": w.w_cost, "w_eco": w.w_eco, "w_prof": w.w_prof}
        return About(f"decision-table-{self.tier}{shares}", "decision table", parameters=parameters)

    def fit(self, train: OutcomeTable, seed: int) -> FittedTable:
        """Raises NothingToLearn, also where no arm of the tier has a known cost."""
        notes = lesson(train, self.about.name)
        benchmarks = tuple(sorted({str(name) for name in train.queries.benchmarks}))
        where = positions(train.queries.benchmarks, benchmarks)
        eligible = arm_tiers(train) >= self.tier
        overall = self._best(train, np.ones(len(train), dtype=np.bool_), eligible)
        if overall is None:
            raise NothingToLearn(
                f"{self.about.name}: no arm of tier {self.tier} or above has a known cost and score.",
                fix="import prices for these arms, or ask for a lower tier",
            )
        rows = [self._best(train, where == at, eligible) for at in range(len(benchmarks))]
        arms = np.array([*(overall if row is None else row for row in rows), overall], dtype=np.int64)
        table = {name: train.names[arm] for name, arm in zip(benchmarks, arms, strict=False)}
        return FittedTable(benchmarks, arms, {**notes, "table": table, "otherwise": train.names[overall]})

    def _best(self, train: OutcomeTable, rows: Bools, eligible: Bools) -> int | None:
        """Index of the best arm over `rows`, or None where none is eligible."""
        cost, carbon = column_means(train.cost_usd[rows]), column_means(train.energy_j[rows])
        proficiency = column_means(train.correct[rows])
        unpriced = np.isnan(cost) & np.isfinite(train.cost_usd).any()
        asked = np.isfinite(proficiency) | np.isfinite(carbon) | np.isfinite(cost)
        at = np.flatnonzero(eligible & ~unpriced & asked)
        if not at.size:
            return None
        columns = {"cost": cost[at], "carbon": carbon[at], "proficiency": proficiency[at]}
        frame = pl.DataFrame({"at": at, "arm": [train.names[k] for k in at], **columns}).with_columns(
            pl.col(*columns).fill_nan(None)
        )
        scored = with_score(frame, Parameters(weights=self.weights)).sort(["score", "arm"], descending=[True, False])
        return int(scored["at"][0])


@dataclass(frozen=True)
class FittedTable:
    """`arms` per benchmark; the last one is for every other."""

    benchmarks: tuple[str, ...]
    arms: Ints
    notes: Mapping[str, Any] = field(default_factory=dict)

    def route(self, queries: Queries) -> Choices:
        return Choices(arms=self.arms[positions(queries.benchmarks, self.benchmarks)].astype(np.int32))

    def curve(self, queries: Queries) -> None:
        """None: the score is not linear in joules, so no lambda sweeps it. Vary the weights instead."""
        return None


def arm_tiers(table: OutcomeTable) -> Ints:
    """(K,) 1, 2 or 3: the arm's third by parameters, or by mean joules where an arm does not tell them; else all 3."""
    size: Floats = np.array([np.nan if arm.parameters_b is None else arm.parameters_b for arm in table.arms])
    if not np.isfinite(size).all():
        size = column_means(table.energy_j)
    if not np.isfinite(size).all():
        return np.full(len(size), max(TIERS), dtype=np.int64)
    below = (size[None, :] < size[:, None]).sum(axis=1)  # arms of one size share a tier
    return np.asarray(1 + 3 * below // max(len(size), 1), dtype=np.int64)
