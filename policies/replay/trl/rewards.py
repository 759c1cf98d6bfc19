"""The reward of a rollout, looked up in the outcome table; no answer model is called."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from policies.replay.reward import WRONG
from policies.replay.table import Floats
from policies.replay.trl.prompts import parse

Completion = str | Sequence[Mapping[str, str]]


class TableReward:
    """A reward function as GRPOTrainer calls it, with `row`: the index of each completion's query.

    A completion that names no arm earns what a wrong answer earns. A cell that is not recorded earns None, which
    the trainer leaves out of the group's mean and gives no advantage: it is neither praised nor punished.
    """

    def __init__(self, reward: Floats, arms: Sequence[str]) -> None:
        self._reward = reward  # (M, K), NaN where unknown
        self._arms = tuple(arms)
        self.completions = 0
        self.unparsable = 0
        self.missing = 0

    def __call__(
        self,
        completions: Sequence[Completion],
        row: Sequence[int],
        log_metric: Callable[[str, float], None] | None = None,
        **_: Any,
    ) -> list[float | None]:
        chosen = [parse(completion, self._arms) for completion in completions]
        earned = [self._earned(arm, at) for arm, at in zip(chosen, row, strict=True)]
        self.completions += len(earned)
        self.unparsable += sum(arm is None for arm in chosen)
        self.missing += sum(value is None for value in earned)
        if log_metric is not None and earned:
            log_metric("unparsable", sum(arm is None for arm in chosen) / len(earned))
            log_metric("missing", sum(value is None for value in earned) / len(earned))
        return earned

    def _earned(self, arm: int | None, row: int) -> float | None:
        if arm is None:
            return WRONG
        value = float(self._reward[row, arm])
        return None if np.isnan(value) else value
