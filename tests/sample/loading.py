"""Sample payloads, through the parsers of their kinds, into an in-memory database with the real schema."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from importlib import resources
from typing import Any

import polars as pl

from ingest.base import Parsed, Payload
from ingest.billing import neuralwatt_completions
from ingest.catalog import neuralwatt
from ingest.grid import static_factors
from ingest.outcomes import long
from ingest.sample import published
from ingest.shadow import labels
from ingest.traces import lengths, requesttrace
from tests.policies.world import World
from warehouse.ids import content_hash

PARSERS: dict[str, Callable[[Payload], Parsed]] = {
    "neuralwatt-models": neuralwatt.parse,
    "neuralwatt-completions": neuralwatt_completions.parse,
    "grid-factors": static_factors.parse,
    "published-points": published.parse,
    "outcomes": long.parse,
    "request-trace": requesttrace.parse,
    "length-cdf": lengths.parse,
    "request-labels": labels.parse,
}


def parsed(payload: Payload) -> Parsed:
    return PARSERS[payload.kind](payload)


def load(world: World, payloads: list[Payload], known_from: datetime) -> None:
    """Every frame as it is, with the columns that the loader adds."""
    for name in ("v0005_replay.sql", "v0006_fleet.sql", "v0008_published.sql", "v0009_requests.sql"):
        world.db.execute((resources.files("warehouse.migrations") / name).read_text(encoding="utf-8"))
    for payload in payloads:
        for table, frame in parsed(payload).tables.items():
            whole = frame.with_columns(
                source_id=pl.lit(payload.source_id), run_id=pl.lit("r1"), known_from=pl.lit(known_from)
            )
            hashes = pl.Series([content_hash([str(v) for v in row]) for row in frame.iter_rows()], dtype=pl.String)
            stored = {name for (name,) in world.db.execute(f"SELECT name FROM pragma_table_info('{table}')").fetchall()}
            for name in ("content_sha256", "row_sha256"):
                if name in stored:
                    whole = whole.with_columns(hashes.alias(name))
            world.db.register("incoming", whole.to_arrow())
            world.db.execute(f"INSERT INTO {table} BY NAME SELECT * FROM incoming")
            world.db.unregister("incoming")


def documents(payloads: list[Payload]) -> list[dict[str, Any]]:
    """The completions as JSON, numbers exact."""
    (found,) = [p for p in payloads if p.kind == "neuralwatt-completions"]
    return [json.loads(line, parse_float=Decimal) for line in found.body.decode().splitlines()]


def catalog(payloads: list[Payload]) -> list[dict[str, Any]]:
    (found,) = [p for p in payloads if p.kind == "neuralwatt-models"]
    rows: list[dict[str, Any]] = json.loads(found.body, parse_float=Decimal)["data"]
    return rows
