"""How a controller is trained. Defaults: by cross-validation within training parts, see docs/learned-controller.md."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from policies.errors import ParametersInvalid
from policies.replay.reward import LAMBDA_REINFORCED, LAMBDA_SUPERVISED, Weights

STAGES = ("sft", "grpo", "kl-grpo")
ESTIMATORS = ("exact", "sampled")
REWARDS = ("gated", "joules")
SCALES = ("batch", "group", "none")
UNANSWERED = ("exclude", "cheapest")


@dataclass(frozen=True)
class Settings:
    """`lam` weighs energy in the reward, from 0; `beta` the distance to the supervised policy (kl-grpo).

    reward         "gated": that of `policies.replay.reward`; lam weighs the rank of the arm's joules. "joules":
                   correct - lam x J, lam in 1/J: the Lagrangian of most accuracy within a budget of joules, for a
                   rank does not tell whether the next arm costs twice or ten times as much
    steps          at most so many optimiser steps per stage
    batch          queries per step
    epochs         steps on one batch before the old policy is renewed
    group          sampled arms per query, for the estimator "sampled"
    components     principal components of the embedding; 0: the embedding is not used
    validation     share of the training part that only says when to stop
    patience       checks without a better validation value before a stage stops
    unanswered     queries that no arm has right: no label, or the cheapest arm as label
    """

    stage: str = "grpo"
    reward: str = "gated"
    lam: float = LAMBDA_REINFORCED
    lam_supervised: float = LAMBDA_SUPERVISED
    per_s: float = 0.0
    per_w: float = 0.0
    beta: float = 0.05
    estimator: str = "exact"
    scale: str = "batch"
    group: int = 8
    clip: float = 0.2
    epochs: int = 4
    steps: int = 400
    batch: int = 256
    learning_rate: float = 0.03
    l2: float = 0.01
    hidden: int = 0
    components: int = 32
    rich: bool = False
    benchmarks: bool = False
    validation: float = 0.2
    check_every: int = 20
    patience: int = 8
    unanswered: str = "exclude"

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES:
            if getattr(self, name) not in allowed:
                raise ParametersInvalid(f"{name} is {getattr(self, name)!r}.", fix=f"use one of {', '.join(allowed)}")
        for name, low, high in _RANGES:
            value = getattr(self, name)
            if not (math.isfinite(value) and low <= value <= high):
                raise ParametersInvalid(f"{name} is {value!r}.", fix=f"give a number from {low:g} to {high:g}")

    @property
    def name(self) -> str:
        """As a policy is called: sft, grpo@0.4, kl-grpo@0.4, grpo-joules@0.001."""
        if self.stage == "sft":
            return self.stage
        return f"{self.stage}{'-joules' if self.reward == 'joules' else ''}@{self.lam:.4g}"

    @property
    def label_weights(self) -> Weights:
        """Of the gated reward whose best arm is the label."""
        return Weights(self.lam_supervised, self.per_s, self.per_w)

    @property
    def weights(self) -> Weights:
        """Of the gated reward that this stage is after; for sft, of the one that its labels were made with."""
        return self.label_weights if self.stage == "sft" else Weights(self.lam, self.per_s, self.per_w)

    def plain(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def restored(cls, told: Mapping[str, Any]) -> Settings:
        return cls(**told)


_CHOICES = (
    ("stage", STAGES),
    ("reward", REWARDS),
    ("estimator", ESTIMATORS),
    ("scale", SCALES),
    ("unanswered", UNANSWERED),
)
_RANGES = (
    *(("lam", 0, 1000), ("lam_supervised", 0, 1000), ("per_s", 0, 1e6), ("per_w", 0, 1e6), ("beta", 0, 1000)),
    *(("group", 2, 4096), ("clip", 0.001, 10), ("epochs", 1, 100), ("steps", 1, 1_000_000), ("batch", 1, 10_000_000)),
    *(("learning_rate", 1e-6, 10), ("l2", 0, 1000), ("hidden", 0, 1024), ("components", 0, 4096)),
    *(("validation", 0, 0.5), ("check_every", 1, 1_000_000), ("patience", 1, 1_000_000)),
)
