"""A warehouse written by hand, row by row, and one look at it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import count
from typing import Any

import polars as pl

from policies.alerts import AlertKind, Condition, Thresholds, evaluate
from warehouse.engine import Warehouse
from warehouse.ids import content_hash
from warehouse.snapshots import snapshot
from warehouse.tables import columns

NOW = datetime(2026, 11, 29, 12, 0)
DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
_numbers = count(1)


class World:
    """Adds rows; `conditions` looks at them as of NOW."""

    def __init__(self, warehouse: Warehouse) -> None:
        self.warehouse = warehouse

    def add(self, table: str, *rows: Mapping[str, Any]) -> None:
        schema = {c.name: c.polars for c in columns(table)}
        shared = {
            "source_id": "acme",
            "run_id": "r1",
            "known_from": NOW - HOUR,
            "content_sha256": "x",
            "row_sha256": "x",
        }
        data = [{n: ({**shared, **row}).get(n) for n in schema} for row in rows]
        with self.warehouse.transaction() as tx:
            tx.append(table, pl.DataFrame(data, schema=schema, orient="row"))

    def conditions(
        self, kind: AlertKind | None = None, *, at: datetime = NOW, routed: tuple[str, ...] = (), **limits: Any
    ) -> list[Condition]:
        with snapshot(self.warehouse, at) as snap:
            found = evaluate(snap, Thresholds(**limits), routed)
        return [c for c in found if kind is None or c.kind is kind]

    def one(self, kind: AlertKind, **options: Any) -> Condition:
        found = self.conditions(kind, **options)
        assert len(found) == 1, [c.title for c in found]
        return found[0]

    # rows ----------------------------------------------------------------------------------------

    def price(self, usd: str | None, at: datetime, *, kind: str = "fixed", offer: str = "m", **changes: Any) -> None:
        """A price per million prompt tokens, learned when it began."""
        self.add(
            "core.price",
            {
                "provider": "acme",
                "offer_id": offer,
                "component": "prompt",
                "min_prompt_tokens": 0,
                "valid_from": at,
                "known_from": at,
                "price_usd_per_unit": Decimal(usd) / 1_000_000 if usd is not None else None,
                "unit": "token",
                "price_kind": kind,
                "origin": "live",
                **changes,
            },
        )

    def offer(
        self, lifecycle: str = "active", *, at: datetime = NOW - 9 * DAY, offer: str = "m", **changes: Any
    ) -> None:
        self.add(
            "core.offer",
            {
                "provider": "acme",
                "offer_id": offer,
                "valid_from": at,
                "known_from": at,
                "base_model": offer,
                "latency_class": "interactive",
                "reasoning_mode": "standard",
                "context_variant": "full",
                "access_level": "open",
                "lifecycle": lifecycle,
                **changes,
            },
        )

    def usage(self, offer: str = "m", *, at: datetime = NOW - HOUR, **changes: Any) -> None:
        self.add(
            "core.usage",
            {
                "provider": "acme",
                "account": "main",
                "usage_key": f"u{next(_numbers)}",
                "grain": "request",
                "workload": "organic",
                "period_start_at": at - timedelta(seconds=2),
                "period_end_at": at,
                "requested_offer": offer,
                "prompt_tokens": 900,
                "completion_tokens": 100,
                "requests": 1,
                "attempts": 1,
                "requests_with_energy": 1,
                "evidence_class": "allocated",
                "method": "told",
                "known_from": at,
                **changes,
            },
        )

    def source(self, source_id: str = "acme", *, transport: str = "http", **changes: Any) -> None:
        self.add(
            "ops.source",
            {
                "source_id": source_id,
                "kind": "openrouter",
                "title": "Acme",
                "transport": transport,
                "stale_after_s": 7200.0,
                "expire_after_s": 86_400.0,
                "enabled": True,
                "is_sample": False,
                "updated_at": NOW - 9 * DAY,
                **changes,
            },
        )

    def run(self, run_id: str, at: datetime, *, state: str = "OK", source_id: str = "acme", **changes: Any) -> None:
        self.add(
            "ops.run",
            {
                "run_id": run_id,
                "source_id": source_id,
                "kind": "openrouter",
                "trigger": "schedule",
                "attempt": 1,
                "started_at": at,
                "finished_at": at + timedelta(seconds=1),
                "state": state,
                "not_modified": False,
                "host": "h",
                "pid": 1,
                "code_version": "0",
                **changes,
            },
        )

    def refused(self, payload_id: str, n: int, *, source_id: str = "acme", first_row: int = 0) -> None:
        self.add(
            "ops.quarantine",
            *(
                {
                    "quarantine_id": content_hash([payload_id, i]),
                    "run_id": payload_id,
                    "source_id": source_id,
                    "kind": "openrouter",
                    "payload_id": payload_id,
                    "row_no": first_row + i,
                    "reason": "it is negative",
                    "quarantined_at": NOW,
                }
                for i in range(n)
            ),
        )

    def tariff(
        self, usd_per_kwh: str, valid_from: datetime, *, known_from: datetime | None = None, **more: Any
    ) -> None:
        self.add(
            "core.tariff",
            {
                "provider": "acme",
                "account": "main",
                "valid_from": valid_from,
                "known_from": known_from or valid_from,
                "usd_per_kwh": Decimal(usd_per_kwh),
                "basis": "reconstructed",
                "evidence_class": "calibrated",
                **more,
            },
        )

    def readings(
        self, n: int, *, every_s: float = 30.0, end: datetime = NOW, uuid: str = "GPU-1", **fixed: Any
    ) -> None:
        """`n` readings up to `end`: power and counter move unless `fixed` says otherwise."""
        rows = []
        for i in range(n):
            at = end - timedelta(seconds=every_s * (n - 1 - i))
            moving = {"power_w": 300.0 + i, "energy_counter_j": 1000.0 + 300 * every_s * i, "sensor_at": at}
            rows.append({"device_uuid": uuid, "sampled_at": at, "method": "instant", "epoch": 0, **moving, **fixed})
        self.add("core.power_sample", *rows)

    def device(self, state: str = "ok", *, uuid: str = "GPU-1", **changes: Any) -> None:
        self.add(
            "core.device",
            {"device_uuid": uuid, "host": "n1", "name": "H100", "state": state, "updated_at": NOW - HOUR, **changes},
        )

    def observation(self, *, gap: str | None = None, at: datetime = NOW - HOUR, **changes: Any) -> None:
        self.add(
            "core.energy_observation",
            {
                "observation_id": f"o{next(_numbers)}",
                "provider": "local",
                "device_uuid": "GPU-1",
                "window_start_at": at - timedelta(seconds=10),
                "window_end_at": at,
                "known_from": at,
                "evidence_class": "measured",
                "method": "counter",
                "quality": "HIGH",
                "gap_reason": gap,
                "workload": "device",
                **changes,
            },
        )
