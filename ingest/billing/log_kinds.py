"""The kinds of usage logs: what gateways and observability tools wrote about each request."""

from __future__ import annotations

from ingest.billing import helicone, langfuse, litellm_fetch, litellm_spendlogs, openrouter_usage
from ingest.kind import DAY_S, HOUR_S, MIB, Kind

KINDS = (
    Kind(
        name="litellm-spendlogs",
        title="LiteLLM spend logs",
        parse=litellm_spendlogs.parse,
        docs="LiteLLM_SpendLogs as JSON lines, API answer or CSV: tokens, success and LiteLLM's own cost estimate",
        transports=("file", "http"),
        max_bytes=512 * MIB,
        cadence_s=HOUR_S,
        stale_after_s=DAY_S,
        expire_after_s=60 * DAY_S,
        stream=litellm_spendlogs.stream,
        options=(litellm_spendlogs.ZERO_SPEND, litellm_fetch.WINDOW),
        fetch=litellm_fetch.fetch,
    ),
    Kind(
        name="openrouter-usage",
        title="OpenRouter usage",
        parse=openrouter_usage.parse,
        docs="completions (JSON, SSE), /api/v1/generation and /api/v1/activity: billed credits, tokens, cache",
        transports=("file", "http"),
        max_bytes=256 * MIB,
        provider=openrouter_usage.PROVIDER,
        default_url="https://openrouter.ai/api/v1/activity",
        cadence_s=DAY_S,
        stale_after_s=3 * DAY_S,
        expire_after_s=60 * DAY_S,
        options=(openrouter_usage.ACCOUNT,),
    ),
    Kind(
        name="langfuse",
        title="Langfuse export",
        parse=langfuse.parse,
        docs="observations_v2 as JSON lines, CSV or Parquet: tokens, cost estimate and latency of each generation",
        transports=("file",),
        max_bytes=512 * MIB,
        stale_after_s=7 * DAY_S,
        expire_after_s=60 * DAY_S,
        stream=langfuse.stream,
    ),
    Kind(
        name="helicone",
        title="Helicone export",
        parse=helicone.parse,
        docs="requests as CSV or JSON lines: tokens, cost estimate and latency of each request",
        transports=("file",),
        max_bytes=512 * MIB,
        stale_after_s=7 * DAY_S,
        expire_after_s=60 * DAY_S,
        stream=helicone.stream,
        options=(helicone.ACCOUNT, helicone.TIMEZONE),
    ),
)
