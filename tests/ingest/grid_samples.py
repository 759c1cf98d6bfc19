"""Small payloads of the grid kinds, made for these tests, in the wire format of their sources."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

FI_EIC = "10YFI-1--------U"


def em_point(**changes: Any) -> dict[str, Any]:
    """A figure of Electricity Maps; `...` leaves a field out."""
    point = {
        "zone": "FI",
        "carbonIntensity": 37,
        "datetime": "2026-05-15T10:00:00.000Z",
        "updatedAt": "2026-05-15T11:41:02.001Z",
        "createdAt": "2026-05-12T10:50:31.772Z",
        "emissionFactorType": "lifecycle",
        "isEstimated": False,
        "estimationMethod": None,
        **changes,
    }
    return {name: value for name, value in point.items() if value is not ...}


def em_forecast(*points: tuple[str, Any], **changes: Any) -> dict[str, Any]:
    listed = points or (("2026-05-15T13:00:00.000Z", 38), ("2026-05-15T14:00:00.000Z", 41))
    return {
        "zone": "FI",
        "updatedAt": "2026-05-15T12:00:00.000Z",
        "forecast": [{"carbonIntensity": value, "datetime": at} for at, value in listed],
        **changes,
    }


def watttime(*points: tuple[str, Any], **meta: Any) -> dict[str, Any]:
    listed = points or (("2026-05-15T11:50:00+00:00", 1000.0), ("2026-05-15T11:55:00+00:00", 0.0))
    told = {
        "region": "PJM_DC",
        "signal_type": "co2_moer",
        "model": {"date": "2026-03-01"},
        "units": "lbs_co2_per_mwh",
        "data_point_period_seconds": 300,
        "generated_at": "2026-05-15T12:00:00+00:00",
        "warnings": [],
        **meta,
    }
    return {
        "meta": {name: value for name, value in told.items() if value is not ...},
        "data": [{"point_time": at, "value": value} for at, value in listed],
    }


def eia_row(fuel: str, value: Any, period: str = "2026-05-15T12", **changes: Any) -> dict[str, Any]:
    return {
        "period": period,
        "respondent": "PJM",
        "fueltype": fuel,
        "type-name": fuel,
        "value": value,
        "value-units": "megawatthours",
        **changes,
    }


def eia(*listed: dict[str, Any], total: Any = None, **changes: Any) -> dict[str, Any]:
    told = list(listed) or [eia_row("COL", "15000"), eia_row("NG", 45000), eia_row("SUN", "0"), eia_row("PS", -350.5)]
    response = {"total": str(len(told)) if total is None else total, "frequency": "hourly", "data": told, **changes}
    return {"response": response, "apiVersion": "2.1.8"}


def entsoe_series(
    psr: str = "B14",
    points: Sequence[tuple[Any, Any]] = ((1, 3600), (4, 3500)),
    *,
    curve: str = "A03",
    resolution: str = "PT15M",
    start: str = "2026-05-15T11:00Z",
    end: str = "2026-05-15T12:00Z",
    unit: str = "MAW",
    domain: str = "in",
    eic: str = FI_EIC,
) -> str:
    listed = "".join(f"<Point><position>{p}</position><quantity>{q}</quantity></Point>" for p, q in points)
    return (
        f'<TimeSeries><{domain}BiddingZone_Domain.mRID codingScheme="A01">{eic}</{domain}BiddingZone_Domain.mRID>'
        f"<quantity_Measure_Unit.name>{unit}</quantity_Measure_Unit.name><curveType>{curve}</curveType>"
        f"<MktPSRType><psrType>{psr}</psrType></MktPSRType><Period><timeInterval><start>{start}</start>"
        f"<end>{end}</end></timeInterval><resolution>{resolution}</resolution>{listed}</Period></TimeSeries>"
    )


def entsoe(*series: str, kind: str = "A75") -> str:
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<GL_MarketDocument xmlns="urn:iec62325.351:tc57wg16:451-6:generationloaddocument:3:0">'
        f"<type>{kind}</type>{''.join(series) or entsoe_series()}</GL_MarketDocument>"
    )


def acknowledgement(text: str) -> str:
    return (
        '<Acknowledgement_MarketDocument xmlns="urn:iec62325.351:tc57wg16:451-1:acknowledgementdocument:7:0">'
        f"<Reason><code>999</code><text>{text}</text></Reason></Acknowledgement_MarketDocument>"
    )


def region_half(regionid: Any = 13, forecast: Any = 120, **changes: Any) -> dict[str, Any]:
    """A region as `/regional` lists it within its half hour."""
    return {"regionid": regionid, "shortname": "London", "intensity": {"forecast": forecast}, **changes}


def regional(*regions: Any, start: str = "2026-05-15T12:00Z", end: str = "2026-05-15T12:30Z") -> dict[str, Any]:
    return {"data": [{"from": start, "to": end, "regions": list(regions) or [region_half(), region_half(16, 30)]}]}


ZONES_LONG = """provider,region,zone,confidence,source,zone_system
gcp,europe-north1,FI,high,own table 2026,
aws,us-west-2,US-NW-PACW,low,own table 2026,electricitymaps
gcp,us-east4,PJM,high,own table 2026,eia
"""

ZONES_WIDE = """provider,region,country_iso3,electricity_maps_zone,eia_ba,entsoe_zone,confidence,note
gcp,europe-north1,FIN,FI,,FI,high,Hamina
gcp,us-east4,USA,US-MIDA-PJM,PJM,,high,"Ashburn, VA"
"""

# kind -> one sound payload body, and what a person declares for it
SOUND: dict[str, str] = {
    "uk-carbon-regional": json.dumps(regional()),
    "electricitymaps": json.dumps({"zone": "FI", "history": [em_point(), em_point(datetime="2026-05-15T11:00Z")]}),
    "watttime": json.dumps(watttime()),
    "eia-930": json.dumps(eia()),
    "entsoe": entsoe(entsoe_series(), entsoe_series("B19", [(1, 500)], resolution="PT60M")),
    "zone-map": ZONES_WIDE,
}
OPTIONS: dict[str, dict[str, str]] = {"electricitymaps": {"zone": "FI"}, "watttime": {"region": "PJM_DC"}}
