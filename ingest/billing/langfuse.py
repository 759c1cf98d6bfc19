"""Langfuse observations_v2 (JSON lines, JSON, CSV or Parquet of the blob export) -> core.usage, a row per generation.

Times are UTC without saying so; latencies are seconds. Costs are what Langfuse works out from its own price list
or was told by the application: an estimate, so list_cost_usd. A total of 0 without cost details is how it writes
that there is no cost: unknown. Observations that call no model (spans, events, tools) are left out.

`usage_details` is a free map. Its parts are disjoint (`input` without `input_cached_tokens`) or nested (with), as
the instrumentation wrote them; `total` tells which. Where it contradicts both, the counts are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, BinaryIO

from ingest.base import Parsed, Reject
from ingest.billing.log_rows import instant, name_of, number, told, usd, whole
from ingest.billing.pieces import batched
from ingest.billing.tabular import Chunk, Columns, chunks
from ingest.fields import Row, as_float
from ingest.read import loads
from ingest.stream import Stream
from ingest.stream import whole as whole_payload
from warehouse.evidence import EvidenceClass
from warehouse.tables import frame

PROVIDER = "langfuse"
METHOD = "Langfuse observation, tokens x its price list"
CALLS = frozenset({"GENERATION", "EMBEDDING"})
LEVELS = {"ERROR": 0, "DEFAULT": 1, "WARNING": 1, "DEBUG": 1}
LONGEST_S = 7 * 86_400
_FIELDS = (
    "id",
        "project_id",
        "type",
        "start_time",
        "end_time",
        "level",
        "provided_model_name",
        "usage_details",
        "cost_details",
        "total_cost",
        "latency",
)  # fmt: skip
COLUMNS = Columns(
    plain=_FIELDS,
    nested={},
    rows_under=("data", "observations"),
    required=("id", "type", "start_time"),
)


def stream(about: Stream, file: BinaryIO) -> Iterator[Parsed]:
    """The usage rows of an export, piece by piece. Raises PayloadError where the file is no such export."""
    yield from batched(_parsed(chunk) for chunk in chunks(about, file, COLUMNS))


parse = whole_payload(stream)


def _parsed(chunk: Chunk) -> Parsed:
    rows: list[dict[str, Any]] = []
    rejects: list[Reject] = []
    left = 0
    for index, row_no in enumerate(chunk.numbers):
        data, why = chunk.read(index)
        row = Row(row_no, data if data is not None else {})
        if data is None:
            row.refuse(None, None, why, whole_row=True)
        elif isinstance(data.get("type"), str) and data["type"].strip().upper() not in CALLS:
            left += 1
            continue
        else:
            found = _usage(row)
            if found is not None:
                rows.append(found)
        rejects += row.rejects
    usage = frame("core.usage", rows)
    return Parsed(
        primary="core.usage",
        tables={"core.usage": usage},
        rows_in=len(chunk.numbers) - left,
        rejects=tuple(rejects),
        data_at=usage["period_end_at"].max(),  # type: ignore[arg-type]
        notes=("observations that call no model (spans, events, tools) were left out",) if left else (),
    )


def _usage(row: Row) -> dict[str, Any] | None:
    data = row.data
    row.key = name_of(row, "id", data.get("id"))
    kind = row.text("type", data.get("type"))
    model = row.text("provided_model_name", data.get("provided_model_name"))
    start_at = instant(row, "start_time", data.get("start_time"))
    for name, found in (("id", row.key), ("type", kind), ("provided_model_name", model), ("start_time", start_at)):
        if found is None:
            row.refuse(name, data.get(name), "is missing or unusable, so the call cannot be told", whole_row=True)
            return None
    assert start_at is not None
    end_at, duration_s = _window(row, start_at)
    return {
        "provider": PROVIDER,
        "account": name_of(row, "project_id", data.get("project_id")) or "default",
        "usage_key": row.key,
        "grain": "request",
        "workload": "organic",
        "period_start_at": start_at,
        "period_end_at": end_at or start_at,
        "requested_offer": model,
        "served_offer": model,
        **_tokens(row),
        "requests": 1,
        "attempts": 1,
        "successes": _success(row, ended=end_at is not None),
        "requests_with_energy": 0,
        "list_cost_usd": _cost(row),
        "duration_s": duration_s,
        "evidence_class": EvidenceClass.MODELED.value,
        "method": METHOD,
    }


def _window(row: Row, start_at: datetime) -> tuple[datetime | None, float | None]:
    end_at = instant(row, "end_time", row.data.get("end_time"))
    if end_at is not None and end_at < start_at:
        row.refuse("end_time", row.data.get("end_time"), "lies before start_time")
        end_at = None
    if end_at is not None:
        return end_at, (end_at - start_at).total_seconds()
    latency = as_float(number(row, "latency", row.data.get("latency"), high=LONGEST_S))
    return (None, None) if latency is None else (start_at + timedelta(seconds=latency), latency)


def _success(row: Row, *, ended: bool) -> int | None:
    level = row.text("level", row.data.get("level"))
    if level is not None and level not in LEVELS:
        row.refuse("level", level, f"is none of {', '.join(LEVELS)}")
        return None
    success = LEVELS.get(level or "")
    return success if success == 0 or ended else None


def _tokens(row: Row) -> dict[str, int | None]:
    parts = {
        name: count
        for name, value in _map(row, "usage_details").items()
        if (count := whole(row, f"usage_details.{name}", value)) is not None
    }
    unknown: dict[str, int | None] = {"prompt_tokens": None, "completion_tokens": None, "cached_tokens": None}
    if not any(parts.values()):
        return unknown
    extra_in = sum(n for name, n in parts.items() if name.startswith("input_"))
    extra_out = sum(n for name, n in parts.items() if name.startswith("output_"))
    prompt, completion, total = parts.get("input"), parts.get("output"), parts.get("total")
    base = (prompt or 0) + (completion or 0)
    if total is None or total == base + extra_in + extra_out:
        prompt = None if prompt is None and not extra_in else (prompt or 0) + extra_in
        completion = None if completion is None and not extra_out else (completion or 0) + extra_out
    elif total != base:
        row.refuse("usage_details.total", total, f"is neither {base} nor {base + extra_in + extra_out}, its parts")
        return unknown
    cached = parts.get("input_cached_tokens", parts.get("input_cache_read", parts.get("cache_read_input_tokens")))
    if cached is not None and (prompt is None or cached > prompt):
        row.refuse("usage_details", cached, f"tells more cached tokens than the {prompt} of the prompt")
        cached = None
    return {"prompt_tokens": prompt, "completion_tokens": completion, "cached_tokens": cached}


def _cost(row: Row) -> Decimal | None:
    total = usd(row, "total_cost", row.data.get("total_cost"))
    return None if total == 0 and not _map(row, "cost_details") else total


def _map(row: Row, name: str) -> Mapping[str, Any]:
    """An object, also where the export wrote it as text."""
    value = row.data.get(name)
    if isinstance(value, str) and told(value):
        try:
            value = loads(value)
        except (ValueError, ArithmeticError, RecursionError):
            row.refuse(name, value, "is no JSON object")
            return {}
    return row.mapping(name, value if told(value) else None)
