"""What logged requests cost by list prices, beside what their log says: pure, over frames.

A gateway's own figure can be wrong in ways that only show here: cached tokens charged twice (T01), models without
a price logged as 0 (T11). So the figure is kept as it was told, and this is the second opinion.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import polars as pl

from ingest.billing.pricing import Rollup, request_cost, rollup

SCHEMA: dict[str, pl.DataType] = {
    "provider": pl.String(),
    "account": pl.String(),
    "usage_key": pl.String(),
    "offer_id": pl.String(),
    "told_usd": pl.Decimal(28, 12),
    "repriced_usd": pl.Decimal(28, 12),
    "reason": pl.String(),
    "tokens": pl.Int64(),
}


def reprice(usage: pl.DataFrame, prices: pl.DataFrame) -> pl.DataFrame:
    """Per request of `usage` (rows of core.usage) its cost by `prices` (rows of core.price of one provider).

    The offer is the served one, else the requested one, with or without the provider before its first slash.
    repriced_usd is NULL with the reason where it cannot be known; tokens is what was counted, NULL where unknown.
    """
    by_offer: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for price in prices.iter_rows(named=True):
        by_offer[price["offer_id"]].append(price)
    rows = [_row(used, by_offer) for used in usage.filter(pl.col("grain") == "request").iter_rows(named=True)]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def _row(used: Mapping[str, Any], by_offer: Mapping[str, list[Mapping[str, Any]]]) -> tuple[Any, ...]:
    names = [n for n in (used["served_offer"], used["requested_offer"]) if n]
    candidates = [c for n in names for c in (n, n.partition("/")[2]) if c]
    offer = next((c for c in candidates if c in by_offer), None)
    prompt, completion = used["prompt_tokens"], used["completion_tokens"]
    tokens = None if prompt is None and completion is None else (prompt or 0) + (completion or 0)
    told = (used["provider"], used["account"], used["usage_key"], offer, used["list_cost_usd"])
    if used["requests"] == 0:
        return (*told, Decimal(0), None, tokens)
    if offer is None:
        return (*told, None, f"no price is known of {names[0] if names else 'the model'}", tokens)
    cost = request_cost(by_offer[offer], prompt, completion, used["cached_tokens"])
    return (*told, cost.usd, cost.reason, tokens)


def unpriced(usage: pl.DataFrame, column: str = "list_cost_usd") -> Rollup:
    """The sum of a cost column of `usage`, and which share of its tokens has none."""
    told = usage.select(column, tokens=pl.col("prompt_tokens").fill_null(0) + pl.col("completion_tokens").fill_null(0))
    return rollup(told[column].to_list(), told["tokens"].to_list())
