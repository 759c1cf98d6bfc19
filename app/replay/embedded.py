"""Embeddings of the queries of a table: made from their texts, or read from a file of the local user."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from app.errors import BadRequest
from policies.replay.errors import EmbeddingInvalid
from policies.replay.table import Floats, OutcomeTable

DEFAULT = "wordllama"
NONE = "none"


@dataclass(frozen=True)
class Embedded:
    """The table with embeddings, or without where there are none; `note` says why."""

    table: OutcomeTable
    embedder: str | None
    s_per_query: float | None  # measured, in batch; None where a file brought them
    note: str = ""


def embedded(table: OutcomeTable, embedder: str | None, file: str | None) -> Embedded:
    """`table` with embeddings.

    Raises BadRequest for a file that cannot be read, EmbeddingInvalid for one that does not fit the queries, and where
    an embedder was asked for by name and a text is missing.
    """
    if file is not None:
        return Embedded(table.with_embeddings(_read(Path(file), table)), f"file:{Path(file).name}", None)
    if embedder == NONE:
        return Embedded(table, None, None, "no embeddings were asked for")
    texts = table.queries.texts
    missing = len(table) if texts is None else sum(text is None for text in texts)
    if texts is None or missing:
        words = f"{missing} of {len(table)} queries have no text, so nothing is embedded"
        if embedder is not None:
            raise EmbeddingInvalid(
                f"{words[0].upper()}{words[1:]}.", fix="give --embeddings FILE, or leave the embedder out"
            )
        return Embedded(table, None, None, words)
    from policies.replay.embeddings import embed  # loads its weights only where they are used

    began = time.perf_counter()
    vectors = embed(texts.tolist(), embedder or DEFAULT)
    seconds = (time.perf_counter() - began) / max(len(table), 1)
    return Embedded(table.with_embeddings(vectors), embedder or DEFAULT, seconds)


def _read(path: Path, table: OutcomeTable) -> Floats:
    """(N, D) from .npy in the order of the query ids, or from Parquet with query_id and embedding (a list)."""
    try:
        if path.suffix == ".npy":
            return np.asarray(np.load(path, allow_pickle=False), dtype=np.float64)
        frame = pl.read_parquet(path)
    except (OSError, ValueError, pl.exceptions.PolarsError) as error:
        raise BadRequest(
            f"The embeddings {path} cannot be read: {type(error).__name__}.",
            fix="give a .npy array in query order, or Parquet with query_id and embedding",
        ) from error
    if not {"query_id", "embedding"} <= set(frame.columns):
        raise BadRequest(
            f"{path.name} has the columns {', '.join(frame.columns)}.", fix="give query_id and embedding (a list)"
        )
    wanted = pl.DataFrame({"query_id": pl.Series(table.queries.ids.tolist(), dtype=pl.String)})
    found = wanted.join(frame.select("query_id", "embedding"), on="query_id", how="left", maintain_order="left")
    missing = found["embedding"].null_count()
    if missing or found.height != wanted.height:
        raise EmbeddingInvalid(
            f"{path.name} has no embedding for {missing} of {wanted.height} queries, or several for one.",
            fix="give exactly one for each query",
        )
    try:
        return np.array(found["embedding"].to_list(), dtype=np.float64)
    except ValueError as error:
        raise EmbeddingInvalid(
            f"The embeddings of {path.name} differ in length.", fix="give vectors of one length"
        ) from error
