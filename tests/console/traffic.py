"""Organic traffic for read models: rows of core.usage that differ from one plain request."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from warehouse import loads
from warehouse.engine import Warehouse
from warehouse.tables import frame

NOW = datetime(2026, 11, 29, 12, 0, 0)
MODELED = {"evidence_class": "modeled", "carbon_evidence_class": "modeled"}


def usage(warehouse: Warehouse, rows: Iterable[dict[str, Any]]) -> None:
    """Billed organic requests; each row tells what differs from a request of 100 J that succeeded."""
    full = []
    for i, row in enumerate(rows):
        end = row.pop("at", NOW - timedelta(hours=1))
        full.append(
            {
                "provider": "p", "account": "a", "usage_key": f"k{i}", "grain": "request", "workload": "organic",
                "period_start_at": end - timedelta(seconds=1), "period_end_at": end, "requested_offer": "m",
                "requests": 1, "attempts": 1, "successes": 1, "requests_with_energy": 1, "energy_j": 100.0,
                "billed_cost_usd": Decimal("0.001"), "carbon_g": 0.01, "duration_s": 1.0,
                "carbon_evidence_class": "calibrated", "evidence_class": "allocated", "method": "test", **row,
            }
        )  # fmt: skip
    with warehouse.transaction() as tx:
        loads.load(tx, "core.usage", frame("core.usage", full), source_id="t", run_id="r", known_from=NOW)
