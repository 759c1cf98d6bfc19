"""The kinds of catalog payloads."""

from __future__ import annotations

from ingest.catalog import litellm_prices, models_dev, neuralwatt, openai_models, openrouter, pages
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
        fetch=pages.fetch,
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
    Kind(
        name="openai-models",
        title="OpenAI-compatible endpoint",
        parse=openai_models.parse,
        docs="GET /v1/models of vLLM, SGLang, OpenAI and others: what is served and its context; no prices",
        transports=("http", "file"),
        max_bytes=4 * MIB,
        cadence_s=HOUR_S,
        stale_after_s=3 * HOUR_S,
        expire_after_s=7 * DAY_S,
        options=(openai_models.PROVIDER_OPTION,),
    ),
    Kind(
        name="litellm-prices",
        title="LiteLLM price map",
        parse=litellm_prices.parse,
        docs="model_prices_and_context_window.json: list prices, USD per token as numbers",
        transports=("http", "file"),
        max_bytes=32 * MIB,
        provider=litellm_prices.PROVIDER,
        cadence_s=DAY_S,
        stale_after_s=3 * DAY_S,
        expire_after_s=30 * DAY_S,
        options=(litellm_prices.MODES,),
    ),
    Kind(
        name="models-dev",
        title="models.dev catalog",
        parse=models_dev.parse,
        docs="api.json: what providers charge, as models.dev tells it, USD per million tokens",
        transports=("http", "file"),
        max_bytes=32 * MIB,
        provider=models_dev.PROVIDER,
        default_url="https://models.dev/api.json",
        cadence_s=DAY_S,
        stale_after_s=3 * DAY_S,
        expire_after_s=30 * DAY_S,
    ),
)
