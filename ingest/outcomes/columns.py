"""What a table of outcomes may tell: its columns, their units and ranges, and the options of a file."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import polars as pl

from ingest.base import Reject
from ingest.billing.sheets import Chunk, refuse
from ingest.fields import LARGEST_INT, Row
from ingest.kind import Option
from ingest.stream import Stream
from warehouse.evidence import EvidenceClass

LONGEST_NAME = 200
LONGEST_TEXT = 1_000_000
SPLITS = ("train", "test")
CLASSES = tuple(cls.value for cls in EvidenceClass)
DATASET_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}$"
PUBLISHED, SAMPLE = "published", "sample"  # names that are taken

SPLIT = Option("split", "part of the data set that the whole file is", allowed=SPLITS)
EVIDENCE_CLASS = Option(
    "evidence_class", "evidence class of the file's joules, where no column tells it", allowed=CLASSES
)
ENERGY_METHOD = Option("energy_method", "how the file's joules came to be, where no column tells it")


def dataset_option(default: str | None) -> Option:
    return Option("dataset", "name of the data set that the file belongs to", default=default)


@dataclass(frozen=True)
class Quantity:
    """A column of numbers from `low` to `high`; `above`: low itself is not allowed."""

    low: float
    high: float
    above: bool = False
    whole: bool = False

    @property
    def words(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        return f"{kind} {f'above {self.low:g} and' if self.above else f'from {self.low:g}'} up to {self.high:g}"


# Columns that may be refused alone: their row loads without them.
QUANTITIES: dict[str, Quantity] = {
    "power_w": Quantity(0, 1e7, above=True),
    "latency_s": Quantity(0, 1e7),
    "prompt_tokens": Quantity(0, LARGEST_INT, whole=True),
    "output_tokens": Quantity(0, LARGEST_INT, whole=True),
    "prompt_chars": Quantity(0, LARGEST_INT, whole=True),
    "output_chars": Quantity(0, LARGEST_INT, whole=True),
    "cost_usd": Quantity(0, 1e9),
    "parameters_b": Quantity(0, 1e6, above=True),
    "input_price_usd_per_token": Quantity(0, 1),
    "output_price_usd_per_token": Quantity(0, 1),
}
NAMES = ("benchmark", "category", "model", "effort", "serving_class", "energy_model", "energy_method")
CANONICAL = (
    "dataset", "query_id", "arm", "correct", "answered", "split", "prompt", "energy_j", "evidence_class",
    *NAMES, *QUANTITIES,
)  # fmt: skip

# column of a file -> (column here, what its numbers are multiplied by)
UNITS: dict[str, tuple[str, float]] = {
    "energy_wh": ("energy_j", 3600.0),
    "energy_kwh": ("energy_j", 3_600_000.0),
    "latency_ms": ("latency_s", 1e-3),
    "input_price_usd_per_million_tokens": ("input_price_usd_per_token", 1e-6),
    "output_price_usd_per_million_tokens": ("output_price_usd_per_token", 1e-6),
}
OTHER_NAMES = {"energy_evidence_class": "evidence_class", "question": "prompt", "text": "prompt", "task": "benchmark"}
_NEEDS_UNIT = re.compile(
    r"energy|joule|power|watt|latency|duration|runtime|cost|price|carbon|co2|param|^time$|seconds", re.I
)


@dataclass(frozen=True)
class Header:
    """How the columns of a file are read: name here -> (name in the file, factor); and what is left out."""

    taken: dict[str, tuple[str, float]]
    ignored: tuple[str, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        named = ", ".join(name[:40] for name in self.ignored[:12])
        return (f"columns that were left out: {named}",) if named else ()

    @property
    def factors(self) -> dict[str, float]:
        return {name: factor for name, (_, factor) in self.taken.items() if factor != 1}

    def canonical(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The columns that are read, under their names here."""
        return frame.select(pl.col(told).alias(name) for name, (told, _) in self.taken.items())


def read_header(about: Stream, names: Iterable[str], *, needed: Collection[str]) -> Header:
    """Raises PayloadError for a missing column, one that is told twice, and one whose unit is unsure."""
    taken: dict[str, tuple[str, float]] = {}
    ignored: list[str] = []
    for told in names:
        plain = told.strip().lower()
        name, factor = UNITS.get(plain, (OTHER_NAMES.get(plain, plain), 1.0))
        if name not in CANONICAL:
            if _NEEDS_UNIT.search(plain):
                _refuse_unit(about, told)
            ignored.append(told)
        elif name in taken:
            refuse(about, f"the columns {taken[name][0]!r} and {told!r} tell the same", field=told, fix="keep one")
        else:
            taken[name] = (told, factor)
    if missing := [name for name in needed if name not in taken]:
        known = ", ".join(list(names)[:12])
        refuse(about, f"the column {missing[0]!r} is missing; there are {known}", field=missing[0], fix="add it")
    return Header(taken, tuple(ignored))


def _refuse_unit(about: Stream, told: str) -> None:
    near = [n for n in (*CANONICAL, *UNITS) if n.split("_")[0] == re.split(r"[^a-z]", told.lower())[0]]
    units = ", ".join(near or [n for n in (*CANONICAL, *UNITS) if _NEEDS_UNIT.search(n)])
    refuse(about, f"the column {told!r} does not tell its unit, or one that is known", field=told,
           fix=f"name it one of {units}, or leave it out")  # fmt: skip


def sound_rows(chunk: Chunk) -> tuple[pl.DataFrame, list[Reject], int]:
    """(the rows of a piece with their `row_no`, refusals of the rows that cannot be read, how many rows came)."""
    rejects = [
        Reject(f"the row has {m.fields} fields, the header {m.expected}", row_no=m.row_no, raw=m.text)
        for m in chunk.misfits
    ]
    frame = chunk.frame.with_columns(pl.Series("row_no", chunk.row_nos, dtype=pl.Int64))
    came = frame.height + len(rejects)
    if chunk.not_utf8:
        for place in sorted(chunk.not_utf8):
            row = Row(chunk.row_nos[place], frame.row(place, named=True))
            row.refuse(None, None, "the row holds bytes that are no UTF-8 text", whole_row=True)
            rejects += row.rejects
        frame = frame.filter(~pl.int_range(frame.height).is_in(list(chunk.not_utf8)))
    return frame, rejects, came
