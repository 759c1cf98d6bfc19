"""The oracle: the cheapest arm that is right. It sees the outcomes, so it is a bound and never deployable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from policies.replay.policy import HAND_BACK, About, Choices
from policies.replay.table import Bools, Floats, OutcomeTable


@dataclass(frozen=True)
class Oracle:
    """Per query the cheapest of the arms that share the query's best known score.

    With scores of 0 and 1 that is the cheapest correct arm; with fractional scores (F1 and the like) it keeps
    the oracle the highest accuracy that any routing can reach. A query that nobody answers (best score 0)
    goes to the cheapest arm asked and is counted apart; one without any graded answer is handed back.
    """

    about = About("oracle", "oracle", deployable=False, note="sees the outcomes of the queries it routes")

    def route_seeing(self, train: OutcomeTable, test: OutcomeTable, seed: int) -> Choices:
        known = np.isfinite(test.correct)
        score = np.where(known, test.correct, -np.inf)
        best = score == score.max(axis=1, keepdims=True)
        price = np.where(best & known, cheapness(test), np.inf)
        # Among arms of unknown joules (price is infinite for them, too) the first graded one.
        order = np.lexsort((~(best & known), price), axis=1) if len(test) else np.empty((0, 1), dtype=np.int64)
        arms = np.where(known.any(axis=1), order[:, 0], HAND_BACK)
        return Choices(arms=arms.astype(np.int32))

    def notes(self, test: OutcomeTable) -> Mapping[str, Any]:
        known = np.isfinite(test.correct).any(axis=1)
        return {"unanswered_queries": int(unanswered(test).sum()), "ungraded_queries": int((~known).sum())}


def unanswered(table: OutcomeTable) -> Bools:
    """(N,) queries that nobody answers: at least one known score, and all of them 0."""
    known = np.isfinite(table.correct)
    return np.asarray(known.any(axis=1) & (np.where(known, table.correct, 0.0) <= 0).all(axis=1))


def cheapness(table: OutcomeTable) -> Floats:
    """(N, K) what the oracle saves: joules; USD where the table knows no joules; infinite where unknown."""
    price = table.energy_j if np.isfinite(table.energy_j).any() else table.cost_usd
    return np.where(np.isfinite(price), price, np.inf)
