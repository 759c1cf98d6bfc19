"""`replay-queries`: the texts of queries, which an outcome table may lack -> core.query.

Columns: query_id, and question (or prompt, text); also task (or benchmark), category, split, prompt_tokens, dataset.
They restate what is told and leave the rest as it is known, and may come before the outcomes or after.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import polars as pl

from ingest.base import Parsed, Reject
from ingest.billing.pieces import batched
from ingest.billing.sheets import open_sheet, refuse
from ingest.outcomes.cells import query_rows, refused_fields, refused_rows, typed, whole_row_checks
from ingest.outcomes.columns import SPLIT, dataset_option, read_header, sound_rows
from ingest.stream import Stream, whole

OPTIONS = (dataset_option(None), SPLIT)


def stream(about: Stream, file: BinaryIO) -> Iterator[Parsed]:
    """The queries of a table. Raises PayloadError where it is no such table."""
    yield from batched(_parts(about, file))


def _parts(about: Stream, file: BinaryIO) -> Iterator[Parsed]:
    with open_sheet(about, file) as sheet:
        header = read_header(about, sheet.names, needed=("query_id", "prompt"))
        if "dataset" not in header.taken and not about.options.get("dataset"):
            refuse(about, "nothing names the data set of these queries", field="dataset",
                   fix="add a column, or say --option dataset=NAME, such as zeroeval")  # fmt: skip
        for chunk in sheet.chunks:
            rows, rejects, came = sound_rows(chunk)
            yield read_queries(about, header.canonical(rows).with_columns(rows["row_no"]), came, rejects, header.notes)


def read_queries(
    about: Stream, told: pl.DataFrame, came: int, refused: list[Reject], notes: tuple[str, ...] = ()
) -> Parsed:
    """One row of core.query for each row of `told` that holds."""
    checks = [
        *whole_row_checks(about, queries_only=True),
        ("prompt", "is missing", pl.col("told_prompt").is_null()),
    ]
    sound, rejects = refused_rows(typed(about, told, {}), checks, ("query_id",))
    rejects += refused_fields(sound, ("query_id",))
    return Parsed(
        primary="core.query",
        tables={"core.query": query_rows(sound, one_by_one=True)},
        rows_in=came,
        rejects=(*refused, *rejects),
        notes=notes,
    )


parse = whole(stream)
