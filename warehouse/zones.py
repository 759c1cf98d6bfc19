"""The grid zone of a region, by declared table only (kind `zone-map`): no coordinates, no guess, no default.

A region without a row is unknown. A region that two tables place in different zones is unknown, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from warehouse.intensity import Reader

ZONE_SYSTEMS = ("electricitymaps", "eia", "entsoe", "watttime", "uk")

_SQL = """
SELECT zone, confidence, declared_by, source_id FROM (
  SELECT *, row_number() OVER (PARTITION BY source_id ORDER BY known_from DESC) AS rank_
  FROM core.zone_map
  WHERE system = $system AND region = $region AND zone_system = $zone_system AND known_from <= $as_of
) WHERE rank_ = 1
ORDER BY list_position(['high', 'medium', 'low'], confidence), source_id
"""


@dataclass(frozen=True)
class Zone:
    """A declared zone, or None with the reason."""

    zone: str | None
    confidence: str | None = None
    declared_by: str | None = None
    reason: str | None = None


def zone_of(read: Reader, system: str, region: str, *, as_of: datetime, zone_system: str = "electricitymaps") -> Zone:
    """The zone of `region` of `system` (such as gcp, europe-north1) in the ids of `zone_system`, as known at `as_of`.

    Raises ValueError for an unknown zone system.
    """
    if zone_system not in ZONE_SYSTEMS:
        raise ValueError(f"zone_system is {zone_system!r}; use one of {', '.join(ZONE_SYSTEMS)}")
    bound = {"system": system, "region": region, "zone_system": zone_system, "as_of": as_of}
    rows = read(_SQL, bound).to_dicts()
    if not rows:
        return Zone(None, reason=f"no zone of {zone_system} is declared for {system} {region}; import a zone-map row")
    zones = sorted({row["zone"] for row in rows})
    if len(zones) > 1:
        told = ", ".join(f"{row['zone']} ({row['source_id']})" for row in rows)
        return Zone(None, reason=f"{system} {region} is declared as {told}; correct one of the tables")
    return Zone(rows[0]["zone"], rows[0]["confidence"], rows[0]["declared_by"])
