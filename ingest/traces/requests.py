"""Requests of a trace, from text columns to core.request_trace: what cannot be a request goes to quarantine."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from ingest.base import Parsed, Reject
from ingest.billing.sheets import refuse
from ingest.errors import PayloadError
from ingest.fields import plain_json
from ingest.kind import Option
from ingest.stream import Stream
from ingest.traces.stamps import Stamps
from warehouse.tables import frame_schema

TABLE = "core.request_trace"
LARGEST_TOKENS = 100_000_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}")
_LONGEST_TEXT = 200
_TEXTS = ("session_id", "model", "category")
_LENGTHS = ("prompt_tokens", "output_tokens")

TRACE = Option("trace", "name of the trace; default: the file's name")
SORT = Option("sort", "sort a trace whose requests are not in order", default="false", allowed=("true", "false"))


def name_of(file_name: str, source_id: str, option: str, declared: str | None) -> str:
    """The declared name, else that of the file. Raises PayloadError for one that is none, or that is taken."""
    stem = re.sub(r"(\.(csv|jsonl?|ndjson|parquet|txt|gz))+$", "", file_name, flags=re.I)
    name = declared or re.sub(r"[^A-Za-z0-9_.:-]+", "-", stem).strip("-.")
    why = "" if _NAME.fullmatch(name) else "is no name: letters, digits and _.:-, at most 64"
    if name == "sample" and not source_id.startswith("sample:"):
        why = "is the name of the sample data"
    if why:
        raise PayloadError(f"{name!r} {why}", fix=f"--option {option}=NAME", source_id=source_id, field=option)
    return name


@dataclass
class Requests:
    """Reads the requests of one file, piece by piece; `columns`: name here -> name in the file, for refusals.

    Raises PayloadError for a request that arrives before the one ahead of it, unless the option sort is given; then
    they are counted, and sorted when the rows are loaded (`settle`).
    """

    about: Stream
    stamps: Stamps
    columns: Mapping[str, str]
    read: int = field(default=0, init=False)
    out_of_order: int = field(default=0, init=False)
    _base: tuple[int, float] | None = field(default=None, init=False)
    _last: tuple[int, float] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        about = self.about
        self.trace = name_of(about.path.name, about.source_id, TRACE.name, about.options.get(TRACE.name))
        self._sort = self.about.options.get(SORT.name) == "true"

    def parsed(self, told: pl.DataFrame, came: int, rejects: list[Reject]) -> Parsed:
        """`told` has row_no, stamp, prompt_tokens, output_tokens and, where the file has them, the texts; all text."""
        told = told.with_columns(
            pl.lit(None, pl.String).alias(name) for name in _TEXTS if name not in told.columns
        ).with_columns(pl.col(name).str.strip_chars().replace("", None) for name in _TEXTS)
        read = told.hstack(self.stamps.read(told["stamp"])).with_columns(
            pl.col(name).cast(pl.Float64, strict=False).alias(f"{name}_") for name in _LENGTHS
        )
        read = read.with_columns(_why("stamp", pl.col("why")), *(_why(n, _length_why(n)) for n in _LENGTHS))
        bad = pl.coalesce("why_stamp", *(f"why_{n}" for n in _LENGTHS)).is_not_null()
        rejects = [*rejects, *self._rejects(read.filter(bad)), *self._long_texts(read.filter(~bad))]
        sound = read.filter(~bad)
        return Parsed(
            primary=TABLE,
            tables={TABLE: self._frame(sound)},
            rows_in=came,
            rejects=tuple(rejects),
            data_at=sound["arrived_at"].max(),  # type: ignore[arg-type]
            distinct=frozenset({TABLE}),
        )

    def end(self) -> Parsed | None:
        """What is to be said when all rows were read."""
        if self.out_of_order:
            note = f"{self.out_of_order} requests arrived before the one ahead of them; the trace was sorted"
            return Parsed(TABLE, {TABLE: pl.DataFrame(schema=frame_schema(TABLE))}, 0, notes=(note,),
                          distinct=frozenset({TABLE}))  # fmt: skip
        return None

    def _frame(self, sound: pl.DataFrame) -> pl.DataFrame:
        self._check_order(sound)
        ticks, part = self._base or (0, 0.0)
        since = (sound["ticks"] - ticks).to_numpy().astype(np.float64) + (sound["part"] - part).to_numpy()
        first, self.read = self.read, self.read + sound.height
        return sound.select(
            pl.lit(self.trace).alias("trace"),
            pl.int_range(first, first + sound.height, dtype=pl.Int64).alias("request_no"),
            pl.Series("arrival_s", since / self.stamps.per_second),  # polars would multiply by the reciprocal
            "arrived_at",
            *(pl.col(f"{name}_").cast(pl.Int64).alias(name) for name in _LENGTHS),
            *(pl.when(pl.col(n).str.len_chars() <= _LONGEST_TEXT).then(pl.col(n)).alias(n) for n in _TEXTS),
        ).select(list(frame_schema(TABLE)))

    def _check_order(self, sound: pl.DataFrame) -> None:
        if sound.is_empty():
            return
        ticks, part = sound["ticks"], sound["part"]
        first = self._last or (ticks[0], part[0])
        before = pl.DataFrame({"t": ticks.shift(1, fill_value=first[0]), "p": part.shift(1, fill_value=first[1])})
        back = sound.select("row_no", "stamp").with_columns(
            gap=(before["t"] - ticks).cast(pl.Float64) + (before["p"] - part)
        ).filter(pl.col("gap") > 0)  # fmt: skip
        self._base = self._base or (ticks[0], part[0])
        self._last = (ticks[-1], part[-1])
        if back.is_empty():
            return
        if not self._sort:
            row_no, stamp, gap = back.row(0)
            refuse(
                self.about,
                f"the trace is not in order: row {row_no} ({stamp}) arrives {gap / self.stamps.per_second:.6g} s "
                "before the row ahead of it",
                field=self.columns["stamp"],
                fix="sort the file, or import it with --option sort=true",
            )
        self.out_of_order += back.height

    def _rejects(self, bad: pl.DataFrame) -> list[Reject]:
        found = []
        for row in bad.iter_rows(named=True):
            name = next(n for n in ("stamp", *_LENGTHS) if row[f"why_{n}"] is not None)
            raw = {self.columns.get(n, n): row[n] for n in ("stamp", *_LENGTHS, *_TEXTS) if row[n] is not None}
            found.append(
                Reject(
                    reason=f"{self.columns[name]} {row[f'why_{name}']}",
                    row_no=row["row_no"],
                    natural_key=f"{self.trace} / row {row['row_no']}",
                    field=self.columns[name],
                    value=row[name],
                    raw=plain_json(raw),
                )
            )
        return found

    def _long_texts(self, sound: pl.DataFrame) -> list[Reject]:
        return [
            Reject(
                f"{self.columns.get(name, name)} is longer than {_LONGEST_TEXT} characters",
                row_no=row["row_no"],
                natural_key=f"{self.trace} / row {row['row_no']}",
                field=self.columns.get(name, name),
                value=row[name][:_LONGEST_TEXT],
                whole_row=False,
            )
            for name in _TEXTS
            for row in sound.filter(pl.col(name).str.len_chars() > _LONGEST_TEXT).iter_rows(named=True)
        ]


def _why(name: str, why: pl.Expr) -> pl.Expr:
    return why.alias(f"why_{name}")


def _length_why(name: str) -> pl.Expr:
    value, text = pl.col(f"{name}_"), pl.col(name).str.strip_chars()
    return (
        pl.when(text.is_null() | (text == "")).then(pl.lit("is missing"))
        .when(value.is_null() | value.is_nan() | value.is_infinite()).then(pl.lit("is not a finite number"))
        .when(value == 0).then(pl.lit("is 0: a request without it serves nothing"))
        .when(value < 0).then(pl.lit("is negative"))
        .when(value != value.floor()).then(pl.lit("is not a whole number"))
        .when(value > LARGEST_TOKENS).then(pl.lit(f"is above {LARGEST_TOKENS}, which is not plausible"))
    )  # fmt: skip
