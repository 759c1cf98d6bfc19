"""A small data set of our own making: queries, arms, outcomes and benchmark observations, loaded as importers do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from warehouse import loads
from warehouse.engine import Warehouse
from warehouse.ids import canonical_json, sha256
from warehouse.snapshots import Snapshot, snapshot
from warehouse.tables import frame

NOW = datetime(2026, 11, 29, 12)


def put(warehouse: Warehouse, table: str, rows: list[dict[str, Any]], at: datetime = NOW, source: str = "file") -> None:
    with warehouse.transaction() as tx:
        loads.load(tx, table, frame(table, rows), source_id=source, run_id="r", known_from=at)


def query(query_id: str, benchmark: str = "sums", text: str | None = None, **more: Any) -> dict[str, Any]:
    told = {"text": text, "text_sha256": None if text is None else sha256(text.encode())}
    return {"dataset": "toy", "query_id": query_id, "benchmark": benchmark, **told, **more}


def arm(name: str, energy_model: str | None = None, **more: Any) -> dict[str, Any]:
    return {"dataset": "toy", "arm": name, "model": name, "energy_model": energy_model, **more}


def cell(query_id: str, arm: str, correct: float | None = 1.0, tokens: int | None = 100, **more: Any) -> dict[str, Any]:
    return {
        "dataset": "toy",
        "query_id": query_id,
        "arm": arm,
        "correct": correct,
        "output_tokens": tokens,
        **more,
    }


def measured(energy_j: float, cls: str = "measured", method: str = "counter") -> dict[str, Any]:
    return {"energy_j": energy_j, "energy_evidence_class": cls, "energy_method": method}


def point(
    model: str,
    batch: float,
    j_per_token: float,
    *,
    limit: int | None = None,
    gpu: str = "NVIDIA H100 80GB HBM3",
    gpus: int = 1,
    edition: str = "v2",
    task: str = "chat",
    repeat: int = 1,
    **attributes: float,
) -> dict[str, Any]:
    """One configuration as the ML.ENERGY kinds store it: 1,000 output tokens, time per token 1 ms x batch."""
    limit = limit or round(batch)
    return {
        "observation_id": f"{edition}/{model}/{gpu}/{gpus}/{task}/{limit}/{repeat}",
        "provider": "ml.energy",
        "hardware_model": gpu,
        "hardware_count": gpus,
        "logical_model": model,
        "deployable_model": model,
        "config_version": f"tp{gpus} pp1 max_num_seqs {limit}, {task}",
        "window_start_at": NOW,
        "window_end_at": NOW,
        "concurrency": batch,
        "evidence_class": "modeled",
        "method": f"published table (ML.ENERGY {edition}, GPUs only)",
        "quality": "FAIR",
        "energy_gross_j": j_per_token * 1000,
        "output_tokens": 1000,
        "workload": "benchmark",
        "attributes": canonical_json({"task": task, "repeat": repeat, **(attributes or {"avg_tpot_s": batch / 1000})}),
    }


SMALL, LARGE = "acme/Small-2b", "acme/Meta-Large-70B"


def fill(
    warehouse: Warehouse,
    cells: list[dict[str, Any]],
    *,
    queries: list[dict[str, Any]] | None = None,
    arms: list[dict[str, Any]] | None = None,
    points: list[dict[str, Any]] | None = None,
) -> None:
    told: Mapping[str, list[dict[str, Any]] | None] = {
        "core.outcome": cells,
        "core.query": queries,
        "core.arm": arms,
        "core.energy_observation": points,
    }
    for table, rows in told.items():
        if rows:
            put(warehouse, table, rows)


@contextmanager
def reading(warehouse: Warehouse, as_of: datetime = NOW) -> Iterator[Snapshot]:
    with snapshot(warehouse, as_of) as snap:
        yield snap


def joinable(warehouse: Warehouse, n: int = 4) -> None:
    """`n` queries by a small and a large arm, both benchmarked on H100 at batches 32 and 128."""
    ids = [f"q{i}" for i in range(n)]
    fill(
        warehouse,
        [cell(q, a, tokens=t) for q in ids for a, t in (("small", 100), ("large", 50))],
        queries=[query(q, text=f"text of {q}", prompt_tokens=10) for q in ids],
        arms=[arm("small", SMALL), arm("large", LARGE)],
        points=[
            point(SMALL, 32, 0.4, limit=32),
            point(SMALL, 128, 0.1, limit=128),
            point(LARGE, 32, 4.0, limit=32, gpus=4),
            point(LARGE, 126, 1.0, limit=128, gpus=4),
        ],
    )
