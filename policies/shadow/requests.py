"""Logged requests, and the question that each of them was: category, tier, latency class, context, size.

A bill tells none of these but the tokens. What no label tells is filled by rule, and the rule is told: the category
is the configured one, the tier that of the offer that served it, the latency interactive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib import resources

import polars as pl

from policies.proof.bands import SIZE_BAND_EDGES, size_band
from policies.router.candidates import Snapshot
from policies.router.request import Latency

UNKNOWN = "unknown"
NO_TIER = 0  # of an offer whose tier nobody declared


@dataclass(frozen=True)
class Scope:
    """Which logged requests: since when, what share of them, at most how many.

    policy_id: those it has not been asked about; cells with standing: those that lie in these cells.
    """

    since: datetime
    share: float = 1.0
    most: int = 1_000_000_000
    policy_id: str | None = None
    standing: str | None = None
    cells: Sequence[str] | None = None
    request_id: str | None = None


@dataclass(frozen=True)
class Defaults:
    """What a request counts as where no label tells it. context_tokens: where its prompt is unknown, too."""

    category: str
    context_tokens: int
    latency: str = Latency.INTERACTIVE.value


def sql_text(name: str) -> str:
    return (resources.files("policies.shadow.sql") / name).read_text(encoding="utf-8")


def read(snapshot: Snapshot, scope: Scope) -> pl.DataFrame:
    """The requests of `scope` with their labels, oldest first; labels that nobody told are NULL."""
    return snapshot.sql(
        sql_text("requests.sql"),
        since=scope.since,
        share=scope.share,
        most=scope.most,
        policy_id=scope.policy_id,
        standing=scope.standing,
        cells=list(scope.cells) if scope.cells is not None else None,
        request_id=scope.request_id,
    )


def instants(snapshot: Snapshot, max_age: timedelta) -> list[datetime]:
    """The instants between which no decision can change, ascending."""
    asked = snapshot.sql(sql_text("instants.sql"), max_age=int(max_age.total_seconds() * 1e6))
    return asked["instant"].to_list()


def questions(requests: pl.DataFrame, tiers: Mapping[str, int | None], defaults: Defaults) -> pl.DataFrame:
    """`requests` with category, tier, latency, context_tokens (needed), size_band and stratum, none of them NULL.

    tiers: declared capability tier per offer; a request that an undeclared offer served is of tier NO_TIER.
    """
    tier = pl.col("incumbent").replace_strict(
        {offer: t for offer, t in tiers.items() if t is not None}, default=None, return_dtype=pl.Int32
    )
    return requests.with_columns(
        pl.col("category").fill_null(defaults.category),
        pl.coalesce("tier", tier, pl.lit(NO_TIER, pl.Int32)).alias("tier"),
        pl.col("latency").fill_null(defaults.latency),
        pl.coalesce("required_context_tokens", "prompt_tokens", pl.lit(defaults.context_tokens, pl.Int64)).alias(
            "needed"
        ),
        bands(requests["tokens"]),
    ).with_columns(
        cell=pl.format("{}/{}/{}", "category", "tier", "latency"), stratum=pl.format("{}|{}", "category", "size_band")
    )


def bands(tokens: pl.Series) -> pl.Series:
    """The size band of each request, `unknown` where its tokens are."""
    names = {edge: size_band(edge) for edge in (0, *SIZE_BAND_EDGES)}
    column = pl.col(tokens.name)
    told = pl.lit(UNKNOWN)
    for edge, name in names.items():
        told = pl.when(column >= edge).then(pl.lit(name)).otherwise(told)
    return pl.DataFrame({tokens.name: tokens}).select(told.alias("size_band")).to_series()
