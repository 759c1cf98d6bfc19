"""Fleets and requests made for these tests; small, with published profiles."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from policies.fleet.experiments import Resolved, read, resolve
from warehouse import loads
from warehouse.engine import Warehouse
from warehouse.snapshots import snapshot
from warehouse.tables import frame

KNOWN = datetime(2026, 11, 1, 12)
NOW = datetime(2026, 11, 2)
LENGTHS = [[256, 0.1], [512, 0.3], [1024, 0.55], [2048, 0.8], [4096, 0.95], [8000, 1.0]]
H100 = {"name": "h100", "profile": "H100-80GB", "instances": 2}
A100 = {"name": "a100", "profile": "A100-80GB", "instances": 2}


def scenario(**changes: Any) -> dict[str, Any]:
    """Two pools of one model under a light load; `changes` lay over it, tables of a table too."""
    told: dict[str, Any] = {
        "pools": [H100, A100],
        "workload": {"lengths": LENGTHS, "requests_per_s": 10.0, "requests": 1000},
        "slo": {"ttft_s": 0.5},
        "seeds": [0, 1, 2],
    }
    for name, value in changes.items():
        both = isinstance(value, Mapping) and isinstance(told.get(name), Mapping)
        told[name] = {**told[name], **value} if both else value
    return told


def resolved(warehouse: Warehouse, as_of: datetime = NOW, **changes: Any) -> Resolved:
    with snapshot(warehouse, as_of) as snap:
        return resolve(snap, read(scenario(**changes)))


def store(warehouse: Warehouse, table: str, rows: list[dict[str, Any]], known_from: datetime = KNOWN) -> None:
    with warehouse.transaction() as tx:
        loads.load(tx, table, frame(table, rows), source_id="file:x", run_id="r", known_from=known_from)


def trace(warehouse: Warehouse, requests: list[tuple[float, int, int, str | None]], name: str = "t") -> None:
    """(arrival s, prompt, output, category) of each request."""
    store(
        warehouse,
        "core.request_trace",
        [
            {"trace": name, "request_no": i, "arrival_s": at, "prompt_tokens": p, "output_tokens": o, "category": c}
            for i, (at, p, o, c) in enumerate(requests)
        ],
    )


def value(case: Mapping[str, Any], metric: str) -> float:
    found = case["figures"][metric]["value"]
    assert found is not None, metric
    return float(found)
