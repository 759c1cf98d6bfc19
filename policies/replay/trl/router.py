"""The trained router as a policy of the lab: it takes the arm whose label the model finds most likely.

The paper sums the probability of every completion that reads as an arm. Here only the label itself counts, so an arm
always comes out, and one decoding step is enough. A query without a text is handed back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from policies.replay.errors import ArmUnknown, QueryLeaked
from policies.replay.policy import HAND_BACK, About, Choices
from policies.replay.table import Floats, OutcomeTable, Queries, Strings
from policies.replay.trl.data import query_keys
from policies.replay.trl.prompts import MAX_CHARS, Messages, messages


class LabelScorer(Protocol):
    """Log-likelihood (N, K) of every arm's label as the answer to each prompt."""

    def __call__(self, prompts: Sequence[Messages]) -> Floats: ...


@dataclass(frozen=True)
class LanguageRouter:
    """A fitted router. `at` (K,) are the table's indices of the router's own `arms`."""

    arms: tuple[str, ...]
    at: tuple[int, ...]
    scorer: LabelScorer
    max_chars: int = MAX_CHARS
    trained_on: frozenset[str] = frozenset()
    notes: Mapping[str, Any] = field(default_factory=dict)

    def route(self, queries: Queries) -> Choices:
        """Raises QueryLeaked where the router was trained on one of `queries`."""
        keys = query_keys(queries)
        leaked = [id_ for id_, key in zip(queries.ids, keys, strict=True) if key in self.trained_on]
        if leaked:
            raise QueryLeaked(
                f"This router was trained on {len(leaked)} of these queries; the first is {leaked[0]}.",
                fix="evaluate it with the split that it was trained with",
            )
        chosen = np.full(len(queries), HAND_BACK, dtype=np.int32)
        rows = np.flatnonzero(with_text(queries))
        if rows.size:
            best = self.log_likelihood(queries.take(rows)).argmax(axis=1)
            chosen[rows] = np.array(self.at, dtype=np.int32)[best]
        return Choices(arms=chosen)

    def log_likelihood(self, queries: Queries) -> Floats:
        """(N, K) of each label, over the router's own arms; every query must have a text."""
        assert queries.texts is not None
        return self.scorer([messages(text, self.arms, self.max_chars) for text in queries.texts])

    def curve(self, queries: Queries) -> None:
        """Nothing to sweep: the weight of energy is trained in."""
        return None


def with_text(queries: Queries) -> Strings:
    """(N,) of bool."""
    if queries.texts is None:
        return np.zeros(len(queries), dtype=bool)
    return np.array([text is not None and bool(text.strip()) for text in queries.texts], dtype=bool)


@dataclass(frozen=True)
class TrainedRouter:
    """A policy that was trained elsewhere: `fit` only finds its arms in the table."""

    about: About
    arms: tuple[str, ...]
    scorer: LabelScorer
    max_chars: int = MAX_CHARS
    trained_on: frozenset[str] = field(default=frozenset(), repr=False)
    notes: Mapping[str, Any] = field(default_factory=dict)  # how it was trained: time, energy and its evidence

    def prompt(self, text: str) -> Messages:
        """What the model is asked about one query."""
        return messages(text, self.arms, self.max_chars)

    def fit(self, train: OutcomeTable, seed: int) -> LanguageRouter:
        """Raises ArmUnknown where the router chooses arms that the table has not."""
        lost = [arm for arm in self.arms if arm not in train.names]
        if lost:
            raise ArmUnknown(
                f"{self.about.name} routes to {', '.join(lost)}, which the data set {train.dataset} has not.",
                fix=f"train it on a data set with the arms {', '.join(train.names)}",
            )
        at = tuple(train.arm_index(arm) for arm in self.arms)
        return LanguageRouter(self.arms, at, self.scorer, self.max_chars, self.trained_on, self.notes)
