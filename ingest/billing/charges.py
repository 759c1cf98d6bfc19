"""Lines of a bill -> core.charge, and the delivery they came with -> core.charge_delivery.

A bill is delivered many times while its month is open, and again when it is restated. A delivery speaks
about whole invoices: the newest delivery of a (provider, account, billing period, invoice) is the one in
force, and a line that it lacks is no longer billed; the older ones stay readable as they were known. What an
invoice id does not name yet is replaced by whatever is delivered next for the same billing period. A
correction (ChargeClass) of an earlier month belongs to the invoice it is billed with and adds there.

Lines keep their currency; nothing here adds anything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import polars as pl

from ingest.base import Parsed
from ingest.billing.columns import Columns, Reading
from ingest.billing.sheets import Chunk, Sheet, refuse
from ingest.fields import LARGEST_INT
from ingest.kind import Option
from ingest.stream import Stream
from warehouse.evidence import EvidenceClass
from warehouse.ids import content_hash
from warehouse.tables import frame_schema

CATEGORIES = ("Usage", "Purchase", "Tax", "Credit", "Adjustment")
OPTIONS = (
    Option("timezone", "zone of times that name none; the format says UTC", default="UTC"),
    Option("date_order", "order of the parts of dates such as 5/1/25", allowed=("mdy", "dmy", "ymd")),
    Option("number_format", "us: $ signs and thousands separators are meant", default="spec", allowed=("spec", "us")),
    Option("delivery", "name of a delivery in several files, the same for all of them and new for each restatement"),
)
_TOKENS = re.compile(r"(?:(?P<n>[\d,]+|thousand|million|1 million|1k|1m)\s*)?tokens?", re.IGNORECASE)
_PER_NAME = {"thousand": 1_000, "1k": 1_000, "million": 1_000_000, "1 million": 1_000_000, "1m": 1_000_000}
_J_PER_UNIT = {"j": 1, "kj": 10**3, "wh": 3_600, "kwh": 3_600_000}
_J_PER_MEGA = {"MJ": 10**6, "MWh": 3_600_000_000, "MWH": 3_600_000_000}  # mWh and mJ are milli: a billion times less


@dataclass(frozen=True)
class Delivery:
    """The delivery that a file is, or is a part of."""

    delivery_id: str
    part: str  # sha256 of the file
    at: datetime

    @classmethod
    def of(cls, about: Stream, sheet: Sheet) -> Delivery:
        name = about.options.get("delivery")
        whole = content_hash(["delivery", about.kind, name]) if name else sheet.sha256
        return cls(whole, sheet.sha256, about.fetched_at)


def reading(about: Stream) -> Reading:
    """The declared options as rules for reading. Raises PayloadError for a zone that does not exist."""
    zone = about.options.get("timezone") or "UTC"
    try:
        found = ZoneInfo(zone)
    except (OSError, ValueError, KeyError):
        refuse(about, f"{zone!r} is no known time zone", field="timezone", fix="write one as Europe/Paris")
    return Reading(found, about.options.get("date_order"), about.options.get("number_format") == "us")


def line_keys(delivery: Delivery, chunk: Chunk) -> pl.Series:
    """The place of each line in its file, for formats whose lines have no id of their own."""
    return pl.select(
        pl.format("{}:{}", pl.lit(delivery.part[:16]), pl.Series(chunk.row_nos, dtype=pl.Int64))
    ).to_series()


def tokens_per_unit(unit: str) -> int | None:
    """How many tokens one unit is; None unless the unit says tokens and how many."""
    found = _TOKENS.fullmatch(unit.strip())
    if found is None:
        return None
    told = (found["n"] or "1").lower()
    return _PER_NAME.get(told) or int(told.replace(",", "") or 0) or None


def joules_per_unit(unit: str) -> int | None:
    """How many joules one unit is; None unless the unit is one of energy. A small m is no mega."""
    name = unit.strip()
    return _J_PER_MEGA.get(name) or _J_PER_UNIT.get(name.lower())


def tokens(columns: Columns, name: str, quantity: pl.Series, unit: pl.Series, where: pl.Series) -> pl.Series:
    """Tokens of the rows in `where` whose unit says so, exactly; a fraction of a token is refused."""
    factors = {u: tokens_per_unit(u) for u in unit.unique().drop_nulls()}
    found: list[int | None] = [None] * columns.height
    counted = where & unit.is_in([u for u, f in factors.items() if f]) & quantity.is_not_null()
    units, quantities = unit.to_list(), quantity.to_list()
    for place in counted.arg_true():
        factor = factors[units[place]]
        assert factor is not None
        value: Decimal = quantities[place] * factor
        if value != value.to_integral_value() or abs(value) > LARGEST_INT:
            mark = pl.int_range(columns.height, eager=True) == place
            columns.refuse(mark, name, f"is {value.normalize():f} tokens, which is no number of whole tokens")
        else:
            found[place] = int(value)
    return pl.Series("tokens", found, dtype=pl.Int64)


def energy(quantity: pl.Series, unit: pl.Series, where: pl.Series) -> dict[str, pl.Series]:
    """energy_j of the rows in `where` whose unit is one of energy, and its evidence class."""
    factors = {u: joules_per_unit(u) for u in unit.unique().drop_nulls()}
    found: list[float | None] = [None] * quantity.len()
    for place in (where & unit.is_in([u for u, f in factors.items() if f]) & quantity.is_not_null()).arg_true():
        found[place] = float(quantity[place] * factors[unit[place]])
    told = [None if v is None else EvidenceClass.ALLOCATED.value for v in found]
    return {
        "energy_j": pl.Series(found, dtype=pl.Float64),
        "evidence_class": pl.Series(told, dtype=pl.String),
    }


def json_object(columns: Columns, name: str) -> pl.Series:
    """A column of JSON objects as text; anything else is refused."""
    text = columns.text(name)
    wrong = [value for value in text.unique().drop_nulls() if not _is_object(value)]
    if not wrong:
        return text
    bad = text.is_in(wrong).fill_null(False)
    columns.refuse(bad, name, "is not a JSON object")
    return pl.select(pl.when(~bad).then(text)).to_series()


def attributes(columns: Columns, names: list[str]) -> pl.Series:
    """The filled ones of `names` as one JSON object per row."""
    held = [n for n in names if columns.has(n)]
    if not held:
        return pl.repeat(None, columns.height, eager=True, dtype=pl.String)
    known: dict[tuple[str | None, ...], str | None] = {}  # a few combinations make up a bill
    found = []
    for row in pl.DataFrame([columns.text(n) for n in held]).iter_rows():
        if row not in known:
            told = {k: v for k, v in zip(held, row, strict=True) if v is not None}
            known[row] = json.dumps(told, ensure_ascii=False) if told else None
        found.append(known[row])
    return pl.Series(found, dtype=pl.String)


def parsed(
    columns: Columns,
    values: Mapping[str, Any],
    delivery: Delivery,
    *,
    names_invoices: bool,
    notes: tuple[str, ...] = (),
) -> Parsed:
    """The rows that stand as facts. `values`: columns of core.charge; those it leaves out are NULL.

    names_invoices: whether the file has a column for the invoice; without one it speaks of whole periods.
    """
    start, end = values["charge_period_start_at"], values["charge_period_end_at"]
    columns.refuse(end <= start, None, "the charge period ends before it begins", whole_row=True)
    first, last = values["billing_period_start_at"], values["billing_period_end_at"]
    columns.refuse(last <= first, None, "the billing period ends before it begins", whole_row=True)
    schema = frame_schema("core.charge")
    told = {"delivery_id": pl.lit(delivery.delivery_id), **values}
    frame = (
        pl.select(pl.int_range(columns.height).alias("row_"))
        .with_columns(**{n: told.get(n, pl.lit(None)) for n in schema})
        .filter(columns.alive)
        .select(pl.col(n).cast(t) for n, t in schema.items())
    )
    past = frame["charge_period_end_at"].filter(frame["charge_period_end_at"] <= delivery.at)
    return Parsed(
        primary="core.charge",
        tables={"core.charge": frame, "core.charge_delivery": _deliveries(frame, delivery, names_invoices)},
        rows_in=columns.rows_in,
        rejects=tuple(columns.rejects),
        data_at=past.max(),  # type: ignore[arg-type]
        notes=notes,
    )


def _deliveries(frame: pl.DataFrame, delivery: Delivery, names_invoices: bool) -> pl.DataFrame:
    """One row per invoice that the lines speak about."""
    schema = frame_schema("core.charge_delivery")
    named = pl.col("invoice_id").is_not_null()
    return (
        frame.select(
            "provider",
            "account",
            "billing_period_start_at",
            "billing_period_end_at",
            pl.col("invoice_id").fill_null("").alias("invoice_key"),
            pl.lit(delivery.at).alias("delivered_at"),
            pl.when(named)
            .then(pl.lit("invoice"))
            .otherwise(pl.lit("open" if names_invoices else "period"))
            .alias("scope"),
            "delivery_id",
        )
        .unique(maintain_order=True)
        .select(pl.col(n).cast(t) for n, t in schema.items())
    )


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
