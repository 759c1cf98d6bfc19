"""Carbon intensity is its own input: looked up as known, with version and age, never guessed."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from policies.fleet.errors import ScenarioInvalid
from policies.fleet.experiments import compared_policies, simulated
from tests.fleet.experiments.made import A100, H100, resolved, store, value
from warehouse.engine import Warehouse

AT = datetime(2026, 11, 1, 18)
POOLS = [{**H100, "zone": "GB"}, {**A100, "zone": "FR"}]
ASKED = {"at": "2026-11-01T18:00:00Z"}


def hour(zone: str, value: float, after: int = 0, **changes: Any) -> dict[str, Any]:
    start = AT + timedelta(hours=after)
    return {
        "zone": zone,
        "signal": "average",
        "basis": "lifecycle",
        "start_at": start,
        "end_at": start + timedelta(hours=1),
        "is_forecast": False,
        "is_estimated": False,
        "intensity_g_per_kwh": value,
        "method": "made up",
        "evidence_class": "calibrated",
    } | changes


def test_figures_of_the_hour_weigh_the_joules_of_their_pool(warehouse: Warehouse) -> None:
    store(warehouse, "core.grid_intensity", [hour("GB", 200.0), hour("FR", 50.0)])
    report = simulated(resolved(warehouse, pools=POOLS, intensity=ASKED, seeds=[0]))
    (case,) = report["cases"]
    joules = {p["pool"]: value(p, "energy_j") for p in case["pools"]}
    assert value(case, "carbon_g") == pytest.approx((joules["h100"] * 200 + joules["a100"] * 50) / 3.6e6)
    zones = {z["zone"]: z for z in report["intensity"]["zones"]}
    assert zones["GB"]["standing"] == "actual"
    assert zones["GB"]["known_from"].endswith("Z")
    assert report["intensity"]["version"].startswith("average lifecycle, file:x as known")
    assert report["carbon_evidence_class"] == "modeled", "the joules are the weaker input"


def test_a_run_over_the_full_hour_takes_each_figure_for_its_time(warehouse: Warehouse) -> None:
    store(warehouse, "core.grid_intensity", [hour("GB", 100.0), hour("GB", 300.0, after=1)])
    pools = [{**H100, "zone": "GB"}]
    found = resolved(warehouse, pools=pools, intensity=ASKED, seeds=[0],
                     workload={"requests_per_s": 0.2, "requests": 1300})  # fmt: skip
    series = found.zones.series
    assert series is not None
    assert series.zones["GB"][0].tolist()[:2] == [0.0, 3600.0]
    assert series.zones["GB"][1].tolist()[:2] == [100.0, 300.0]
    (case,) = simulated(found)["cases"]
    grams, energy_kwh = value(case, "carbon_g"), value(case, "energy_j") / 3.6e6
    assert 170 < grams / energy_kwh < 215, "an hour at 100 and most of one at 300"


def test_an_old_or_missing_figure_is_unknown_with_its_reason(warehouse: Warehouse) -> None:
    store(warehouse, "core.grid_intensity", [hour("GB", 200.0)])
    report = simulated(resolved(warehouse, pools=POOLS, intensity=ASKED, seeds=[0]))
    assert report["cases"][0]["figures"]["carbon_g"]["value"] is None
    assert any("FR" in r for r in report["intensity"]["reasons"])
    old = simulated(resolved(warehouse, pools=POOLS[:1], intensity={**ASKED, "max_age_s": 60.0}, seeds=[0]))
    assert old["cases"][0]["figures"]["carbon_g"]["value"] is None
    assert "s old, more than 60" in old["intensity"]["reasons"][0]


def test_another_signal_never_answers(warehouse: Warehouse) -> None:
    store(warehouse, "core.grid_intensity", [hour("GB", 200.0)])
    found = resolved(warehouse, pools=POOLS[:1], intensity={**ASKED, "signal": "marginal"}, seeds=[0])
    assert found.zones.series is None
    assert "never mixed in" in found.zones.reasons[0]
    with pytest.raises(ScenarioInvalid, match="signal is 'average-ish'"):
        resolved(warehouse, pools=POOLS[:1], intensity={**ASKED, "signal": "average-ish"})
    with pytest.raises(ScenarioInvalid, match="`at` is 'noon'"):
        resolved(warehouse, pools=POOLS[:1], intensity={"at": "noon"})


def test_the_carbon_aware_policy_goes_where_the_grid_is_clean_within_residency(warehouse: Warehouse) -> None:
    """The dirty zone has the better GPU; grams move what may move, and residency holds the rest."""
    store(warehouse, "core.grid_intensity", [hour("GB", 900.0), hour("FR", 20.0)])
    pools = [{**POOLS[0], "residency": ["uk"]}, POOLS[1]]
    classes = [{"name": "uk", "share": 0.3, "residency": ["uk"]}, {"name": "free", "share": 0.7}]
    found = resolved(warehouse, pools=pools, classes=classes, intensity=ASKED)
    report = compared_policies(found, ["energy_aware", "carbon_aware"])
    energy, carbon = report["cases"]
    served = {c["policy"]: value(c["pools"][0], "completed") for c in report["cases"]}
    assert served["energy_aware"] == pytest.approx(1000, abs=50)
    assert served["carbon_aware"] == pytest.approx(300, abs=40)
    assert value(carbon, "carbon_g") < value(energy, "carbon_g")
    assert report["groups"][0]["pairs"][0]["metrics"]["g_per_success"]["verdict"] == "better"
