"""LLMRouter's list of models (default_llm.json) -> core.arm: sizes, and list prices in USD per million tokens."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from ingest.base import Parsed, Reject
from ingest.fields import Row, money
from ingest.outcomes.columns import LONGEST_NAME
from ingest.outcomes.energy_models import LLMROUTER
from ingest.stream import Stream
from warehouse.tables import frame

_SIZE = re.compile(r"(\d{1,5}(?:\.\d{1,6})?)\s*B", re.ASCII | re.IGNORECASE)
_MILLION = Decimal(1_000_000)
_PRICES = ("input_price", "output_price")


def is_arms(document: Any) -> bool:
    """Whether a JSON document is such a list: an object of objects, each with a size or a price."""
    if not isinstance(document, dict) or not document:
        return False
    return all(isinstance(v, dict) and v.keys() & {"size", *_PRICES} for v in document.values())


def read_arms(about: Stream, document: Mapping[str, Mapping[str, Any]]) -> Parsed:
    """One row for each model. Those that have no outcomes are refused when the rows are loaded, not here."""
    rows: list[dict[str, Any]] = []
    rejects: list[Reject] = []
    for row_no, (name, told) in enumerate(document.items()):
        row = Row(row_no, told, name[:LONGEST_NAME])
        if not name.strip() or len(name) > LONGEST_NAME:
            row.refuse("arm", name, f"is empty or longer than {LONGEST_NAME} characters", whole_row=True)
        else:
            rows.append({"dataset": about.options.get("dataset"), "arm": name.strip(), **_arm(name.strip(), row)})
        rejects += row.rejects
    return Parsed("core.arm", {"core.arm": frame("core.arm", rows)}, len(document), tuple(rejects))


def _arm(name: str, row: Row) -> dict[str, Any]:
    prices = {told: row.number(told, row.data.get(told), high=10**6) for told in _PRICES}
    return {
        "model": row.text("model", row.data.get("model")) or name,
        "energy_model": LLMROUTER.get(name),
        "parameters_b": _size(row),
        **{f"{told}_usd_per_token": None if p is None else money(p / _MILLION) for told, p in prices.items()},
    }


def _size(row: Row) -> float | None:
    told = row.text("size", row.data.get("size"))
    if told is None:
        return None
    found = _SIZE.fullmatch(told)
    if found is None or not float(found[1]):
        row.refuse("size", told, "is no number of billions of parameters such as 7B")
        return None
    return float(found[1])
