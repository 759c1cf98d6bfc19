"""Settling: what the staged rows of a load must be compared with before they are taken over.

A parser is a pure function of one payload. What only the rest of the payload or the warehouse can tell (a query
that is in the training part already, a figure of another evidence class) is looked at here, in SQL over the staged
rows, within the transaction that loads them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import polars as pl

from ingest.base import Parsed, Reject
from warehouse.engine import Transaction
from warehouse.tables import frame_schema


@dataclass(frozen=True)
class Settled:
    """What was refused: `quarantined` rows of the primary table were taken out, and `rejects` say why.

    One reject may speak for many rows (all cells of one query), so their number is no count of rows.
    """

    rejects: tuple[Reject, ...] = ()
    quarantined: int = 0


Settle = Callable[[Transaction, Mapping[str, str], str], Settled]
"""(transaction, core table -> name of its staged rows with their order `row_`, primary table) -> what was refused.

It may change and delete staged rows. Raises PayloadError where the payload must be refused whole.
"""


def settle_frames(tx: Transaction, settle: Settle, parsed: Parsed) -> tuple[dict[str, pl.DataFrame], Settled]:
    """The tables of a payload held in memory, settled like those of a stream."""
    names = {table: f"settle_{table.replace('.', '_')}" for table in parsed.tables}
    for table, frame in parsed.tables.items():
        with tx.staged(frame.with_row_index("row_")) as staged:
            tx.execute(f"CREATE OR REPLACE TEMP TABLE {names[table]} AS SELECT * FROM {staged}")
    told = settle(tx, names, parsed.primary)
    tables: dict[str, pl.DataFrame] = {}
    for table, name in names.items():
        schema = frame_schema(table)
        tables[table] = tx.query(f"SELECT {', '.join(schema)} FROM {name} ORDER BY row_").cast(pl.Schema(schema))
        tx.execute(f"DROP TABLE {name}")
    return tables, told
