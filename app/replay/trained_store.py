"""Trained controllers in the warehouse: kept once, listed, and restored to route."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from app.errors import NotFound
from app.operations import Actor
from app.operations.plain import plain
from policies.replay.controller import Trained, from_bytes
from warehouse import ledger
from warehouse.clock import utcnow
from warehouse.engine import Warehouse
from warehouse.ids import canonical_json, uuid7
from warehouse.loads import load
from warehouse.tables import frame

_ACCOUNT = ("training_energy_j", "training_energy_evidence_class", "training_energy_method")


def write(warehouse: Warehouse, trained: Trained, told: Mapping[str, Any], actor: Actor, source_id: str) -> bool:
    """True where it is new; the same weights of the same training are kept once."""
    now: datetime = utcnow()
    row = {
        "trained_policy_id": told["id"],
        "name": trained.name,
        "dataset": trained.dataset,
        "dataset_sha256": trained.dataset_sha256,
        "parameters": canonical_json(trained.settings.plain()),
        "embedder": told["embedder"],
        "seed": trained.seed,
        "n_train": trained.n_train,
        "trained_at": now,
        "training_s": trained.training_s,
        "training_energy_j": told["training_energy_j"],
        "training_energy_evidence_class": told["training_energy_evidence_class"],
        "training_energy_method": told["training_energy_method"],
        "weights": trained.to_bytes(),
        "history": json.dumps(told["history"], allow_nan=False),
        "actor": actor.name,
    }
    with warehouse.transaction() as tx:
        rows = frame("core.trained_policy", [row])
        loaded = load(tx, "core.trained_policy", rows, source_id=source_id, run_id=uuid7(), known_from=now).loaded
        if loaded:
            body = {k: row[k] for k in ("name", "dataset", "dataset_sha256", "seed", "n_train")}
            ledger.append(
                tx,
                kind="replay.trained",
                subject=str(row["trained_policy_id"]),
                body=body,
                actor=actor.name,
                role=actor.role,
                channel=actor.channel,
            )
    if loaded:
        ledger.anchor(warehouse)
    return bool(loaded)


def listed(warehouse: Warehouse, dataset: str | None, limit: int) -> list[dict[str, Any]]:
    """Trained controllers without their weights, newest first."""
    rows = warehouse.query(
        "SELECT trained_policy_id AS id, name, dataset, dataset_sha256, parameters, embedder, seed, n_train, "
        "trained_at, training_s, training_energy_j, training_energy_evidence_class, training_energy_method, actor "
        "FROM core.trained_policy WHERE ($dataset IS NULL OR dataset = $dataset) "
        "ORDER BY trained_at DESC, trained_policy_id LIMIT $limit",
        {"dataset": dataset, "limit": limit},
    )
    return [plain({**row, "parameters": json.loads(row["parameters"])}) for row in rows.iter_rows(named=True)]


def restored(warehouse: Warehouse, id_: str) -> Trained:
    """The controller with this id, or with its first eight characters or more. Raises NotFound and RouterInvalid."""
    rows = warehouse.query(
        "SELECT trained_policy_id, weights, history, training_s, training_energy_j, training_energy_evidence_class, "
        "training_energy_method FROM core.trained_policy "
        "WHERE starts_with(trained_policy_id, $id) ORDER BY trained_policy_id",
        {"id": id_},
    ).to_dicts()
    if len(rows) != 1 or len(id_) < 8:
        what = "There is no trained controller" if not rows else "More than one trained controller begins with"
        raise NotFound(f"{what} {id_!r}.", fix="see the ids with `joulebook replay trained`")
    row = rows[0]
    trained = from_bytes(
        row["weights"],
        history=json.loads(row["history"]),
        training_s=row["training_s"],
        what=f"the weights of {row['trained_policy_id'][:8]}",
    )
    return replace(trained, account={name: row[name] for name in _ACCOUNT})
