"""Wide tables, one row per query and a column per arm -> cells.

A cell without a figure is missing: it becomes no row. A cell whose cost is told and whose correctness is not stays,
with correctness NULL.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import polars as pl

from ingest.base import Parsed, Reject
from ingest.outcomes.cells import Cells


def cells_of(
    rows: pl.DataFrame, query: Sequence[str], arms: Mapping[str, Mapping[str, pl.Expr]]
) -> tuple[pl.DataFrame, int]:
    """(one row per cell, how many were empty). `query`: columns of the query; `arms`: arm -> its columns."""
    told = pl.concat(
        rows.select("row_no", *query, pl.lit(arm).alias("arm"), *(v.alias(name) for name, v in columns.items()))
        for arm, columns in arms.items()
    ).sort("row_no", maintain_order=True)
    figures = [name for name in ("correct", "cost_usd") if name in told.columns]
    empty = pl.all_horizontal(pl.col(name).str.strip_chars().fill_null("") == "" for name in figures)
    known = told.filter(~empty)
    return known, told.height - known.height


def length_of(response: str, names: Collection[str]) -> pl.Expr:
    """Characters of an answer, as text; NULL where the table has no such column."""
    return pl.col(response).str.len_chars().cast(pl.String) if response in names else pl.lit(None, pl.String)


def parsed(cells: Cells, told: pl.DataFrame, empty: int, refused: Sequence[Reject]) -> Parsed:
    """Rows of this file count by the cell; a row that cannot be read counts once."""
    notes = (f"{empty} cells are empty: missing, not wrong",) if empty else ()
    found = cells.read(told, notes)
    return replace(found, rows_in=found.rows_in + len(refused), rejects=(*refused, *found.rejects))
