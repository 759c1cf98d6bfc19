"""Experiments and calibrations in the warehouse: each written in one transaction, read back as it was reported."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import polars as pl

from app.errors import NotFound
from app.operations import Actor
from policies.fleet.experiments import metric_rows
from policies.fleet.power import Calibration, row
from warehouse import ledger
from warehouse.engine import Transaction, Warehouse
from warehouse.ids import canonical_json, uuid7
from warehouse.tables import columns, frame

SOURCE = "fleet"
SAMPLE_SOURCE = "sample:fleet"  # so that what was worked out from sample data goes with it
_SHORTEST_ID = 8


def write(
    warehouse: Warehouse,
    report: Mapping[str, Any],
    *,
    actor: Actor,
    started_at: datetime,
    finished_at: datetime,
    as_of: datetime,
) -> str:
    """Store a report whole, or not at all; its id."""
    run_id = uuid7()
    stamp = {"source_id": source_of(warehouse, report), "run_id": run_id, "known_from": finished_at}
    run = {
        "fleet_run_id": run_id,
        "experiment": report["experiment"],
        "started_at": started_at,
        "finished_at": finished_at,
        "as_of": as_of,
        "title": report["title"],
        "scenario": canonical_json(report["scenario"]),
        "scenario_sha256": report["scenario_sha256"],
        "seeds": canonical_json(report["seeds"]),
        "evidence_class": report["evidence_class"],
        "quality": report["quality"],
        "report": json.dumps(report, ensure_ascii=False, allow_nan=False),
        "actor": actor.name,
    }
    with warehouse.transaction() as tx:
        _append(tx, "core.fleet_run", [run], stamp)
        _append(tx, "core.fleet_metric", [{"fleet_run_id": run_id, **m} for m in metric_rows(report)], stamp)
        body = {k: report[k] for k in ("experiment", "title", "scenario_sha256", "report_sha256")}
        _event(tx, "fleet.stored", run_id, body, actor)
    ledger.anchor(warehouse)
    return run_id


def source_of(warehouse: Warehouse, report: Mapping[str, Any]) -> str:
    """The sample's source where the requests are the sample's."""
    told = report["scenario"]["workload"]
    for name, table, column in (("trace", "core.request_trace", "trace"), ("cdf", "core.length_cdf", "cdf")):
        if name in told and warehouse.scalar(
            f"SELECT bool_and(source_id LIKE 'sample:%') FROM {table} WHERE {column} = $name", {"name": told[name]}
        ):
            return SAMPLE_SOURCE
    return SOURCE


def write_calibrations(
    warehouse: Warehouse, fitted: Sequence[Calibration], *, actor: Actor, now: datetime
) -> list[str]:
    """Ids of those that are new; a fit of the same windows to the same parameters is kept once."""
    run_id = uuid7()
    with warehouse.transaction() as tx:
        known = set(tx.query("SELECT calibration_id FROM core.calibration")["calibration_id"])
        new = list({c.calibration_id: c for c in fitted if c.calibration_id not in known}.values())
        for calibration in new:
            stamp = {"source_id": _of_windows(tx, calibration), "run_id": run_id, "known_from": now}
            _append(tx, "core.calibration", [row(calibration, actor=actor.name)], stamp)
        if new:
            body = {"calibrations": [c.calibration_id for c in new]}
            _event(tx, "fleet.calibrated", run_id, body, actor)
    if new:
        ledger.anchor(warehouse)
    return [c.calibration_id for c in new]


def _of_windows(tx: Transaction, calibration: Calibration) -> str:
    rows = tx.query(
        "SELECT count(*) AS n, count(*) FILTER (WHERE source_id LIKE 'sample:%') AS sample "
        "FROM core.energy_observation WHERE list_contains(CAST($ids AS VARCHAR[]), observation_id)",
        {"ids": list(calibration.observations)},
    ).row(0)
    return SAMPLE_SOURCE if rows[0] and rows[0] == rows[1] else SOURCE


def _append(tx: Transaction, table: str, rows: Sequence[Mapping[str, Any]], stamp: Mapping[str, Any]) -> None:
    """Ids are new, so nothing has to be looked for: a plain append."""
    types = {c.name: c.polars for c in columns(table)}
    tx.append(table, frame(table, rows).with_columns(*(pl.lit(v, dtype=types[k]).alias(k) for k, v in stamp.items())))


def _event(tx: Transaction, kind: str, subject: str, body: Mapping[str, Any], actor: Actor) -> None:
    ledger.append(
        tx, kind=kind, subject=subject, body=dict(body), actor=actor.name, role=actor.role, channel=actor.channel
    )


# reading ----------------------------------------------------------------------------------------

_RUNS = """
SELECT fleet_run_id AS id, experiment, title, started_at, finished_at, as_of, scenario_sha256, seeds, evidence_class,
       quality, actor, source_id LIKE 'sample:%' AS is_sample
FROM core.fleet_run
WHERE ($experiment IS NULL OR experiment = $experiment)
ORDER BY finished_at DESC, fleet_run_id DESC LIMIT $limit
"""


def runs(warehouse: Warehouse, experiment: str | None = None, limit: int = 50) -> list[dict[str, Any]]:
    """The newest runs, without their reports."""
    rows = warehouse.query(_RUNS, {"experiment": experiment, "limit": limit}).to_dicts()
    return [{**r, "seeds": json.loads(r["seeds"])} for r in rows]


def find(warehouse: Warehouse, id_: str | None, experiment: str | None = None) -> str | None:
    """The run with this id, or its first eight characters or more; the newest of `experiment` without an id.

    None: there is none. Raises NotFound for an id that is unknown or fits several runs.
    """
    if id_ is None:
        found = runs(warehouse, experiment, 1)
        return str(found[0]["id"]) if found else None
    hits = warehouse.query(
        "SELECT fleet_run_id FROM core.fleet_run WHERE starts_with(replace(fleet_run_id, '-', ''), $id) "
        "ORDER BY fleet_run_id",
        {"id": id_.replace("-", "")},
    )["fleet_run_id"].to_list()
    if len(hits) != 1 or len(id_) < _SHORTEST_ID:
        what = "There is no fleet run" if not hits else "More than one fleet run begins with"
        raise NotFound(f"{what} {id_!r}.", fix="see the ids with `joulebook fleet runs`")
    return str(hits[0])


def report(warehouse: Warehouse, run_id: str) -> dict[str, Any]:
    """The report of a run as it was stored, with what identifies the run."""
    told = warehouse.query(
        "SELECT fleet_run_id AS id, started_at, finished_at, as_of, actor, source_id LIKE 'sample:%' AS is_sample, "
        "report FROM core.fleet_run WHERE fleet_run_id = $id",
        {"id": run_id},
    ).to_dicts()[0]
    return {**json.loads(told.pop("report")), **told}
