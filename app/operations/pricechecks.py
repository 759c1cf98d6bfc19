"""List prices beside a second source: what differs is a warning, never a correction."""

from __future__ import annotations

from typing import Any

import polars as pl
from pydantic import Field

from app.desk import Desk
from app.operations import Actor, Params, operation
from app.operations.plain import plain_rows
from ingest.catalog.crosscheck import compare
from warehouse.clock import utcnow


class CrosscheckParams(Params):
    provider: str | None = None
    limit: int = Field(200, ge=1, le=10_000)


@operation("prices.crosscheck", scope="read", params=CrosscheckParams)
def crosscheck(desk: Desk, actor: Actor, params: CrosscheckParams) -> dict[str, Any]:
    """Compare the list prices in force with those of the genai-prices package."""
    prices = desk.warehouse.query(
        "SELECT p.provider, p.offer_id, p.component, p.min_prompt_tokens, p.price_usd_per_unit, p.unit, p.price_kind, "
        "json_extract_string(o.attributes, '$.litellm_provider') AS catalog_provider "
        "FROM mart.price p JOIN mart.offer o USING (provider, offer_id) "
        "WHERE o.lifecycle <> 'removed' AND ($provider IS NULL OR p.provider = $provider) "
        "ORDER BY p.provider, p.offer_id, p.component, p.min_prompt_tokens",
        {"provider": params.provider},
    )
    told = compare(prices, utcnow())
    counts = dict(told["status"].value_counts().iter_rows())
    differing = told.filter(pl.col("status") == "differs").sort("relative_difference", descending=True)
    return {
        "compared": counts.get("agrees", 0) + counts.get("differs", 0),
        "agree": counts.get("agrees", 0),
        "differ": counts.get("differs", 0),
        "not_comparable": counts.get("not_comparable", 0),
        "warnings": plain_rows(differing.head(params.limit).drop("status")),
    }
