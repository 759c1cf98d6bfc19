"""Migrations: numbered, one transaction each, recorded with their hash; views are made anew when they change."""

from __future__ import annotations

from importlib import resources

import polars as pl

from warehouse.clock import utcnow
from warehouse.constraints import create_keys
from warehouse.engine import Transaction, Warehouse
from warehouse.errors import MigrationFailed, WarehouseError
from warehouse.ids import sha256

_CREATE = """
CREATE SCHEMA IF NOT EXISTS ops;
CREATE TABLE IF NOT EXISTS ops.schema_version (
  name VARCHAR NOT NULL, sha256 VARCHAR NOT NULL, applied_at TIMESTAMP NOT NULL
);
"""


def _files(package: str) -> list[tuple[str, str]]:
    return sorted(
        (f.name, f.read_text(encoding="utf-8")) for f in resources.files(package).iterdir() if f.name.endswith(".sql")
    )


def apply_migrations(warehouse: Warehouse) -> list[str]:
    """Apply what is missing, in order; the names applied.

    Raises MigrationFailed when the file is newer than this code, when an applied migration was
    edited, or when one does not run; a failed one leaves nothing behind.
    """
    with warehouse.transaction() as tx:
        tx.execute(_CREATE)
        applied = dict(tx.query("SELECT name, sha256 FROM ops.schema_version").iter_rows())
    migrations = _files("warehouse.migrations")
    unknown = sorted(n for n in applied if n != "views" and n not in dict(migrations))
    if unknown:
        raise MigrationFailed(
            f"The warehouse {warehouse.path} was written by a newer joulebook (it has {', '.join(unknown)}).",
            fix="upgrade joulebook, or restore a backup made before the upgrade",
        )
    done = []
    for name, sql in migrations:
        digest = sha256(sql.encode())
        if name in applied:
            if applied[name] != digest:
                raise MigrationFailed(
                    f"Migration {name} was edited after it had been applied.",
                    fix="put the original back and write a new migration",
                )
            continue
        _apply(warehouse, name, sql, digest)
        done.append(name)
    _refresh_views(warehouse, applied)
    return done


def _apply(warehouse: Warehouse, name: str, sql: str, digest: str) -> None:
    try:
        with warehouse.transaction() as tx:
            tx.execute(sql)
            if warehouse.capabilities.enforces_keys:
                create_keys(tx)
            _record(tx, name, digest)
    except WarehouseError as error:
        raise MigrationFailed(f"Migration {name} did not apply: {error.message}", fix=error.fix) from error


def _refresh_views(warehouse: Warehouse, applied: dict[str, str]) -> None:
    text = "\n".join(sql for _, sql in _files("warehouse.views"))
    digest = sha256(text.encode())
    if applied.get("views") == digest:
        return
    try:
        with warehouse.transaction() as tx:
            tx.execute(text)
            tx.execute("DELETE FROM ops.schema_version WHERE name = 'views'")
            _record(tx, "views", digest)
    except WarehouseError as error:
        raise MigrationFailed(f"The views did not apply: {error.message}", fix=error.fix) from error


def _record(tx: Transaction, name: str, digest: str) -> None:
    tx.append(
        "ops.schema_version",
        pl.DataFrame({"name": [name], "sha256": [digest], "applied_at": [utcnow()]}),
    )
