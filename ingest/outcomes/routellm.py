"""`routellm-outcomes`: RouteLLM's responses on MMLU (57 files) and GSM8K, one CSV each.

prompt, then a column per model (True or False), and for GSM8K <model>_response. Queries have no ids: they are numbered
within their file, which keeps questions that MMLU has twice. The file's name tells the benchmark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO

import polars as pl

from ingest.base import Parsed
from ingest.billing.pieces import batched
from ingest.billing.sheets import open_sheet, refuse
from ingest.kind import Option
from ingest.outcomes import wide
from ingest.outcomes.cells import Cells
from ingest.outcomes.columns import SPLIT, dataset_option, sound_rows
from ingest.outcomes.energy_models import ROUTELLM, energy_model, parameters_b
from ingest.stream import Stream, whole

OPTIONS = (
    dataset_option("routellm"),
    Option("benchmark", "benchmark of the file, where its name is not mmlu_<domain>.csv or gsm8k_responses.csv"),
    SPLIT,
)
_RESPONSE = "_response"


def stream(about: Stream, file: BinaryIO) -> Iterator[Parsed]:
    """The cells of a file. Raises PayloadError where it is no such file."""
    yield from batched(_parts(about, file))


def _parts(about: Stream, file: BinaryIO) -> Iterator[Parsed]:
    with open_sheet(about, file) as sheet:
        benchmark, prefix = _benchmark(about)
        arms = _arms(about, sheet.names)
        cells = Cells(about)
        for chunk in sheet.chunks:
            rows, rejects, _ = sound_rows(chunk)
            queries = rows.with_columns(
                pl.format("{}/{}", pl.lit(prefix), pl.col("row_no")).alias("query_id"),
                pl.lit(benchmark).alias("benchmark"),
            )
            told, empty = wide.cells_of(queries, ("query_id", "prompt", "benchmark"), arms)
            yield wide.parsed(cells, told.with_columns(energy_model(ROUTELLM), parameters_b()), empty, rejects)


def _benchmark(about: Stream) -> tuple[str, str]:
    """(benchmark, what query ids begin with)."""
    stem = about.path.name.split(".")[0]
    told = about.options.get("benchmark")
    if told:
        return told, f"{told}/{stem}"
    if domain := re.fullmatch(r"mmlu_(\w+)", stem):
        return "mmlu", f"mmlu/{domain[1]}"
    if stem == "gsm8k_responses":
        return "gsm8k", "gsm8k"
    refuse(about, f"the file name {about.path.name!r} does not tell the benchmark", field="benchmark",
           fix="say --option benchmark=NAME")  # fmt: skip


def _arms(about: Stream, names: tuple[str, ...]) -> dict[str, dict[str, pl.Expr]]:
    arms = [n for n in names if n != "prompt" and not (n.endswith(_RESPONSE) and n.removesuffix(_RESPONSE) in names)]
    if "prompt" not in names or not arms:
        refuse(about, f"there is no column 'prompt' beside one for each model; there are {', '.join(names[:6])}",
               field="prompt", fix="give a responses file of RouteLLM's evaluations")  # fmt: skip
    return {
        arm: {
            "correct": pl.col(arm),
            "output_chars": wide.length_of(arm + _RESPONSE, names),
        }
        for arm in arms
    }


parse = whole(stream)
