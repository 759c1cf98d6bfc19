"""ENTSO-E actual generation per type (A75, realised A16), XML -> core.grid_generation, and from it
core.grid_intensity with the factors of `ingest.grid.fuels`.

A TimeSeries is one psrType (B01 to B25) of one bidding zone; series of `outBiddingZone_Domain` tell what
pumps take, and are no generation. Quantities are MW (MAW) at PT15M, PT30M or PT60M. curveType A03 leaves out
a position that repeats the one before it; A01 has all, so that a missing one is unknown. Facts are hours in
MWh: 3600, 3600, 3600, 3500 MW at PT15M are 3575 MWh. An hour that its series does not cover is NULL.

Zones are written ENTSOE-FI by the table below, ENTSOE-<EIC> where it has no name. Production-based: what is
imported is not in the mix.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any
from xml.etree.ElementTree import Element

from ingest.base import Parsed, Payload, Reject
from ingest.fields import Refused, Row
from ingest.grid.entsoe_xml import documents
from ingest.grid.fuels import ENTSOE
from ingest.grid.mix import GENERATION, J_PER_MWH, MIX_OPTIONS, Mix, intensities, role_of
from ingest.grid.pages import get, needed, secret_of, whole_option, with_query
from ingest.http import NotModified
from ingest.kind import Ask, Option
from ingest.read import refuse
from warehouse.clock import parse_utc
from warehouse.evidence import EvidenceClass
from warehouse.tables import frame

AREAS = {
    "10YFI-1--------U": "FI",
    "10YFR-RTE------C": "FR",
    "10Y1001A1001A82H": "DE_LU",
    "10YGB----------A": "GB",
    "10YBE----------2": "BE",
    "10YNL----------L": "NL",
    "10Y1001A1001A44P": "SE_1",
    "10Y1001A1001A45N": "SE_2",
    "10Y1001A1001A46L": "SE_3",
    "10Y1001A1001A47J": "SE_4",
    "10Y1001A1001A59C": "IE_SEM",
}
STEPS = {"PT15M": 1, "PT30M": 2, "PT60M": 4, "PT1H": 4}  # in slots
SLOT = timedelta(minutes=15)
_SLOTS = 4  # per hour
_LONGEST = timedelta(days=370)
_MOST_SLOTS = 2_000_000  # a year of all types of two zones; a few bytes could tell far more
LARGEST_MW = 500_000
_QUANTITY = re.compile(r"\d{1,9}(\.\d{1,9})?", re.ASCII)
_EIC = re.compile(r"[A-Z0-9-]{16}")
OPTIONS = (
    Option("area", "the EIC of the bidding zone asked for, such as 10YFI-1--------U; needed to fetch"),
    *MIX_OPTIONS,
    Option("hours", "hours up to now that are asked for; figures are revised for days", default="48"),
)


def zone_of_area(eic: str) -> str:
    """The zone of a bidding zone's EIC, as core.grid_intensity has it."""
    return f"ENTSOE-{AREAS.get(eic, eic)}"


def parse(payload: Payload) -> Parsed:
    """Generation by hour and type, and the intensity of each complete hour. Raises PayloadError.

    One row is one hour of one type; a period that cannot be read is one row, in quarantine.
    """
    reader = _Reader(payload)
    for document in documents(payload):
        if document.tag == "Acknowledgement_MarketDocument":
            told = "; ".join(e.text.strip() for e in document.iterfind("Reason/text") if e.text and e.text.strip())
            refuse(payload, f"the source answered with an error: {told[:200]!r}", field="Reason", fix="try again later")
        if document.tag != "GL_MarketDocument" or document.findtext("type") != "A75":
            told = f"{document.tag[:40]!r} of type {document.findtext('type', 'none')[:10]!r}"
            refuse(payload, f"the document is {told}, not generation per type (A75)", fix="ask for documentType=A75")
        for series in document.iterfind("TimeSeries"):
            reader.read(series)
    return reader.parsed()


