"""Embeddings of the user's own: .npy in the order of the query ids, or Parquet of query_id and a vector."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from policies.replay.errors import EmbeddingInvalid
from policies.replay.table import Floats, Strings, check_embeddings

_VECTOR = ("embedding", "vector")


def read(path: Path, ids: Strings) -> Floats:
    """(N, D) vectors for the N `ids`. Raises EmbeddingInvalid: unreadable, missing or repeated queries, not finite."""
    try:
        if path.suffix == ".npy":
            return check_embeddings(np.load(path, allow_pickle=False), len(ids))
        frame = pl.read_parquet(path)
    except (OSError, ValueError, EOFError, pl.exceptions.PolarsError) as error:
        raise EmbeddingInvalid(
            f"The embeddings {path.name} cannot be read ({type(error).__name__}).",
            fix="give a .npy array of numbers in the order of the query ids, or Parquet with query_id and embedding",
        ) from error
    name = next((n for n in _VECTOR if n in frame.columns), None)
    if name is None or "query_id" not in frame.columns:
        raise EmbeddingInvalid(
            f"{path.name} has the columns {', '.join(frame.columns)}.",
            fix=f"give query_id and {' or '.join(_VECTOR)} (a list of numbers)",
        )
    return _in_order(frame.select(pl.col("query_id").cast(pl.String), pl.col(name).alias("vector")), ids, path.name)


def _in_order(frame: pl.DataFrame, ids: Strings, name: str) -> Floats:
    if frame["query_id"].is_duplicated().any():
        first = frame.filter(pl.col("query_id").is_duplicated())["query_id"][0]
        raise EmbeddingInvalid(f"{name} has several vectors for query {first}.", fix="give one for each query")
    wanted = pl.DataFrame({"query_id": pl.Series(ids.tolist(), dtype=pl.String)})
    found = wanted.join(frame, on="query_id", how="left", maintain_order="left")
    missing = found.filter(pl.col("vector").is_null())["query_id"]
    if len(missing):
        raise EmbeddingInvalid(
            f"{name} has no vector for {len(missing)} of {len(ids)} queries; the first is {missing[0]}.",
            fix="give one for each query",
        )
    vectors = found["vector"]
    if not vectors.dtype.is_nested():
        raise EmbeddingInvalid(f"{name} has vectors of type {vectors.dtype}.", fix="give a list of numbers per query")
    try:
        array = np.array(vectors.to_list(), dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise EmbeddingInvalid(f"{name} has vectors of different lengths, or no numbers.", fix="mend it") from error
    return check_embeddings(array, len(ids))
