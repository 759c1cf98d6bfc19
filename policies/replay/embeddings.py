"""Text embeddings without a hub and without torch: deterministic, in batches, never over the network.

    wordllama   256 numbers: mean of the token vectors of the wordllama wheel, L2-normalised (the default)
    tfidf-svd   up to 256 numbers: TF-IDF of words, truncated SVD; fitted on the training texts only
    minilm      384 numbers: all-MiniLM-L6-v2, int8 ONNX, mean over tokens, L2-normalised (extra joulebook[minilm])
    given       vectors of a .npy or Parquet file
    none        no embeddings

A text without a known token is the zero vector.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from policies.errors import ParametersInvalid
from policies.replay import given, minilm, tfidf, wordvectors
from policies.replay.errors import EmbedderUnavailable, TextMissing
from policies.replay.table import Bools, Floats, OutcomeTable, check_embeddings

NAMES = ("wordllama", "tfidf-svd", "minilm", "given", "none")
DEFAULT = "wordllama"


@dataclass(frozen=True)
class Embedded:
    """What embedding a table took. `dimensions` is 0 with none."""

    name: str
    dimensions: int
    texts: int
    seconds: float
    note: str = ""

    @property
    def texts_per_s(self) -> float | None:
        return self.texts / self.seconds if self.seconds > 0 and self.texts else None


def embed(
    texts: Sequence[str | None], name: str = DEFAULT, *, train: npt.ArrayLike | None = None, dimensions: int = 256
) -> Floats:
    """(N, D) embeddings of N texts. `train` (N,) marks what tfidf-svd may be fitted on; `dimensions` is its D at most.

    Raises TextMissing, EmbedderUnavailable, and ParametersInvalid where tfidf-svd has no training texts.
    """
    if name in ("given", "none") or name not in NAMES:
        raise EmbedderUnavailable(f"Texts cannot be embedded by {name!r}.", fix=f"use one of {', '.join(NAMES[:3])}")
    told = _told(texts)
    if name == "wordllama":
        return check_embeddings(wordvectors.embed(told), len(told))
    if name == "minilm":
        return check_embeddings(minilm.embed(told), len(told))
    if train is None:
        raise ParametersInvalid("tfidf-svd is fitted on training texts.", fix="mark them with train")
    mask: Bools = np.asarray(train, dtype=np.bool_)
    return check_embeddings(tfidf.embed(told, mask, dimensions), len(told))


def embed_table(
    table: OutcomeTable, name: str = DEFAULT, *, file: Path | None = None, dimensions: int = 256
) -> tuple[OutcomeTable, Embedded]:
    """`table` with embeddings, and what it took. tfidf-svd is fitted on the queries that are not held out.

    Raises as `embed`, and EmbeddingInvalid for vectors in `file` that do not fit.
    """
    start = time.perf_counter()
    if name == "none":
        return table, Embedded(name, 0, 0, 0.0, "no embeddings")
    if name == "given":
        if file is None:
            raise EmbedderUnavailable("Embeddings are to be given, and no file is named.", fix="name a .npy or Parquet")
        vectors = given.read(file, table.queries.ids)
    else:
        texts = table.queries.texts
        vectors = embed(
            [None] * len(table) if texts is None else texts.tolist(),
            name,
            train=~table.held_out,
            dimensions=dimensions,
        )
    seconds = time.perf_counter() - start
    return table.with_embeddings(vectors), Embedded(name, vectors.shape[1], len(table), seconds)


def _told(texts: Sequence[str | None]) -> list[str]:
    told = [text for text in texts if text is not None]
    if len(told) < len(texts):
        raise TextMissing(
            f"{len(texts) - len(told)} of {len(texts)} queries have no text.",
            fix="import their texts with the kind replay-queries, or give embeddings of your own (given)",
        )
    return told
