"""The learned controller as a policy of the replay lab."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from policies.replay.controller.settings import Settings
from policies.replay.controller.trained import Trained
from policies.replay.controller.training import Progress, train
from policies.replay.errors import NothingToLearn
from policies.replay.policy import About
from policies.replay.reward import LAMBDA_REINFORCED
from policies.replay.routers.fixed import fixed_arms
from policies.replay.table import OutcomeTable

# lambda weighs the rank of an arm's energy, 0 to 1, against 3 for right instead of wrong
LAMBDAS = (LAMBDA_REINFORCED, 1.0, 1.5, 2.0)


@dataclass(frozen=True)
class Controller:
    """`fit` trains from the table; `mixing` makes it route by probabilities instead of the most probable arm."""

    settings: Settings = field(default_factory=Settings)
    mixing: bool = False
    progress: Progress | None = field(default=None, compare=False)

    @property
    def about(self) -> About:
        return About(
            name=self.settings.name + ("-mixing" if self.mixing else ""),
            family="learned controller",
            needs_embeddings=self.settings.components > 0,
            parameters={**self.settings.plain(), "mixing": self.mixing},
        )

    def fit(self, train_part: OutcomeTable, seed: int) -> Trained:
        """Raises NothingToLearn and EmbeddingInvalid."""
        return replace(train(train_part, self.settings, seed, self.progress), mixing=self.mixing)


def policies(
    table: OutcomeTable, *, lambdas: Sequence[float] | None = None, seed: int = 0, settings: Settings | None = None
) -> list[Controller]:
    """sft; grpo and kl-grpo on the gated reward at each of `lambdas`, weights of the energy rank; and grpo on joules.

    On joules lambda is set where routing has most to gain: at the slopes of the training part's hull of fixed arms,
    where two arms tie, and below the last of them. Each policy is trained when it is fitted, from a supervised warm
    start of its own: seconds for each lambda. Without embeddings they see counts of the text alone. `seed` is told at
    `fit`.
    """
    base = _seeing(table, settings or Settings())
    found = [Controller(replace(base, stage="sft"))]
    for stage in ("grpo", "kl-grpo"):
        found += [Controller(replace(base, stage=stage, lam=lam)) for lam in (lambdas or LAMBDAS)]
    return found + [Controller(replace(base, reward="joules", lam=lam)) for lam in lambdas_per_j(table.train())]


def one(table: OutcomeTable, *, stage: str, reward: str = "gated", lam: float | None = None) -> Controller:
    """One training with the settings of the roster; `lam` None: the paper's. Raises ParametersInvalid."""
    settings = Settings(stage=stage, reward=reward, lam=LAMBDA_REINFORCED if lam is None else lam)
    return Controller(_seeing(table, settings))


def _seeing(table: OutcomeTable, settings: Settings) -> Settings:
    """Without embeddings counts of the text are all that is seen."""
    return replace(settings, components=0) if table.queries.embeddings is None else settings


def lambdas_per_j(train_part: OutcomeTable) -> list[float]:
    """Slopes (1/J) of the hull of the fixed arms of a training part, to two digits, and half of the last; may be empty.

    The last slope is where the dearest arm of the hull begins to pay; at half of it most queries go there.
    """
    try:
        figures = fixed_arms(train_part)
    except NothingToLearn:
        return []
    corners = figures.hull()
    slopes = (np.diff(figures.accuracy[corners]) / np.diff(figures.energy_j[corners])).tolist()
    return list(dict.fromkeys(float(f"{slope:.2g}") for slope in [*slopes, *(s / 2 for s in slopes[-1:])]))
