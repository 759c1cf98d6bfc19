"""Replays of published points: from the warehouse, or from the paper's tables that joulebook ships."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import polars as pl

from app.replay.store import SAMPLE_SOURCE, SOURCE, Block
from ingest.base import Payload
from ingest.sample import published as shipped
from policies.replay.errors import DatasetUnknown
from policies.replay.published import FIXED_ARMS, Point, points_of, published_points, published_report
from warehouse.clock import utcnow
from warehouse.ids import uuid7
from warehouse.snapshots import Snapshot

_METRICS = {
    "accuracy": ("accuracy", "share"),
    "energy_j_per_query": ("energy_j", "J/query"),
    "energy_j_per_correct": ("energy_j_per_correct", "J/correct answer"),
    "latency_mean_s": ("latency_s", "s"),
    "power_w_per_call": ("power_w_mean_of_calls", "W"),
    "energy_over_time_w": ("power_w_energy_over_time", "W"),
}


def published_names(snap: Snapshot) -> list[str]:
    """The published data sets, without their companions; the paper's is always there."""
    found = snap.sql("SELECT DISTINCT dataset FROM core.published_point WHERE known_from <= $as_of ORDER BY dataset")
    names = {name for name in found["dataset"].to_list() if not name.endswith(FIXED_ARMS)}
    return sorted(names | {shipped.DATASET})


def is_published(snap: Snapshot, dataset: str) -> bool:
    return dataset in published_names(snap)


def points_and_arms(snap: Snapshot, dataset: str) -> tuple[list[Point], list[Point]]:
    """The points of a data set and of its companion of fixed arms; those that joulebook ships where none is loaded."""
    points = published_points(snap, dataset)
    if not points and dataset == shipped.DATASET:
        return _shipped(shipped.published_document()), _shipped(shipped.fixed_arms_document())
    return points, published_points(snap, dataset + FIXED_ARMS)


def published(snap: Snapshot, dataset: str) -> dict[str, Any]:
    """The report of a published data set as of the snapshot. Raises DatasetUnknown."""
    points, arms = points_and_arms(snap, dataset)
    origin = "warehouse"
    if points and not published_points(snap, dataset):
        origin = "shipped with joulebook; load the sample data to see it in the warehouse"
    if not points:
        raise DatasetUnknown(
            f"No point is published under {dataset!r}.", fix=f"use one of {', '.join(published_names(snap))}"
        )
    return {**published_report(dataset, points, arms), "origin": origin}


def source_of(report: Mapping[str, Any]) -> str:
    """The source id under which a run over these points is stored."""
    return SAMPLE_SOURCE if all(p["source_id"].startswith("sample:") for p in report["points"]) else SOURCE


def published_block(
    report: Mapping[str, Any], *, started_at: datetime, finished_at: datetime, as_of: datetime, actor: str
) -> Block:
    """The report as a row of core.replay_run with its metrics. There are no choices behind published points."""
    reference = report["reference_point"]
    run = {
        "replay_run_id": uuid7(),
        "dataset": report["dataset"],
        "started_at": started_at,
        "finished_at": finished_at,
        "as_of": as_of,
        "dataset_sha256": report["dataset_sha256"],
        "evidence_class": report["evidence_class"],
        "seed": 0,
        "n_train": 0,
        "n_test": report["n"] or 0,
        "choices_sha256": "",
        "reference_accuracy": reference["accuracy"],
        "reference_energy_j": reference["energy_j"],
        "reference_version": reference["version"],
        "hypervolume": report["hypervolume"],
        "report": report,
        "actor": actor,
    }
    return Block(run, _metric_rows(report))


def _metric_rows(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    # The companion's arms stand in the front with them, beside all points.
    both = report["with_fixed_arms"] or report
    rows = [
        {
            "policy": p["policy"],
            "benchmark": "",
            "metric": metric,
            "unit": unit,
            "value": p[key],
            "evidence_class": None if metric == "accuracy" else p["evidence_class"],
            "n": p["n"],
        }
        for p in both["points"]
        for metric, (key, unit) in _METRICS.items()
    ]
    for s in report["by_benchmark"]:
        told = {"policy": s["policy"], "benchmark": s["benchmark"], "n": s["n"]}
        rows.append({**told, "metric": "accuracy", "unit": "share", "value": s["accuracy"]})
        cls = report["evidence_class"]
        rows.append(
            {**told, "metric": "energy_j_per_query", "unit": "J/query", "value": s["energy_j"], "evidence_class": cls}
        )
    return rows


def _shipped(document: dict[str, Any]) -> list[Point]:
    payload = Payload(
        "sample:published", "published-points", "sample://published", utcnow(), json.dumps(document).encode()
    )
    parsed = shipped.parse(payload)
    source = pl.lit(payload.source_id).alias("source_id")
    tables = [parsed.tables[name] for name in ("core.published_point", "core.published_slice")]
    return points_of(tables[0].with_columns(source), tables[1])
