"""What requests would have cost at list price: usage rows and price versions -> list_cost_usd. Pure.

Each row takes the price version in force when it began. A row from before the first known version takes that
first one, because catalogs do not tell since when a price holds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

import polars as pl

from ingest.billing.pricing import request_cost

PRICE_COLUMNS = (
    "provider", "offer_id", "component", "min_prompt_tokens", "valid_from", "known_from", "price_usd_per_unit", "unit",
    "price_kind",
)  # fmt: skip
_Version = tuple[Sequence[datetime], Sequence[Mapping[str, Any]]]


def list_costs(usage: pl.DataFrame, prices: pl.DataFrame) -> list[Decimal | None]:
    """List cost of each row of `usage` in USD; the row's own where it tells one, None where it is not known.

    usage: provider, requested_offer, served_offer, period_start_at, prompt_tokens, completion_tokens,
    cached_tokens, list_cost_usd · prices: PRICE_COLUMNS of core.price, all versions.
    """
    versions = _versions(prices)
    return [row["list_cost_usd"] if row["list_cost_usd"] is not None else _cost(row, versions)
            for row in usage.iter_rows(named=True)]  # fmt: skip


def _versions(prices: pl.DataFrame) -> dict[tuple[str, str], dict[tuple[str, int], _Version]]:
    """Per offer and component the starts of its versions, and their rows; the last known of one start counts."""
    found: dict[tuple[str, str], dict[tuple[str, int], dict[datetime, Any]]] = defaultdict(lambda: defaultdict(dict))
    for row in prices.select(PRICE_COLUMNS).sort("valid_from", "known_from").iter_rows(named=True):
        component = found[row["provider"], row["offer_id"]][row["component"], row["min_prompt_tokens"]]
        component[row["valid_from"]] = row
    return {o: {c: (list(v), list(v.values())) for c, v in components.items()} for o, components in found.items()}


def _cost(row: Mapping[str, Any], versions: Mapping[Any, Mapping[Any, _Version]]) -> Decimal | None:
    for offer in (row["served_offer"], row["requested_offer"]):
        components = versions.get((row["provider"], offer))
        if components:
            prices = [_in_force(v, row["period_start_at"]) for v in components.values()]
            return request_cost(prices, row["prompt_tokens"], row["completion_tokens"], row["cached_tokens"]).usd
    return None


def _in_force(version: _Version, at: datetime) -> Mapping[str, Any]:
    starts, rows = version
    return rows[max(0, bisect_right(starts, at) - 1)]
