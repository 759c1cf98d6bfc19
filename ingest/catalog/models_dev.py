"""models.dev `api.json` -> core.offer, core.price.

An object of providers, each with its models. Costs are numbers in USD per million tokens. A model without
`cost` (such as a router) has unknown prices, an explicit 0 is free. `tiers` of type `context` hold for prompts of
more than their size and price the whole request; `context_over_200k` is their older form and counts only where
there are no tiers.

models.dev tells what others charge, so its offers are of the provider `models.dev` and named
`provider/model`: they never replace what a provider's own catalog says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from decimal import Decimal
from typing import Any

from ingest.base import Parsed, Payload, Reject
from ingest.catalog.rows import CatalogRows, judged, origin_of, price_row
from ingest.catalog.serving_class import ServingClass, split
from ingest.fields import Refused, Row, number, plain_json
from ingest.read import read_json, refuse, shape_of

PROVIDER = "models.dev"
TOKENS_PER_MILLION = 1_000_000
OVER_200K = 200_001
COMPONENTS = {
    "input": "prompt",
    "output": "completion",
    "reasoning": "internal_reasoning",
    "cache_read": "cache_read",
    "cache_write": "cache_write",
    "input_audio": "audio",
    "output_audio": "audio_output",
}
_NOT_PRICES = frozenset({"tier", "tiers", "context_over_200k"})
_OWN_COLUMNS = frozenset({"id", "name", "description", "cost", "status"})
_LIFECYCLE = {"deprecated": "deprecated"}
_ACCESS = {"alpha": "canary", "beta": "canary"}
_SERVING_CLASS_IN_ID = frozenset({"neuralwatt"})  # providers whose ids end in -flex, -fast, -short


def parse(payload: Payload) -> Parsed:
    """Offers and prices of the whole file. Raises PayloadError when the payload is no such file."""
    document = read_json(payload, allow_nan=True)
    if not isinstance(document, dict):
        refuse(
            payload, f"the payload is {shape_of(document)}, not an object of providers", fix="check kind and address"
        )
    if not any(isinstance(p, dict) and isinstance(p.get("models"), dict) for p in document.values()):
        known = ", ".join(sorted(map(str, document))[:8]) or "nothing"
        refuse(payload, f"no provider has models; the payload has {known}", fix="check kind and address")
    out = CatalogRows(PROVIDER, payload.fetched_at, origin_of(payload))
    rows_in = silent = 0
    for provider, about in document.items():
        models = about.get("models") if isinstance(about, dict) else about
        if not isinstance(models, dict):
            reason = f"the models of {provider} are {shape_of(models)}, not an object"
            out.rejects.append(Reject(reason, row_no=rows_in, natural_key=provider, field="models"))
            rows_in += 1
            continue
        for model, data in models.items():
            if isinstance(data, dict) and not _writes_text(data):
                silent += 1
                continue
            row = Row(rows_in, data if isinstance(data, dict) else {"row": data}, f"{provider}/{model}")
            rows_in += 1
            if not isinstance(data, dict):
                row.refuse(None, data, f"the model is {shape_of(data)}, not an object", whole_row=True)
                out.rejects.extend(row.rejects)
            else:
                out.add(row, _offer(row, provider, model), list(_prices(row)))
    notes = (f"{silent} models that write no text were left out",) if silent else ()
    return out.parsed(rows_in=rows_in, complete=True, notes=notes)


def _writes_text(data: Mapping[str, Any]) -> bool:
    modalities = data.get("modalities")
    output = modalities.get("output") if isinstance(modalities, dict) else None
    return not isinstance(output, list) or not output or "text" in output


def _offer(row: Row, provider: str, model: str) -> dict[str, Any]:
    data = row.data
    limit = row.mapping("limit", data.get("limit"))
    status = row.text("status", data.get("status"))
    served = split(model) if provider in _SERVING_CLASS_IN_ID else ServingClass(model)
    inherited = row.text("base_model", data.get("base_model"))
    return {
        "display_name": row.text("name", data.get("name")),
        "description": row.text("description", data.get("description")),
        **asdict(served),
        **({"base_model": inherited} if inherited else {}),
        "access_level": _ACCESS.get(status or "", "open"),
        "lifecycle": _LIFECYCLE.get(status or "", "active"),
        "context_tokens": row.whole("limit.context", limit.get("context")) or None,  # 0: not told
        "max_output_tokens": row.whole("limit.output", limit.get("output")) or None,
        "attributes": plain_json({**{k: v for k, v in data.items() if k not in _OWN_COLUMNS}, "status": status}),
    }


def _prices(row: Row) -> Iterator[dict[str, Any]]:
    cost = row.mapping("cost", row.data.get("cost"))
    for name in ("input", "output"):
        if cost.get(name) is None:
            yield price_row(COMPONENTS[name], "unknown")
    yield from _listed(row, cost, "cost", 0)
    tiers = cost.get("tiers")
    if tiers is not None and not isinstance(tiers, list):
        row.refuse("cost.tiers", tiers, f"is {shape_of(tiers)}, not a list")
    elif tiers:
        yield from _tiers(row, tiers)
    else:
        over = row.mapping("cost.context_over_200k", cost.get("context_over_200k"))
        yield from _listed(row, over, "cost.context_over_200k", OVER_200K)


def _tiers(row: Row, tiers: list[Any]) -> Iterator[dict[str, Any]]:
    """Tiers by the size of the prompt; other conditions are not guessed."""
    taken: set[int] = set()
    for index, tier in enumerate(tiers):
        name = f"cost.tiers[{index}]"
        about = tier.get("tier") if isinstance(tier, dict) else None
        if not isinstance(about, dict) or about.get("type") != "context":
            row.refuse(name, tier, "is no tier by context, so it is not known when it applies")
            continue
        size = row.whole(f"{name}.tier.size", about.get("size"), low=1)
        if size is None:
            if about.get("size") is None:
                row.refuse(f"{name}.tier.size", None, "is missing, so it is not known when the tier applies")
        elif size in taken:
            row.refuse(name, tier, f"repeats the tier above {size} prompt tokens; the first one was kept")
        else:
            taken.add(size)
            yield from _listed(row, tier, name, size + 1)


def _listed(row: Row, prices: Mapping[str, Any], where: str, tier: int) -> Iterator[dict[str, Any]]:
    for name, value in prices.items():
        if value is None or name in _NOT_PRICES:
            continue
        component = COMPONENTS.get(name)
        if component is None:
            row.refuse(f"{where}.{name}", value, "is a price whose unit is not known; it was left out")
            continue
        kind, usd = _price(row, f"{where}.{name}", value)
        yield price_row(component, kind, usd, tier=tier)


def _price(row: Row, name: str, value: Any) -> tuple[str, Decimal | None]:
    """(price_kind, USD per token) of a price per million tokens."""
    try:
        per_million = number(value)
    except Refused as refused:
        row.refuse(name, value, str(refused))
        return "unknown", None
    assert per_million is not None
    return judged(row, name, value, per_million / TOKENS_PER_MILLION, "token")
