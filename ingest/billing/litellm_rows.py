"""One row of LiteLLM_SpendLogs -> one row of core.usage, with every refusal by name.

This is the definition of the format. `litellm_spendlogs` reads whole columns at once where it can, and
hands every row that is not plainly sound to here.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from ingest.billing.log_rows import cached_of, instant, name_of, number, told, usd, whole
from ingest.fields import Row
from ingest.read import loads
from warehouse.evidence import EvidenceClass

PROVIDER = "litellm"
METHOD = "LiteLLM spend log, tokens x its price map"
METHOD_READ = "LiteLLM spend log, read of a stored response: no spend"
NO_KEY = "no-key"  # the account of rows without an API key
EVIDENCE = EvidenceClass.MODELED  # there is no energy in these logs, so nothing stronger may be claimed
# Looking at, listing or ending a stored response costs nothing, but is logged with the cost of the response.
READS = frozenset(
    prefix + name
    for prefix in ("", "a")
    for name in ("get_responses", "list_input_items", "delete_responses", "cancel_responses")
)
SUCCESS, FAILURE = "success", "failure"
LONGEST_MS = 7 * 86_400_000


def usage_row(row: Row, *, zero_spend_is_free: bool) -> dict[str, Any] | None:
    """The usage row of a log row; None, with a whole-row reject, where it cannot be placed."""
    data = row.data
    row.key = name_of(row, "request_id", data.get("request_id"))
    if row.key is None:
        row.refuse("request_id", data.get("request_id"), "is missing, so the request cannot be told", whole_row=True)
        return None
    start_at = instant(row, "startTime", data.get("startTime"))
    if start_at is None:
        row.refuse("startTime", data.get("startTime"), "gives no instant, so the spend has no day", whole_row=True)
        return None
    served = name_of(row, "model", data.get("model"))
    requested = name_of(row, "model_group", data.get("model_group")) or served
    if requested is None:
        row.refuse("model", data.get("model"), "is missing, and so is model_group", whole_row=True)
        return None
    end_at = _end(row, start_at)
    common = {
        "provider": PROVIDER,
        "account": name_of(row, "api_key", data.get("api_key")) or NO_KEY,
        "usage_key": row.key,
        "grain": "request",
        "workload": "organic",
        "period_start_at": start_at,
        "period_end_at": end_at or start_at,
        "requested_offer": requested,
        "served_offer": served,
        "duration_s": None if end_at is None else (end_at - start_at).total_seconds(),
        "evidence_class": EVIDENCE.value,
    }
    call_type = data.get("call_type")
    if isinstance(call_type, str) and call_type in READS:
        nothing = {"prompt_tokens": 0, "completion_tokens": 0, "cached_tokens": 0, "list_cost_usd": Decimal(0)}
        counts = {"requests": 0, "attempts": 0, "successes": 0, "requests_with_energy": 0}
        return {**common, **nothing, **counts, "method": METHOD_READ}
    successes = _success(row)
    return {
        **common,
        **_tokens(row),
        "list_cost_usd": _spend(row, failed=successes == 0, zero_is_free=zero_spend_is_free),
        "requests": 1,
        "attempts": 1,
        "successes": successes,
        "requests_with_energy": 0,
        "method": METHOD,
    }


def _end(row: Row, start_at: datetime) -> datetime | None:
    end_at = instant(row, "endTime", row.data.get("endTime"))
    if end_at is not None and end_at < start_at:
        row.refuse("endTime", row.data.get("endTime"), "lies before startTime")
        end_at = None
    if end_at is None:
        ms = number(row, "request_duration_ms", row.data.get("request_duration_ms"), high=LONGEST_MS)
        return None if ms is None else start_at + timedelta(microseconds=int(ms * 1000))
    return end_at


def _success(row: Row) -> int | None:
    status = row.text("status", row.data.get("status"))
    if status is not None and status not in (SUCCESS, FAILURE):
        row.refuse("status", status, f"is neither {SUCCESS} nor {FAILURE}")
        return None
    return None if status is None else int(status == SUCCESS)


def _tokens(row: Row) -> dict[str, int | None]:
    """Token counts; both 0 is how LiteLLM writes "not told" (streams without usage, failures)."""
    prompt = whole(row, "prompt_tokens", row.data.get("prompt_tokens"))
    completion = whole(row, "completion_tokens", row.data.get("completion_tokens"))
    if not prompt and not completion:
        return {"prompt_tokens": None, "completion_tokens": None, "cached_tokens": None}
    return {"prompt_tokens": prompt, "completion_tokens": completion, "cached_tokens": _cached(row, prompt)}


def _cached(row: Row, prompt: int | None) -> int | None:
    usage = _inside(_inside(row.data, "metadata"), "usage_object")
    for name, holder in (
        ("cached_tokens", _inside(usage, "prompt_tokens_details")),
        ("cache_read_input_tokens", usage),
    ):
        if told(holder.get(name)):
            return cached_of(row, f"metadata.usage_object.{name}", holder[name], prompt)
    return None


def _inside(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """An object inside another; metadata is free-form, so anything else there tells nothing."""
    value = data.get(name)
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            value = loads(value)
        except (ValueError, ArithmeticError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}


def _spend(row: Row, *, failed: bool, zero_is_free: bool) -> Decimal | None:
    """LiteLLM's own estimate. It writes 0 also where it has no price for a model (T11), so 0 is unknown
    unless the request failed, or a person says that what costs 0 is free."""
    spend = usd(row, "spend", row.data.get("spend"))
    return None if spend == 0 and not failed and not zero_is_free else spend
