"""From predictions to choices: argmin over arms of predicted error + lambda x predicted joules.

lambda is in 1/J: the share of right answers that one joule is worth. A policy is run at one operating
point: at a lambda, or at one whose choices keep a joule budget on the training part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from policies.errors import ParametersInvalid
from policies.replay.errors import BudgetUnreachable, NothingToLearn
from policies.replay.policy import Choices, Tradeoff
from policies.replay.table import Bools, Floats, Queries

TIE = 1e-12  # predicted costs closer than this are equal: below lies the noise of adding


@dataclass(frozen=True)
class Prediction:
    """(N, K) predicted error 0..1 and joules per call; `energy_j` is None where no joules are known at all."""

    error: Floats
    energy_j: Floats | None


@dataclass(frozen=True)
class Point:
    """Where on its curve a policy is run: at `lambda_per_j`, or within `budget_j` joules per query."""

    lambda_per_j: float = 0.0
    budget_j: float | None = None

    def __post_init__(self) -> None:
        if not math.isfinite(self.lambda_per_j) or self.lambda_per_j < 0:
            raise ParametersInvalid(f"lambda_per_j is {self.lambda_per_j!r}.", fix="give a number from 0, in 1/J")
        if self.budget_j is not None and not (math.isfinite(self.budget_j) and self.budget_j > 0):
            raise ParametersInvalid(f"budget_j is {self.budget_j!r}.", fix="give joules per query above 0")

    @property
    def suffix(self) -> str:
        """What the point adds to a policy's name: nothing at lambda 0, else '@0.001' or '@200J'."""
        if self.budget_j is not None:
            return f"@{self.budget_j:.6g}J"
        return f"@{self.lambda_per_j:.6g}" if self.lambda_per_j else ""

    def describe(self) -> dict[str, Any]:
        return {"lambda_per_j": self.lambda_per_j} if self.budget_j is None else {"budget_j": self.budget_j}


def masked(error: Floats, energy_j: Floats | None, usable: Bools) -> Prediction:
    """A prediction that never picks an arm of which training knows nothing, at no lambda.

    Such an arm gets error 2 (worse than any) at the joules of the dearest arm. So the figures stay finite,
    and no lambda makes it the best. Raises NothingToLearn where no arm is usable.
    """
    if not usable.any():
        raise NothingToLearn("No arm has both graded answers and joules.", fix="import outcomes that have both")
    error = np.clip(error, 0.0, 1.0)
    error[:, ~usable] = 2.0
    if energy_j is not None and not usable.all():
        energy_j = energy_j.copy()
        energy_j[:, ~usable] = energy_j[:, usable].max(axis=1, keepdims=True)
    assert np.isfinite(error).all() and (energy_j is None or np.isfinite(energy_j).all())
    return Prediction(error, energy_j)


def pick(prediction: Prediction, lambda_per_j: float) -> npt.NDArray[np.int32]:
    """(N,) arms of least error + lambda x joules; ties go to fewer joules, then to the arm listed first."""
    energy_j = prediction.energy_j
    if energy_j is None:
        if lambda_per_j:
            raise NothingToLearn(
                "lambda weighs joules, and no joules are known in the training part.",
                fix="join joules to the outcomes, or use lambda 0",
            )
        return np.asarray(prediction.error.argmin(axis=1), dtype=np.int32)
    cost = prediction.error + lambda_per_j * energy_j
    best = cost <= cost.min(axis=1, keepdims=True) + TIE
    return np.asarray(np.where(best, energy_j, np.inf).argmin(axis=1), dtype=np.int32)


def lambda_within(prediction: Prediction, budget_j: float, known_j: Floats | None = None) -> float:
    """A lambda (1/J) at which the picks take at most `budget_j` joules in the mean; the least that bisection finds.

    What a pick takes is its cell of `known_j` (N, K), the joules as recorded: a policy picks where it predicts
    too few joules, so predictions would flatter it. Unknown cells, and all without `known_j`, count as predicted.
    Raises BudgetUnreachable where even the dearest joule leaves the mean above the budget.
    """
    if prediction.energy_j is None:
        raise NothingToLearn(
            "A joule budget needs joules, and none are known in the training part.", fix="join joules to the outcomes"
        )
    predicted = prediction.energy_j
    taken = predicted if known_j is None else np.where(np.isfinite(known_j), known_j, predicted)

    def spent(lambda_per_j: float) -> float:
        at = pick(prediction, lambda_per_j)
        return float(np.take_along_axis(taken, at[:, None], axis=1).mean())

    if spent(0.0) <= budget_j:
        return 0.0
    low, high = -12.0, 6.0  # log10 of lambda: from "a TJ for an answer" to "an answer for a microjoule"
    if (least := spent(10.0**high)) > budget_j:
        raise BudgetUnreachable(
            f"A budget of {budget_j:g} J per query is below the least that routing takes, {least:.4g} J.",
            fix=f"give at least {least:.4g} J, or add a cheaper arm",
        )
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if spent(10.0**middle) <= budget_j else (middle, high)
    return float(10.0**high)


@dataclass
class FittedTradeoff:
    """A fitted policy that predicts error and joules per query and arm. `notes` are counts for the report."""

    predict: Callable[[Queries], Prediction]
    lambda_per_j: float
    notes: Mapping[str, Any] = field(default_factory=dict)
    _last: tuple[Queries, Prediction] | None = field(default=None, repr=False)

    def route(self, queries: Queries) -> Choices:
        return Choices(arms=pick(self._predicted(queries), self.lambda_per_j))

    def curve(self, queries: Queries) -> Tradeoff | None:
        """None where no joules are known: then there is nothing to trade."""
        prediction = self._predicted(queries)
        return None if prediction.energy_j is None else Tradeoff(prediction.error, prediction.energy_j)

    def _predicted(self, queries: Queries) -> Prediction:
        """The last prediction is kept, so that `curve` after `route` costs nothing."""
        if self._last is None or self._last[0] is not queries:
            self._last = (queries, self.predict(queries))
        return self._last[1]


def fitted_at(
    point: Point,
    predict: Callable[[Queries], Prediction],
    on_train: Callable[[], tuple[Prediction, Floats]],
    notes: Mapping[str, Any],
) -> FittedTradeoff:
    """The fitted policy at `point`; `on_train()` predicts training queries and tells their joules, for a budget."""
    if point.budget_j is None:
        at = point.lambda_per_j
    else:
        prediction, known_j = on_train()
        at = lambda_within(prediction, point.budget_j, known_j)
    return FittedTradeoff(predict, at, {**notes, "lambda_per_j": at})
