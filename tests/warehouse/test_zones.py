"""The zone of a region: as declared, as known then, or unknown with a reason."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from warehouse import loads
from warehouse.engine import Warehouse
from warehouse.tables import frame
from warehouse.zones import Zone, zone_of

T = datetime(2026, 11, 29, 12)


def declare(warehouse: Warehouse, zone: str, at: datetime = T, source: str = "file:zone-map", **changes: Any) -> None:
    row = {
        "system": "gcp",
        "region": "europe-north1",
        "zone_system": "electricitymaps",
        "zone": zone,
        "confidence": "high",
        "declared_by": "own table",
        **changes,
    }
    with warehouse.transaction() as tx:
        loads.load(tx, "core.zone_map", frame("core.zone_map", [row]), source_id=source, run_id="r", known_from=at)


def asked(warehouse: Warehouse, region: str = "europe-north1", as_of: datetime = T, **changes: Any) -> Zone:
    return zone_of(warehouse.query, "gcp", region, as_of=as_of, **changes)


def test_a_declared_region_has_its_zone(warehouse: Warehouse) -> None:
    declare(warehouse, "FI")
    assert asked(warehouse) == Zone("FI", "high", "own table", None)


@pytest.mark.parametrize("region", ["europe-north2", "europe-north", "EUROPE-NORTH1", "europe-north1-a", ""])
def test_a_region_without_a_row_is_unknown_however_near_its_name(warehouse: Warehouse, region: str) -> None:
    declare(warehouse, "FI")
    told = asked(warehouse, region)
    assert told.zone is None
    assert "import a zone-map row" in str(told.reason)


def test_each_system_of_zones_has_its_own(warehouse: Warehouse) -> None:
    declare(warehouse, "FI")
    declare(warehouse, "ENTSOE-FI", zone_system="entsoe")
    assert asked(warehouse, zone_system="entsoe").zone == "ENTSOE-FI"
    assert asked(warehouse, zone_system="eia").zone is None
    with pytest.raises(ValueError, match="use one of electricitymaps"):
        asked(warehouse, zone_system="iso")


def test_a_correction_is_a_new_version(warehouse: Warehouse) -> None:
    # the sample template of another tool had northeurope in the Netherlands: it is Ireland
    declare(warehouse, "NL")
    declare(warehouse, "IE", T + timedelta(days=1))
    assert asked(warehouse).zone == "NL"
    assert asked(warehouse, as_of=T + timedelta(days=1)).zone == "IE"
    assert warehouse.query("SELECT zone FROM mart.zone_map")["zone"].to_list() == ["IE"]


def test_two_tables_that_disagree_leave_it_unknown(warehouse: Warehouse) -> None:
    declare(warehouse, "FI")
    declare(warehouse, "FI", source="other")
    assert asked(warehouse).zone == "FI"
    declare(warehouse, "SE-SE3", T + timedelta(days=1), source="other")
    told = asked(warehouse, as_of=T + timedelta(days=1))
    assert told.zone is None
    assert "correct one of the tables" in str(told.reason)


def test_before_it_was_declared_it_is_unknown(warehouse: Warehouse) -> None:
    declare(warehouse, "FI")
    assert asked(warehouse, as_of=T - timedelta(seconds=1)).zone is None
