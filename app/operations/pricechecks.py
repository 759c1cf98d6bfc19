"""List prices beside a second source: what differs is a warning, never a correction."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import polars as pl
from pydantic import Field

from app.desk import Desk
from app.operations import Actor, Params, operation
from app.operations.plain import plain, plain_rows
from ingest.billing.pricing import rollup
from ingest.billing.repricing import reprice
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


_MAX_REQUESTS = 100_000


class RepriceParams(Params):
    provider: str | None = None
    days: int = Field(7, ge=1, le=366)


@operation("prices.reprice", scope="read", params=RepriceParams)
def reprice_usage(desk: Desk, actor: Actor, params: RepriceParams) -> dict[str, Any]:
    """Price the newest requests by the list prices in force, beside what was billed; say what has no price."""
    since = utcnow() - timedelta(days=params.days)
    usage = desk.warehouse.query(
        "SELECT * FROM core.usage WHERE grain = 'request' AND period_start_at >= $since "
        "AND ($provider IS NULL OR provider = $provider) ORDER BY period_start_at DESC, usage_key LIMIT $most",
        {"since": since, "provider": params.provider, "most": _MAX_REQUESTS},
    )
    prices = desk.warehouse.query("SELECT * FROM mart.price ORDER BY provider, offer_id, component, min_prompt_tokens")
    rows = [
        _repriced(provider, own, prices.filter(pl.col("provider") == provider))
        for (provider,), own in usage.partition_by("provider", as_dict=True, maintain_order=True).items()
    ]
    return {"since": plain(since), "cut": usage.height == _MAX_REQUESTS, "providers": rows}


def _repriced(provider: str, usage: pl.DataFrame, prices: pl.DataFrame) -> dict[str, Any]:
    """One provider: list price as a sum that says what it leaves out, the bill over the rows that have one."""
    told = reprice(usage, prices)
    total = rollup(told["repriced_usd"].to_list(), told["tokens"].fill_null(0).to_list())
    billed = _known(usage["billed_cost_usd"].to_list())
    reasons = told.drop_nulls("reason")["reason"].value_counts(sort=True).head(5)
    figures = {
        "provider": provider,
        "requests": usage.height,
        "list_usd": total.total_usd,
        "list_evidence_class": "modeled",
        "list_is_lower_bound": total.lower_bound,
        "note": total.note,
        "billed_usd": sum(billed) if billed else None,
        "billed_evidence_class": "measured" if billed else None,
        "billed_requests": len(billed),
        "newest_at": usage["period_end_at"].max(),
        "unpriced_because": dict(reasons.iter_rows()),
    }
    result: dict[str, Any] = plain(figures)
    return result


def _known(costs: Sequence[Any]) -> list[Any]:
    return [cost for cost in costs if cost is not None]
