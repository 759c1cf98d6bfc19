"""National Energy System Operator (GB), `https://api.carbonintensity.org.uk/intensity…` -> core.grid_intensity.

A row is one reading: a half hour tells a `forecast`, and once it is over an `actual`. Both are national
averages in gCO2/kWh by generation with direct factors (wind, nuclear, hydro, solar 0), imports and
losses included. Nothing here is metered: the `actual` is NESO's estimate from metered generation and
fuel factors (`calibrated`, estimated), the `forecast` a projection (`modeled`). A null is no reading.

The API has served one half hour twice with different values. The first is kept, so that the series has
no hole, and each differing repeat goes to quarantine with both values, so that somebody sees it.
An implausible reading is refused as a row: loading its half hour as NULL would hide the last good value.
The API names no time of issue: a forecast of a half hour yet to come was made no later than it was fetched.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import httpx

from ingest.base import Parsed, Payload
from ingest.fields import Row
from ingest.grid.pages import Pages, answers, get, whole_option, windows
from ingest.grid.reading import Readings, span
from ingest.http import NotModified
from ingest.kind import Ask
from ingest.read import field_of, shape_of
from warehouse.evidence import EvidenceClass

ZONE = "GB"
LONGEST = timedelta(days=14)  # the widest window that the API answers
_STAMP = "%Y-%m-%dT%H:%MZ"

# field -> (is_forecast, evidence class, method)
_READINGS = {
    "actual": (False, EvidenceClass.CALIBRATED, "national average, estimated outturn (NESO)"),
    "forecast": (True, EvidenceClass.MODELED, "national average, forecast (NESO)"),
}


def parse(payload: Payload) -> Parsed:
    """Readings of the listed half hours; `data_at` is the end of the newest actual one.

    Raises PayloadError for an error answer and for any other payload without `data`.
    """
    readings = Readings()
    row_no = -1
    for page, document in enumerate(answers(payload)):
        for data in field_of(payload, document, "data", list):
            row_no += 1
            _half_hour(Row(row_no, data if isinstance(data, dict) else {"row": data}), readings, payload, page)
    return readings.parsed(payload)


def _half_hour(row: Row, readings: Readings, payload: Payload, page: int) -> None:
    row.key = f"{ZONE} {row.data.get('from')}"
    found = span(row, row.data.get("from"), row.data.get("to"))
    told = row.data.get("intensity")
    if found is None:
        ends = {name: row.data.get(name) for name in ("from", "to")}
        readings.refuse(row, "from, to", ends, "are no interval in time with a zone, such as 2026-11-29T12:00Z")
    elif not isinstance(told, dict):
        readings.refuse(row, "intensity", told, f"is {shape_of(told)}, not an object")
    else:
        for name, (is_forecast, evidence, method) in _READINGS.items():
            if told.get(name) is None:  # an actual that is yet to come, or a forecast that was not kept
                continue
            common: dict[str, Any] = {
                "zone": ZONE,
                "signal": "average",
                "basis": "direct",
                "start_at": found[0],
                "end_at": found[1],
                "is_forecast": is_forecast,
                "is_estimated": True,
                "method": method,
                "forecast_made_at": payload.fetched_at if is_forecast and found[0] > payload.fetched_at else None,
                "evidence_class": evidence.value,
            }
            readings.add(row, f"intensity.{name}", told[name], common, page=page)


def fetch(ask: Ask) -> Payload | NotModified:
    """One conditional GET; with the option `days`, that many days up to now in windows of at most 14."""
    days = whole_option(ask, "days", low=1, high=400)
    if days is None:
        return get(ask, ask.url, left_bytes=ask.max_bytes, conditional=True)
    end_at = ask.now.replace(minute=ask.now.minute // 30 * 30, second=0, microsecond=0)
    pages = Pages(ask)
    for start, end in windows(end_at - timedelta(days=days), end_at, LONGEST):
        pages.get(str(httpx.URL(ask.url).join(f"/intensity/{start:{_STAMP}}/{end:{_STAMP}}")))
    return pages.joined()
