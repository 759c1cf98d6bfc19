"""`azure-trace`: the Azure LLM inference traces (github.com/Azure/AzurePublicDataset, Splitwise, ISCA 2024).

    TIMESTAMP,ContextTokens,GeneratedTokens
    2023-11-16 18:17:03.9799600,4808,10

Times are UTC with 100 ns. Copies with numbers in their place are read, too, in seconds unless told otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import polars as pl

from ingest.base import Parsed
from ingest.billing.sheets import refuse
from ingest.kind import Option
from ingest.stream import Stream, whole
from ingest.traces.requests import SORT, TRACE, Requests
from ingest.traces.stamps import PER_SECOND, Stamps
from ingest.traces.tables import pieces

TIMEZONE = Option("timezone", "zone of times without an offset", default="UTC")
TIME_UNIT = Option("time_unit", "unit of numbers in TIMESTAMP", default="s", allowed=tuple(PER_SECOND))
OPTIONS = (TRACE, SORT, TIMEZONE, TIME_UNIT)
COLUMNS = {"stamp": "TIMESTAMP", "prompt_tokens": "ContextTokens", "output_tokens": "GeneratedTokens"}


def stream(about: Stream, file: BinaryIO) -> Iterator[Parsed]:
    """The requests of a trace. Raises PayloadError where it is none, empty, or out of order."""
    option = about.options
    stamps = Stamps(about, COLUMNS["stamp"], option.get("time_unit", "s"), option.get("timezone", "UTC"))
    requests = Requests(about, stamps, COLUMNS)
    came = 0
    for piece in pieces(about, file, list(COLUMNS.values())):
        names = {name.strip().lower(): name for name in piece.frame.columns}
        missing = [name for name in COLUMNS.values() if name.lower() not in names]
        if missing:
            refuse(about, f"the column {missing[0]!r} is missing; there are {', '.join(list(names.values())[:8])}",
                   field=missing[0], fix="check the kind: request-trace reads other columns")  # fmt: skip
        told = piece.frame.select("row_no", *(pl.col(names[c.lower()]).alias(n) for n, c in COLUMNS.items()))
        came += piece.came
        yield requests.parsed(told, piece.came, piece.rejects)
    if not came:
        refuse(about, "the trace has no requests", fix="export it again")
    if (rest := requests.end()) is not None:
        yield rest


parse = whole(stream)
