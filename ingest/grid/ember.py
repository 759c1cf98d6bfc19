"""Yearly factors of countries as LeadGreen publishes Ember's (`grid.json`, CC BY 4.0) -> rows of `grid-factors`.

An object with `unit` "gCO2e per kWh", a `basis` in words that begins with Lifecycle, `source` and `areas`, each
with `iso2` (or `iso3` where it has none: WLD, the world) and `years`. Every year is a factor of its own.
"""

from __future__ import annotations

from typing import Any

from ingest.base import Payload
from ingest.read import field_of, refuse, shape_of

UNIT = "gCO2e per kWh"


def is_ember(document: Any) -> bool:
    return isinstance(document, dict) and "areas" in document


def factors(document: Any, payload: Payload) -> list[Any]:
    """The factors as `grid-factors` has them; an area that cannot be read stays as it came, to be refused."""
    areas = field_of(payload, document, "areas", list)
    if document.get("unit") != UNIT:
        refuse(payload, f"the unit is not {UNIT!r}", field="unit", fix="a factor without its unit is never taken")
    basis = document.get("basis")
    if not isinstance(basis, str) or not basis.startswith("Lifecycle"):
        refuse(payload, "the basis is not told to be lifecycle", field="basis", fix="import it as CSV with its basis")
    source = field_of(payload, document, "source", dict)
    name = source.get("name")
    if not isinstance(name, str) or not name.strip():
        refuse(payload, f"source.name is {shape_of(name)}, not text", field="source.name")
    version = source.get("version")
    cited = f"{name}, {version.partition(' (')[0]}" if isinstance(version, str) else name
    return [row for area in areas for row in _area(area, cited)]


def _area(area: Any, source: str) -> list[Any]:
    if not isinstance(area, dict) or not isinstance(area.get("years"), dict) or not area["years"]:
        return [area if isinstance(area, dict) else {"row": area}]
    zone = area.get("iso2") or area.get("iso3")
    return [
        {
            "zone": zone,
            "year": int(year) if year.isascii() and year.isdecimal() and len(year) == 4 else None,
            "basis": "lifecycle",
            "source": source,
            "intensity_g_per_kwh": value,
        }
        for year, value in area["years"].items()
    ]
