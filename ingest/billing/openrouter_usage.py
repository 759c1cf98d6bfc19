"""OpenRouter's usage: completions, `GET /api/v1/generation`, `GET /api/v1/activity` -> core.usage.

Completions (JSON, an array, JSON lines, SSE text) carry `usage.cost` in credits, which are USD and what the
account is billed. `cost_details.upstream_inference_cost` is what the upstream provider bills to the account's own
key; it comes on top, so it stands apart in upstream_cost_usd. A generation tells the same request by the same
id, with native token counts, so it restates the completion. Activity rows are sums of a UTC day, grain `day`:
add up either the requests or the days.

A completion without `created` (a usage chunk that somebody cut out) is placed at the instant that its file
declares: its own age, or `--fetched-at`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from ingest.base import Parsed, Payload, Reject
from ingest.billing.completion_records import Record, read_records
from ingest.billing.log_rows import EARLIEST, LATEST, cached_of, instant, usd, whole
from ingest.fields import Row, as_float
from ingest.kind import Option
from ingest.read import parse_json, read_text, shape_of
from warehouse.evidence import EvidenceClass
from warehouse.tables import frame

PROVIDER = "openrouter"
ACCOUNT = Option("account", "whose usage this is; the format does not tell", default="default")
METHOD = "OpenRouter usage accounting"
SUCCESSFUL = frozenset({"stop", "length", "tool_calls"})
FAILED = frozenset({"error", "content_filter", "cancelled"})
LONGEST_MS = 7 * 86_400_000
_EPOCH = datetime(1970, 1, 1)
_DAY = timedelta(days=1)


def parse(payload: Payload) -> Parsed:
    """Usage rows of completions, generations or days. Raises PayloadError where the payload is none of them."""
    records = _records(payload)
    account = payload.options.get(ACCOUNT.name, ACCOUNT.default or "")
    rows: dict[str, dict[str, Any]] = {}
    rejects: list[Reject] = []
    placed = 0
    for row_no, record in enumerate(records):
        row = Row(row_no, record.data)
        for name, text, reason in record.faults:
            row.refuse(name, text, reason)
        found, dated = _usage(row, record, payload.fetched_at)
        if found is not None:
            found |= {"provider": PROVIDER, "account": account, "workload": "organic"}
            key = found["usage_key"]
            if key in rows:
                how = "the same" if rows[key] == found else "other"
                row.refuse("id", key, f"came twice, with {how} values; the first one was kept", whole_row=True)
            else:
                rows[key] = found
                placed += not dated
        rejects += row.rejects
    notes = (f"{placed} completions tell no time; placed at {payload.fetched_at:%Y-%m-%d %H:%M}Z",) if placed else ()
    usage = frame("core.usage", rows.values())
    return Parsed(
        primary="core.usage",
        tables={"core.usage": usage},
        rows_in=len(records),
        rejects=tuple(rejects),
        data_at=usage["period_end_at"].max(),  # type: ignore[arg-type]
        notes=notes,
    )


def _records(payload: Payload) -> list[Record]:
    text = read_text(payload)
    if text.lstrip().startswith("{") and '"data"' in text and "\ndata:" not in text:
        first = text.strip().split("\n", 1)[0]
        one_line = first.rstrip().endswith("}")
        if not one_line or "\n" not in text.strip():
            document = parse_json(text, payload, allow_nan=True)
            data = document.get("data") if isinstance(document, dict) else None
            if isinstance(data, list):
                return [Record(d) if isinstance(d, dict) else _unreadable(d) for d in data]
            if isinstance(data, dict):
                return [Record(data)]
    return [Record(r.data["data"]) if isinstance(r.data.get("data"), dict) else r for r in read_records(payload)]


def _unreadable(value: Any) -> Record:
    return Record({"row": value}, unreadable=f"the row is {shape_of(value)}, not an object")


def _usage(row: Row, record: Record, fetched_at: datetime) -> tuple[dict[str, Any] | None, bool]:
    """(the usage row, whether its source told the time); None with a whole-row reject where it is none."""
    if record.unreadable is not None:
        row.refuse(None, None, record.unreadable, whole_row=True)
        return None, True
    data = row.data
    if "date" in data and "requests" in data:
        return _day(row), True
    if "total_cost" in data or "native_tokens_prompt" in data:
        return _generation(row), True
    return _completion(row, record, fetched_at)


def _completion(row: Row, record: Record, fetched_at: datetime) -> tuple[dict[str, Any] | None, bool]:
    data = row.data
    named = _named(row, "model")
    if named is None:
        return None, True
    if data.get("created") is None:
        start_at, dated = fetched_at, False
    else:
        low, high = (int((t - _EPOCH).total_seconds()) for t in (EARLIEST, LATEST))
        created = row.whole("created", data["created"], low=low, high=high)
        if created is None:
            row.refuse(None, None, "the completion cannot be placed in time", whole_row=True)
            return None, True
        start_at, dated = _EPOCH + timedelta(seconds=created), True
    usage = row.mapping("usage", data.get("usage"))
    prompt_details = row.mapping("usage.prompt_tokens_details", usage.get("prompt_tokens_details"))
    cost_details = row.mapping("usage.cost_details", usage.get("cost_details"))
    prompt = whole(row, "usage.prompt_tokens", usage.get("prompt_tokens"))
    upstream = cost_details.get("upstream_inference_cost")
    return {
        **named,
        **_request(start_at, None, _success(row, record)),
        "service_tier": row.text("service_tier", data.get("service_tier")),
        "prompt_tokens": prompt,
        "completion_tokens": whole(row, "usage.completion_tokens", usage.get("completion_tokens")),
        "cached_tokens": cached_of(
            row, "usage.prompt_tokens_details.cached_tokens", prompt_details.get("cached_tokens"), prompt
        ),
        "billed_cost_usd": usd(row, "usage.cost", usage.get("cost")),
        "upstream_cost_usd": usd(row, "usage.cost_details.upstream_inference_cost", upstream),
    }, dated


def _generation(row: Row) -> dict[str, Any] | None:
    data = row.data
    named = _named(row, "model")
    start_at = instant(row, "created_at", data.get("created_at"))
    if named is None or start_at is None:
        if named is not None:
            row.refuse("created_at", data.get("created_at"), "gives no instant", whole_row=True)
        return None
    reason = row.text("finish_reason", data.get("finish_reason"))
    failed = data.get("cancelled") is True or reason in FAILED
    ms = row.number("latency", data.get("latency"), high=LONGEST_MS)
    prompt = whole(row, "native_tokens_prompt", data.get("native_tokens_prompt"))
    cached = cached_of(row, "native_tokens_cached", data.get("native_tokens_cached"), prompt)
    return {
        **named,
        **_request(start_at, as_float(None if ms is None else ms / 1000), _success_of(reason, failed)),
        "prompt_tokens": prompt,
        "completion_tokens": whole(row, "native_tokens_completion", data.get("native_tokens_completion")),
        "cached_tokens": cached,
        "billed_cost_usd": usd(row, "total_cost", data.get("total_cost")),
        "upstream_cost_usd": usd(row, "upstream_inference_cost", data.get("upstream_inference_cost")),
    }


def _day(row: Row) -> dict[str, Any] | None:
    data = row.data
    text = row.text("date", data.get("date"))
    start_at = instant(row, "date", text[:10] if text else None)
    slug = row.text("model_permaslug", data.get("model_permaslug")) or row.text("model", data.get("model"))
    requests = whole(row, "requests", data.get("requests"))
    if start_at is None or slug is None or requests is None:
        row.refuse(None, None, "a day without its date, model and number of requests is none", whole_row=True)
        return None
    endpoint = row.text("endpoint_id", data.get("endpoint_id")) or ""
    row.key = f"day:{start_at:%Y-%m-%d}:{slug}:{endpoint}"
    return {
        "usage_key": row.key,
        "grain": "day",
        "period_start_at": start_at,
        "period_end_at": start_at + _DAY,
        "requested_offer": row.text("model", data.get("model")) or slug,
        "served_offer": slug,
        "prompt_tokens": whole(row, "prompt_tokens", data.get("prompt_tokens")),
        "completion_tokens": whole(row, "completion_tokens", data.get("completion_tokens")),
        "requests": requests,
        "attempts": requests,
        "requests_with_energy": 0,
        "billed_cost_usd": usd(row, "usage", data.get("usage")),
        "upstream_cost_usd": usd(row, "byok_usage_inference", data.get("byok_usage_inference")),
        "evidence_class": EvidenceClass.MODELED.value,
        "method": f"{METHOD}, activity",
    }


def _named(row: Row, model_field: str) -> dict[str, Any] | None:
    row.key = row.text("id", row.data.get("id"))
    model = row.text(model_field, row.data.get(model_field))
    if row.key is None or model is None:
        name = "id" if row.key is None else model_field
        row.refuse(name, row.data.get(name), "is missing or no text, so the request cannot be told", whole_row=True)
        return None
    return {"usage_key": row.key, "requested_offer": model, "served_offer": model}


def _request(start_at: datetime, duration_s: float | None, successes: int | None) -> dict[str, Any]:
    return {
        "grain": "request",
        "period_start_at": start_at,
        "period_end_at": start_at + timedelta(seconds=duration_s or 0.0),
        "requests": 1,
        "attempts": 1,
        "successes": successes,
        "requests_with_energy": 0,
        "duration_s": duration_s,
        "evidence_class": EvidenceClass.MODELED.value,
        "method": METHOD,
    }


def _success(row: Row, record: Record) -> int | None:
    choices = row.data.get("choices")
    reasons = [c.get("finish_reason") for c in choices if isinstance(c, Mapping)] if isinstance(choices, list) else []
    known = [r for r in reasons if isinstance(r, str)]
    if row.data.get("error") is not None:
        return 0
    if known:
        return _success_of(known[0] if len(set(known)) == 1 else None, any(r in FAILED for r in known))
    return 0 if record.ended is False else None


def _success_of(reason: str | None, failed: bool) -> int | None:
    return 0 if failed else 1 if reason in SUCCESSFUL else None
