"""Replay runs in the warehouse: written in one transaction, read back as they were reported.

A run evaluates its policies under one or more conditions; each condition is a block, a row of core.replay_run with
its metrics. The blocks of a run share `run_id`. Choices are the same under every condition, so they are kept once,
under the first block.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import polars as pl

from app.errors import NotFound
from app.operations import Actor
from policies.replay.policy import HAND_BACK, Choices
from policies.replay.table import Strings
from warehouse import ledger
from warehouse.engine import Transaction, Warehouse
from warehouse.ids import canonical_json
from warehouse.staging import Staging
from warehouse.tables import columns, frame, frame_schema

SOURCE = "replay"
SAMPLE_SOURCE = "sample:replay"  # so that what was replayed from sample data goes with it
BATCH_ROWS = 250_000
_SHORTEST_ID = 8


@dataclass(frozen=True)
class Block:
    """One condition of a run: the columns of core.replay_run (`report` as plain data) and its metric rows."""

    run: Mapping[str, Any]
    metrics: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Version:
    """A policy as core.policy_version keeps it."""

    policy_id: str
    name: str
    parameters: Mapping[str, Any]
    code_sha256: str


def write(
    warehouse: Warehouse,
    run_id: str,
    blocks: Sequence[Block],
    choices: Iterable[pl.DataFrame],
    versions: Sequence[Version],
    *,
    actor: Actor,
    source_id: str,
    known_from: datetime,
    staging: Staging | None = None,
) -> None:
    """Store a run whole, or not at all.

    `choices` are frames of core.replay_choice, drawn while storing; those of a large run wait in `staging`, whose
    tables are gone afterwards in any case.
    """
    stamp = {"source_id": source_id, "run_id": run_id, "known_from": known_from}
    with warehouse.transaction() as tx:
        _versions(tx, versions, known_from)
        for block in blocks:
            row = {**block.run, "report": json.dumps(block.run["report"], ensure_ascii=False, allow_nan=False)}
            _append(tx, "core.replay_run", frame("core.replay_run", [row]), stamp)
            metrics = [{"replay_run_id": block.run["replay_run_id"], **m} for m in block.metrics]
            _append(tx, "core.replay_metric", frame("core.replay_metric", metrics), stamp)
        for part in choices:
            _append(tx, "core.replay_choice", part, stamp)
        if staging is not None:
            _move(tx, staging, stamp)
        first = blocks[0].run
        body = {k: first[k] for k in ("dataset", "dataset_sha256", "choices_sha256", "hypervolume")}
        ledger.append(
            tx,
            kind="replay.stored",
            subject=run_id,
            body={**body, "conditions": len(blocks)},
            actor=actor.name,
            role=actor.role,
            channel=actor.channel,
        )
    ledger.anchor(warehouse)


def choice_frames(
    replay_run_id: str, policy: str, choices: Choices, ids: Strings, arms: Sequence[str], *, rows: int = BATCH_ROWS
) -> Iterator[pl.DataFrame]:
    """Choices of one policy as frames of core.replay_choice, at most `rows` long."""
    names = pl.Series("arm", [*arms, None], dtype=pl.String)
    for start in range(0, len(ids), rows):
        stop = min(start + rows, len(ids))
        arm, mixed = _decoded(choices, slice(start, stop), names)
        yield pl.DataFrame(
            {
                "replay_run_id": pl.repeat(replay_run_id, stop - start, dtype=pl.String, eager=True),
                "policy": pl.repeat(policy, stop - start, dtype=pl.String, eager=True),
                "query_id": pl.Series(ids[start:stop].tolist(), dtype=pl.String),
                "arm": arm,
                "probability_json": mixed,
            }
        )


def _decoded(choices: Choices, part: slice, names: pl.Series) -> tuple[pl.Series, pl.Series]:
    """(arm, probability_json) of a stretch of queries."""
    if choices.arms is not None:
        index = np.where(choices.arms[part] == HAND_BACK, len(names) - 1, choices.arms[part]).astype(np.int64)
        return names.gather(pl.Series(index)), pl.repeat(None, len(index), dtype=pl.String, eager=True)
    assert choices.probability is not None
    distinct, which = np.unique(choices.probability[part], axis=0, return_inverse=True)
    texts = [
        canonical_json({str(n): float(p) for n, p in zip(names[:-1], row, strict=True) if p > 0}) for row in distinct
    ]
    found = pl.Series(texts, dtype=pl.String).gather(pl.Series(which.reshape(-1).astype(np.int64)))
    return pl.repeat(None, len(found), dtype=pl.String, eager=True), found


def _append(tx: Transaction, table: str, rows: pl.DataFrame, stamp: Mapping[str, Any]) -> None:
    """Ids are new, so nothing has to be looked for: a plain append."""
    types = {c.name: c.polars for c in columns(table)}
    tx.append(table, rows.with_columns(*(pl.lit(v, dtype=types[k]).alias(k) for k, v in stamp.items())))


def _move(tx: Transaction, staging: Staging, stamp: Mapping[str, Any]) -> None:
    table = "core.replay_choice"
    if table in staging.tables:
        names = ", ".join(frame_schema(table))
        stamps = ", ".join(f"${k}" for k in stamp)
        tx.execute(
            f"INSERT INTO {table} ({names}, {', '.join(stamp)}) "
            f"SELECT {names}, {stamps} FROM {staging.name(table)} ORDER BY row_",
            dict(stamp),
        )
    staging.drop(tx)


def _versions(tx: Transaction, versions: Sequence[Version], now: datetime) -> None:
    known = set(tx.query("SELECT policy_id FROM core.policy_version")["policy_id"])
    new = {v.policy_id: v for v in versions if v.policy_id not in known}
    rows = [
        {
            "policy_id": v.policy_id,
            "name": v.name,
            "parameters": canonical_json(dict(v.parameters)),
            "code_sha256": v.code_sha256,
            "known_from": now,
        }
        for v in new.values()
    ]
    if rows:
        schema = {c.name: c.polars for c in columns("core.policy_version")}
        tx.append("core.policy_version", pl.DataFrame(rows, schema=schema, orient="row"))


# reading ----------------------------------------------------------------------------------------

_SUMMARY = """
SELECT run_id, dataset, min(finished_at) AS finished_at, any_value(actor) AS actor, count(*) AS conditions,
       any_value(n_train) AS n_train, any_value(n_test) AS n_test, any_value(choices_sha256) AS choices_sha256,
       list(struct_pack(replay_run_id := replay_run_id, gpu := gpu, batch := batch, zone := zone,
            intensity_at := intensity_at, evidence_class := evidence_class, hypervolume := hypervolume)
            ORDER BY replay_run_id) AS blocks