class _Reader:
    """Collects megawatts by slot of 15 minutes: the finest resolution, into which the others divide."""

    def __init__(self, payload: Payload) -> None:
        self.payload = payload
        self.slots: dict[tuple[str, str, str], dict[datetime, Decimal | None]] = {}
        self.rejects: list[Reject] = []
        self.refused: set[tuple[str, str]] = set()
        self.unread: set[tuple[str, str, datetime, datetime]] = set()
        self.periods = self.total = 0

    def read(self, series: Element) -> None:
        told = {
            "psrType": series.findtext("MktPSRType/psrType"),
            "curveType": series.findtext("curveType") or "A01",
            "unit": series.findtext("quantity_Measure_Unit.name"),
            "in": series.findtext("inBiddingZone_Domain.mRID"),
            "out": series.findtext("outBiddingZone_Domain.mRID"),
        }
        for period in series.findall("Period") or [series]:  # a series without a period is one row, refused
            row = Row(self.periods, {**told, **_shown(period)}, key=f"{told['in'] or told['out']} {told['psrType']}")
            self.periods += 1
            try:
                self._period(period, told)
            except Refused as refused:
                name, _, reason = str(refused).partition(" ")
                row.refuse(name, row.data.get(name), reason, whole_row=True)
                self.rejects += row.rejects
                self._incomplete(period, told)

    def _incomplete(self, period: Element, told: dict[str, str | None]) -> None:
        """A refused period of production leaves its hours without that type."""
        code = told["psrType"] or "?"
        if told["in"] is None or not _EIC.fullmatch(told["in"]):
            return
        zone = zone_of_area(told["in"])
        try:
            start_at, count, step = _grid(period)
            self.unread.add((zone, code[:20], start_at, start_at + SLOT * step * count))
        except Refused:
            self.refused.add((zone, code))

    def _period(self, period: Element, told: dict[str, str | None]) -> None:
        """Take the points of one period, or none of them. Raises Refused, the message beginning with the field."""
        code, curve, area = told["psrType"], told["curveType"], told["in"] or told["out"]
        declared = self.payload.options.get("area")
        if code not in ENTSOE:
            raise Refused("psrType is none of B01 to B20, B25")
        if curve not in ("A01", "A03"):
            raise Refused("curveType is neither A01 nor A03")
        if told["unit"] != "MAW":
            raise Refused("unit is not MAW (megawatt)")
        if area is None or not _EIC.fullmatch(area):
            raise Refused("in is no EIC of a bidding zone")
        if declared is not None and area != declared:
            raise Refused(f"in is not {declared}, the bidding zone asked for")
        start_at, count, step = _grid(period)
        self.total += count * step
        if self.total > _MOST_SLOTS:
            refuse(self.payload, f"the payload tells more than {_MOST_SLOTS} quarter hours", fix="ask for fewer days")
        points = _points(period, count)
        flow = "production" if told["in"] else "consumption"
        taken = self.slots.setdefault((zone_of_area(area), code, flow), {})
        new: dict[datetime, Decimal | None] = {}
        value: Decimal | None = None
        for position in range(1, count + 1):
            value = points.get(position, value if curve == "A03" else None)
            first = start_at + SLOT * step * (position - 1)
            new.update((first + SLOT * i, value) for i in range(step))
        if again := sorted(new.keys() & taken.keys()):
            how = "the same values" if all(new[at] == taken[at] for at in again) else "other values; the first are kept"
            raise Refused(f"timeInterval tells {again[0]:%Y-%m-%dT%H:%MZ} again, with {how}")
        taken.update(new)

    def parsed(self) -> Parsed:
        rows: list[dict[str, Any]] = []
        mixes: dict[tuple[str, datetime], Mix] = {}
        for (zone, code, flow), slots in self.slots.items():
            for hour, energy_mwh in _hours(slots):
                role = role_of(ENTSOE[code], flow)
                rows.append(
                    {
                        "zone": zone,
                        "fuel": code,
                        "flow": flow,
                        "start_at": hour,
                        "end_at": hour + timedelta(hours=1),
                        "energy_j": None if energy_mwh is None else float(energy_mwh * J_PER_MWH),
                        "role": role,
                        "method": "actual generation per type (ENTSO-E A75)",
                        "evidence_class": EvidenceClass.CALIBRATED.value,  # metered, partly estimated, not told which
                    }
                )
                if flow == "production":
                    mix = mixes.setdefault((zone, hour), Mix(zone, hour, hour + timedelta(hours=1)))
                    mix.energy_mwh[code] = energy_mwh
        for zone, code, start_at, end_at in self.unread:
            for mix in mixes.values():
                if mix.zone == zone and mix.start_at < end_at and start_at < mix.end_at:
                    mix.unread.add(code)
        options = self.payload.options
        made, notes = intensities(list(mixes.values()), ENTSOE, options, "ENTSO-E A75 generation", self.refused)
        if any(flow == "consumption" for _, _, flow in self.slots):
            notes = (*notes, "what pumps and stores take is kept as consumption, and is no generation")
        told = [row["end_at"] for row in rows if row["energy_j"] is not None]
        return Parsed(
            primary=GENERATION,
            tables={GENERATION: frame(GENERATION, rows), "core.grid_intensity": made},
            rows_in=len(rows) + len(self.rejects),
            rejects=tuple(self.rejects),
            data_at=max(told, default=None),
            notes=notes,
        )


