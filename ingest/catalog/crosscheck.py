"""List prices beside those of the `genai-prices` package: a second opinion, never the truth.

The package carries its price table with it and is asked for nothing else; its updater is never used, so no call
leaves this machine. Its ids and tiers are not ours: a model is found by the package's own rules, which match
loosely, so every row names the model it was compared with.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import genai_prices
import polars as pl
from genai_prices import data_snapshot
from genai_prices.types import ModelPrice, TieredPrices

TOLERANCE = Decimal("0.0001")  # relative; prices are kept at 1e-12 USD per token
TOKENS_PER_MILLION = 1_000_000
UNIT = "USD per million tokens"
FIELDS = {
    "prompt": "input_mtok",
    "completion": "output_mtok",
    "cache_read": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
}
_PRICE = pl.Decimal(28, 6)
SCHEMA: dict[str, pl.DataType] = {
    "provider": pl.String(),
    "offer_id": pl.String(),
    "component": pl.String(),
    "min_prompt_tokens": pl.Int64(),
    "status": pl.String(),  # agrees | differs | not_comparable
    "reason": pl.String(),
    "our_price": _PRICE,
    "other_price": _PRICE,
    "unit": pl.String(),
    "relative_difference": pl.Float64(),
    "other_provider": pl.String(),
    "other_model": pl.String(),
    "other_source": pl.String(),
    "as_of": pl.Datetime("us"),
}


def crosscheck(prices: pl.DataFrame, at: datetime | None = None) -> pl.DataFrame:
    """The rows of `compare` that differ: warnings."""
    return compare(prices, at).filter(pl.col("status") == "differs")


def compare(prices: pl.DataFrame, at: datetime | None = None) -> pl.DataFrame:
    """Each token price in `prices` beside the one of genai-prices at `at` (naive UTC; default: now).

    prices: rows of core.price (provider, offer_id, component, min_prompt_tokens, price_usd_per_unit, unit,
    price_kind), and where the catalog tells it `catalog_provider`, the provider that its row speaks of.
    """
    instant = at if at is not None else datetime.now(UTC).replace(tzinfo=None)
    rows = list(_rows(prices, instant))
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def _rows(prices: pl.DataFrame, at: datetime) -> Iterator[tuple[Any, ...]]:
    snapshot = data_snapshot._bundled_snapshot()  # what the package ships, whatever anybody may have set since
    source = f"genai-prices {genai_prices.__version__}"
    found: dict[tuple[str, str], tuple[str | None, str | None, ModelPrice | None]] = {}
    for row in prices.iter_rows(named=True):
        if row["component"] not in FIELDS or row["unit"] != "token":
            continue
        provider, model = _named(row)
        if (provider, model) not in found:
            found[provider, model] = _look_up(snapshot, provider, model, at)
        other_provider, other_model, other = found[provider, model]
        ours = row["price_usd_per_unit"]
        our_price = None if ours is None else (ours * TOKENS_PER_MILLION).quantize(Decimal("1e-6"))
        other_price = None if other is None else _of(other, row["component"], row["min_prompt_tokens"])
        status, reason, difference = _judge(our_price, other_price, row["price_kind"], other is not None)
        yield (
            row["provider"], row["offer_id"], row["component"], row["min_prompt_tokens"], status, reason,
            our_price, other_price, UNIT, difference, other_provider, other_model, source, at,
        )  # fmt: skip


def _named(row: dict[str, Any]) -> tuple[str, str]:
    """(provider, model) as a catalog means them."""
    provider, model = row["provider"], row["offer_id"]
    told = row.get("catalog_provider")
    if told:
        return told, model.removeprefix(f"{told}/")
    if provider in ("models.dev", "litellm") and "/" in model:
        maker, _, name = model.partition("/")
        return maker, name
    return provider, model


def _look_up(
    snapshot: data_snapshot.DataSnapshot, provider: str, model: str, at: datetime
) -> tuple[str | None, str | None, ModelPrice | None]:
    try:
        maker, info = snapshot.find_provider_model(model, None, provider, None)
    except LookupError:
        return None, None, None
    return maker.id, info.id, info.get_prices(at.replace(tzinfo=UTC))


def _of(prices: ModelPrice, component: str, min_prompt_tokens: int) -> Decimal | None:
    """The other's price of a component for a prompt inside our tier, in USD per million tokens."""
    told = getattr(prices, FIELDS[component], None)
    if isinstance(told, TieredPrices):
        price = told.base
        for tier in told.tiers:  # in ascending order; a tier holds for prompts of more than its start
            if min_prompt_tokens and min_prompt_tokens + 1 > tier.start:
                price = tier.price
        told = price
    return None if told is None else Decimal(told).quantize(Decimal("1e-6"))


def _judge(ours: Decimal | None, other: Decimal | None, kind: str, found: bool) -> tuple[str, str | None, float | None]:
    """(status, reason, relative difference)."""
    if not found:
        return "not_comparable", "genai-prices does not list the model", None
    if other is None:
        return "not_comparable", "genai-prices has no price of this component", None
    if ours is None:
        return "not_comparable", f"our price is {kind}", None
    if ours == other:
        return "agrees", None, 0.0
    difference = abs(ours - other) / max(abs(ours), abs(other))
    if difference <= TOLERANCE:
        return "agrees", None, float(difference)
    return "differs", f"{ours.normalize():f} here, {other.normalize():f} there", float(difference)
