"""The kinds of catalog payloads."""

from __future__ import annotations

from ingest.catalog import neuralwatt, openrouter
from ingest.kind import DAY_S, HOUR_S, MIB, Kind

KINDS = (
    Kind(
        name="openrouter",
        title="OpenRouter catalog",
        parse=openrouter.parse,
        docs="GET /api/v1/models: offers and list prices, USD per token as text",
        transports=("http", "file"),
        max_bytes=16 * MIB,
        provider=openrouter.PROVIDER,
        default_url="https://openrouter.ai/api/v1/models",
        cadence_s=HOUR_S,
        stale_after_s=3 * HOUR_S,
        expire_after_s=7 * DAY_S,
    ),
    Kind(
        name="neuralwatt-models",
        title="Neuralwatt catalog",
        parse=neuralwatt.parse,
        docs="GET /v1/models: offers, serving classes and list prices, USD per million tokens",
        transports=("http", "file"),
        max_bytes=4 * MIB,
        provider=neuralwatt.PROVIDER,
        default_url="https://api.neuralwatt.com/v1/models",
        cadence_s=HOUR_S,
        stale_after_s=3 * HOUR_S,
        expire_after_s=7 * DAY_S,
    ),
)
