"""Static grid factors from a file, CSV or a JSON list of objects -> core.grid_intensity.
Ember's yearly factors as LeadGreen publishes them (`ingest.grid.ember`) are taken as they are.

Columns: zone, year, basis (lifecycle | direct), source, optionally signal (average | marginal, default
average), and exactly one intensity column, whose unit stands in its name (`UNITS`). A factor holds for
its year; its method names year and source, so that both are on screen wherever it stands in for a live
value. Zones are declared ids (FI, US-MIDA-PJM): coordinates are refused, because no lookup is a guess.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from ingest.base import Parsed, Payload, Reject
from ingest.fields import LARGEST_INTENSITY, Refused, Row, number
from ingest.grid.ember import factors, is_ember
from ingest.read import loads, parse_json, read_text, refuse, shape_of
from warehouse.evidence import EvidenceClass
from warehouse.tables import frame

# intensity column -> g/kWh per unit; 1 lb = 453.59237 g, so 1 lb/MWh = 0.45359237 g/kWh
UNITS = {
    "intensity_g_per_kwh": Decimal(1),
    "g_per_kwh": Decimal(1),
    "intensity_kg_per_kwh": Decimal(1000),
    "kg_per_kwh": Decimal(1000),
    "intensity_kg_per_mwh": Decimal(1),
    "kg_per_mwh": Decimal(1),
    "intensity_lb_per_mwh": Decimal("0.45359237"),
    "lb_per_mwh": Decimal("0.45359237"),
}
BASES = ("lifecycle", "direct")
SIGNALS = ("average", "marginal")
_NEEDED = ("zone", "year", "basis", "source")
_KNOWN = frozenset({*_NEEDED, "signal", *UNITS})
_COORDINATES = frozenset({"lat", "lon", "latitude", "longitude", "lng"})
_ZONE = re.compile(r"[A-Z]{2,5}(-[A-Z0-9]+)*")
_YEARS = (1990, 2100)


def parse(payload: Payload) -> Parsed:
    """Factors of the file. Raises PayloadError where its columns are not those above."""
    text = read_text(payload)
    listed = list(_json_rows(text, payload) if text.lstrip()[0] in "[{" else _csv_rows(text, payload))
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    rejects: list[Reject] = []
    for row_no, data in enumerate(listed):
        row = Row(row_no, data if isinstance(data, dict) else {"row": data})
        try:
            found = _factor(row, data)
        except Refused as refused:
            name, _, reason = str(refused).partition(" ")
            row.refuse(name, row.data.get(name), reason, whole_row=True)
            rejects += row.rejects
            continue
        key = tuple(found[k] for k in ("zone", "signal", "basis", "start_at"))
        known = rows.setdefault(key, found)
        if known is not found:
            how = "the same value" if known == found else f"another value; {known['intensity_g_per_kwh']:g} was kept"
            row.refuse("zone", found["zone"], f"has this year and basis twice, with {how}", whole_row=True)
            rejects += row.rejects
    return Parsed(
        primary="core.grid_intensity",
        tables={"core.grid_intensity": frame("core.grid_intensity", rows.values())},
        rows_in=len(listed),
        rejects=tuple(rejects),
        data_at=max((row["end_at"] for row in rows.values() if row["end_at"] <= payload.fetched_at), default=None),
    )


def _csv_rows(text: str, payload: Payload) -> Iterator[dict[str, Any]]:
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        header = [name.strip().lower() for name in next(reader)]
        _check_columns(header, payload)
        for cells in reader:
            if any(cell.strip() for cell in cells):
                padded = [cell.strip() or None for cell in cells]
                extra = {"row": cells} if len(cells) != len(header) else {}
                yield {**dict(zip(header, padded, strict=False)), **extra}
    except csv.Error as error:
        refuse(payload, f"the payload is no CSV: {error}", fix="save it as comma separated UTF-8")


def _json_rows(text: str, payload: Payload) -> list[Any]:
    document = parse_json(text, payload, allow_nan=True)
    if is_ember(document):
        return factors(document, payload)
    if not isinstance(document, list):
        refuse(payload, f"the payload is {shape_of(document)}, not a list of factors", fix="write [{…}, …]")
    named = [set(row) for row in document if isinstance(row, dict)]
    if document and not named:
        refuse(payload, "the list holds no objects", fix="write [{…}, …]")
    if named:
        _check_columns(sorted(set.union(*named)), payload)
    return document


def _check_columns(names: list[str], payload: Payload) -> None:
    """Refuse a file whose columns cannot be understood, naming the ones that can."""
    allowed = ", ".join(UNITS)
    if len(names) == 1 and ";" in names[0]:
        refuse(payload, "the columns are separated by ';'", fix="save it comma separated, with decimal points")
    if found := sorted(_COORDINATES & set(names)):
        refuse(
            payload,
            f"the columns {', '.join(found)} give coordinates, and no zone can be told from those",
            field=found[0],
            fix="write the declared zone id, such as FI or US-MIDA-PJM",
        )
    units = [name for name in names if name in UNITS]
    if unknown := sorted(set(names) - _KNOWN):
        refuse(payload, f"the column {unknown[0]!r} is not known", field=unknown[0],
               fix=f"use zone, year, basis, source, signal and one of {allowed}")  # fmt: skip
    if len(units) != 1:
        told = "no column tells an intensity with its unit" if not units else f"{', '.join(units)} tell it twice"
        refuse(payload, told, field="intensity", fix=f"use exactly one of {allowed}")
    if missing := [name for name in _NEEDED if name not in names]:
        refuse(payload, f"the column {missing[0]!r} is missing", field=missing[0], fix="add it; nothing is assumed")
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        refuse(payload, f"the column {repeated[0]!r} comes twice", field=repeated[0], fix="keep one")


def _factor(row: Row, data: Any) -> dict[str, Any]:
    """One row of core.grid_intensity. Raises Refused, the message beginning with the field."""
    if not isinstance(data, dict) or "row" in data:
        raise Refused("row has not the columns of the header")
    zone, basis, signal = (_text(data, name) for name in ("zone", "basis", "signal"))
    source = _text(data, "source")
    row.key = " ".join(str(data.get(k)) for k in ("zone", "year", "basis"))
    if zone is None or not _ZONE.fullmatch(zone):
        raise Refused("zone is no declared zone id, such as FI or US-MIDA-PJM")
    if basis not in BASES:
        raise Refused(f"basis is none of {', '.join(BASES)}")
    signal = signal or "average"
    if signal not in SIGNALS:
        raise Refused(f"signal is none of {', '.join(SIGNALS)}")
    if source is None:
        raise Refused("source is missing; a factor without its source cannot be shown")
    year = _number(data, "year")
    if year != int(year) or not _YEARS[0] <= year < _YEARS[1]:
        raise Refused(f"year is no year from {_YEARS[0]} to {_YEARS[1]}")
    column = next((name for name in UNITS if name in data), None)
    if column is None:
        raise Refused("intensity is missing")
    intensity = _number(data, column) * UNITS[column]
    if not 0 <= intensity <= LARGEST_INTENSITY:
        raise Refused(f"{column} is {intensity:.6g} g/kWh, outside 0 to {LARGEST_INTENSITY}; check its unit")
    return {
        "zone": zone,
        "signal": signal,
        "basis": basis,
        "start_at": datetime(int(year), 1, 1),
        "end_at": datetime(int(year) + 1, 1, 1),
        "is_forecast": False,
        "is_estimated": False,
        "intensity_g_per_kwh": float(intensity),
        "method": f"static factor {int(year)} ({source})",
        "evidence_class": EvidenceClass.MODELED.value,
    }


def _text(data: Mapping[str, Any], name: str) -> str | None:
    value = data.get(name)
    return value.strip() or None if isinstance(value, str) else None


def _number(data: Mapping[str, Any], name: str) -> Decimal:
    """A JSON number, or the text of one in a CSV cell (with a decimal point). Raises Refused."""
    value = data.get(name)
    if isinstance(value, str):
        if not re.fullmatch(r"-?\d{1,30}(\.\d{1,30})?([eE][+-]?\d{1,2})?", value, re.ASCII):
            raise Refused(f"{name} is not a number with a decimal point")
        value = loads(re.sub(r"^(-?)0+(?=\d)", r"\1", value))
    try:
        found = number(value, low=-(10**6), high=10**6)
    except Refused as refused:
        raise Refused(f"{name} {refused}") from None
    if found is None:
        raise Refused(f"{name} is missing")
    return found
