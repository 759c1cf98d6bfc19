"""Staging: rows of a large payload wait here, in short transactions, until one transaction takes them all.

So a load of any size holds the write lock only for its last step, and a cancelled or crashed one
leaves nothing in the core tables.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from warehouse import loads
from warehouse.engine import Transaction, Warehouse
from warehouse.tables import columns, frame_schema

_SCHEMA = "stage"


class Staging:
    """The staging tables of one run; made as tables of the payload come up."""

    def __init__(self, warehouse: Warehouse, run_id: str) -> None:
        self._warehouse = warehouse
        self._prefix = "r" + run_id.replace("-", "")
        self._rows: dict[str, int] = {}

    @property
    def tables(self) -> list[str]:
        """The core tables that have staged rows, in the order they came."""
        return list(self._rows)

    def name(self, table: str) -> str:
        return f"{_SCHEMA}.{self._prefix}_{table.replace('.', '_')}"

    def add(self, frames: Mapping[str, pl.DataFrame]) -> None:
        """Stage one chunk, in a transaction of its own."""
        with self._warehouse.transaction() as tx:
            for table, frame in frames.items():
                loads.check_grams(table, frame)
                if table not in self._rows:
                    self._create(tx, table)
                start = self._rows[table]
                numbered = frame.with_columns(pl.int_range(start, start + frame.height, dtype=pl.Int64).alias("row_"))
                tx.append(self.name(table), numbered)
                self._rows[table] = start + frame.height

    def _create(self, tx: Transaction, table: str) -> None:
        types = {c.name: c.type for c in columns(table)}
        # Weighing every compression of text against the others costs more than the rest of staging.
        listed = ", ".join(
            f"{name} {types[name]}{' USING COMPRESSION dictionary' if types[name] == 'VARCHAR' else ''}"
            for name in frame_schema(table)
        )
        tx.execute(f"CREATE SCHEMA IF NOT EXISTS {_SCHEMA}")
        tx.execute(f"CREATE TABLE {self.name(table)} ({listed}, row_ BIGINT)")
        self._rows[table] = 0

    def drop(self, tx: Transaction) -> None:
        for table in self._rows:
            tx.execute(f"DROP TABLE IF EXISTS {self.name(table)}")
        self._rows = {}


def drop_orphans(warehouse: Warehouse) -> int:
    """Drop what a killed process left staged; called at start, when no other process can hold the file."""
    found = warehouse.query(f"SELECT table_name FROM information_schema.tables WHERE table_schema = '{_SCHEMA}'")
    with warehouse.transaction() as tx:
        for name in found["table_name"]:
            tx.execute(f"DROP TABLE {_SCHEMA}.{name}")
    return found.height
