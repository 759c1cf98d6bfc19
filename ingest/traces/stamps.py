"""Arrival stamps of a trace: times with up to nanoseconds, or numbers of a declared unit, to seconds since the first.

Which of the two a trace has, its first readable stamp decides; a stamp of the other sort lies on another axis and is
refused alone. Whole ticks and their fractions are kept apart, so that 100 ns of a Unix time survive.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from zoneinfo import ZoneInfo

import polars as pl

from ingest.billing.sheets import refuse
from ingest.stream import Stream

PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_NS = PER_SECOND["ns"]
_TIME = r"^(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2}:\d{2})(?:\.(\d{1,9})\d*)?\s*(Z|[+-]\d{2}:?\d{2})?$"
_PLAIN_NUMBER = r"^[+-]?\d{1,19}(?:\.\d*)?$"
_LARGEST = 9e15  # ticks that a float still tells apart, for numbers in scientific notation
_EARLIEST, _LATEST = "1970-01-02", "2200-01-01"


@dataclass
class Stamps:
    """Reads the stamps of one file, piece by piece. `unit` None: numbers are refused until one is declared."""

    about: Stream
    column: str
    unit: str | None
    zone: str | None  # of times without an offset
    unix: bool = False  # whether numbers count from 1970
    times: bool | None = field(default=None, init=False)  # None: no stamp was read yet

    def __post_init__(self) -> None:
        if self.zone is not None:
            try:
                ZoneInfo(self.zone)
            except (OSError, ValueError, KeyError):
                refuse(self.about, f"{self.zone!r} is no known time zone", field="timezone", fix="write Europe/Paris")

    @property
    def per_second(self) -> int:
        return _NS if self.times else PER_SECOND[self.unit or "s"]

    def read(self, text: pl.Series) -> pl.DataFrame:
        """Columns ticks (Int64), part (of a tick, 0..1), arrived_at, why (NULL where the stamp is sound).

        Raises PayloadError for the first number without a unit.
        """
        frame = pl.DataFrame({"text": text.str.strip_chars()})
        if self.times is None:
            found = frame.select(
                time=pl.col("text").str.contains(_TIME).arg_max(), any_time=pl.col("text").str.contains(_TIME).any(),
                number=_number().is_not_null().arg_max(), any_number=_number().is_not_null().any(),
            ).row(0, named=True)  # fmt: skip
            if not found["any_time"] and not found["any_number"]:
                return _untold(frame)
            self.times = found["any_time"] and (not found["any_number"] or found["time"] < found["number"])
        if self.times:
            return self._times(frame)
        if self.unit is None:
            refuse(self.about, f"the numbers of {self.column!r} have no unit", field=self.column,
                   fix=f"declare it: --option time_unit={'|'.join(PER_SECOND)}")  # fmt: skip
        return self._numbers(frame)

    def _times(self, frame: pl.DataFrame) -> pl.DataFrame:
        told = frame.with_columns(pl.col("text").str.extract_groups(_TIME).alias("g")).unnest("g")
        plain = pl.concat_str("1", pl.lit(" "), "2").str.to_datetime("%Y-%m-%d %H:%M:%S", time_unit="us", strict=False)
        offset = (
            pl.col("4").str.slice(1, 2).cast(pl.Int64) * 3600 + pl.col("4").str.tail(2).cast(pl.Int64) * 60
        ) * pl.when(pl.col("4").str.starts_with("-")).then(-1).otherwise(1)
        in_zone = plain.dt.replace_time_zone(self.zone or "UTC", ambiguous="null", non_existent="null")
        utc = (
            pl.when(pl.col("4") == "Z").then(plain)
            .when(pl.col("4").is_not_null()).then(plain - pl.duration(seconds=offset.fill_null(0)))
            .when(pl.lit(self.zone is not None)).then(in_zone.dt.convert_time_zone("UTC").dt.replace_time_zone(None))
        )  # fmt: skip
        told = told.with_columns(
            plain=plain,
            utc=utc,
            ns=pl.col("3").str.pad_end(9, "0").cast(pl.Int64, strict=False).fill_null(0),
        )
        within = pl.col("utc").is_between(pl.lit(_EARLIEST).str.to_datetime(), pl.lit(_LATEST).str.to_datetime())
        why = (
            pl.when(pl.col("text").is_null() | (pl.col("text") == "")).then(pl.lit("is missing"))
            .when(_number().is_not_null()).then(pl.lit("is a number, where the trace has times"))
            .when(pl.col("plain").is_null()).then(pl.lit("is no time"))
            .when(pl.col("4").is_null() & pl.lit(self.zone is None))
            .then(pl.lit("has no offset; declare its zone with the option timezone"))
            .when(pl.col("utc").is_null()).then(pl.lit(f"does not come once in {self.zone}: the clocks changed"))
            .when(~within).then(pl.lit(f"is not between {_EARLIEST} and {_LATEST}"))
        )  # fmt: skip
        return told.select(
            ticks=pl.col("utc").dt.epoch("us") * 1000 + pl.col("ns"),
            part=pl.lit(0.0),
            arrived_at=pl.col("utc") + pl.duration(microseconds=pl.col("ns") // 1000),
            why=why,
        )

    def _numbers(self, frame: pl.DataFrame) -> pl.DataFrame:
        exact = pl.col("text").str.contains(_PLAIN_NUMBER)
        value = _number()
        whole = pl.when(exact).then(pl.col("text").str.extract(r"^([+-]?\d+)").cast(pl.Int64, strict=False)).when(
            value.abs() < _LARGEST
        ).then(value.floor().cast(pl.Int64, strict=False))  # fmt: skip
        sign = pl.when(pl.col("text").str.starts_with("-")).then(-1.0).otherwise(1.0)
        digits = pl.concat_str(pl.lit("0."), pl.col("text").str.extract(r"\.(\d+)$").fill_null("0"))
        part = pl.when(exact).then(digits.cast(pl.Float64, strict=False) * sign).otherwise(value - value.floor())
        at = None
        if self.unix:
            per = PER_SECOND[self.unit or "s"]
            micros = whole // (per // 1_000_000) if per > 1_000_000 else whole * (1_000_000 // per)
            fine = (part * 1e6 / per).round().cast(pl.Int64, strict=False)
            at = pl.from_epoch(micros + fine, time_unit="us")
        why = (
            pl.when(pl.col("text").is_null() | (pl.col("text") == "")).then(pl.lit("is missing"))
            .when(pl.col("text").str.contains(_TIME)).then(pl.lit("is a time, where the trace has numbers"))
            .when(value.is_null()).then(pl.lit("is not a finite number"))
            .when(whole.is_null()).then(pl.lit("is too large"))
        )  # fmt: skip
        if at is not None:
            within = at.is_between(pl.lit(_EARLIEST).str.to_datetime(), pl.lit(_LATEST).str.to_datetime())
            why = why.when(~within).then(pl.lit("is no Unix time of that unit: check clock and time_unit"))
        return frame.select(
            ticks=whole, part=part, arrived_at=pl.lit(None, pl.Datetime("us")) if at is None else at, why=why
        )


def _number() -> pl.Expr:
    value = pl.col("text").cast(pl.Float64, strict=False)
    return pl.when(value.is_finite()).then(value)


def _untold(frame: pl.DataFrame) -> pl.DataFrame:
    empty = pl.col("text").is_null() | (pl.col("text") == "")
    return frame.select(
        ticks=pl.lit(None, pl.Int64),
        part=pl.lit(None, pl.Float64),
        arrived_at=pl.lit(None, pl.Datetime("us")),
        why=pl.when(empty).then(pl.lit("is missing")).otherwise(pl.lit("is neither a time nor a finite number")),
    )
