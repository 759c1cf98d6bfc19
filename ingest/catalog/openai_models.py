"""OpenAI-compatible `GET /v1/models` (vLLM, SGLang, TensorRT-LLM, llama.cpp, OpenAI itself) -> core.offer, core.price.

The format tells no price, so prompt and completion are unknown. vLLM adds `max_model_len` (the context that is
really served), `root` (what the served name stands for) and `parent` (the base of a LoRA adapter).
An endpoint does not name itself: the offers are of the option `provider`, else of the source's own name.
"""

from __future__ import annotations

from typing import Any

from ingest.base import Parsed, Payload
from ingest.catalog.rows import CatalogRows, distinct_rows, origin_of, price_row
from ingest.fields import Row, plain_json
from ingest.kind import Option
from ingest.read import field_of, read_json

PROVIDER_OPTION = Option("provider", "whose endpoint this is, such as my-vllm; without it, the name of the source")
_OWN_COLUMNS = frozenset({"id", "object", "max_model_len", "permission"})


def parse(payload: Payload) -> Parsed:
    """Offers of the endpoint; complete. Raises PayloadError when the payload is no such listing."""
    listed = field_of(payload, read_json(payload, allow_nan=True), "data", list)
    out = CatalogRows(provider_of(payload), payload.fetched_at, origin_of(payload))
    for row in distinct_rows(listed, out.rejects):
        out.add(row, _offer(row), [price_row("prompt", "unknown"), price_row("completion", "unknown")])
    return out.parsed(rows_in=len(listed), complete=True)


def provider_of(payload: Payload) -> str:
    """As declared; else the source's name, without the mark of a file."""
    return payload.options.get(PROVIDER_OPTION.name, "").strip() or payload.source_id.removeprefix("file:")


def _offer(row: Row) -> dict[str, Any]:
    data = row.data
    root, parent = row.text("root", data.get("root")), row.text("parent", data.get("parent"))
    stands_for = root if root is not None and parent is None and not _is_path(root) else None
    return {
        "display_name": row.key,
        "base_model": stands_for or row.key,  # an adapter is a model of its own, whatever it was trained on
        "latency_class": "interactive",
        "reasoning_mode": "standard",
        "context_variant": "full",
        "access_level": "open",
        "lifecycle": "active",
        "alias_of": stands_for if stands_for != row.key else None,
        "context_tokens": row.whole("max_model_len", data.get("max_model_len"), low=1),
        "attributes": plain_json({k: v for k, v in data.items() if k not in _OWN_COLUMNS}),
    }


def _is_path(root: str) -> bool:
    """Whether `root` is a folder of the server rather than the name of a model."""
    return root.startswith(("/", ".", "~", "\\")) or root[1:3] in (":\\", ":/")
