"""LiteLLM's `model_prices_and_context_window.json` -> core.offer, core.price.

An object keyed by model; prices are numbers in USD per token (or per character, second, image, page, as the
field's name says), read as the exact decimals that the file writes. 0 is free, an absent prompt or
completion price unknown. The first key, `sample_spec`, is prose and no model.

`…_above_200k_tokens` holds for prompts of more than 200,000 tokens and then prices the whole request.
`…_batches`, `…_flex`, `…_priority` and `…_ultrafast` are the prices of other service tiers: components of their own,
never mixed into the standard ones. `deprecation_date` is the first instant without the offer.

All offers are of the provider `litellm`, because the keys are unique in this map only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from ingest.base import Parsed, Payload
from ingest.catalog.rows import CatalogRows, distinct_rows, judged, origin_of, price_row
from ingest.fields import Refused, Row, number, plain_json
from ingest.kind import Option
from ingest.read import read_json, refuse, shape_of

PROVIDER = "litellm"
MODES = Option(
    "modes",
    "which entries to take: text (chat, completion, responses) or all (embeddings, images, audio, too)",
    default="text",
    allowed=("text", "all"),
)
TEXT_MODES = frozenset({"chat", "completion", "responses"})

# field without its conditions -> (component, unit)
COMPONENTS = {
    "input_cost_per_token": ("prompt", "token"),
    "output_cost_per_token": ("completion", "token"),
    "cache_read_input_token_cost": ("cache_read", "token"),
    "cache_creation_input_token_cost": ("cache_write", "token"),
    "cache_creation_input_token_cost_above_1hr": ("cache_write_1h", "token"),
    "output_cost_per_reasoning_token": ("internal_reasoning", "token"),
    "citation_cost_per_token": ("citation", "token"),
    "input_cost_per_audio_token": ("audio", "token"),
    "output_cost_per_audio_token": ("audio_output", "token"),
    "cache_read_input_audio_token_cost": ("audio_cache_read", "token"),
    "cache_creation_input_audio_token_cost": ("audio_cache_write", "token"),
    "input_cost_per_image_token": ("image_token", "token"),
    "output_cost_per_image_token": ("image_output_token", "token"),
    "input_cost_per_video_token": ("video_token", "token"),
    "output_cost_per_video_token": ("video_output_token", "token"),
    "input_cost_per_request": ("request", "request"),
    "input_cost_per_query": ("query", "query"),
    "input_cost_per_image": ("image", "image"),
    "output_cost_per_image": ("image_output", "image"),
    "input_cost_per_pixel": ("pixel", "pixel"),
    "output_cost_per_pixel": ("pixel_output", "pixel"),
    "input_cost_per_character": ("character", "character"),
    "output_cost_per_character": ("character_output", "character"),
    "input_cost_per_second": ("second", "second"),
    "output_cost_per_second": ("second_output", "second"),
    "input_cost_per_audio_per_second": ("audio_second", "second"),
    "output_cost_per_audio_per_second": ("audio_second_output", "second"),
    "input_cost_per_video_per_second": ("video_second", "second"),
    "output_cost_per_video_per_second": ("video_second_output", "second"),
    "ocr_cost_per_page": ("ocr", "page"),
    "annotation_cost_per_page": ("annotation", "page"),
}
_CACHE_HIT = "input_cost_per_token_cache_hit"  # an older name of cache_read_input_token_cost
_FIELD = re.compile(
    r"(?P<base>\w+?)(_above_(?P<thousands>\d{1,6})k_tokens)?(_(?P<tier>batches|batch_requests|flex|priority|ultrafast))?"
)
_TIERS = {"batches": "batch", "batch_requests": "batch"}
# Not a price of one unit in USD: Databricks units; a price per size of search context; a table told apart by size.
_TOLD_ELSEWHERE = re.compile(r"(in|out)put_db[u]?_cost_per_token|search_context_cost_per_query")
_OWN_COLUMNS = frozenset({"max_input_tokens", "max_output_tokens", "deprecation_date"})


def parse(payload: Payload) -> Parsed:
    """Offers and prices of the whole map. Raises PayloadError when the payload is no such map."""
    document = read_json(payload, allow_nan=True)
    if not isinstance(document, dict):
        refuse(payload, f"the payload is {shape_of(document)}, not an object of models", fix="check kind and address")
    entries = {key: value for key, value in document.items() if key != "sample_spec"}
    if not any(isinstance(v, dict) and "litellm_provider" in v for v in entries.values()):
        known = ", ".join(sorted(map(str, entries))[:8]) or "nothing"
        refuse(payload, f"no entry has a litellm_provider; the payload has {known}", fix="check kind and address")
    taken = entries if payload.options.get(MODES.name) == "all" else _text_only(entries)
    listed = [{**v, "id": key} if isinstance(v, dict) else v for key, v in taken.items()]
    out = CatalogRows(PROVIDER, payload.fetched_at, origin_of(payload))
    for row in distinct_rows(listed, out.rejects):
        out.add(row, _offer(row, payload.fetched_at), list(_prices(row)))
    left = len(entries) - len(taken)
    notes = (f"{left} entries that write no text were left out; take them with the option modes=all",) if left else ()
    return out.parsed(rows_in=len(listed), complete=True, notes=notes)


def _text_only(entries: Mapping[str, Any]) -> dict[str, Any]:
    """Entries whose mode is of text, or not told; what is no object stays, to be refused."""
    return {k: v for k, v in entries.items() if not isinstance(v, dict) or v.get("mode") in (*TEXT_MODES, None)}


def _offer(row: Row, seen_at: datetime) -> dict[str, Any]:
    data = row.data
    maker = row.text("litellm_provider", data.get("litellm_provider"))
    text = row.text("deprecation_date", data.get("deprecation_date"))
    ends_at = row.time("deprecation_date", text, assume_utc=text is not None and len(text) == 10)
    key = row.key or ""
    return {
        "display_name": key,
        "base_model": key.removeprefix(f"{maker}/") or key,
        "latency_class": "interactive",
        "reasoning_mode": "standard",
        "context_variant": "full",
        "access_level": "open",
        "lifecycle": "deprecated" if ends_at is not None and ends_at <= seen_at else "active",
        "expires_at": ends_at,
        # `max_tokens` is a legacy field that means either of these; it stays in the attributes.
        "context_tokens": _limit(row, "max_input_tokens"),
        "max_output_tokens": _limit(row, "max_output_tokens"),
        "attributes": plain_json({k: v for k, v in data.items() if k != "id" and k not in _OWN_COLUMNS}),
    }


def _limit(row: Row, name: str) -> int | None:
    """A limit in tokens; 0 is how the map writes that there is none to tell."""
    return row.whole(name, row.data.get(name)) or None


def _prices(row: Row) -> Iterator[dict[str, Any]]:
    for name in ("input_cost_per_token", "output_cost_per_token"):
        if row.data.get(name) is None:
            yield price_row(COMPONENTS[name][0], "unknown")
    for name, value in row.data.items():
        if value is None or "cost" not in name or _TOLD_ELSEWHERE.fullmatch(name):
            continue
        field = _field(row, name)
        if field is None:
            continue
        component, unit, from_tokens = field
        kind, usd = _price(row, name, value, unit)
        yield price_row(component, kind, usd, unit=unit, tier=from_tokens)
    if row.data.get("tiered_pricing") is not None:
        reason = "does not say whether a tier prices the whole request or its part; the prices stay unknown"
        row.refuse("tiered_pricing", row.data["tiered_pricing"], reason)


def _field(row: Row, name: str) -> tuple[str, str, int] | None:
    """(component, unit, least prompt tokens) of a price field; None where it is another's, or refused."""
    if name == _CACHE_HIT:
        return None if row.data.get("cache_read_input_token_cost") is not None else ("cache_read", "token", 0)
    found = _FIELD.fullmatch(name)
    known = COMPONENTS.get(found["base"]) if found else None
    if found is None or known is None:
        row.refuse(name, row.data[name], "is a price whose unit or condition is not known; it was left out")
        return None
    component, unit = known
    tier = found["tier"]
    if tier is not None:
        component = f"{component}_{_TIERS.get(tier, tier)}"
    return component, unit, int(found["thousands"]) * 1000 + 1 if found["thousands"] else 0


def _price(row: Row, name: str, value: Any, unit: str) -> tuple[str, Decimal | None]:
    """(price_kind, USD per unit) of a price."""
    try:
        usd = number(value)
    except Refused as refused:
        row.refuse(name, value, str(refused))
        return "unknown", None
    assert usd is not None
    return judged(row, name, value, usd, unit)
