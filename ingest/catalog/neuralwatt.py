"""Neuralwatt `GET https://api.neuralwatt.com/v1/models` -> core.offer, core.price.

Prices are numbers in USD per million tokens. `pricing_tbd` makes them unknown, an explicit 0 is free,
and a currency that is not USD, or not told, makes them unknown with a reject. Serving class stands
only in the id suffixes, access level only in prose.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from decimal import Decimal
from typing import Any

from ingest.base import Parsed, Payload
from ingest.catalog.rows import CatalogRows, distinct_rows, judged, origin_of, price_row
from ingest.catalog.serving_class import split
from ingest.fields import Refused, Row, number, plain_json
from ingest.read import field_of, read_json

PROVIDER = "neuralwatt"
TOKENS_PER_MILLION = 1_000_000

_COMPONENTS = {
    "input_per_million": "prompt",
    "output_per_million": "completion",
    "cached_input_per_million": "cache_read",
    "cached_output_per_million": "cached_completion",
}
_ALWAYS = ("input_per_million", "output_per_million")
_GATED = re.compile(
    r"private[\s-]+(preview|beta)|closed[\s-]+beta|grant[\s\-‐‑–]*gated|invite[\s-]+only|by[\s-]+invitation|"
    r"allow[\s-]?list(ed)?\b|requires?\s+(prior\s+)?approval",
    re.I,
)
_CANARY = re.compile(r"\([^)]*\bcanary\b[^)]*\)", re.I)
_NEGATED = re.compile(r"\b(no longer|not|never|formerly|previously|left|out of|was)\b[^.;]{0,20}$", re.I)
_OWN_METADATA = frozenset({"display_name", "description", "pricing", "deprecated"})


def parse(payload: Payload) -> Parsed:
    """Offers and prices of the whole catalog. Raises PayloadError when the payload is no such listing."""
    listed = field_of(payload, read_json(payload, allow_nan=True), "data", list)
    out = CatalogRows(PROVIDER, payload.fetched_at, origin_of(payload))
    for row in distinct_rows(listed, out.rejects):
        metadata = row.mapping("metadata", row.data.get("metadata"))
        out.add(row, _offer(row, metadata), list(_prices(row, metadata)))
    return out.parsed(rows_in=len(listed), complete=True)


def access_level(*prose: str | None) -> str:
    """open | gated | canary, as the catalog's prose tells it; being gated outweighs being a canary."""
    texts = [text for text in prose if text]
    if any(_said(_GATED, text) for text in texts):
        return "gated"
    return "canary" if any(_said(_CANARY, text) for text in texts) else "open"


def _said(pattern: re.Pattern[str], text: str) -> bool:
    """Whether `pattern` is said and not denied ("no longer in private preview")."""
    return any(not _NEGATED.search(text[: match.start()]) for match in pattern.finditer(text))


def _offer(row: Row, metadata: Mapping[str, Any]) -> dict[str, Any]:
    limits = row.mapping("metadata.limits", metadata.get("limits"))
    name = row.text("metadata.display_name", metadata.get("display_name"))
    description = row.text("metadata.description", metadata.get("description"))
    served = row.whole("max_model_len", row.data.get("max_model_len"), low=1)
    advertised = row.whole("metadata.limits.max_context_length", limits.get("max_context_length"), low=1)
    rest = {k: v for k, v in row.data.items() if k not in ("id", "object", "metadata", "max_model_len")}
    return {
        "display_name": name,
        "description": description,
        **asdict(split(row.key or "")),
        "access_level": access_level(name, description),
        "lifecycle": "deprecated" if metadata.get("deprecated") is True else "active",
        "context_tokens": advertised if advertised is not None else served,
        "endpoint_context_tokens": served if advertised is not None else None,
        "max_output_tokens": row.whole("metadata.limits.max_output_tokens", limits.get("max_output_tokens"), low=1),
        "attributes": plain_json({**rest, **{k: v for k, v in metadata.items() if k not in _OWN_METADATA}}),
    }


def _prices(row: Row, metadata: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    pricing = row.mapping("metadata.pricing", metadata.get("pricing"))
    listed = {n: pricing.get(n) for n in _COMPONENTS if n in _ALWAYS or pricing.get(n) is not None}
    currency = pricing.get("currency")
    told = any(value is not None for value in listed.values())
    usable = pricing.get("pricing_tbd") is not True
    if usable and told and currency != "USD":
        what = "is missing" if currency is None else "is not USD and no dated rate is known"
        row.refuse("metadata.pricing.currency", currency, f"{what}; the prices stay unknown")
        usable = False
    for name, value in listed.items():
        kind, usd = _price(row, f"metadata.pricing.{name}", value) if usable else ("unknown", None)
        yield price_row(_COMPONENTS[name], kind, usd)


def _price(row: Row, name: str, value: Any) -> tuple[str, Decimal | None]:
    """(price_kind, USD per token) of a price per million tokens."""
    if value is None:
        return "unknown", None
    try:
        per_million = number(value)
    except Refused as refused:
        row.refuse(name, value, str(refused))
        return "unknown", None
    assert per_million is not None
    return judged(row, name, value, per_million / TOKENS_PER_MILLION, "token")
