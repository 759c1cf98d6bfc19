"""EIA-930 hourly net generation by fuel, `api.eia.gov/v2/electricity/rto/fuel-type-data` -> core.grid_generation,
and from it core.grid_intensity with the factors of `ingest.grid.fuels`.

`period` is the END of its hour, in UTC: 2026-08-11T12 is 11:00 to 12:00Z. Only `frequency` hourly is taken;
local-hourly tells the hours of another clock, twice or not at all when it is put back or forward. `value` is
MWh: a number, the text of one, or null, which stays NULL (0 is a figure: solar at night). Zones are written
EIA-PJM, because EIA's ids mean other places elsewhere (SE is the Southeast here and Sweden there).
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from ingest.base import Parsed, Payload, Reject
from ingest.fields import Refused, Row, number
from ingest.grid.fuels import EIA
from ingest.grid.mix import GENERATION, J_PER_MWH, MIX_OPTIONS, Mix, intensities, role_of
from ingest.grid.pages import Pages, answers, needed, secret_of, whole_option, with_query
from ingest.kind import Ask, Option
from ingest.read import field_of, loads, refuse, shape_of
from warehouse.evidence import EvidenceClass
from warehouse.tables import frame

PAGE_ROWS = 5000  # the most that the API gives at once
LARGEST_MWH = 1_000_000  # the lower 48 states together stay below 800,000
_PERIOD = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}", re.ASCII)
_NUMBER = re.compile(r"-?\d{1,12}(\.\d{1,12})?", re.ASCII)
OPTIONS = (
    Option("respondent", "the balancing authority asked for, such as PJM; needed to fetch"),
    *MIX_OPTIONS,
    Option("hours", "hours up to now that are asked for; figures are revised for days", default="72"),
)


def parse(payload: Payload) -> Parsed:
    """Generation by fuel, and the intensity of each complete hour. Raises PayloadError for any other answer."""
    reader = _Reader(payload)
    row_no = -1
    for page, document in enumerate(answers(payload)):
        response = field_of(payload, document, "response", dict)
        frequency = response.get("frequency")
        if frequency != "hourly":
            told = repr(frequency[:40]) if isinstance(frequency, str) else shape_of(frequency)
            refuse(
                payload,
                f"the frequency is {told}, and only hourly, which is UTC, is taken",
                field="frequency",
                fix="ask with frequency=hourly",
            )
        for data in field_of(payload, response, "data", list):
            row_no += 1
            reader.read(Row(row_no, data if isinstance(data, dict) else {"row": data}), page)
    return reader.parsed()


class _Reader:
    def __init__(self, payload: Payload) -> None:
        self.payload = payload
        self.rows: dict[tuple[str, str, datetime], tuple[dict[str, Any], int]] = {}
        self.mixes: dict[tuple[str, datetime], Mix] = {}
        self.rejects: list[Reject] = []
        self.refused: set[tuple[str, str]] = set()
        self.rows_in = 0

    def read(self, row: Row, page: int) -> None:
        try:
            key, value = self._figure(row)
        except Refused as refused:
            name, _, reason = str(refused).partition(" ")
            self._refuse(row, name, row.data.get(name), reason)
            return
        zone, fuel, start_at = key
        found = {
            "zone": zone,
            "fuel": fuel,
            "flow": "production",
            "start_at": start_at,
            "end_at": start_at + timedelta(hours=1),
            "energy_j": None if value is None else float(value * J_PER_MWH),
            "role": "storage" if value is not None and value < 0 else role_of(EIA[fuel], "production"),
            "method": "hourly net generation (EIA-930)",
            "evidence_class": EvidenceClass.CALIBRATED.value,  # metered, partly imputed, and not told which
        }
        if key in self.rows:
            known, known_page = self.rows[key]
            if known == found and known_page != page:
                return  # pages overlap where rows were added between them
            how = "again" if known == found else "again with another value; the first was kept"
            self._refuse(row, "value", row.data.get("value"), f"tells the hour and fuel {how}")
            return
        self.rows[key] = (found, page)
        self.rows_in += 1
        self._mix(zone, start_at).energy_mwh[fuel] = value

    def _figure(self, row: Row) -> tuple[tuple[str, str, datetime], Decimal | None]:
        """(zone, fuel, start of the hour) and MWh. Raises Refused, the message beginning with the field."""
        data = row.data
        respondent, fuel, period = (data.get(name) for name in ("respondent", "fueltype", "period"))
        row.key = f"{respondent} {fuel} {period}"
        declared = self.payload.options.get("respondent")
        if not isinstance(respondent, str) or not re.fullmatch(r"[A-Z0-9]{1,8}", respondent):
            raise Refused("respondent is no balancing authority")
        if declared is not None and respondent != declared:
            raise Refused(f"respondent is not {declared}, the one asked for")
        zone, start_at = f"EIA-{respondent}", _start_of(period)
        if start_at is None:
            self.refused.add((zone, str(fuel)))
            raise Refused("period is no UTC hour such as 2026-08-11T12")
        if fuel not in EIA:
            self._mix(zone, start_at).unread.add(str(fuel)[:20])  # the hour is not whole without it
            raise Refused(f"fueltype is none of {', '.join(EIA)}")
        assert isinstance(fuel, str)
        try:
            if data.get("value-units") != "megawatthours":
                raise Refused("value-units is not megawatthours")
            value = _mwh(data.get("value"))
        except Refused:
            self._mix(zone, start_at).unread.add(fuel)
            raise
        return (zone, fuel, start_at), value

    def _mix(self, zone: str, start_at: datetime) -> Mix:
        return self.mixes.setdefault((zone, start_at), Mix(zone, start_at, start_at + timedelta(hours=1)))

    def _refuse(self, row: Row, name: str, value: Any, reason: str) -> None:
        row.refuse(name, value, reason, whole_row=True)
        self.rejects += row.rejects
        self.rows_in += 1

    def parsed(self) -> Parsed:
        rows = [found for found, _ in self.rows.values()]
        mixes, options = list(self.mixes.values()), self.payload.options
        made, notes = intensities(mixes, EIA, options, "EIA-930 net generation", self.refused)
        told = [row["end_at"] for row in rows if row["energy_j"] is not None]
        return Parsed(
            primary=GENERATION,
            tables={GENERATION: frame(GENERATION, rows), "core.grid_intensity": made},
            rows_in=self.rows_in,
            rejects=tuple(self.rejects),
            data_at=max(told, default=None),
            notes=notes,
        )


def _start_of(period: Any) -> datetime | None:
    """The start of the hour that `period` ends; None where it is no hour of UTC."""
    if not isinstance(period, str) or not _PERIOD.fullmatch(period):
        return None
    try:
        return datetime.fromisoformat(period + ":00") - timedelta(hours=1)
    except (ValueError, OverflowError):
        return None


def _mwh(value: Any) -> Decimal | None:
    """MWh as a number, the text of one, or null. Raises Refused."""
    if isinstance(value, str):
        if not _NUMBER.fullmatch(value):
            raise Refused("value is not a number with a decimal point")
        value = loads(re.sub(r"^(-?)0+(?=\d)", r"\1", value))
    try:
        return number(value, low=-LARGEST_MWH, high=LARGEST_MWH)
    except Refused as refused:
        raise Refused(f"value {refused}") from None


def fetch(ask: Ask) -> Payload:
    """The last hours of a respondent, page by page; the key goes into the query and nowhere else."""
    hours = whole_option(ask, "hours", low=1, high=24 * 400) or 72
    end_at = ask.now.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    url = with_query(
        ask.url,
        **{
            "api_key": secret_of(ask, "an EIA API key"),
            "frequency": "hourly",
            "data[0]": "value",
            "facets[respondent][]": needed(ask, "respondent"),
            "start": f"{end_at - timedelta(hours=hours):%Y-%m-%dT%H}",
            "end": f"{end_at:%Y-%m-%dT%H}",
            "sort[0][column]": "period",
            "sort[0][direction]": "asc",
            "sort[1][column]": "fueltype",
            "sort[1][direction]": "asc",
            "length": str(PAGE_ROWS),
        },
    )
    pages = Pages(ask)
    offset, total = 0, 1
    while offset < total:
        page = pages.get(with_query(url, offset=str(offset)))
        response = field_of(page, answers(page)[0], "response", dict)
        total = _total(page, response)
        given = len(field_of(page, response, "data", list))
        if given == 0:
            break
        offset += given
    return pages.joined()


def _total(payload: Payload, response: dict[str, Any]) -> int:
    told = response.get("total")
    text = str(told)
    if isinstance(told, bool) or not text.isascii() or not text.isdecimal() or len(text) > 9:
        refuse(payload, "the answer tells no total of its rows", field="total", fix="check the address")
    return int(text)
