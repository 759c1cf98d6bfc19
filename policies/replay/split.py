"""Which queries are held out: the source's own split where it tells one, else a fixed, seeded permutation.

`hash`         a query is held out where the md5 of seed:id, as a share of 1, lies below `test_share`. It hangs on
               the query alone, so nothing moves from one part to the other when rows are added, and equal texts
               stay together. Within a benchmark the share is `test_share` but for sampling.
`permutation`  numpy's `default_rng(seed).permutation` over the queries, the largest benchmark first and ids in natural
               order within it; the last N - int((1 - test_share) N) are held out. It moves when rows are added.
               With seed 0 on the whole of ZeroEval it is the split of the reference figures. Equal texts stay together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from policies.errors import ParametersInvalid
from policies.replay.errors import QueryLeaked
from policies.replay.table import Bools

KINDS = ("auto", "hash", "permutation")
LEAKS = ("refuse", "drop")


@dataclass(frozen=True)
class Split:
    """(N,) `held_out`; (N,) `keep` is False for training queries left out because their text is held out, too."""

    held_out: Bools
    keep: Bools
    words: str
    leaked: int


def split(queries: pl.DataFrame, *, kind: str, seed: int, test_share: float, leaked: str, dataset: str) -> Split:
    """Split `queries` (query_id, benchmark, split, text_key, draw; N rows).

    Raises ParametersInvalid, and QueryLeaked where `leaked` is "refuse" and a text stands in both parts.
    """
    if kind not in KINDS or leaked not in LEAKS or not 0 < test_share < 1:
        raise ParametersInvalid(
            f"split is {kind!r}, leaked {leaked!r}, test_share {test_share!r}.",
            fix=f"use a split of {', '.join(KINDS)}, leaked of {', '.join(LEAKS)}, and a share between 0 and 1",
        )
    told = queries["split"].is_in(["train", "test"]).fill_null(False).to_numpy() & (kind == "auto")
    drawn = _hash(queries, test_share) if kind == "hash" else _permutation(queries, seed, test_share)
    drawn = _together(queries, drawn)
    held_out = np.where(told, (queries["split"] == "test").fill_null(False).to_numpy(), drawn)
    keep, n = _without_leaks(queries, held_out, leaked, dataset)
    return Split(held_out, keep, _words(kind, int(told.sum()), len(queries), seed, test_share), n)


def _together(queries: pl.DataFrame, held_out: Bools) -> Bools:
    """Queries of one text go where the first of them was drawn."""
    keys = queries["text_key"]
    if keys.drop_nulls().is_unique().all():
        return held_out
    key = pl.coalesce(pl.col("text_key").cast(pl.String), pl.col("query_id"))
    both = queries.select(key.alias("key"), pl.Series("held_out", held_out))
    return both.select(pl.col("held_out").first().over("key")).to_series().to_numpy()


def _hash(queries: pl.DataFrame, test_share: float) -> Bools:
    return np.asarray(queries["draw"].to_numpy() < test_share)


def _permutation(queries: pl.DataFrame, seed: int, test_share: float) -> Bools:
    ordered = (
        queries.select(
            "query_id",
            "benchmark",
            pl.int_range(pl.len(), dtype=pl.Int64).alias("row"),
            pl.len().over("benchmark").alias("size"),
            pl.col("query_id").str.replace(r"\d+$", "").alias("stem"),
            pl.col("query_id").str.extract(r"(\d+)$").str.to_decimal(scale=0).alias("number"),
        )
        .sort(["size", "benchmark", "stem", "number", "query_id"], descending=[True, False, False, False, False])
        .get_column("row")
        .to_numpy()
    )
    held_out = np.zeros(len(queries), dtype=np.bool_)
    mixed = np.random.default_rng(seed).permutation(len(queries))
    held_out[ordered[mixed[int((1 - test_share) * len(queries)) :]]] = True
    return held_out


def _without_leaks(queries: pl.DataFrame, held_out: Bools, leaked: str, dataset: str) -> tuple[Bools, int]:
    keys = queries["text_key"]
    tested = keys.filter(pl.Series(held_out)).drop_nulls().unique()
    leaks = keys.is_in(tested.implode()).fill_null(False).to_numpy() & ~held_out
    n = int(leaks.sum())
    if n and leaked == "refuse":
        first = queries["query_id"][int(np.flatnonzero(leaks)[0])]
        raise QueryLeaked(
            f"{n} training queries of {dataset} have the text of a held-out query; the first is {first}.",
            fix="leave them out of the training part (leaked=drop), or correct the split of the data set",
        )
    return ~leaks, n


def _words(kind: str, told: int, n: int, seed: int, test_share: float) -> str:
    own = f"{test_share:.0%} held out by a seeded permutation, seed {seed}"
    if kind == "hash":
        own = f"{test_share:.0%} held out by a hash of seed {seed} and query id"
    if not told:
        return own
    return "the source's own split" if told == n else f"the source's own split for {told} of {n} queries, else {own}"
