"""What the controller sees of a query: principal components of its embedding, and counts of its text.

The components keep their relative size: all are divided by the deviation of the first. Weight decay then holds
back the small ones, which are mostly noise in a few thousand queries. Counts are standardised each by itself.
All of it is learned on the training part. The benchmark is left out unless declared: a router at work is not told it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from policies.replay.errors import EmbeddingInvalid, NothingToLearn
from policies.replay.routers.features import Scale, one_hot, raw_features
from policies.replay.routers.means import embeddings_of, unit_rows
from policies.replay.table import Floats, Queries

PLAIN = 2  # log of characters, share of digits


@dataclass(frozen=True)
class Encoder:
    """`axes` (D, C) and `centre` (D,) of the embedding; `counts` scales of the text; `benchmarks` of the one-hot."""

    centre: Floats
    axes: Floats
    counts: Scale
    benchmarks: tuple[str, ...] = ()
    rich: bool = False

    @classmethod
    def learn(cls, queries: Queries, *, components: int, rich: bool, benchmarks: bool, policy: str) -> Encoder:
        """Raises EmbeddingInvalid where `components` are asked for and embeddings are missing or not finite."""
        counts = Scale.of(_counts(queries, rich))
        names = tuple(sorted({str(name) for name in queries.benchmarks})) if benchmarks else ()
        centre, axes = np.zeros(0), np.zeros((0, 0))
        if components:
            vectors = unit_rows(embeddings_of(queries, policy))
            centre, axes = _principal(vectors, components)
        encoder = cls(centre, axes, counts, names, rich)
        if not (components or names or (counts.deviation > 1e-12).any()):
            raise NothingToLearn(f"{policy} sees nothing of a query.", fix="give embeddings or texts")
        return encoder

    @property
    def width(self) -> int:
        return int(self.axes.shape[1]) + len(self.counts.mean) + len(self.benchmarks)

    def encode(self, queries: Queries) -> Floats:
        """(N, width) features. Raises EmbeddingInvalid, also where embeddings have another length than in training."""
        parts: list[Floats] = []
        if self.axes.size:
            vectors = embeddings_of(queries, "the learned controller")
            if vectors.shape[1] != len(self.centre):
                raise EmbeddingInvalid(
                    f"Embeddings have {vectors.shape[1]} numbers; the controller was trained on {len(self.centre)}.",
                    fix="embed the queries with the embedder of the training",
                )
            parts.append(np.einsum("nd,dc->nc", unit_rows(vectors) - self.centre, self.axes))
        parts.append(self.counts.apply(_counts(queries, self.rich)))
        if self.benchmarks:
            parts.append(one_hot(queries.benchmarks, self.benchmarks))
        return np.column_stack(parts)


def _principal(vectors: Floats, components: int) -> tuple[Floats, Floats]:
    """(D,) mean and (D, C) axes, scaled so that the first component has deviation 1; signs are fixed."""
    centre = vectors.mean(axis=0)
    away = vectors - centre
    spread, axes = np.linalg.eigh(away.T @ away / max(len(vectors), 1))
    keep = min(components, len(spread), max(len(vectors) - 1, 1))
    axes, first = axes[:, ::-1][:, :keep], float(np.sqrt(max(spread[-1], 0.0)))
    largest = np.abs(axes).argmax(axis=0)
    axes = axes * np.where(axes[largest, np.arange(keep)] < 0, -1.0, 1.0)  # an eigenvector has no sign of its own
    return centre, np.ascontiguousarray(axes / first if first > 1e-12 else np.zeros_like(axes))


def _counts(queries: Queries, rich: bool) -> Floats:
    """(N, PLAIN) log characters and digits' share; with `rich` those of `routers.features`, too. NaN: unknown."""
    found = np.full((len(queries), PLAIN), np.nan)
    if queries.texts is not None:
        found[:] = [_plain(text) for text in queries.texts]
    return np.column_stack([found, raw_features(queries)]) if rich else found


def _plain(text: str | None) -> tuple[float, float]:
    if text is None:
        return float("nan"), float("nan")
    return float(np.log1p(len(text))), sum(map(str.isdigit, text)) / max(len(text), 1)
