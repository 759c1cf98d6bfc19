"""Regional intensity of Great Britain, `https://api.carbonintensity.org.uk/regional…` -> core.grid_intensity.

Three shapes: `/regional` lists half hours with their regions, `/regional/regionid/13` and
`/regional/intensity/…/regionid/13` list regions with their half hours. Regions are told by `regionid`,
which the table below turns into a zone of its own; their names and postcodes are not looked up. Regional
figures are forecasts only: a model of generation and flows between regions (`modeled`), direct factors.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ingest.base import Parsed, Payload
from ingest.fields import Row
from ingest.grid.pages import answers
from ingest.grid.reading import Readings, span
from ingest.read import field_of, refuse, shape_of
from warehouse.evidence import EvidenceClass

# regionid -> zone; 18 is Great Britain as a whole
ZONES = {
    1: "GB-NORTH-SCOTLAND",
    2: "GB-SOUTH-SCOTLAND",
    3: "GB-NORTH-WEST-ENGLAND",
    4: "GB-NORTH-EAST-ENGLAND",
    5: "GB-YORKSHIRE",
    6: "GB-NORTH-WALES-MERSEYSIDE",
    7: "GB-SOUTH-WALES",
    8: "GB-WEST-MIDLANDS",
    9: "GB-EAST-MIDLANDS",
    10: "GB-EAST-ENGLAND",
    11: "GB-SOUTH-WEST-ENGLAND",
    12: "GB-SOUTH-ENGLAND",
    13: "GB-LONDON",
    14: "GB-SOUTH-EAST-ENGLAND",
    15: "GB-ENGLAND",
    16: "GB-SCOTLAND",
    17: "GB-WALES",
    18: "GB",
}


def parse(payload: Payload) -> Parsed:
    """Forecasts of the listed regions and half hours.

    Raises PayloadError for an error answer and for any other payload without `data`.
    """
    readings = Readings()
    for page, document in enumerate(answers(payload)):
        data = document.get("data")
        listed = [data] if isinstance(data, dict) else field_of(payload, document, "data", list)
        for row_no, (region, half) in enumerate(_pairs(payload, listed)):
            _forecast(Row(row_no, {**half, **region}), region, half, readings, payload, page)
    return readings.parsed(payload)


def _pairs(payload: Payload, listed: list[Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """(what tells the region, what tells interval and intensity), whichever of the shapes it is."""
    for item in listed:
        if not isinstance(item, dict):
            yield {}, {"row": item}
        elif isinstance(item.get("regions"), list):
            ends = {name: item.get(name) for name in ("from", "to")}
            for region in item["regions"]:
                told = region if isinstance(region, dict) else {"row": region}
                yield told, {**ends, "intensity": told.get("intensity")}
        elif isinstance(item.get("data"), list):
            region = {name: item.get(name) for name in ("regionid", "shortname")}
            for half in item["data"]:
                yield region, half if isinstance(half, dict) else {"row": half}
        elif "intensity" in item and "regionid" not in item:
            refuse(payload, "the payload tells national half hours, without regions", fix="use the kind uk-carbon")
        else:
            yield item, item


def _forecast(
    row: Row, region: dict[str, Any], half: dict[str, Any], readings: Readings, payload: Payload, page: int
) -> None:
    number = region.get("regionid")
    row.key = f"region {number} {half.get('from')}"
    zone = ZONES.get(number) if isinstance(number, int) and not isinstance(number, bool) else None
    found = span(row, half.get("from"), half.get("to"))
    told = half.get("intensity")
    if zone is None:
        readings.refuse(row, "regionid", number, f"is no region from {min(ZONES)} to {max(ZONES)}")
    elif found is None:
        ends = {name: half.get(name) for name in ("from", "to")}
        readings.refuse(row, "from, to", ends, "are no interval in time with a zone, such as 2026-11-29T12:00Z")
    elif not isinstance(told, dict):
        readings.refuse(row, "intensity", told, f"is {shape_of(told)}, not an object")
    else:
        common = {
            "zone": zone,
            "signal": "average",
            "basis": "direct",
            "start_at": found[0],
            "end_at": found[1],
            "is_forecast": True,
            "is_estimated": True,
            "method": "regional average, forecast (NESO)",
            "forecast_made_at": payload.fetched_at if found[0] > payload.fetched_at else None,
            "evidence_class": EvidenceClass.MODELED.value,
        }
        readings.add(row, "intensity.forecast", told.get("forecast"), common, page=page)
