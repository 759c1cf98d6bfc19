"""OpenRouter `GET https://openrouter.ai/api/v1/models` -> core.offer, core.price.

Prices are text in USD per token (request, image and search fees: per that unit), read as exact
decimals and kept at 1e-12. "-1" means dynamic, "0" free, an absent prompt or completion price
unknown; neither of the latter two is the other. A price that is a number instead of text means that
the format changed, so its unit is unsure: it is refused and unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from ingest.base import Parsed, Payload
from ingest.catalog.pages import next_page, pages
from ingest.catalog.rows import CatalogRows, distinct_rows, judged, origin_of, price_row
from ingest.fields import Row, plain_json
from ingest.read import field_of, read_json, shape_of

PROVIDER = "openrouter"

# source field -> (component, unit)
COMPONENTS = {
    "prompt": ("prompt", "token"),
    "completion": ("completion", "token"),
    "input_cache_read": ("cache_read", "token"),
    "input_cache_write": ("cache_write", "token"),
    "input_cache_write_1h": ("cache_write_1h", "token"),
    "internal_reasoning": ("internal_reasoning", "token"),
    "audio": ("audio", "token"),
    "audio_output": ("audio_output", "token"),
    "input_audio_cache": ("audio_cache_read", "token"),
    "image_token": ("image_token", "token"),
    "image": ("image", "image"),
    "request": ("request", "request"),
    "web_search": ("web_search", "search"),
}
_AMOUNT = re.compile(r"[+-]?\d{1,40}(\.\d{0,80})?([eE][+-]?\d{1,3})?", re.ASCII)
_NOT_PRICES = frozenset({"overrides", "min_prompt_tokens"})
_VARIANTS = (":free", ":nitro", ":floor", ":online", ":extended", ":exacto")  # served otherwise, the same model
_OWN_COLUMNS = frozenset({"id", "name", "description", "context_length", "pricing", "expiration_date"})


def parse(payload: Payload) -> Parsed:
    """Offers and prices of the listing; complete unless it says that more follows than came.

    The payload is one answer, or several pages of it (see ingest/catalog/pages.py). Raises PayloadError
    when it is no such listing.
    """
    documents = [read_json(page, allow_nan=True) for page in pages(payload)]
    listed = [row for document in documents for row in field_of(payload, document, "data", list)]
    out = CatalogRows(PROVIDER, payload.fetched_at, origin_of(payload))
    for row in distinct_rows(listed, out.rejects):
        pricing = row.mapping("pricing", row.data.get("pricing"))
        prices = [*_base_prices(row, pricing), *_tier_prices(row, pricing)]
        out.add(row, _offer(row), prices)
    missing = _missing(documents, len(out.offers))
    notes = (f"{missing}; models that are missing here were not removed",) if missing else ()
    return out.parsed(rows_in=len(listed), complete=not missing, notes=notes)


def _missing(documents: Sequence[Mapping[str, Any]], offers: int) -> str | None:
    """Why the listing is not the whole catalog; None where it is."""
    if next_page(documents[-1]) is not None:
        return "the listing goes on on a further page"
    total = documents[-1].get("total_count")
    if isinstance(total, int) and not isinstance(total, bool) and offers < total:
        return f"the listing names {offers} models of {total}"
    return None


def _offer(row: Row) -> dict[str, Any]:
    data = row.data
    offer_id = row.key or ""
    endpoint = row.mapping("top_provider", data.get("top_provider"))
    slug = row.text("canonical_slug", data.get("canonical_slug"))
    base = next((offer_id.removesuffix(v) for v in _VARIANTS if offer_id.endswith(v)), offer_id)
    return {
        "display_name": row.text("name", data.get("name")),
        "description": row.text("description", data.get("description")),
        "base_model": base or offer_id,
        # OpenRouter declares no serving class: "-fast" and "-short" in its ids are parts of model names.
        "latency_class": "interactive",
        "reasoning_mode": "standard",
        "context_variant": "full",
        "access_level": "open",
        "lifecycle": "active",
        "expires_at": _expiry(row),
        "alias_of": slug if slug != offer_id else None,
        "context_tokens": row.whole("context_length", data.get("context_length"), low=1),
        "endpoint_context_tokens": row.whole("top_provider.context_length", endpoint.get("context_length"), low=1),
        "max_output_tokens": row.whole(
            "top_provider.max_completion_tokens", endpoint.get("max_completion_tokens"), low=1
        ),
        "attributes": plain_json({k: v for k, v in data.items() if k not in _OWN_COLUMNS}),
    }


def _expiry(row: Row) -> datetime | None:
    """From the first instant (UTC) of its expiration date on, an offer is gone (T19)."""
    value = row.text("expiration_date", row.data.get("expiration_date"))
    date_only = value is not None and len(value) == 10
    return row.time("expiration_date", value, assume_utc=date_only)


def _base_prices(row: Row, pricing: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for name in ("prompt", "completion"):
        if pricing.get(name) is None:
            yield price_row(name, "unknown")
    yield from _listed(row, pricing, "pricing", 0)


def _tier_prices(row: Row, pricing: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """`overrides` restate the components that change from a prompt size on; other conditions are not guessed."""
    overrides = pricing.get("overrides")
    if overrides is None:
        return
    if not isinstance(overrides, list):
        row.refuse("pricing.overrides", overrides, f"is {shape_of(overrides)}, not a list")
        return
    taken: set[int] = set()
    for index, override in enumerate(overrides):
        name = f"pricing.overrides[{index}]"
        if not isinstance(override, dict):
            row.refuse(name, override, f"is {shape_of(override)}, not an object")
            continue
        other = sorted(k for k in override if k not in COMPONENTS and k not in ("min_prompt_tokens", "discount"))
        if other:
            row.refuse(name, override, f"applies under conditions that are not known: {', '.join(other)}")
            continue
        if override.get("min_prompt_tokens") is None:
            row.refuse(name, override, "has no min_prompt_tokens, so it is not known when it applies")
            continue
        tier = row.whole(f"{name}.min_prompt_tokens", override["min_prompt_tokens"], low=1)
        if tier in taken:
            row.refuse(name, override, f"repeats the tier from {tier} prompt tokens; the first one was kept")
        elif tier is not None:
            taken.add(tier)
            yield from _listed(row, override, name, tier)


def _listed(row: Row, prices: Mapping[str, Any], where: str, tier: int) -> Iterator[dict[str, Any]]:
    for name, value in prices.items():
        if value is None or name in _NOT_PRICES:
            continue
        if name == "discount":  # a share of the price, and not told whether the listed prices contain it
            if value != 0:
                row.refuse(
                    f"{where}.discount", value, "is told without saying whether the prices contain it; not applied"
                )
            continue
        if name not in COMPONENTS:
            row.refuse(f"{where}.{name}", value, "is a price whose unit is not known; it was left out")
            continue
        component, unit = COMPONENTS[name]
        kind, usd = _price(row, f"{where}.{name}", value, unit)
        yield price_row(component, kind, usd, unit=unit, tier=tier)


def _price(row: Row, name: str, value: Any, unit: str) -> tuple[str, Decimal | None]:
    """(price_kind, USD per unit) of one listed price."""
    if not isinstance(value, str):
        row.refuse(name, value, f"is {shape_of(value)}; OpenRouter writes prices as text, so its unit is unsure")
        return "unknown", None
    if not _AMOUNT.fullmatch(value.strip()):
        row.refuse(name, value, "is not a finite number")
        return "unknown", None
    usd = Decimal(value.strip())
    if usd == -1:
        return "dynamic", None
    return judged(row, name, value, usd, unit)
