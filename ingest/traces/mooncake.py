"""`mooncake-trace`: the traces of Mooncake (github.com/kvcache-ai/Mooncake, FAST 2025), JSON lines.

    {"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, 2353]}

`timestamp` is milliseconds since the start; `hash_ids` name the blocks of 512 tokens of the prompt, each together with
everything before it. Requests that share their first blocks share a prefix: they are one session, whose first
`session_blocks` blocks are its id. The first block alone tells little: in the conversation trace all requests have the
same.
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
from ingest.traces.stamps import Stamps
from ingest.traces.tables import pieces

SESSION_BLOCKS = Option(
    "session_blocks", "leading prefix blocks that make a session", default="2", allowed=("1", "2", "3", "4", "6", "8")
)
OPTIONS = (TRACE, SORT, SESSION_BLOCKS)
COLUMNS = {"stamp": "timestamp", "prompt_tokens": "input_length", "output_tokens": "output_length"}
_LINES = {**dict.fromkeys(COLUMNS.values(), pl.String()), "hash_ids": pl.List(pl.Int64())}


def stream(about: Stream, file: BinaryIO) -> Iterator[Parsed]:
    """The requests of a trace. Raises PayloadError where it is none, empty, or out of order."""
    requests = Requests(about, Stamps(about, COLUMNS["stamp"], "ms", None), {**COLUMNS, "session_id": "hash_ids"})
    blocks = int(about.options.get("session_blocks", "2"))
    came = 0
    for piece in pieces(about, file, _LINES, sheets=False):
        enough = pl.col("hash_ids").list.len() >= blocks
        shared = pl.col("hash_ids").list.head(blocks).cast(pl.List(pl.String)).list.join("-")
        told = piece.frame.select(
            "row_no",
            *(pl.col(told).alias(name) for name, told in COLUMNS.items()),
            pl.when(enough).then(shared).alias("session_id"),
        )
        came += piece.came
        yield requests.parsed(told, piece.came, piece.rejects)
    if not came:
        refuse(about, "the trace has no requests", fix="export it again")
    if (rest := requests.end()) is not None:
        yield rest


parse = whole(stream)
