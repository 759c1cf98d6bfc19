"""WattTime v3, `/v3/historical` and `/v3/forecast` -> core.grid_intensity.

co2_moer is the marginal rate, co2_aoer the average one; both count the CO2 of combustion (`direct`) in
lb/MWh, x 0.45359237 = g/kWh, exactly. Any other unit or signal refuses the payload. Regions (CAISO_NORTH,
PJM_DC) are zones of their own: finer than any other table, and never translated. Rates come out of a model,
so all are `modeled` and estimated; the date of the model is the version.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from ingest.base import Parsed, Payload
from ingest.fields import Row
from ingest.grid.pages import answers
from ingest.grid.reading import Readings
from ingest.kind import Option
from ingest.read import field_of, refuse, shape_of
from warehouse.clock import parse_utc
from warehouse.evidence import EvidenceClass

G_PER_KWH_PER_LB_PER_MWH = Decimal("0.45359237")  # 1 lb = 453.59237 g, by definition
UNITS = "lbs_co2_per_mwh"
SIGNALS = {"co2_moer": "marginal", "co2_aoer": "average"}
_PERIODS_S = (60, 3600)
OPTIONS = (
    Option("region", "the WattTime region asked for, such as CAISO_NORTH", required=True),
    Option("signal", "signal_type", default="co2_moer", allowed=tuple(SIGNALS)),
    Option("series", "which answer it is", default="historical", allowed=("historical", "forecast")),
    Option("hours", "hours up to now that are asked for; of a forecast, hours from now", default="24"),
)


def parse(payload: Payload) -> Parsed:
    """Rates of one region. Raises PayloadError for another region, signal, unit or series than declared."""
    readings = Readings()
    series = payload.options.get("series", "historical")
    for page, document in enumerate(answers(payload)):
        listed = field_of(payload, document, "data", list)
        meta = field_of(payload, document, "meta", dict)
        common, period, made_at = _common(payload, meta, series)
        for row_no, data in enumerate(listed):
            row = Row(row_no, data if isinstance(data, dict) else {"row": data})
            if isinstance(row.data.get("forecast"), list):
                refuse(
                    payload,
                    "these are past forecasts (/v3/forecast/historical), several for one interval",
                    field="forecast",
                    fix="import answers of /v3/historical or /v3/forecast",
                )
            _rate(row, readings, payload, common, period, made_at, page)
    return readings.parsed(payload)


def _common(payload: Payload, meta: dict[str, Any], series: str) -> tuple[dict[str, Any], timedelta, datetime]:
    """What holds for all rates of an answer, their period, and when it was made."""
    region, signal = payload.options.get("region"), payload.options.get("signal", "co2_moer")
    if not region:
        refuse(payload, "no region is declared", field="region", fix="give the one asked for: --option region=PJM_DC")
    for name, asked in (("region", region), ("signal_type", signal), ("units", UNITS)):
        told = meta.get(name)
        if told != asked:
            shown = repr(told[:60]) if isinstance(told, str) else shape_of(told)
            refuse(
                payload,
                f"meta.{name} is {shown} and {asked!r} was expected; nothing of it is kept",
                field=f"meta.{name}",
                fix="check what was asked for, and the options of the source",
            )
    seconds = meta.get("data_point_period_seconds", 300)
    whole = isinstance(seconds, int) and not isinstance(seconds, bool)
    if not whole or not _PERIODS_S[0] <= seconds <= _PERIODS_S[1]:
        refuse(
            payload,
            f"meta.data_point_period_seconds is no whole number from {_PERIODS_S[0]} to {_PERIODS_S[1]}",
            field="meta.data_point_period_seconds",
        )
    try:
        made_at = parse_utc(meta["generated_at"], what="generated_at")
    except KeyError:
        if series == "forecast":
            refuse(payload, "the forecast tells no generated_at, so its horizon is unknown", field="meta.generated_at")
        made_at = payload.fetched_at
    except (ValueError, TypeError, OverflowError):
        refuse(payload, "meta.generated_at is no time with a zone", field="meta.generated_at")
    model = meta.get("model")
    date = model.get("date") if isinstance(model, dict) else None
    version = date if isinstance(date, str) else None
    kind = SIGNALS[signal]
    is_forecast = series == "forecast"
    common = {
        "zone": region,
        "signal": kind,
        "basis": "direct",
        "is_forecast": is_forecast,
        "is_estimated": True,
        "method": f"{kind} operating emissions rate{', forecast' if is_forecast else ''} (WattTime {signal})",
        "estimation_method": f"model of {version}" if version else "model of unknown date",
        "forecast_made_at": made_at if is_forecast else None,
        "version": version,
        "evidence_class": EvidenceClass.MODELED.value,
    }
    return common, timedelta(seconds=seconds), made_at


def _rate(
    row: Row,
    readings: Readings,
    payload: Payload,
    common: dict[str, Any],
    period: timedelta,
    made_at: datetime,
    page: int,
) -> None:
    told = row.data.get("point_time")
    row.key = f"{common['zone']} {told}"
    start_at = row.time("point_time", told)
    row.rejects.clear()
    if start_at is None:
        readings.refuse(row, "point_time", told, "is no time with a zone, such as 2026-11-29T12:00:00+00:00")
        return
    if not common["is_forecast"] and start_at > made_at + period:
        refuse(
            payload,
            f"the rate of {start_at:%Y-%m-%dT%H:%MZ} lies after the answer was made: this is a forecast",
            field="point_time",
            fix="give --option series=forecast",
        )
    found = {**common, "start_at": start_at, "end_at": start_at + period}
    if row.data.get("imputed_data_used") is True:
        found["estimation_method"] += ", input imputed"
    readings.add(row, "value", row.data.get("value"), found, page=page, scale=G_PER_KWH_PER_LB_PER_MWH)