def _shown(period: Element) -> dict[str, Any]:
    """What quarantine shows of a period."""
    ends = [period.findtext(f"timeInterval/{name}") for name in ("start", "end")]
    return {"timeInterval": ends, "resolution": period.findtext("resolution"), "points": len(period.findall("Point"))}


def _grid(period: Element) -> tuple[datetime, int, int]:
    """(start, number of positions, slots per position) of a period. Raises Refused."""
    step = STEPS.get(period.findtext("resolution") or "")
    if step is None:
        raise Refused(f"resolution is none of {', '.join(STEPS)}")
    try:
        start_at, end_at = (
            parse_utc(period.findtext(f"timeInterval/{name}") or "", what=name) for name in ("start", "end")
        )
    except (ValueError, OverflowError):
        raise Refused("timeInterval is no interval in time with a zone, such as 2026-08-11T11:00Z") from None
    length = end_at - start_at
    whole = not (start_at - datetime(2000, 1, 1)) % SLOT and not length % (SLOT * step)
    if not timedelta(0) < length <= _LONGEST or not whole:
        raise Refused("timeInterval is not a whole number of intervals of its resolution within a year")
    return start_at, length // (SLOT * step), step


def _points(period: Element, count: int) -> dict[int, Decimal]:
    """position -> MW. Raises Refused: a period with a broken point says nothing sure about the points after it."""
    found: dict[int, Decimal] = {}
    for point in period.iterfind("Point"):
        position, quantity = (point.findtext(name) or "" for name in ("position", "quantity"))
        if not re.fullmatch(r"[0-9]{1,6}", position) or not 1 <= int(position) <= count:
            raise Refused(f"points has the position {position[:20]!r}, which is none from 1 to {count}")
        if int(position) in found:
            raise Refused(f"points has the position {position} twice")
        try:
            value = Decimal(quantity) if _QUANTITY.fullmatch(quantity) else Decimal("NaN")
        except InvalidOperation:  # pragma: no cover - the pattern admits none
            value = Decimal("NaN")
        if value.is_nan() or value > LARGEST_MW:
            raise Refused(f"points has the quantity {quantity[:20]!r}, which is no number from 0 to {LARGEST_MW} MW")
        found[int(position)] = value
    if not found:
        raise Refused("points is empty")
    return found


def _hours(slots: dict[datetime, Decimal | None]) -> Iterator[tuple[datetime, Decimal | None]]:
    """(hour, MWh) for every hour touched; None where a quarter of it is not told."""
    for hour in sorted({at.replace(minute=0) for at in slots}):
        values = [slots.get(hour + SLOT * i) for i in range(_SLOTS)]
        known = [value for value in values if value is not None]
        yield hour, sum(known, Decimal(0)) / _SLOTS if len(known) == _SLOTS else None


def fetch(ask: Ask) -> Payload | NotModified:
    """The last hours of a bidding zone; the security token goes into the query and nowhere else."""
    hours = whole_option(ask, "hours", low=1, high=24 * 360) or 48
    end_at = ask.now.replace(minute=0, second=0, microsecond=0)
    url = with_query(
        ask.url,
        securityToken=secret_of(ask, "an ENTSO-E security token"),
        documentType="A75",
        processType="A16",
        in_Domain=needed(ask, "area"),
        periodStart=f"{end_at - timedelta(hours=hours):%Y%m%d%H%M}",
        periodEnd=f"{end_at:%Y%m%d%H%M}",
    )
    return get(ask, url, left_bytes=ask.max_bytes)
