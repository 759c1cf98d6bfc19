"""A small world in an in-memory database with the real schema, and the snapshot that policies read."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from policies.router import Ranking
from warehouse.ids import content_hash

NOW = datetime(2026, 8, 11, 12)
_SCHEMA = Path(__file__).resolve().parents[2] / "warehouse" / "migrations" / "v0001_base.sql"


class World:
    """Rows go in by table name; `snapshot()` reads them back the way the warehouse does."""

    def __init__(self) -> None:
        self.db = duckdb.connect(":memory:", config={"threads": "2"})
        self.db.execute(_SCHEMA.read_text(encoding="utf-8"))

    def close(self) -> None:
        self.db.close()

    def insert(self, table: str, rows: Iterable[Mapping[str, Any]]) -> None:
        for row in rows:
            marks = ", ".join("?" for _ in row)
            self.db.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", list(row.values()))

    def shuffle(self, table: str, seed: int) -> None:
        """The same rows, stored in another order."""
        rows = self.db.execute(f"SELECT * FROM {table}").fetchall()
        random.Random(seed).shuffle(rows)
        self.db.execute(f"TRUNCATE {table}")
        if rows:
            self.db.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' for _ in rows[0])})", rows)

    def snapshot(self, as_of: datetime = NOW) -> WorldSnapshot:
        return WorldSnapshot(self.db, as_of)


class WorldSnapshot:
    def __init__(self, db: duckdb.DuckDBPyConnection, as_of: datetime) -> None:
        self.db, self.as_of, self.known_at = db, as_of, as_of
        self.queries = 0

    def sql(self, text: str, **params: Any) -> pl.DataFrame:
        self.queries += 1
        bound = {k: v for k, v in {"as_of": self.as_of, **params}.items() if f"${k}" in text}
        return self.db.execute(text, bound).pl()


def offer(offer_id: str, base_model: str | None = None, **changes: Any) -> dict[str, Any]:
    row = {
        "provider": "acme",
        "offer_id": offer_id,
        "valid_from": NOW - timedelta(days=90),
        "known_from": NOW - timedelta(days=90),
        "base_model": base_model or offer_id,
        "latency_class": "interactive",
        "reasoning_mode": "standard",
        "context_variant": "full",
        "access_level": "open",
        "lifecycle": "active",
        "context_tokens": 262_144,
        "tier": 1,
        "source_id": "acme:catalog",
        "run_id": "r1",
        **changes,
    }
    return {"content_sha256": content_hash(row), **row}


def price(offer_id: str, component: str, usd_per_million: str | None, **changes: Any) -> dict[str, Any]:
    row = {
        "provider": "acme",
        "offer_id": offer_id,
        "component": component,
        "min_prompt_tokens": 0,
        "valid_from": NOW - timedelta(days=90),
        "known_from": NOW - timedelta(days=90),
        "price_usd_per_unit": None if usd_per_million is None else Decimal(usd_per_million) / 1_000_000,
        "unit": "token",
        "price_kind": "dynamic" if usd_per_million is None else "fixed",
        "origin": "live",
        "source_id": "acme:catalog",
        "run_id": "r1",
        **changes,
    }
    return {"content_sha256": content_hash(row), **row}


def run(
    offer_id: str, key: str, usd: str | None, energy_j: float | None, carbon_g: float | None, **changes: Any
) -> dict[str, Any]:
    end = NOW - timedelta(days=1)
    row = {
        "provider": "acme",
        "account": "main",
        "usage_key": f"{offer_id}/{key}",
        "grain": "request",
        "workload": "seed_reference",
        "period_start_at": end - timedelta(seconds=2),
        "period_end_at": end,
        "requested_offer": offer_id,
        "served_offer": offer_id,
        "requests": 1,
        "attempts": 1,
        "successes": 1,
        "billed_cost_usd": None if usd is None else Decimal(usd),
        "energy_j": energy_j,
        "carbon_g": carbon_g,
        "carbon_evidence_class": None if carbon_g is None else "calibrated",
        "evidence_class": "allocated",
        "method": "prorated",
        "source_id": "acme:completions",
        "run_id": "r1",
        "known_from": NOW - timedelta(days=1),
        **changes,
    }
    return {"row_sha256": content_hash(row), **row}


def score(model: str, category: str, component: str, value: float, n: int | None = None) -> dict[str, Any]:
    row = {
        "model": model,
        "category": category,
        "component": component,
        "valid_from": NOW - timedelta(days=9),
        "known_from": NOW - timedelta(days=9),
        "score": value,
        "n": n,
        "source_id": "acme:scores",
        "run_id": "r1",
    }
    return {"content_sha256": content_hash(row), **row}


def model(
    world: World, offer_id: str, *, usd: str | None, energy_j: float | None, carbon_g: float | None, **changes: Any
) -> None:
    """An offer with list prices and two equal reference runs."""
    world.insert("core.offer", [offer(offer_id, **changes)])
    world.insert("core.price", [price(offer_id, "prompt", "1"), price(offer_id, "completion", "2")])
    world.insert("core.usage", [run(offer_id, str(i), usd, energy_j, carbon_g) for i in range(2)])


def reasons(ranking: Ranking, offer_id: str) -> dict[str, str]:
    excluded = next(e for e in ranking.excluded if e.offer_id == offer_id)
    return {r.code: r.text for r in excluded.reasons}


def order(ranking: Ranking) -> list[str]:
    return [s.offer_id for s in ranking.eligible]
