"""Smoothie (Guha et al., arXiv 2412.04692): the arm whose output lies closest to what the outputs share.

It needs every arm's output for the very query it routes, so all arms have been paid for: a diagnostic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from policies.errors import ParametersInvalid
from policies.replay.errors import EmbeddingInvalid, NothingToLearn, OutputsMissing
from policies.replay.policy import About, Choices
from policies.replay.routers.knn import nearest
from policies.replay.routers.means import embeddings_of, positions, unit_rows
from policies.replay.table import Floats, OutcomeTable, Strings


@dataclass(frozen=True)
class Outputs:
    """(N, K, D) embeddings of the arms' outputs for the queries `ids`, arms in the table's order."""

    ids: Strings
    embeddings: Floats

    def of(self, ids: Strings, n_arms: int) -> Floats:
        """The (n, K, D) outputs for `ids`. Raises OutputsMissing or EmbeddingInvalid."""
        array = np.asarray(self.embeddings, dtype=np.float64)
        if array.ndim != 3 or array.shape[:2] != (len(self.ids), n_arms) or not array.shape[2]:
            raise EmbeddingInvalid(
                f"Embeddings of outputs have shape {array.shape} for {len(self.ids)} queries and {n_arms} arms.",
                fix="give one row per query and one column per arm",
            )
        at = positions(ids, tuple(self.ids))
        if (at < 0).any():
            raise OutputsMissing(
                f"{int((at < 0).sum())} queries have no embedded outputs; the first is {ids[np.argmin(at)]}.",
                fix="embed the outputs of every held-out query",
            )
        found = array[at]
        if not np.isfinite(found).all():
            raise EmbeddingInvalid("Embeddings of outputs are not finite.", fix="embed the outputs again")
        return found


@dataclass(frozen=True)
class Smoothie:
    """Local with `k` nearest queries (by the embeddings of the texts), global where `k` is None."""

    k: int | None = None
    outputs: Outputs | None = None

    def __post_init__(self) -> None:
        if self.k is not None and self.k < 1:
            raise ParametersInvalid(f"k is {self.k}.", fix="give a number of neighbours from 1, or none for all")

    @property
    def about(self) -> About:
        return About(
            "smoothie" if self.k is None else f"smoothie-{self.k}",
            "Smoothie",
            deployable=False,
            needs_embeddings=self.k is not None,
            note="sees outputs, not deployable",
            parameters={"k": self.k},
        )

    def route_seeing(self, train: OutcomeTable, test: OutcomeTable, seed: int) -> Choices:
        """Raises OutputsMissing, EmbeddingInvalid, and NothingToLearn below three arms."""
        n_arms = len(test.arms)
        if self.outputs is None:
            raise OutputsMissing(
                f"{self.about.name} compares the outputs of the arms, and {test.dataset} records none.",
                fix="give embeddings of the outputs, or leave the policy out",
            )
        if n_arms < 3:
            raise NothingToLearn(f"{self.about.name} needs three arms; there are {n_arms}.", fix="add an arm")
        distance = squared_distances(self.outputs.of(test.queries.ids, n_arms))
        if self.k is None:
            best = np.argmin(differences(distance.mean(axis=0)[None]), axis=1) if len(test) else np.zeros(1)
            return Choices(arms=np.full(len(test), best[0], dtype=np.int32))
        units = unit_rows(embeddings_of(test.queries, self.about.name)).astype(np.float32)
        arms = np.empty(len(test), dtype=np.int32)
        for rows, found in nearest(units, units, min(self.k, len(test))):
            arms[rows] = differences(distance[found].mean(axis=1)).argmin(axis=1)
        return Choices(arms=arms)

    def notes(self, test: OutcomeTable) -> Mapping[str, Any]:
        return {"n_test": len(test)}


def squared_distances(outputs: Floats) -> Floats:
    """(N, K, K) squared Euclidean distances between the outputs (N, K, D) of a query."""
    gram = outputs @ outputs.transpose(0, 2, 1)
    square = np.einsum("nkk->nk", gram)
    return np.asarray(np.maximum(square[:, :, None] + square[:, None, :] - 2.0 * gram, 0.0))


def differences(distance: Floats) -> Floats:
    """(N, K) estimates of E||output - truth||^2: the mean over pairs j < k, both not i, of (D_ij + D_ik - D_jk)/2.

    Summed in closed form, so O(K^2) instead of O(K^3): each j is in K - 2 pairs, and the pairs without i are
    all pairs less those of i. Smoothie's quality is theta_i = d / (2 x difference_i), so the best arm is the one
    of least difference. `distance` is (N, K, K), symmetric with a zero diagonal.
    """
    n_arms = distance.shape[1]
    row = distance.sum(axis=2)
    total = row.sum(axis=1, keepdims=True) / 2.0
    pairs = (n_arms - 1) * (n_arms - 2) / 2.0
    return np.asarray(0.5 * ((n_arms - 2) * row - (total - row)) / pairs)
