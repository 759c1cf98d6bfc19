"""What a routing policy of the replay lab is: `fit(train)` gives something that routes queries it has not seen.

A choice is an arm per query, or a probability per query and arm where the policy mixes. `HAND_BACK` says
that the policy declines. Policies are deterministic under their seed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from policies.replay.table import Floats, OutcomeTable, Queries
from warehouse.ids import sha256

HAND_BACK = -1


@dataclass(frozen=True)
class Choices:
    """(N,) arm indices, or (N, K) probabilities of a mixing policy (then `arms` is None)."""

    arms: npt.NDArray[np.int32] | None = None
    probability: Floats | None = None

    def __post_init__(self) -> None:
        assert (self.arms is None) != (self.probability is None)

    def __len__(self) -> int:
        return len(self.arms if self.arms is not None else self.probability)  # type: ignore[arg-type]

    @property
    def sha256(self) -> str:
        """Hash of the choices: taken before outcomes are joined."""
        array = self.arms if self.arms is not None else self.probability
        assert array is not None
        return sha256(f"{array.dtype}{array.shape}".encode() + np.ascontiguousarray(array).tobytes())


@dataclass(frozen=True)
class Threshold:
    """A strong/weak policy: strong where (N,) `score` >= threshold. Its curve is exact at every threshold."""

    score: Floats
    weak: int
    strong: int


@dataclass(frozen=True)
class Tradeoff:
    """argmin over arms of (N, K) predicted `error` + lambda x (N, K) predicted `energy_j`, for each lambda."""

    error: Floats
    energy_j: Floats


@runtime_checkable
class Fitted(Protocol):
    """A fitted policy. `curve` is what lambda or threshold sweeps over; None where there is nothing to sweep."""

    def route(self, queries: Queries) -> Choices: ...

    def curve(self, queries: Queries) -> Threshold | Tradeoff | None: ...


@dataclass(frozen=True)
class About:
    """What a reader must know about a policy. `note` says why it is not deployable."""

    name: str  # unique within a run, such as "knn-40"
    family: str  # such as "k-NN"
    deployable: bool = True
    needs_embeddings: bool = False
    note: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)


class Policy(Protocol):
    """`fit` may look at every cell of `train`, and at nothing else."""

    @property
    def about(self) -> About: ...

    def fit(self, train: OutcomeTable, seed: int) -> Fitted: ...


class Diagnostic(Protocol):
    """A policy that sees outcomes or outputs of the very queries it routes: a bound, never deployable."""

    @property
    def about(self) -> About: ...

    def route_seeing(self, train: OutcomeTable, test: OutcomeTable, seed: int) -> Choices: ...
