"""Dated exchange rates from a CSV -> core.fx_rate.

Columns: date (YYYY-MM-DD), from, to (ISO 4217), rate, source. One unit of `from` is `rate` units of `to` on
that day, as `source` published it. A restated rate is a new version; the older one stays readable.
"""

from __future__ import annotations

import io
from pathlib import Path

import polars as pl

from ingest.base import Parsed, Payload
from ingest.billing.columns import Columns, Reading
from ingest.billing.sheets import open_sheet, refuse
from ingest.stream import Stream
from warehouse.tables import frame_schema

REQUIRED = ("date", "from", "to", "rate", "source")
_CODE = r"^[A-Z]{3}$"
_DAY = r"^\d{4}-\d{2}-\d{2}$"


def parse(payload: Payload) -> Parsed:
    """Rates of the file. Raises PayloadError where a column is missing."""
    about = Stream(payload.source_id, payload.kind, Path("payload"), payload.fetched_at, payload.options)
    with open_sheet(about, io.BytesIO(payload.body)) as sheet:
        names = {n.strip().lower(): n for n in sheet.names}
        if missing := [n for n in REQUIRED if n not in names]:
            refuse(
                about,
                f"the file has no column {', '.join(missing)}; it has {', '.join(sheet.names)}",
                field=missing[0],
                fix=f"write the columns {', '.join(REQUIRED)}",
            )
        parts = [_rates(Columns(chunk, names, Reading())) for chunk in sheet.chunks]
    frame = pl.concat([pl.DataFrame(schema=frame_schema("core.fx_rate")), *(found for _, found in parts)])
    days = frame["rate_on_at"].filter(frame["rate_on_at"] <= payload.fetched_at)
    return Parsed(
        primary="core.fx_rate",
        tables={"core.fx_rate": frame},
        rows_in=sum(c.rows_in for c, _ in parts),
        rejects=tuple(r for c, _ in parts for r in c.rejects),
        data_at=days.max(),  # type: ignore[arg-type]
    )


def _rates(columns: Columns) -> tuple[Columns, pl.DataFrame]:
    codes = {}
    for name in ("from", "to"):
        codes[name] = columns.text(name, required=True)
        columns.refuse(~codes[name].str.contains(_CODE), name, "is no ISO 4217 code of three capitals", whole_row=True)
    columns.refuse(codes["from"] == codes["to"], "to", "is the same currency", whole_row=True)
    day = columns.text("date", required=True)
    columns.refuse(~day.str.contains(_DAY), "date", "is no date YYYY-MM-DD", whole_row=True)
    rate = columns.decimal("rate", required=True)
    columns.refuse(rate <= 0, "rate", "is not above 0", whole_row=True)
    values = {
        "from_currency": codes["from"],
        "to_currency": codes["to"],
        "rate_source": columns.text("source", required=True),
        "rate_on_at": columns.time("date", required=True),
        "rate": rate,
    }
    frame = pl.DataFrame([s.alias(n) for n, s in values.items()]).filter(columns.alive)
    return columns, frame.select(pl.col(n).cast(t) for n, t in frame_schema("core.fx_rate").items())
