"""Cells of an outcome table, however a source writes them -> core.outcome, core.arm, core.query.

Importers bring a frame of text columns under the names of `columns.CANONICAL`, one row per cell. Whole columns are
checked at once; what does not hold becomes a refusal by name. An empty cell is unknown: it stays NULL, never 0.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from ingest.base import Parsed, Reject
from ingest.billing.sheets import refuse
from ingest.fields import Row
from ingest.outcomes.columns import (
    CANONICAL,
    CLASSES,
    DATASET_NAME,
    LONGEST_NAME,
    LONGEST_TEXT,
    NAMES,
    PUBLISHED,
    QUANTITIES,
    SAMPLE,
    SPLITS,
)
from ingest.stream import Stream
from warehouse.tables import frame_schema

_MONEY = pl.Decimal(28, 12)
_TRUE, _FALSE = ("true", "1", "1.0"), ("false", "0", "0.0")
_LONGEST = {**dict.fromkeys(NAMES, LONGEST_NAME), "prompt": LONGEST_TEXT}
_ALONE = (*QUANTITIES, "answered", *_LONGEST)  # what may be refused without its row
_ARM = (
    "dataset", "arm", "model", "effort", "serving_class", "energy_model", "parameters_b", "input_price_usd_per_token",
    "output_price_usd_per_token",
)  # fmt: skip


class Cells:
    """Reads the cells of one file, piece by piece. `factors`: what numbers of a column are multiplied by."""

    def __init__(self, about: Stream, factors: Mapping[str, float] | None = None) -> None:
        self._about = about
        self._factors = dict(factors or {})
        self._classes: dict[str, str] = {}  # data set -> evidence class of its joules
        self._checks = whole_row_checks(about, queries_only=False)

    def read(self, told: pl.DataFrame, notes: tuple[str, ...] = ()) -> Parsed:
        """`told` has `row_no` and columns of CANONICAL, as text. Raises PayloadError where classes are mixed."""
        rows = typed(self._about, told, self._factors)
        sound, rejects = refused_rows(rows, self._checks, ("query_id", "arm"))
        rejects += refused_fields(sound, ("query_id", "arm"))
        self._one_class(sound)
        model = pl.col("model").fill_null(pl.col("arm"))
        return Parsed(
            primary="core.outcome",
            tables={
                "core.outcome": sound.select(_OUTCOME),
                "core.arm": _fitted("core.arm", sound.select(_ARM).with_columns(model).unique(maintain_order=True)),
                "core.query": query_rows(sound),
            },
            rows_in=told.height,
            rejects=tuple(rejects),
            notes=notes,
        )

    def _one_class(self, rows: pl.DataFrame) -> None:
        found = rows.filter(pl.col("energy_j").is_not_null()).select("dataset", "evidence_class").unique()
        for dataset, cls in found.sort("dataset", "evidence_class").iter_rows():
            known = self._classes.setdefault(dataset, cls)
            if known != cls:
                refuse(
                    self._about,
                    f"energy_j of the data set {dataset} is {known} in some rows and {cls} in others; figures of "
                    "different evidence classes are never compared",
                    field="evidence_class",
                    fix="give each class a data set of its own",
                )


def typed(about: Stream, told: pl.DataFrame, factors: Mapping[str, float]) -> pl.DataFrame:
    """All columns of CANONICAL with their types; `told_NAME` keeps the text of what is checked by name."""
    option = about.options
    defaults = {name: option.get(name) for name in ("dataset", "split", "evidence_class", "energy_method", "benchmark")}
    text = told.with_columns(
        pl.lit(defaults.get(name), pl.String).alias(name) for name in CANONICAL if name not in told.columns
    )
    text = text.with_columns(
        pl.when(pl.col(name).str.strip_chars() != "").then(pl.col(name).str.strip_chars()).alias(name)
        for name in CANONICAL
        if name != "prompt"
    )
    text = text.with_columns(
        pl.when(pl.col("prompt").str.strip_chars() != "").then(pl.col("prompt")),
        *(pl.col(name).fill_null(value) for name, value in defaults.items() if value is not None),
    )
    text = text.with_columns(pl.col(name).alias(f"told_{name}") for name in (*_ALONE, "energy_j", "correct"))
    lower = pl.col("correct").str.to_lowercase()
    return text.with_columns(
        pl.when(lower == "true").then(1.0).when(lower == "false").then(0.0)
        .otherwise(pl.col("correct").cast(pl.Float64, strict=False)).alias("correct"),
        (pl.col("energy_j").cast(pl.Float64, strict=False) * factors.get("energy_j", 1.0)).alias("energy_j"),
        *(_quantity(name, factors.get(name, 1.0)) for name in QUANTITIES),
        pl.when(pl.col("answered").str.to_lowercase().is_in(_TRUE)).then(True)
        .when(pl.col("answered").str.to_lowercase().is_in(_FALSE)).then(False).alias("answered"),
        *(pl.when(pl.col(name).str.len_bytes() <= longest).then(pl.col(name)) for name, longest in _LONGEST.items()),
    )  # fmt: skip


def _quantity(name: str, factor: float) -> pl.Expr:
    """The number where it is within its range, else NULL."""
    rule = QUANTITIES[name]
    value = pl.col(name).cast(pl.Float64, strict=False) * factor
    within = value.is_between(rule.low, rule.high) & (value.is_finite())
    if rule.above:
        within &= value > rule.low
    if rule.whole:
        within &= value == value.floor()
        return pl.when(within).then(value).cast(pl.Int64).alias(name)
    if "_usd" in name:
        exact = pl.col(name).cast(_MONEY, strict=False) if factor == 1 else pl.lit(None, _MONEY)
        return pl.when(within).then(pl.coalesce(exact, pl.when(within).then(value).cast(_MONEY))).alias(name)
    return pl.when(within).then(value).alias(name)


Check = tuple[str, str, pl.Expr]
"""(field, why it is refused, where)."""


def whole_row_checks(about: Stream, *, queries_only: bool) -> list[Check]:
    """What a row cannot be loaded without, in the order in which it is looked at."""
    named = ("dataset", "query_id") if queries_only else ("dataset", "query_id", "arm")
    fix = " and no --option dataset=NAME names it"
    checks: list[Check] = [
        (name, f"is missing{fix if name == 'dataset' else ''}", pl.col(name).is_null()) for name in named
    ]
    dataset = pl.col("dataset")
    taken = dataset.str.starts_with(PUBLISHED)
    if not about.source_id.startswith("sample:"):
        taken |= dataset == SAMPLE
    checks += [
        ("dataset", "is no name of letters, digits and _ . : - (64 at most)", ~dataset.str.contains(DATASET_NAME)),
        ("dataset", f"is a name that is taken: {SAMPLE} and {PUBLISHED}* are ours", taken),
        *(
            (name, f"is longer than {LONGEST_NAME} characters", pl.col(name).str.len_chars() > LONGEST_NAME)
            for name in named[1:]
        ),
        ("split", f"is none of {', '.join(SPLITS)}", ~pl.col("split").is_in(SPLITS)),
    ]
    if queries_only:
        return checks
    correct, energy, cls = pl.col("correct"), pl.col("energy_j"), pl.col("evidence_class")
    told = pl.col("told_energy_j").is_not_null()
    return [
        *checks,
        ("correct", "is not a number, true or false", pl.col("told_correct").is_not_null() & correct.is_null()),
        ("correct", "is outside 0 to 1", ~correct.is_between(0, 1)),
        ("energy_j", "is not a number", told & energy.is_null()),
        ("energy_j", "is not a finite number above 0; unknown energy is an empty cell, never 0",
         ~(energy.is_finite() & (energy > 0))),
        ("evidence_class", "is missing: joules without an evidence class are no figure", told & cls.is_null()),
        ("evidence_class", f"is none of {', '.join(CLASSES)}", told & ~cls.is_in(CLASSES)),
    ]  # fmt: skip


def refused_rows(rows: pl.DataFrame, checks: Sequence[Check], key: Sequence[str]) -> tuple[pl.DataFrame, list[Reject]]:
    """(the rows that hold, a refusal for each of the others: the first thing that is wrong with it)."""
    place = pl.coalesce(
        pl.when(where.fill_null(False)).then(pl.lit(i, pl.Int16)) for i, (_, _, where) in enumerate(checks)
    )
    placed = rows.with_columns(refused_=place)
    if placed["refused_"].null_count() == placed.height:
        return rows, []
    rejects: list[Reject] = []
    for data in placed.filter(pl.col("refused_").is_not_null()).iter_rows(named=True):
        field, why, _ = checks[data["refused_"]]
        rejects += _reject(data, field, why, key, whole_row=True)
    return placed.filter(pl.col("refused_").is_null()).drop("refused_"), rejects


def refused_fields(rows: pl.DataFrame, key: Sequence[str]) -> list[Reject]:
    """Fields that were told and are not within their range: NULL, with a refusal; their rows load."""
    rejects: list[Reject] = []
    lost = {name: pl.col(f"told_{name}").is_not_null() & pl.col(name).is_null() for name in _ALONE}
    counts = rows.select(where.sum().alias(name) for name, where in lost.items()).row(0, named=True)
    for name in (name for name, n in counts.items() if n):
        for data in rows.filter(lost[name]).iter_rows(named=True):
            rejects += _reject(data, name, _why_alone(name), key, whole_row=False)
    return rejects


def _why_alone(name: str) -> str:
    if name in QUANTITIES:
        return f"is not {QUANTITIES[name].words}"
    return "is not true or false" if name == "answered" else f"is longer than {_LONGEST[name]} bytes"


def _reject(data: dict[str, Any], field: str, why: str, key: Sequence[str], *, whole_row: bool) -> list[Reject]:
    told = {k.removeprefix("told_"): v for k, v in data.items() if k in CANONICAL or k.startswith("told_")}
    known = {k: v for k, v in told.items() if v is not None}
    row = Row(data["row_no"], known, " / ".join(str(data[k]) for k in key))
    row.refuse(field, known.get(field), why, whole_row=whole_row)
    return row.rejects


def query_rows(rows: pl.DataFrame, *, one_by_one: bool = False) -> pl.DataFrame:
    """core.query: one row for each query and what is told of it, or (`one_by_one`) for each row."""
    by = ["dataset", "query_id", "benchmark", "category", "split", "prompt"]
    first = (pl.col(name).drop_nulls().first() for name in ("prompt_tokens", "prompt_chars"))
    found = rows if one_by_one else rows.group_by(by, maintain_order=True).agg(first)
    text = found["prompt"]
    known = text.is_not_null().any()
    digests = (
        [None if t is None else hashlib.sha256(t.encode()).hexdigest() for t in text] if known else [None] * len(text)
    )
    return _fitted(
        "core.query",
        found.with_columns(
            pl.col("benchmark").fill_null(""),
            pl.col("prompt").alias("text"),
            pl.Series("text_sha256", digests, dtype=pl.String),
            pl.coalesce(pl.col("prompt").str.len_chars().cast(pl.Int64), "prompt_chars").alias("prompt_chars"),
        ),
    )


def _fitted(table: str, frame: pl.DataFrame) -> pl.DataFrame:
    return frame.select(pl.col(name).cast(kind) for name, kind in frame_schema(table).items())


_HAS_ENERGY = pl.col("energy_j").is_not_null()
_OF_ENERGY = {
    "energy_evidence_class": pl.when(_HAS_ENERGY).then(pl.col("evidence_class")),
    "energy_method": pl.when(_HAS_ENERGY).then(pl.col("energy_method")),
}
_OUTCOME = [
    _OF_ENERGY.get(name, pl.col(name)).cast(kind).alias(name) for name, kind in frame_schema("core.outcome").items()
]
