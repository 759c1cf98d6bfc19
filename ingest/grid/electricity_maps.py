"""Electricity Maps v3, `/v3/carbon-intensity/{latest,history,past,past-range,forecast}` -> core.grid_intensity.

Consumption-based (flow-traced) averages in gCO2eq/kWh. The zone is declared (option `zone`) and must be the
one that answers: without a usable zone the API answers for the caller's address, and for a point in the
Atlantic it answered for US-CAR-DUK (electricitymaps-contrib#6351). Another zone refuses the whole payload.
So does another basis than the declared one: lifecycle and direct differ by a fifth on gas and by all on wind.

An actual figure that is not estimated is metered generation x factors (`calibrated`); an estimated one and a
forecast are `modeled`. `updatedAt` is the version: figures are restated for months. A null is no reading.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from ingest.base import Parsed, Payload
from ingest.fields import Row
from ingest.grid.pages import Pages, answers, get, needed, secret_of, whole_option, windows, with_query
from ingest.grid.reading import Readings
from ingest.http import NotModified
from ingest.kind import Ask, Option
from ingest.read import refuse, shape_of
from warehouse.clock import parse_utc
from warehouse.evidence import EvidenceClass

STEPS = {
    "5_minutes": timedelta(minutes=5),
    "15_minutes": timedelta(minutes=15),
    "hourly": timedelta(hours=1),
    "daily": timedelta(days=1),
}
LONGEST = {"5_minutes": 10, "15_minutes": 10, "hourly": 10, "daily": 100}  # days that past-range answers at once
_STAMP = "%Y-%m-%dT%H:%M:%SZ"
_LISTS = ("history", "data", "forecast")
OPTIONS = (
    Option("zone", "the zone asked for, such as FI or US-MIDA-PJM; another one that answers is refused", required=True),
    Option("basis", "emissionFactorType of the figures", default="lifecycle", allowed=("lifecycle", "direct")),
    Option("granularity", "length of the intervals", default="hourly", allowed=tuple(STEPS)),
    Option("days", "days up to now, for an address that ends in past-range"),
)


def parse(payload: Payload) -> Parsed:
    """Figures of one zone. Raises PayloadError for an error answer, another zone, and any other shape."""
    readings = Readings()
    zone = payload.options.get("zone")
    if not zone:
        refuse(payload, "no zone is declared", field="zone", fix="give the zone asked for: --option zone=FI")
    for page, document in enumerate(answers(payload)):
        _check_answer(payload, document)
        if "zone" in document:
            _check_zone(payload, document, zone)
        is_forecast = isinstance(document.get("forecast"), list)
        made_at = _made_at(payload, document) if is_forecast else None
        for row_no, data in enumerate(_items(payload, document)):
            row = Row(row_no, data if isinstance(data, dict) else {"row": data})
            _check_zone(payload, row.data if "zone" in row.data else document, zone)
            _figure(row, readings, payload, document, zone, is_forecast, made_at, page)
    return readings.parsed(payload)


def _check_answer(payload: Payload, document: dict[str, Any]) -> None:
    told = document.get("error")
    if told is None and document.get("status") == "error":
        told = document.get("message") or "no message"
    if told is not None:
        told = told.get("message", told) if isinstance(told, dict) else told
        words = str(told)[:200]
        secret_at_fault = "unauthorized" in words.lower() or "token" in words.lower()
        refuse(
            payload,
            f"the source answered with an error: {words!r}",
            field="error",
            fix="check the secret and what its plan may read" if secret_at_fault else "check the zone, or try later",
        )


def _items(payload: Payload, document: dict[str, Any]) -> Iterator[Any]:
    """The figures of a list answer, or the single one of `latest`."""
    for name in _LISTS:
        if name in document:
            if not isinstance(document[name], list):
                refuse(payload, f"{name!r} is {shape_of(document[name])}, not a list", field=name)
            yield from document[name]
            return
    if "carbonIntensity" not in document and "datetime" not in document:
        known = ", ".join(sorted(map(str, document))[:8]) or "nothing"
        refuse(payload, f"the payload tells no carbonIntensity; it has {known}", fix="check kind and address")
    yield document


def _check_zone(payload: Payload, data: Mapping[str, Any], zone: str) -> None:
    told = data.get("zone")
    if told != zone:
        refuse(
            payload,
            f"the zone {zone} was asked for and {str(told)[:40]!r} answered; nothing of it is kept",
            field="zone",
            fix="use a zone id of /v3/zones; neither coordinates nor the caller's address stand for a zone",
        )


def _made_at(payload: Payload, document: dict[str, Any]) -> datetime:
    """When the forecast was issued: `updatedAt`, which a forecast cannot do without."""
    try:
        return parse_utc(document["updatedAt"], what="updatedAt")
    except (KeyError, TypeError, ValueError, OverflowError):
        refuse(payload, "the forecast tells no updatedAt, so its horizon is unknown", field="updatedAt")


def _figure(
    row: Row,
    readings: Readings,
    payload: Payload,
    document: dict[str, Any],
    zone: str,
    is_forecast: bool,
    made_at: datetime | None,
    page: int,
) -> None:
    data = row.data
    basis, granularity = payload.options.get("basis", "lifecycle"), payload.options.get("granularity", "hourly")
    row.key = f"{zone} {data.get('datetime')}"
    start_at = row.time("datetime", data.get("datetime"))
    updated_at = row.time("updatedAt", data.get("updatedAt"))
    row.rejects.clear()
    told_basis = data.get("emissionFactorType", document.get("emissionFactorType"))
    told_step = data.get("temporalGranularity", document.get("temporalGranularity"))
    estimated = data.get("isEstimated")
    if told_basis is not None and told_basis != basis:
        refuse(
            payload,
            f"the figures are {str(told_basis)[:40]!r} and {basis!r} ones were declared; the two are never mixed",
            field="emissionFactorType",
            fix="set the option basis to what the figures are, in a source of its own",
        )
    if start_at is None:
        readings.refuse(row, "datetime", data.get("datetime"), "is no time with a zone, such as 2026-11-29T12:00Z")
    elif told_step is not None and told_step != granularity:
        readings.refuse(row, "temporalGranularity", told_step, f"is not {granularity}, as declared")
    elif estimated is not None and not isinstance(estimated, bool):
        readings.refuse(row, "isEstimated", estimated, f"is {shape_of(estimated)}, not true or false")
    else:
        # without the flag nobody says that the figure is not estimated
        is_estimated = is_forecast or estimated is not False
        method = row.text("estimationMethod", data.get("estimationMethod"))
        row.rejects.clear()
        common = {
            "zone": zone,
            "signal": "average",
            "basis": basis,
            "start_at": start_at,
            "end_at": start_at + STEPS[granularity],
            "is_forecast": is_forecast,
            "is_estimated": is_estimated,
            "method": f"flow-traced consumption average{', forecast' if is_forecast else ''} (Electricity Maps)",
            "estimation_method": method,
            "forecast_made_at": made_at,
            "version": _stamp(made_at or updated_at),
            "evidence_class": (EvidenceClass.MODELED if is_estimated else EvidenceClass.CALIBRATED).value,
        }
        readings.add(row, "carbonIntensity", data.get("carbonIntensity"), common, page=page)


def _stamp(at: datetime | None) -> str | None:
    return None if at is None else f"{at.isoformat(timespec='milliseconds')}Z"


def fetch(ask: Ask) -> Payload | NotModified:
    """GET with the declared zone and basis, and never with the caller's address standing in for a zone."""
    headers = {"auth-token": secret_of(ask, "an Electricity Maps token")}
    granularity = ask.options.get("granularity", "hourly")
    url = with_query(
        ask.url,
        zone=needed(ask, "zone"),
        emissionFactorType=ask.options.get("basis", "lifecycle"),
        temporalGranularity=granularity,
        shouldUseFallbackCallerLookup="false",
    )
    days = whole_option(ask, "days", low=1, high=400)
    if days is None:
        return get(ask, url, headers=headers, left_bytes=ask.max_bytes, conditional=True)
    end_at = ask.now.replace(minute=0, second=0, microsecond=0)
    pages = Pages(ask)
    for start, end in windows(end_at - timedelta(days=days), end_at, timedelta(days=LONGEST[granularity])):
        pages.get(
            with_query(url, start=f"{start:%Y-%m-%dT%H:%M:%SZ}", end=f"{end:%Y-%m-%dT%H:%M:%SZ}"), headers=headers
        )
    return pages.joined()
