"""What telemetry says about a backend itself: its runtime, its cache, its models -> core.backend."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import httpx

from ingest.fields import LARGEST_INT, plain_json
from ingest.redact import redact_url
from ingest.serving.names import RUNTIMES, Runtime
from ingest.serving.readings import Instant
from warehouse.ids import content_hash


def backend_id(url: str, declared: str | None) -> str | None:
    """The declared id, else host and port of an http address; None for a file that nobody named a backend of."""
    if declared and declared.strip():
        return declared.strip()
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, TypeError, ValueError):
        return None
    if parsed.scheme not in ("http", "https") or not parsed.host:
        return None
    return f"{parsed.host}:{parsed.port}" if parsed.port else parsed.host


def endpoint(url: str) -> str | None:
    """`url` without its query, fit to be stored; None for a file."""
    try:
        parsed = httpx.URL(redact_url(url))
    except (httpx.InvalidURL, TypeError, ValueError):
        return None
    return str(parsed.copy_with(query=None)) if parsed.scheme in ("http", "https") else None


def backend_rows(instant: Instant, at: datetime, url: str | None) -> list[dict[str, Any]]:
    """One row of core.backend for each runtime of `instant`; a backend has one, so this is one row or none."""
    names = sorted({name for name, _ in instant.engines()})
    return [_row(instant, RUNTIMES[name], at, url) for name in names[:1]]


def _row(instant: Instant, runtime: Runtime, at: datetime, url: str | None) -> dict[str, Any]:
    keys = [engine for name, engine in instant.engines() if name == runtime.name]
    configs = instant.static.get(runtime.name, {})
    # What tells engines apart, and what follows from memory profiling at each start, is no configuration.
    variable = {
        runtime.engine_label,
        *runtime.model_labels,
        *runtime.ranks,
        runtime.cache_info and runtime.cache_info[2],
    }
    config = {engine: {k: v for k, v in labels.items() if k not in variable} for engine, labels in configs.items()}
    distinct = {plain_json(dict(sorted(c.items()))) for c in config.values()}
    return {
        "backend_id": instant.backend_id,
        "valid_from": at,
        "endpoint": url,
        "runtime": runtime.name,
        "config_version": content_hash(sorted(distinct))[:12] if distinct else None,
        "max_concurrency": _static(instant, runtime, "max_requests"),
        "kv_capacity_tokens": _capacity(instant, runtime, configs),
        "attributes": plain_json(
            {
                "engines": sorted({engine for engine, _ in keys}),
                "models": sorted({model for _, model in keys}),
                **({"cache_config": config} if config else {}),
            }
        ),
    }


def _capacity(instant: Instant, runtime: Runtime, configs: Mapping[str, Mapping[str, str]]) -> int | None:
    """Tokens that the KV caches of all engines hold together; None unless every engine tells its own."""
    if runtime.cache_info is not None and configs:
        _, size, count = runtime.cache_info
        return _total(_product(labels.get(size), labels.get(count)) for labels in configs.values())
    return _product(*(_static(instant, runtime, name) for name in ("block_tokens", "blocks")))


def _total(values: Iterable[int | None]) -> int | None:
    found = list(values)
    known = [v for v in found if v is not None]
    return sum(known) if len(known) == len(found) else None


def _product(*factors: object) -> int | None:
    numbers = [
        int(str(f)) for f in factors if f is not None and str(f).isascii() and str(f).isdecimal() and len(str(f)) < 16
    ]
    if len(numbers) != 2 or not 0 < numbers[0] * numbers[1] <= LARGEST_INT:
        return None
    return numbers[0] * numbers[1]


def _static(instant: Instant, runtime: Runtime, column: str) -> int | None:
    """The whole number that all engines agree on; None where there is none."""
    found = {
        value.value
        for (name, _), cell in instant.cells.items()
        if name == runtime.name
        for slot, values in cell.items()
        if (slot.role, slot.column) == ("static", column)
        for value in values
    }
    if len(found) != 1:
        return None
    value = found.pop()
    return int(value) if value == value and 0 < value <= LARGEST_INT and value == int(value) else None
