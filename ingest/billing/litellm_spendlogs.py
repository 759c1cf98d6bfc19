"""LiteLLM_SpendLogs (JSON lines, the API's JSON, or CSV of the table) -> core.usage, one row per request.

Spend is LiteLLM's own estimate from its price map, not a bill: it becomes list_cost_usd, and billed_cost_usd
stays NULL. Time stamps are UTC, with or without saying so, because LiteLLM writes them so. Request ids are
not unique across keys ("chatcmpl-213" is anybody's), so the account is the key's hash and both make the
natural key. `cache_hit` is unreliable text and is not read. A read of a stored response is logged with the
cost of that response: such rows are kept with no tokens, no request and 0 USD (T25).

`litellm_rows.usage_row` defines the format. Here whole columns are checked at once; a row passes only where
every check of it holds, and every other row goes through `usage_row`, which refuses by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

import polars as pl

from ingest.base import Parsed, Reject
from ingest.billing.litellm_rows import (
    EVIDENCE,
    FAILURE,
    METHOD,
    METHOD_READ,
    NO_KEY,
    PROVIDER,
    READS,
    SUCCESS,
    usage_row,
)
from ingest.billing.log_rows import EARLIEST, LARGEST_TOKENS, LATEST
from ingest.billing.pieces import ahead, batched
from ingest.billing.tabular import Chunk, Columns, chunks
from ingest.fields import LARGEST_MONEY, Row
from ingest.kind import Option
from ingest.stream import Stream, whole
from warehouse.tables import frame, frame_schema

ZERO_SPEND = Option(
    "zero_spend",
    "what a spend of 0 means: LiteLLM writes 0 for free models and for models that it has no price of",
    default="unknown",
    allowed=("unknown", "free"),
)
_TEXT = ("request_id", "call_type", "api_key", "model", "model_group", "status")
_NUMBERS = ("spend", "prompt_tokens", "completion_tokens", "request_duration_ms")
_USAGE = pl.Struct(
    {
        "usage_object": pl.Struct(
            {
                "prompt_tokens_details": pl.Struct({"cached_tokens": pl.String()}),
                "cache_read_input_tokens": pl.String(),
            }
        )
    }
)
COLUMNS = Columns(
    plain=(*_TEXT, *_NUMBERS, "startTime", "endTime"),
    nested={"metadata": _USAGE},
    rows_under=("data", "spend_logs", "logs"),
    required=("request_id", "startTime", "spend"),
)
_MONEY = pl.Decimal(28, 12)
# Objects, lists, numbers, true and false arrive as their text, a broken character as NUL: usage_row tells them apart.
_NO_NAME = r"^[\s\[{]|\s$|^(true|false|[-\d.]+)$|\x00"
_NAMES = ("request_id", "api_key", "model", "model_group")


def stream(about: Stream, file: BinaryIO) -> Iterator[Parsed]:
    """The usage rows of a log, piece by piece. Raises PayloadError where the file is no such log."""
    free = about.options.get(ZERO_SPEND.name, ZERO_SPEND.default) == "free"
    columns = _usage_columns(free)
    yield from ahead(batched(_parsed(chunk, columns, free) for chunk in chunks(about, file, COLUMNS)))


parse = whole(stream)


def _parsed(chunk: Chunk, columns: list[pl.Expr], free: bool) -> Parsed:
    quick, others = (None, list(range(len(chunk.numbers)))) if chunk.frame is None else _at_once(chunk.frame, columns)
    rows: list[dict[str, Any]] = []
    rejects: list[Reject] = []
    for index in others:
        data, why = chunk.read(index)
        row = Row(chunk.numbers[index], data if data is not None else {})
        if data is None:
            row.refuse(None, None, why, whole_row=True)
        else:
            found = usage_row(row, zero_spend_is_free=free)
            if found is not None:
                rows.append(found)
        rejects += row.rejects
    tables = [quick] if quick is not None else []
    if rows or not tables:
        tables.append(frame("core.usage", rows))
    usage = pl.concat(tables)
    return Parsed(
        primary="core.usage",
        tables={"core.usage": usage},
        rows_in=len(chunk.numbers),
        rejects=tuple(rejects),
        data_at=usage["period_end_at"].max(),  # type: ignore[arg-type]
    )


def _at_once(told: pl.DataFrame, columns: list[pl.Expr]) -> tuple[pl.DataFrame, list[int]]:
    """The usage rows whose every check holds, and the places of the others."""
    typed = told.select(_TYPED).with_columns(_instants(told[n]) for n in ("startTime", "endTime"))
    before, after = told.select(_TEXTS).null_count().row(0), typed.select(_TEXT_NAMES).null_count().row(0)
    if before != after:  # something is told that the casts could not take
        lost = pl.any_horizontal(told[n].is_not_null() & typed[n].is_null() for n in _TEXT_NAMES[:-1])
        lost_cached = told.select(_TEXTS[-1])["cached_tokens"].is_not_null() & typed["cached_tokens"].is_null()
        typed = typed.with_columns(odd=pl.col("odd") | lost | lost_cached)
    sound = typed.select(_SOUND).to_series()
    if sound.all():
        return typed.select(columns), []
    return typed.filter(sound).select(columns), sound.not_().arg_true().to_list()


def _name(name: str) -> pl.Expr:
    return pl.when(pl.col(name) != "").then(pl.col(name)).alias(name)


def _instants(told: pl.Series) -> pl.Series:
    """The forms that LiteLLM and PostgreSQL write; NULL for any other, which is left to `usage_row`.

    A whole column of one fixed form is read four times as fast as one of several.
    """
    for form in _FORMS:
        found = told.str.to_datetime(form, strict=False, time_unit="us")
        if found.null_count() == told.null_count():
            return found
    text = told.str.strip_suffix("Z").str.strip_suffix("+00:00").str.strip_suffix("+00")
    text = text.str.replace("T", " ", literal=True)
    return text.str.to_datetime("%Y-%m-%d %H:%M:%S%.f", strict=False, time_unit="us")


def _cached() -> pl.Expr:
    usage = pl.col("metadata").struct.field("usage_object").struct
    return pl.coalesce(
        usage.field("prompt_tokens_details").struct.field("cached_tokens"), usage.field("cache_read_input_tokens")
    ).alias("cached_tokens")


def _sound() -> pl.Expr:
    start, end = pl.col("startTime"), pl.col("endTime")
    checks = [
        ~pl.col("odd"),
        pl.col("request_id").is_not_null(),
        pl.col("model").is_not_null() | pl.col("model_group").is_not_null(),
        (start >= EARLIEST) & (start < LATEST),
        (end >= start) & (end < LATEST),  # without an end, usage_row looks at the duration
        pl.col("status").is_in([SUCCESS, FAILURE]) | pl.col("status").is_null(),
        pl.col("spend").is_between(0, LARGEST_MONEY) | pl.col("spend").is_null(),
        *(
            pl.col(n).is_between(0, LARGEST_TOKENS) | pl.col(n).is_null()
            for n in ("prompt_tokens", "completion_tokens", "cached_tokens")
        ),
        pl.col("cached_tokens").is_null() | (pl.col("cached_tokens") <= pl.col("prompt_tokens").fill_null(0)),
    ]
    return pl.all_horizontal(check.fill_null(False) for check in checks)


_FORMS = ("%Y-%m-%dT%H:%M:%S.%3fZ", "%Y-%m-%dT%H:%M:%S.%3f", "%Y-%m-%d %H:%M:%S.%3f")
_TOKENS = ("prompt_tokens", "completion_tokens")
_TYPED = [
    *(_name(name) for name in (*_NAMES, "status")),
    pl.col("call_type").is_in(list(READS)).fill_null(False).alias("read"),
    *(pl.col(n).cast(pl.Int64, strict=False) for n in _TOKENS),
    pl.col("spend").cast(_MONEY, strict=False),
    _cached().cast(pl.Int64, strict=False),
    pl.any_horizontal(pl.col(n).str.contains(_NO_NAME).fill_null(False) for n in _NAMES).alias("odd"),
]
_TEXT_NAMES = ("endTime", "spend", *_TOKENS, "cached_tokens")
_TEXTS = [*(pl.col(n) for n in _TEXT_NAMES[:-1]), _cached()]
_SOUND = _sound()


def _usage_columns(free: bool) -> list[pl.Expr]:
    read = pl.col("read")
    silent = (pl.col("prompt_tokens").fill_null(0) == 0) & (pl.col("completion_tokens").fill_null(0) == 0)
    unpriced = pl.lit(False) if free else (pl.col("spend") == 0) & (pl.col("status").fill_null("") != FAILURE)
    count = pl.when(read).then(0).otherwise(1)

    def tokens(name: str) -> pl.Expr:
        return pl.when(read).then(0).when(~silent).then(pl.col(name))

    found: dict[str, pl.Expr] = {
        "provider": pl.lit(PROVIDER),
        "account": pl.col("api_key").fill_null(NO_KEY),
        "usage_key": pl.col("request_id"),
        "grain": pl.lit("request"),
        "workload": pl.lit("organic"),
        "period_start_at": pl.col("startTime"),
        "period_end_at": pl.col("endTime"),
        "requested_offer": pl.coalesce("model_group", "model"),
        "served_offer": pl.col("model"),
        "prompt_tokens": tokens("prompt_tokens"),
        "completion_tokens": tokens("completion_tokens"),
        "cached_tokens": pl.when(read)
        .then(0)
        .when(~silent & pl.col("prompt_tokens").is_not_null())
        .then(pl.col("cached_tokens")),
        "requests": count,
        "attempts": count,
        "successes": pl.when(read).then(0).otherwise((pl.col("status") == SUCCESS).cast(pl.Int64)),
        "requests_with_energy": pl.lit(0),
        "list_cost_usd": pl.when(read).then(pl.lit(0).cast(_MONEY)).when(~unpriced.fill_null(False)).then("spend"),
        "duration_s": (pl.col("endTime") - pl.col("startTime")).dt.total_microseconds() / 1e6,
        "evidence_class": pl.lit(EVIDENCE.value),
        "method": pl.when(read).then(pl.lit(METHOD_READ)).otherwise(pl.lit(METHOD)),
    }
    return [found.get(n, pl.lit(None)).cast(kind).alias(n) for n, kind in frame_schema("core.usage").items()]
