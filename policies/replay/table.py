"""The outcome table: N queries x K arms, each cell what an arm did with a query; a missing cell is NaN.

Everything in the replay lab is arithmetic on this table. Policies never see the cells of the queries they
route: they get `Queries`, which has no outcomes. Energy is of one evidence class throughout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np
import numpy.typing as npt

from policies.replay.errors import ArmUnknown, CorrectnessInvalid, EmbeddingInvalid, EnergyInvalid, QueryLeaked
from warehouse.evidence import EvidenceClass

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Strings = npt.NDArray[np.object_]


@dataclass(frozen=True)
class Arm:
    """A choice: model x effort x serving class. Prices in USD per token, None where unknown."""

    name: str
    model: str
    effort: str | None = None
    serving_class: str | None = None
    energy_model: str | None = None
    parameters_b: float | None = None
    input_price_usd_per_token: float | None = None
    output_price_usd_per_token: float | None = None


@dataclass(frozen=True)
class Condition:
    """Under which load, on which hardware, in which zone and hour the table is evaluated.

    None means: the outcomes carry this themselves, or it is not asked for.
    """

    gpu: str | None = None
    batch: float | None = None  # mean concurrent requests on the backend
    zone: str | None = None
    at: datetime | None = None  # naive UTC, the hour of the grid intensity
    intensity_g_per_kwh: float | None = None
    carbon_class: EvidenceClass | None = None  # of grams: the weaker of joules and intensity


@dataclass(frozen=True)
class Queries:
    """What a policy may see when it routes: (N,) ids, benchmarks and texts, (N, D) embeddings. No outcomes."""

    ids: Strings
    benchmarks: Strings
    texts: Strings | None = None  # of str | None
    embeddings: Floats | None = None
    prompt_tokens: Floats | None = None  # NaN where unknown

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: npt.ArrayLike) -> Queries:
        """The queries at `rows` (indices or a mask)."""
        at = np.asarray(rows)
        parts = {
            name: None if (values := getattr(self, name)) is None else values[at]
            for name in ("texts", "embeddings", "prompt_tokens")
        }
        return Queries(self.ids[at], self.benchmarks[at], **parts)


@dataclass(frozen=True)
class OutcomeTable:
    """N queries x K arms. All matrices (N, K), NaN where unknown. `held_out` (N,) marks the test part."""

    dataset: str
    arms: tuple[Arm, ...]
    queries: Queries
    held_out: Bools
    correct: Floats  # 0..1
    energy_j: Floats  # joules per call
    latency_s: Floats
    cost_usd: Floats
    power_w: Floats  # mean power per call; NaN where only energy / time is known
    output_tokens: Floats
    evidence_class: EvidenceClass | None = None  # of energy_j; None: no energy is known
    energy_method: str = ""
    condition: Condition = Condition()
    sha256: str = ""  # identifies the table's content and condition

    def __len__(self) -> int:
        return len(self.queries)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(arm.name for arm in self.arms)

    def arm_index(self, name: str) -> int:
        """Raises ArmUnknown."""
        try:
            return self.names.index(name)
        except ValueError:
            raise ArmUnknown(
                f"The data set {self.dataset} has no arm {name!r}.", fix=f"use one of {', '.join(self.names)}"
            ) from None

    def take(self, rows: npt.ArrayLike) -> OutcomeTable:
        """The table of the queries at `rows` (indices or a mask)."""
        at = np.asarray(rows)
        matrices = ("correct", "energy_j", "latency_s", "cost_usd", "power_w", "output_tokens")
        return replace(
            self,
            queries=self.queries.take(at),
            held_out=self.held_out[at],
            **{name: getattr(self, name)[at] for name in matrices},
        )

    def train(self) -> OutcomeTable:
        return self.take(~self.held_out)

    def test(self) -> OutcomeTable:
        return self.take(self.held_out)

    def coverage(self) -> float:
        """Share of cells with correctness and energy, 0..1; NaN for an empty table."""
        known = np.isfinite(self.correct) & np.isfinite(self.energy_j)
        return float(known.mean()) if known.size else float("nan")

    def with_embeddings(self, embeddings: npt.ArrayLike) -> OutcomeTable:
        """The same table with (N, D) embeddings. Raises EmbeddingInvalid."""
        return replace(self, queries=replace(self.queries, embeddings=check_embeddings(embeddings, len(self))))

    def check(self) -> OutcomeTable:
        """Itself. Raises CorrectnessInvalid, EnergyInvalid or QueryLeaked for the first bad cell or query."""
        bad = np.argwhere((self.correct < 0) | (self.correct > 1) | np.isinf(self.correct))
        if bad.size:
            n, k = bad[0]
            raise CorrectnessInvalid(
                f"Correctness of query {self.queries.ids[n]} by {self.names[k]} is {self.correct[n, k]:g}.",
                fix="give a share between 0 and 1, or leave the cell out",
            )
        bad = np.argwhere((self.energy_j <= 0) | np.isinf(self.energy_j))
        if bad.size:
            n, k = bad[0]
            raise EnergyInvalid(
                f"Energy of query {self.queries.ids[n]} by {self.names[k]} is {self.energy_j[n, k]:g} J.",
                fix="give joules above 0; unknown energy is a missing value, never 0",
            )
        both = set(self.queries.ids[self.held_out].tolist()).intersection(self.queries.ids[~self.held_out].tolist())
        if both:
            raise QueryLeaked(
                f"{len(both)} held-out queries are in the training part, too; the first is {min(both)}.",
                fix="give each query one split",
            )
        return self


def check_embeddings(embeddings: npt.ArrayLike, n: int) -> Floats:
    """Embeddings as (n, D) floats. Raises EmbeddingInvalid."""
    array = np.asarray(embeddings, dtype=np.float64)
    if array.ndim != 2 or array.shape[0] != n or not array.shape[1]:
        raise EmbeddingInvalid(f"Embeddings have shape {array.shape} for {n} queries.", fix="give one row per query")
    bad = np.flatnonzero(~np.isfinite(array).all(axis=1))
    if bad.size:
        raise EmbeddingInvalid(
            f"{bad.size} embeddings are not finite; the first is row {int(bad[0])}.",
            fix="embed the queries again, or leave those queries out",
        )
    return array


def strings(values: Sequence[str | None]) -> Strings:
    """A (N,) array of text."""
    found = np.empty(len(values), dtype=np.object_)
    found[:] = values
    return found
