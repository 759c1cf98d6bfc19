"""`outcomes`: a long table, one row per cell, CSV (also gzip) or Parquet.

Needed: `query_id`, `arm`, `correct` (0 to 1, true, false), and the data set by column or option. Every other column
says its unit in its name (`columns.CANONICAL`, `columns.UNITS`); what looks like a quantity and does not is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import BinaryIO

from ingest.base import Parsed
from ingest.billing.pieces import batched
from ingest.billing.sheets import open_sheet, refuse
from ingest.outcomes.cells import Cells
from ingest.outcomes.columns import (
    CLASSES,
    ENERGY_METHOD,
    EVIDENCE_CLASS,
    SPLIT,
    dataset_option,
    read_header,
    sound_rows,
)
from ingest.stream import Stream, whole

OPTIONS = (dataset_option(None), SPLIT, EVIDENCE_CLASS, ENERGY_METHOD)


def stream(about: Stream, file: BinaryIO) -> Iterator[Parsed]:
    """The cells of a table, piece by piece. Raises PayloadError where it is no such table."""
    yield from batched(_parts(about, file))


def _parts(about: Stream, file: BinaryIO) -> Iterator[Parsed]:
    with open_sheet(about, file) as sheet:
        header = read_header(about, sheet.names, needed=("query_id", "arm", "correct"))
        if "dataset" not in header.taken and not about.options.get("dataset"):
            refuse(about, "nothing names the data set", field="dataset", fix="add a column, or --option dataset=NAME")
        classed = "evidence_class" in header.taken or about.options.get("evidence_class")
        if "energy_j" in header.taken and not classed:
            refuse(about, f"the column {header.taken['energy_j'][0]!r} has no evidence class", field="evidence_class",
                   fix=f"add a column evidence_class, or --option evidence_class={'|'.join(CLASSES)}")  # fmt: skip
        cells = Cells(about, header.factors)
        for chunk in sheet.chunks:
            rows, rejects, came = sound_rows(chunk)
            told = header.canonical(rows).with_columns(rows["row_no"])
            found = cells.read(told, header.notes)
            yield replace(found, rows_in=came, rejects=(*rejects, *found.rejects))


parse = whole(stream)
