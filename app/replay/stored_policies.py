"""Policies that were trained before the run: `trained:ID` from the warehouse, `trl:DIRECTORY` from this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from app.replay import LANGUAGE, trained_store
from policies.replay.controller import Trained
from policies.replay.errors import QueryLeaked
from policies.replay.policy import About, Diagnostic, Policy
from policies.replay.table import OutcomeTable
from warehouse.engine import Warehouse

TRAINED = "trained:"


@dataclass(frozen=True)
class Restored:
    """A stored controller. `fit` learns nothing: it checks that no held-out query was learned from."""

    name: str
    trained: Trained

    @property
    def about(self) -> About:
        settings = self.trained.settings
        return About(
            self.name,
            "learned controller",
            needs_embeddings=settings.components > 0,
            parameters={**settings.plain(), "trained_policy_id": self.trained.trained_policy_id},
        )

    def fit(self, train: OutcomeTable, seed: int) -> Trained:
        """Raises QueryLeaked where it learned from this data set under another split or condition, and ArmUnknown."""
        own = self.trained
        if own.dataset == train.dataset and own.dataset_sha256 != train.sha256:
            raise QueryLeaked(
                f"{self.name} learned from {own.dataset} as {own.dataset_sha256[:12]}…, which is not what is replayed "
                f"here ({train.sha256[:12]}…): held-out queries may be among those it learned from.",
                fix="replay it with the GPU, batch, arms, seed and split that it was trained with, or train again",
            )
        return own.for_arms(train.names)


def stored(warehouse: Warehouse, name: str) -> Policy | Diagnostic | None:
    """The stored policy `name` stands for, or None where it is no such name. Raises NotFound and RouterInvalid."""
    if name.startswith(TRAINED):
        found = trained_store.restored(warehouse, name.removeprefix(TRAINED))
        return Restored(f"{TRAINED}{found.trained_policy_id[:12]}", found)
    if name.startswith(LANGUAGE):
        from app.trl_training.run import load_policy  # torch, which is an extra, only where it is asked for

        router: Policy = load_policy(Path(name.removeprefix(LANGUAGE)))
        return router
    return None
