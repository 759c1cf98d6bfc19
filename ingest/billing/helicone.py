"""Helicone request export (CSV, JSON lines or JSON) -> core.usage, one row per request.

Latency is in milliseconds. Cost is Helicone's own estimate in USD, so list_cost_usd; an empty one is unknown, not 0.
A response status of 200 to 299 is a success; Helicone's own negative ones are cancelled or blocked requests,
except -2, which is still pending. Times carry an offset; where an export dropped it, the option `timezone`
must say which zone they are of.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, BinaryIO
from zoneinfo import ZoneInfo

from ingest.base import Parsed, Reject
from ingest.billing.log_rows import declared_zone, instant, name_of, number, told, usd, whole
from ingest.billing.pieces import batched
from ingest.billing.tabular import Chunk, Columns, chunks
from ingest.fields import Row, as_float
from ingest.kind import Option
from ingest.stream import Stream
from ingest.stream import whole as whole_payload
from warehouse.evidence import EvidenceClass
from warehouse.tables import frame

PROVIDER = "helicone"
METHOD = "Helicone log, its own cost estimate"
ACCOUNT = Option("account", "whose requests these are; the export does not tell", default="default")
TIMEZONE = Option("timezone", "the zone of times that are written without an offset, such as Europe/Paris")
PENDING = -2
LONGEST_MS = 7 * 86_400_000
_FIELDS = (
    "response_id",
        "request_created_at",
        "response_created_at",
        "response_status",
        "model",
        "prompt_tokens",
        "completion_tokens",
        "latency",
        "cost",
)  # fmt: skip
COLUMNS = Columns(
    plain=_FIELDS,
    nested={},
    rows_under=("data",),
    required=("response_id", "request_created_at", "model"),
)


def stream(about: Stream, file: BinaryIO) -> Iterator[Parsed]:
    """The usage rows of an export, piece by piece. Raises PayloadError where the file is no such export."""
    zone = declared_zone(about)
    account = about.options.get(ACCOUNT.name, ACCOUNT.default or "")
    yield from batched(_parsed(chunk, account, zone) for chunk in chunks(about, file, COLUMNS))


parse = whole_payload(stream)


def _parsed(chunk: Chunk, account: str, zone: ZoneInfo | None) -> Parsed:
    rows: list[dict[str, Any]] = []
    rejects: list[Reject] = []
    for index, row_no in enumerate(chunk.numbers):
        data, why = chunk.read(index)
        row = Row(row_no, data if data is not None else {})
        if data is None:
            row.refuse(None, None, why, whole_row=True)
        else:
            found = _usage(row, zone)
            if found is not None:
                rows.append({**found, "account": account})
        rejects += row.rejects
    usage = frame("core.usage", rows)
    return Parsed(
        primary="core.usage",
        tables={"core.usage": usage},
        rows_in=len(chunk.numbers),
        rejects=tuple(rejects),
        data_at=usage["period_end_at"].max(),  # type: ignore[arg-type]
    )


def _usage(row: Row, zone: ZoneInfo | None) -> dict[str, Any] | None:
    data = row.data
    row.key = name_of(row, "response_id", data.get("response_id"))
    model = name_of(row, "model", data.get("model"))
    start_at = instant(row, "request_created_at", data.get("request_created_at"), zone)
    for name, found in (("response_id", row.key), ("model", model), ("request_created_at", start_at)):
        if found is None:
            row.refuse(name, data.get(name), "is missing or unusable, so the request cannot be told", whole_row=True)
            return None
    assert start_at is not None
    end_at, duration_s = _window(row, start_at, zone)
    return {
        "provider": PROVIDER,
        "usage_key": row.key,
        "grain": "request",
        "workload": "organic",
        "period_start_at": start_at,
        "period_end_at": end_at,
        "requested_offer": model,
        "served_offer": model,
        "prompt_tokens": whole(row, "prompt_tokens", data.get("prompt_tokens")),
        "completion_tokens": whole(row, "completion_tokens", data.get("completion_tokens")),
        "requests": 1,
        "attempts": 1,
        "successes": _success(row),
        "requests_with_energy": 0,
        "list_cost_usd": usd(row, "cost", data.get("cost")),
        "duration_s": duration_s,
        "evidence_class": EvidenceClass.MODELED.value,
        "method": METHOD,
    }


def _window(row: Row, start_at: datetime, zone: ZoneInfo | None) -> tuple[datetime, float | None]:
    end_at = instant(row, "response_created_at", row.data.get("response_created_at"), zone)
    if end_at is not None and end_at < start_at:
        row.refuse("response_created_at", row.data.get("response_created_at"), "lies before request_created_at")
        end_at = None
    ms = number(row, "latency", row.data.get("latency"), high=LONGEST_MS)
    duration_s = as_float(None if ms is None else ms / 1000)
    if duration_s is None and end_at is not None:
        duration_s = (end_at - start_at).total_seconds()
    return end_at or start_at + timedelta(seconds=duration_s or 0.0), duration_s


def _success(row: Row) -> int | None:
    value = row.data.get("response_status")
    if not told(value):
        return None
    text = str(value).strip()
    if not text.lstrip("-").isascii() or not text.lstrip("-").isdigit() or len(text) > 5:
        row.refuse("response_status", value, "is no status code")
        return None
    status = int(text)
    return None if status == PENDING else int(200 <= status < 300)