FROM core.replay_run
WHERE ($dataset IS NULL OR dataset = $dataset)
GROUP BY run_id, dataset ORDER BY finished_at DESC, run_id DESC LIMIT $limit
"""


def runs(warehouse: Warehouse, dataset: str | None = None, limit: int = 50) -> list[dict[str, Any]]:
    """The newest runs, without their reports."""
    return warehouse.query(_SUMMARY, {"dataset": dataset, "limit": limit}).to_dicts()


def find(warehouse: Warehouse, id_: str | None, dataset: str | None = None) -> str | None:
    """The run with this id (or its first eight characters or more, or that of one of its blocks); the newest of
    `dataset` without an id. None: there is none.

    Raises NotFound for an id that is unknown or fits several runs.
    """
    if id_ is None:
        found = runs(warehouse, dataset, 1)
        return str(found[0]["run_id"]) if found else None
    hits = warehouse.query(
        "SELECT DISTINCT run_id FROM core.replay_run WHERE starts_with(replace(run_id, '-', ''), $id) "
        "OR starts_with(replace(replay_run_id, '-', ''), $id) ORDER BY run_id",
        {"id": id_.replace("-", "")},
    )["run_id"].to_list()
    if len(hits) != 1 or len(id_) < _SHORTEST_ID:
        what = "There is no replay run" if not hits else "More than one replay run begins with"
        raise NotFound(f"{what} {id_!r}.", fix="see the ids with `joulebook replay runs`")
    return str(hits[0])


def reports(warehouse: Warehouse, run_id: str) -> list[dict[str, Any]]:
    """The reports of the blocks of a run, first condition first."""
    rows = warehouse.query(
        "SELECT report FROM core.replay_run WHERE run_id = $id ORDER BY replay_run_id", {"id": run_id}
    )
    return [json.loads(text) for text in rows["report"]]


def first_block(warehouse: Warehouse, run_id: str) -> str:
    """The block that holds the choices of a run. Raises NotFound."""
    found = warehouse.scalar("SELECT min(replay_run_id) FROM core.replay_run WHERE run_id = $id", {"id": run_id})
    if found is None:
        raise NotFound(f"There is no replay run {run_id!r}.", fix="see the ids with `joulebook replay runs`")
    return str(found)


def policies_with_choices(warehouse: Warehouse, run_id: str) -> list[str]:
    """The policies whose choices are kept, by name."""
    rows = warehouse.query(
        "SELECT DISTINCT policy FROM core.replay_choice WHERE replay_run_id = $id ORDER BY policy",
        {"id": first_block(warehouse, run_id)},
    )
    return rows["policy"].to_list()


def choices(
    warehouse: Warehouse, run_id: str, policy: str, *, after: str | None = None, limit: int = BATCH_ROWS
) -> pl.DataFrame:
    """(policy, query_id, arm, probability_json) of a policy in a run, by query id, at most `limit` after `after`."""
    return warehouse.query(
        "SELECT policy, query_id, arm, probability_json FROM core.replay_choice "
        "WHERE replay_run_id = $id AND policy = $policy AND ($after IS NULL OR query_id > $after) "
        "ORDER BY query_id LIMIT $limit",
        {"id": first_block(warehouse, run_id), "policy": policy, "after": after, "limit": limit},
    )
