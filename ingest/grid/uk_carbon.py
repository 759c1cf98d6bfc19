"""National Energy System Operator (GB), `https://api.carbonintensity.org.uk/intensity…` -> core.grid_intensity.

A row is one reading: a half hour tells a `forecast`, and once it is over an `actual`. Both are national
averages in gCO2/kWh by generation with direct factors (wind, nuclear, hydro, solar 0), imports and
losses included. Nothing here is metered: the `actual` is NESO's estimate from metered generation and
fuel factors (`calibrated`, estimated), the `forecast` a projection (`modeled`). A null is no reading.

The API has served one half hour twice with different values. The first is kept, so that the series has
no hole, and each differing repeat goes to quarantine with both values, so that somebody sees it.
An implausible reading is refused as a row: loading its half hour as NULL would hide the last good value.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ingest.base import Parsed, Payload, Reject
from ingest.fields import LARGEST_INTENSITY, Refused, Row, number
from ingest.read import field_of, read_json, shape_of
from warehouse.evidence import EvidenceClass
from warehouse.tables import frame

ZONE = "GB"

# field -> (is_forecast, evidence class, method)
_READINGS = {
    "actual": (False, EvidenceClass.CALIBRATED, "national average, estimated outturn (NESO)"),
    "forecast": (True, EvidenceClass.MODELED, "national average, forecast (NESO)"),
}


def parse(payload: Payload) -> Parsed:
    """Readings of the listed half hours; `data_at` is the end of the newest actual one.

    Raises PayloadError for an error answer and for any other payload without `data`.
    """
    listed = field_of(payload, read_json(payload, allow_nan=True), "data", list)
    rows: dict[tuple[datetime, bool], dict[str, Any]] = {}
    rejects: list[Reject] = []
    rows_in = 0
    for row_no, data in enumerate(listed):
        row = Row(row_no, data if isinstance(data, dict) else {"row": data})
        span = _span(row)
        told = row.data.get("intensity")
        if span is None or not isinstance(told, dict):
            if span is not None:
                row.refuse("intensity", told, f"is {shape_of(told)}, not an object", whole_row=True)
            rows_in += 1
        else:
            for name in _READINGS:
                if told.get(name) is not None:
                    rows_in += 1
                    _reading(row, name, told[name], span, rows)
        rejects += row.rejects
    actual = [row["end_at"] for row in rows.values() if not row["is_forecast"]]
    return Parsed(
        primary="core.grid_intensity",
        tables={"core.grid_intensity": frame("core.grid_intensity", rows.values())},
        rows_in=rows_in,
        rejects=tuple(rejects),
        data_at=max(actual, default=None),
    )


def _span(row: Row) -> tuple[datetime, datetime] | None:
    """The half-open interval of a row; None, with one whole-row reject, where it tells none."""
    row.key = f"{ZONE} {row.data.get('from')}"
    start_at, end_at = (row.time(name, row.data.get(name)) for name in ("from", "to"))
    row.rejects.clear()  # one reject for the row, not one for each of its ends
    if start_at is None or end_at is None or not start_at < end_at:
        told = {name: row.data.get(name) for name in ("from", "to")}
        row.refuse("from, to", told, "are no interval in time with a zone, such as 2026-11-29T12:00Z", whole_row=True)
        return None
    return start_at, end_at


def _reading(
    row: Row, name: str, value: Any, span: tuple[datetime, datetime], rows: dict[tuple[datetime, bool], dict[str, Any]]
) -> None:
    is_forecast, evidence, method = _READINGS[name]
    try:
        intensity = number(value, low=0, high=LARGEST_INTENSITY)
    except Refused as refused:
        row.refuse(f"intensity.{name}", value, str(refused), whole_row=True)
        return
    assert intensity is not None
    found = {
        "zone": ZONE,
        "signal": "average",
        "basis": "direct",
        "start_at": span[0],
        "end_at": span[1],
        "is_forecast": is_forecast,
        "is_estimated": True,
        "intensity_g_per_kwh": float(intensity),
        "method": method,
        "evidence_class": evidence.value,
    }
    known = rows.setdefault((span[0], is_forecast), found)
    if known is not found:
        kept = f"{known['intensity_g_per_kwh']:g} until {known['end_at']:%Y-%m-%dT%H:%MZ}"
        how = "again" if known == found else f"again with another value; {kept} came first and was kept"
        row.refuse(f"intensity.{name}", value, f"tells the half hour {how}", whole_row=True)
