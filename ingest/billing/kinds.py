"""The kinds of bills and usage records."""

from __future__ import annotations

from ingest.billing import derive, neuralwatt_completions, neuralwatt_usage
from ingest.billing.invoice_kinds import KINDS as INVOICES
from ingest.billing.log_kinds import KINDS as LOGS
from ingest.kind import DAY_S, MIB, Kind

KINDS = (
    *INVOICES,
    *LOGS,
    Kind(
        name="neuralwatt-usage",
        title="Neuralwatt usage export",
        parse=neuralwatt_usage.parse,
        docs="usage analytics export of the portal (JSON): billed cost, energy and carbon per model and day",
        transports=("file", "http"),
        max_bytes=32 * MIB,
        provider=neuralwatt_usage.PROVIDER,
        derive=derive.tariffs_of_source,
        stale_after_s=7 * DAY_S,
        expire_after_s=60 * DAY_S,
    ),
    Kind(
        name="neuralwatt-completions",
        title="Neuralwatt completions",
        parse=neuralwatt_completions.parse,
        docs="responses with energy and cost blocks: JSON, JSON lines or SSE text",
        transports=("file",),
        max_bytes=256 * MIB,
        provider=neuralwatt_completions.PROVIDER,
        derive=derive.tariffs_of_requests,
        stale_after_s=7 * DAY_S,
        expire_after_s=60 * DAY_S,
    ),
)
