"""Zone and hour of a replay: grams with the class of the weaker factor."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from policies.replay.conditions import grams
from policies.replay.errors import ConditionUnknown
from policies.replay.load import load_table
from policies.replay.table import Condition
from tests.replay.load.world import NOW, joinable, put, reading
from warehouse.engine import Warehouse
from warehouse.evidence import EvidenceClass


def know(
    warehouse: Warehouse, value: float, start: datetime, length: timedelta = timedelta(hours=1), **more: Any
) -> None:
    told = {"zone": "FI", "signal": "average", "basis": "lifecycle", "is_forecast": False, "is_estimated": False}
    figure = {"start_at": start, "end_at": start + length, "intensity_g_per_kwh": value, "method": "mix"}
    put(warehouse, "core.grid_intensity", [{**told, **figure, "evidence_class": "calibrated", **more}])


def test_a_kilowatt_hour_weighs_its_intensity() -> None:
    np.testing.assert_allclose(grams(np.array([3.6e6, 1.8e6]), 40.0), [40.0, 20.0])


def test_zone_and_hour_give_intensity_and_the_class_of_grams(warehouse: Warehouse) -> None:
    joinable(warehouse)
    know(warehouse, 40.0, NOW - timedelta(hours=2))
    know(warehouse, 80.0, NOW - timedelta(hours=1), evidence_class="modeled")
    with reading(warehouse) as snap:
        found = [
            load_table(snap, "toy", condition=Condition("H100", 64, "FI", NOW - timedelta(minutes=m))) for m in (90, 30)
        ]
    conditions = [table.condition for table, _ in found]
    assert [c.intensity_g_per_kwh for c in conditions] == [40.0, 80.0]
    assert [c.carbon_class for c in conditions] == [EvidenceClass.CALIBRATED, EvidenceClass.MODELED]
    assert found[0][0].sha256 != found[1][0].sha256
    assert found[0][1].plain()["intensity"]["start_at"] == "2026-11-29T10:00:00Z"


def test_without_an_hour_it_is_the_instant_of_the_snapshot(warehouse: Warehouse) -> None:
    joinable(warehouse)
    know(warehouse, 40.0, NOW - timedelta(minutes=30))
    with reading(warehouse) as snap:
        table, _ = load_table(snap, "toy", condition=Condition("H100", 64, zone="FI"))
    assert table.condition.at == NOW and table.condition.intensity_g_per_kwh == 40.0


def test_an_aware_hour_is_taken_as_utc(warehouse: Warehouse) -> None:
    joinable(warehouse)
    know(warehouse, 40.0, NOW - timedelta(minutes=30))
    with reading(warehouse) as snap:
        table, _ = load_table(snap, "toy", condition=Condition("H100", 64, "FI", NOW.replace(tzinfo=UTC)))
    assert table.condition.at == NOW


def test_a_yearly_factor_stands_in_and_is_said(warehouse: Warehouse) -> None:
    joinable(warehouse)
    know(
        warehouse,
        60.0,
        datetime(2026, 1, 1),
        timedelta(days=365),
        method="static factor 2026",
        evidence_class="modeled",
    )
    with reading(warehouse) as snap:
        table, notes = load_table(snap, "toy", condition=Condition("H100", 64, "FI", NOW))
    assert table.condition.intensity_g_per_kwh == 60.0
    assert notes.warnings == ("the grid intensity of FI is a yearly factor (static factor 2026)",)


def test_an_unknown_zone_or_hour_is_named_with_what_there_is(warehouse: Warehouse) -> None:
    joinable(warehouse)
    with reading(warehouse) as snap, pytest.raises(ConditionUnknown, match="import grid intensities first"):
        load_table(snap, "toy", condition=Condition("H100", 64, "FI", NOW))
    know(warehouse, 40.0, NOW - timedelta(hours=2))
    with reading(warehouse) as snap:
        with pytest.raises(ConditionUnknown, match=r"zone SE.*use a zone and an hour of FI"):
            load_table(snap, "toy", condition=Condition("H100", 64, "SE", NOW))
        with pytest.raises(ConditionUnknown, match="zone FI: no average lifecycle intensity"):
            load_table(snap, "toy", condition=Condition("H100", 64, "FI", NOW - timedelta(days=9)))
        with pytest.raises(ConditionUnknown, match="comes without a zone"):
            load_table(snap, "toy", condition=Condition("H100", 64, at=NOW))


def test_an_intensity_given_by_hand_counts_as_modeled(warehouse: Warehouse) -> None:
    joinable(warehouse)
    with reading(warehouse) as snap:
        table, _ = load_table(snap, "toy", condition=Condition("H100", 64, intensity_g_per_kwh=100.0))
        assert table.condition.carbon_class is EvidenceClass.MODELED
        with pytest.raises(ConditionUnknown, match="-1 g/kWh"):
            load_table(snap, "toy", condition=Condition("H100", 64, intensity_g_per_kwh=-1.0))


def test_without_joules_there_is_no_class_of_grams(warehouse: Warehouse) -> None:
    joinable(warehouse)
    with reading(warehouse) as snap:
        table, _ = load_table(snap, "toy", condition=Condition(intensity_g_per_kwh=100.0))
    assert table.evidence_class is None and table.condition.carbon_class is None
