"""Declared grid zones of regions, CSV -> core.zone_map.

Two forms. Long, one mapping per line: system (or provider), region, zone, confidence, source, and optionally
zone_system (default electricitymaps) and note. Wide, one region per line: provider, region, confidence, and a
column for each system of zones (`COLUMNS`), with country_iso3 and note; each zone named in it is one mapping,
an empty cell is none. Zones are written as core.grid_intensity has them: EIA's PJM becomes EIA-PJM, ENTSO-E's
FI becomes ENTSOE-FI. Coordinates are refused: no zone is told from a point on a map.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from ingest.base import Parsed, Payload, Reject
from ingest.fields import Refused, Row
from ingest.grid.entsoe import AREAS
from ingest.read import read_text, refuse
from warehouse.tables import frame

TABLE = "core.zone_map"
CONFIDENCES = ("high", "medium", "low")
# column of the wide form -> whose zones they are
COLUMNS = {
    "electricity_maps_zone": "electricitymaps",
    "eia_ba": "eia",
    "entsoe_zone": "entsoe",
    "watttime_region": "watttime",
    "uk_zone": "uk",
}
_PREFIX = {"eia": "EIA-", "entsoe": "ENTSOE-"}
_NAMES = {"provider": "system"}
_LONG = frozenset({"system", "region", "zone", "zone_system", "confidence", "source", "note"})
_WIDE = frozenset({"system", "region", "country_iso3", "confidence", "source", "note", *COLUMNS})
_COORDINATES = frozenset({"lat", "lon", "latitude", "longitude", "lng"})
_ZONE = re.compile(r"[A-Z][A-Za-z0-9_-]{0,39}")
_REGION = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._:/-]{0,79}")


def parse(payload: Payload) -> Parsed:
    """The mappings of the file. Raises PayloadError where its columns are not those above."""
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    rejects: list[Reject] = []
    rows_in = 0
    header, lines = _read(payload)
    wide = "zone" not in header
    for row_no, line in enumerate(lines):
        extra = {"row": line} if len(line) != len(header) else {}
        data = {**dict(zip(header, (cell.strip() or None for cell in line), strict=False)), **extra}
        for zone_system, zone in _zones(data, wide):
            rows_in += 1
            row = Row(row_no, data, key=f"{data.get('system')} {data.get('region')} {zone_system}")
            try:
                found = _mapping(data, zone_system, zone, payload, wide)
                known = rows.setdefault((found["system"], found["region"], found["zone_system"]), found)
                if known is not found:
                    how = "the same zone" if known == found else f"another one; {known['zone']} was kept"
                    raise Refused(f"region is mapped twice, with {how}")
            except Refused as refused:
                name, _, reason = str(refused).partition(" ")
                row.refuse(name, data.get(name), reason, whole_row=True)
                rejects += row.rejects
    return Parsed(
        primary=TABLE,
        tables={TABLE: frame(TABLE, rows.values())},
        rows_in=rows_in,
        rejects=tuple(rejects),
    )


def _read(payload: Payload) -> tuple[list[str], list[list[str]]]:
    reader = csv.reader(io.StringIO(read_text(payload), newline=""))
    try:
        header = [_NAMES.get(name, name) for name in (cell.strip().lower() for cell in next(reader))]
        lines = [line for line in reader if any(cell.strip() for cell in line)]
    except (csv.Error, StopIteration) as error:
        refuse(payload, f"the payload is no CSV: {error}", fix="save it as comma separated UTF-8")
    if found := sorted(_COORDINATES & set(header)):
        refuse(
            payload,
            f"the columns {', '.join(found)} give coordinates, and no zone can be told from those",
            field=found[0],
            fix="write the declared zone id, such as FI or US-MIDA-PJM",
        )
    known = _LONG if "zone" in header else _WIDE
    if unknown := sorted(set(header) - known):
        refuse(
            payload, f"the column {unknown[0]!r} is not known", field=unknown[0], fix=f"use {', '.join(sorted(known))}"
        )
    needed = ["system", "region", "confidence", *(["source"] if "zone" in header else [])]
    if missing := [name for name in needed if name not in header]:
        refuse(payload, f"the column {missing[0]!r} is missing", field=missing[0], fix="add it; nothing is assumed")
    if "zone" not in header and not COLUMNS.keys() & set(header):
        refuse(payload, "no column names a zone", field="zone", fix=f"add zone, or one of {', '.join(COLUMNS)}")
    if repeated := sorted({name for name in header if header.count(name) > 1}):
        refuse(payload, f"the column {repeated[0]!r} comes twice", field=repeated[0], fix="keep one")
    return header, lines


def _zones(data: dict[str, Any], wide: bool) -> Iterator[tuple[str, str | None]]:
    """(system of zones, zone) of each mapping that a line tells; a line without any counts as one, refused."""
    if not wide:
        yield data.get("zone_system") or "electricitymaps", data.get("zone")
        return
    told = [(system, data[column]) for column, system in COLUMNS.items() if data.get(column)]
    yield from told or [("none", None)]


def _mapping(data: dict[str, Any], zone_system: str, zone: str | None, payload: Payload, wide: bool) -> dict[str, Any]:
    """One row of core.zone_map. Raises Refused, the message beginning with the field."""
    if "row" in data:
        raise Refused("row has not the columns of the header")
    system, region, confidence = (data.get(name) for name in ("system", "region", "confidence"))
    if system is None or not _REGION.fullmatch(system):
        raise Refused("system is no name such as gcp")
    if region is None or not _REGION.fullmatch(region):
        raise Refused("region is no id such as europe-north1")
    if zone is None:
        raise Refused("zone is not told; leave the line out where it is unknown")
    if zone_system not in COLUMNS.values():
        raise Refused(f"zone_system is none of {', '.join(COLUMNS.values())}")
    if not _ZONE.fullmatch(zone):
        raise Refused("zone is no declared zone id, such as FI or US-MIDA-PJM")
    if confidence not in CONFIDENCES:
        raise Refused(f"confidence is none of {', '.join(CONFIDENCES)}")
    declared_by = data.get("source")
    if declared_by is None and wide and "source" not in data:
        declared_by = _file_name(payload)  # the wide form needs no column for it: the table as a whole declares
    if declared_by is None:
        raise Refused("source is missing; a zone without its source cannot be shown")
    return {
        "system": system,
        "region": region,
        "zone_system": zone_system,
        "zone": _stored(zone_system, zone),
        "confidence": confidence,
        "declared_by": declared_by,
        "note": data.get("note"),
    }


def _stored(zone_system: str, zone: str) -> str:
    """`zone` as core.grid_intensity has it. Raises Refused for an ENTSO-E zone that nobody knows."""
    prefix = _PREFIX.get(zone_system, "")
    plain = zone.removeprefix(prefix)
    if zone_system == "entsoe":
        plain = AREAS.get(plain, plain)
        if plain not in AREAS.values() and not re.fullmatch(r"[A-Z0-9-]{16}", plain):
            raise Refused(f"entsoe_zone is none of {', '.join(AREAS.values())} and no EIC")
    return prefix + plain


def _file_name(payload: Payload) -> str:
    return unquote(PurePosixPath(urlsplit(payload.url).path).name) or payload.source_id
