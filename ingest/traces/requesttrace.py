"""`request-trace`: requests of your own, CSV, Parquet or JSON lines, by whichever names their columns have.

    arrival        arrival_s, arrival_ms; or timestamp, arrival_timestamp, arrived_at, with the option time_unit where
                   they are numbers, and an offset or the option timezone where they are times
    prompt         prompt_tokens, input_tokens, num_prefill_tokens, prompt_size, input_length, ContextTokens
    output         output_tokens, completion_tokens, generated_tokens, num_decode_tokens, token_size, output_length,
                   GeneratedTokens
    may be absent  session_id (conversation_id), model (selected_model, model_id), category

The shapes of Splitwise (num_prefill_tokens; or prompt_size with arrival_timestamp) and of the semantic router
(generated_tokens or selected_model) tell seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO

import polars as pl

from ingest.base import Parsed
from ingest.billing.sheets import refuse
from ingest.kind import Option
from ingest.stream import Stream, whole
from ingest.traces.requests import SORT, TRACE, Requests
from ingest.traces.stamps import PER_SECOND, Stamps
from ingest.traces.tables import pieces

TIMEZONE = Option("timezone", "zone of times without an offset")
TIME_UNIT = Option("time_unit", "unit of arrivals that are numbers", allowed=tuple(PER_SECOND))
CLOCK = Option(
    "clock", "what numbers count from: some start, or 1970 (unix)", default="relative", allowed=("relative", "unix")
)
OPTIONS = (TRACE, SORT, TIMEZONE, TIME_UNIT, CLOCK)
_STAMPS = ("arrival_s", "arrival_ms", "arrival_timestamp", "timestamp", "arrived_at")
NAMES: dict[str, Sequence[str]] = {
    "stamp": _STAMPS,
    "prompt_tokens": (
        "prompt_tokens", "input_tokens", "num_prefill_tokens", "prompt_size", "input_length", "contexttokens",
    ),
    "output_tokens": (
        "output_tokens", "completion_tokens", "generated_tokens", "num_decode_tokens", "token_size", "output_length",
        "generatedtokens",
    ),
    "session_id": ("session_id", "conversation_id"),
    "model": ("model", "selected_model", "model_id"),
    "category": ("category",),
}  # fmt: skip
_NEEDED = ("stamp", "prompt_tokens", "output_tokens")
_UNITS = {"arrival_s": "s", "arrival_ms": "ms", "arrival_timestamp": "s"}
_TELL_SECONDS = {"num_prefill_tokens", "num_decode_tokens", "selected_model", "generated_tokens"}
_LINES = sorted(
    {name for names in NAMES.values() for name in names} | {"ContextTokens", "GeneratedTokens", "TIMESTAMP"}
)


def stream(about: Stream, file: BinaryIO) -> Iterator[Parsed]:
    """The requests of a trace. Raises PayloadError where it is none, empty, out of order, or its unit is not told."""
    requests: Requests | None = None
    for piece in pieces(about, file, _LINES):
        if not piece.came:
            continue
        if requests is None:
            columns = _columns(about, piece.frame)
            requests = Requests(about, _stamps(about, columns["stamp"], columns.values()), columns)
        held = {name: told for name, told in requests.columns.items() if told in piece.frame.columns}
        told = piece.frame.select("row_no", *(pl.col(told).alias(name) for name, told in held.items()))
        yield requests.parsed(told, piece.came, piece.rejects)
    if requests is None:
        refuse(about, "the trace has no requests", fix="export it again")
    if (rest := requests.end()) is not None:
        yield rest


def _columns(about: Stream, frame: pl.DataFrame) -> dict[str, str]:
    """Name here -> name in the file. Raises PayloadError for what is missing or told twice."""
    there = {name.strip().lower(): name for name in frame.columns if name != "row_no" and _told(frame[name])}
    found: dict[str, str] = {}
    for name, known in NAMES.items():
        told = [there[n] for n in known if n in there]
        if len(told) > 1:
            refuse(about, f"the columns {told[0]!r} and {told[1]!r} tell the same", field=told[1], fix="keep one")
        if told:
            found[name] = told[0]
        elif name in _NEEDED:
            refuse(about, f"no column tells {_WORDS[name]}; there are {', '.join(list(there.values())[:12])}",
                   field=known[0], fix=f"name one {known[0]}")  # fmt: skip
    return found


_WORDS = {"stamp": "the arrival", "prompt_tokens": "the prompt's tokens", "output_tokens": "the output's tokens"}


def _told(values: pl.Series) -> bool:
    return values.null_count() < len(values)


def _stamps(about: Stream, column: str, columns: Iterable[str]) -> Stamps:
    names = {name.strip().lower() for name in columns}
    unit = about.options.get("time_unit") or _UNITS.get(column.strip().lower())
    if unit is None and names & _TELL_SECONDS:
        unit = "s"
    if column.strip().lower() in ("arrival_s", "arrival_ms") and unit != _UNITS[column.strip().lower()]:
        refuse(about, f"{column!r} tells its unit, and the option time_unit says {unit}", field="time_unit",
               fix="leave the option out")  # fmt: skip
    return Stamps(about, column, unit, about.options.get("timezone"), about.options.get("clock") == "unix")


parse = whole(stream)
