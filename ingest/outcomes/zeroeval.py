"""`zeroeval-outcomes`: graded answers of ZeroEval, one row per (task, query, model).

Columns: task, query_id, model, correct; also hf_generator, answered, prompt_chars, output_chars, output_tokens_cl100k.
Tokens are counted with cl100k_base for every model, so that they are comparable and not each model's own. The run of
gemma-2-27b-it on gsm is published under the name of its host; it is the same model and completes the arm.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import BinaryIO

import polars as pl

from ingest.base import Parsed
from ingest.billing.pieces import batched
from ingest.billing.sheets import open_sheet, refuse
from ingest.outcomes.cells import Cells
from ingest.outcomes.columns import dataset_option, sound_rows
from ingest.outcomes.energy_models import ZEROEVAL, energy_model, parameters_b
from ingest.stream import Stream, whole

OPTIONS = (dataset_option("zeroeval"),)
SAME_ARM = {("gsm", "gemma-2-27b-it@together"): "gemma-2-27b-it"}
_NEEDED = {"task": "benchmark", "query_id": "query_id", "model": "arm", "correct": "correct"}
_MORE = {
    "hf_generator": "model", "answered": "answered", "prompt_chars": "prompt_chars", "output_chars": "output_chars",
    "output_tokens_cl100k": "output_tokens",
}  # fmt: skip


def stream(about: Stream, file: BinaryIO) -> Iterator[Parsed]:
    """The cells of a table. Raises PayloadError where it is no such table."""
    yield from batched(_parts(about, file))


def _parts(about: Stream, file: BinaryIO) -> Iterator[Parsed]:
    with open_sheet(about, file) as sheet:
        if missing := [name for name in _NEEDED if name not in sheet.names]:
            refuse(about, f"the column {missing[0]!r} is missing", field=missing[0],
                   fix=f"give a table with the columns {', '.join(_NEEDED)}")  # fmt: skip
        names = {told: name for told, name in {**_NEEDED, **_MORE}.items() if told in sheet.names}
        cells = Cells(about)
        for chunk in sheet.chunks:
            rows, rejects, came = sound_rows(chunk)
            found = cells.read(_canonical(rows.select("row_no", *names).rename(names)))
            yield replace(found, rows_in=came, rejects=(*rejects, *found.rejects))


def _canonical(rows: pl.DataFrame) -> pl.DataFrame:
    for (task, told), arm in SAME_ARM.items():
        here = (pl.col("benchmark") == task) & (pl.col("arm") == told)
        rows = rows.with_columns(pl.when(here).then(pl.lit(arm)).otherwise(pl.col("arm")).alias("arm"))
    model = pl.col("model").str.replace(r"@.*$", "") if "model" in rows.columns else pl.col("arm").alias("model")
    return rows.with_columns(energy_model(ZEROEVAL), parameters_b(), model)


parse = whole(stream)
