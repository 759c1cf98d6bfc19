"""`routerbench-outcomes`: the wide table of RouterBench (arXiv:2403.12031), CSV or Parquet.

sample_id, prompt, eval_name, then for each model <model> (score 0..1), <model>|model_response, <model>|total_cost
(USD), and oracle_model_to_route_to, which is not read. A pickle, as RouterBench publishes it, is never opened.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import BinaryIO

import polars as pl

from ingest.base import Parsed
from ingest.billing.pieces import batched
from ingest.billing.sheets import open_sheet, refuse
from ingest.outcomes import wide
from ingest.outcomes.cells import Cells
from ingest.outcomes.columns import SPLIT, dataset_option, sound_rows
from ingest.stream import Stream, whole

OPTIONS = (dataset_option("routerbench"), SPLIT)
_QUERY = {"sample_id": "query_id", "prompt": "prompt", "eval_name": "benchmark"}
_RESPONSE, _COST = "|model_response", "|total_cost"


def stream(about: Stream, file: BinaryIO) -> Iterator[Parsed]:
    """The cells of a table. Raises PayloadError where it is no such table, or a pickle."""
    reader = file if isinstance(file, io.BufferedReader) else io.BufferedReader(file)  # type: ignore[type-var]
    if reader.peek(1)[:1] == b"\x80" or about.path.suffix in {".pkl", ".pickle"}:
        refuse(about, "the file is a pickle, which can run any program when it is read; it was not opened",
               fix="where you trust it, write it as Parquet: pandas.read_pickle(FILE).to_parquet(OTHER)")  # fmt: skip
    yield from batched(_parts(about, reader))


def _parts(about: Stream, file: BinaryIO) -> Iterator[Parsed]:
    with open_sheet(about, file) as sheet:
        arms = _arms(about, sheet.names)
        cells = Cells(about)
        for chunk in sheet.chunks:
            rows, rejects, _ = sound_rows(chunk)
            told, empty = wide.cells_of(rows.rename(_QUERY), tuple(_QUERY.values()), arms)
            yield wide.parsed(cells, told, empty, rejects)


def _arms(about: Stream, names: tuple[str, ...]) -> dict[str, dict[str, pl.Expr]]:
    """Each model with its columns. Raises PayloadError where a column that is needed is missing."""
    missing = [name for name in _QUERY if name not in names]
    arms = [name for name in names if name + _COST in names or name + _RESPONSE in names]
    if missing or not arms:
        what = missing[0] if missing else f"<model>{_COST}"
        refuse(about, f"the column {what!r} is missing", field=what,
               fix="give the wide table: sample_id, prompt, eval_name, <model>, <model>|total_cost")  # fmt: skip
    null = pl.lit(None, pl.String)
    return {
        arm: {
            "correct": pl.col(arm),
            "cost_usd": pl.col(arm + _COST) if arm + _COST in names else null,
            "output_chars": wide.length_of(arm + _RESPONSE, names),
        }
        for arm in arms
    }


parse = whole(stream)
