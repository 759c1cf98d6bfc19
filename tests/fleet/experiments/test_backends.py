"""Live backends: what their meter and their engines say, with ages, and measured beside modelled power."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pytest

from policies.fleet.experiments import backends, calibrated
from policies.fleet.power import calibrate, read_windows, row
from tests.fleet.experiments.made import store
from tests.fleet.power.made import logistic_w
from warehouse.engine import Warehouse
from warehouse.snapshots import snapshot

T0 = datetime(2026, 11, 1, 8)
NOW = T0 + timedelta(minutes=30, seconds=15)
BACKEND = {
    "backend_id": "a",
    "valid_from": T0 - timedelta(days=1),
    "pool": "chat",
    "runtime": "vllm",
    "runtime_version": "0.20.0",
    "config_version": "tp4",
    "hardware_model": "H100",
    "hardware_count": 4,
    "zone": "GB",
    "max_concurrency": 64,
}


def metered(minute: int, power_w: float, **changes: Any) -> dict[str, Any]:
    start = T0 + timedelta(minutes=minute)
    return {
        "observation_id": f"m{minute}-{changes.get('backend_id', 'a')}-{changes.get('evidence_class', 'measured')}",
        "provider": "local",
        "backend_id": "a",
        "hardware_model": "H100",
        "hardware_count": 4,
        "window_start_at": start,
        "window_end_at": start + timedelta(minutes=1),
        "energy_gross_j": power_w * 60,
        "evidence_class": "measured",
        "method": "counter",
        "quality": "HIGH",
        "relative_uncertainty": 0.02,
        "workload": "replica",
    } | changes


def scraped(minute: int, running: float, **changes: Any) -> dict[str, Any]:
    end = T0 + timedelta(minutes=minute + 1)
    return {
        "backend_id": "a",
        "engine": "0",
        "model": "acme/big-70b",
        "window_start_at": end - timedelta(minutes=1),
        "window_end_at": end,
        "runtime": "vllm",
        "running_requests": running,
        "waiting_requests": 2.0,
        "kv_cache_utilization": 0.4,
        "prompt_tokens": 180_000,
        "output_tokens": 60_000,
        "successes": 120,
        "evidence_class": "measured",
    } | changes


def told(warehouse: Warehouse, **asked: Any) -> dict[str, dict[str, Any]]:
    with snapshot(warehouse, NOW) as snap:
        return {b["backend_id"]: b for b in backends(snap, **asked)}


def test_power_and_telemetry_are_the_newest_with_their_own_ages(warehouse: Warehouse) -> None:
    store(warehouse, "core.backend", [BACKEND], T0)
    store(warehouse, "core.energy_observation", [metered(0, 1000.0), metered(29, 1600.0)], T0)
    store(warehouse, "core.serving_window", [scraped(27, 8.0), scraped(28, 16.0)], T0)
    found = told(warehouse)["a"]
    assert (found["pool"], found["zone"], found["declared"], found["models"]) == ("chat", "GB", True, ["acme/big-70b"])
    power, telemetry = found["power"], found["telemetry"]
    assert (power["power_w"], power["board_w"], power["evidence_class"]) == (1600.0, 400.0, "measured")
    assert power["age_s"] == 15.0
    assert (telemetry["running_requests"], telemetry["age_s"]) == (16.0, 75.0)
    assert power["window_end_at"].endswith("Z")
    assert found["utilization"] == pytest.approx(16 / 64)


def test_engines_add_up_and_a_frontend_counts_for_all_of_them(warehouse: Warehouse) -> None:
    store(warehouse, "core.serving_window", [scraped(1, 3.0), scraped(1, 4.0, engine="1")], T0)
    store(
        warehouse,
        "core.serving_window",
        [scraped(1, 9.0, engine="", backend_id="b"), scraped(1, 3.0, backend_id="b"), scraped(1, None, backend_id="c")],
        T0,
    )
    found = told(warehouse)
    assert found["a"]["telemetry"]["running_requests"] == 7.0
    assert found["b"]["telemetry"]["running_requests"] == 9.0
    assert found["c"]["telemetry"]["running_requests"] is None, "unknown is not zero"
    assert found["a"]["power"] is None and found["a"]["j_per_success"] == []
    assert found["a"]["profile"] is None and "which hardware" in found["a"]["profile_why"]


def test_joules_per_success_are_of_metered_windows_alone_and_classes_are_kept_apart(warehouse: Warehouse) -> None:
    store(warehouse, "core.backend", [BACKEND], T0)
    rows = [metered(m, 1200.0) for m in (20, 21)] + [metered(m, 600.0, evidence_class="allocated") for m in (22,)]
    store(warehouse, "core.energy_observation", rows, T0)
    store(warehouse, "core.serving_window", [scraped(m, 8.0) for m in (20, 21, 22, 23)], T0)
    store(warehouse, "core.serving_window", [scraped(24, 8.0, successes=None)], T0)
    found = {j["evidence_class"]: j for j in told(warehouse)["a"]["j_per_success"]}
    assert set(found) == {"measured", "allocated"}
    assert found["measured"]["value"] == pytest.approx(1200 * 60 / 120)
    assert (found["measured"]["windows"], found["measured"]["successes"]) == (2, 240)
    assert found["allocated"]["value"] == pytest.approx(600 * 60 / 120)
    assert told(warehouse, since_s=8 * 60.0 + 15)["a"]["j_per_success"][0]["evidence_class"] == "allocated"


def test_without_a_success_there_is_no_quotient(warehouse: Warehouse) -> None:
    store(warehouse, "core.energy_observation", [metered(20, 1200.0)], T0)
    store(warehouse, "core.serving_window", [scraped(20, 0.0, successes=0)], T0)
    (found,) = told(warehouse)["a"]["j_per_success"]
    assert (found["value"], found["energy_j"]) == (None, 72_000.0)


def test_what_came_later_is_not_known_yet(warehouse: Warehouse) -> None:
    store(warehouse, "core.energy_observation", [metered(0, 1000.0)], NOW + timedelta(seconds=1))
    assert told(warehouse) == {}


def test_measured_stands_beside_the_published_profile_and_says_what_differs(warehouse: Warehouse) -> None:
    store(warehouse, "core.backend", [BACKEND], T0)
    store(warehouse, "core.energy_observation", [metered(m, 1700.0) for m in (20, 21, 22)], T0)
    store(warehouse, "core.serving_window", [scraped(m, 16.0) for m in (20, 21, 22)], T0)
    found = told(warehouse)["a"]
    assert (found["profile"]["name"], found["profile"]["evidence_class"]) == ("H100-80GB", "modeled")
    assert found["residual_windows"] == 2, "the first window has no gauge at its start"
    beside = found["residuals"][0]
    assert {"hardware_count", "logical_model", "runtime"} <= set(beside["differs"])
    assert beside["residual_relative"] == pytest.approx(1 - beside["modelled_board_w"] / 425.0)
    assert found["residual_relative_rms"] == pytest.approx(abs(beside["residual_relative"]))


def test_a_calibration_that_holds_for_the_backend_takes_the_place_of_the_published_one(warehouse: Warehouse) -> None:
    store(warehouse, "core.backend", [BACKEND], T0 - timedelta(days=2))
    levels = [1, 1, 2, 2, 4, 4, 8, 8, 16, 16, 32, 32]
    powers = logistic_w(np.array(levels, dtype=np.float64))
    store(warehouse, "core.energy_observation", [metered(m, float(w)) for m, w in enumerate(powers)], T0)
    store(warehouse, "core.serving_window", [scraped(m, float(n)) for m, n in enumerate(levels)], T0)
    with snapshot(warehouse, NOW) as snap:
        windows = [w for w in read_windows(snap) if w.concurrency in set(map(float, levels))]
        power = calibrate(windows, quantity="power", form="table", fitted_at=T0)
        throughput = calibrate(windows, quantity="throughput", form="linear", fitted_at=T0)
    store(warehouse, "core.calibration", [row(c, actor="me") for c in (power, throughput)], T0)
    found = told(warehouse)["a"]
    assert found["profile"]["calibration_id"] == power.calibration_id
    assert found["profile"]["evidence_class"] == "calibrated"
    used = set(power.observations)
    exact = [r for r in found["residuals"] if set(r["observations"]) <= used]
    assert max(abs(r["residual_relative"]) for r in exact) < 1e-6
    assert all(r["differs"] == [] for r in exact)
    with snapshot(warehouse, NOW) as snap:
        profile = calibrated(snap, power.calibration_id[:12])
    assert profile.W_ms is not None, "the linear throughput of the same binding comes with it"
