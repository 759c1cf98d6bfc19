"""One fleet, one policy: capacity is enforced, joules are conserved, failures and stale telemetry are told."""

from __future__ import annotations

from typing import Any

import pytest

from policies.fleet.experiments import simulated, sized
from policies.fleet.experiments.figures import UNITS
from policies.fleet.experiments.sizing import queue_pool
from policies.fleet.queueing import evaluate
from tests.fleet.experiments.made import A100, H100, LENGTHS, resolved, value
from warehouse.engine import Warehouse

ONE = {**A100, "instances": 1}
HARD = {"workload": {"lengths": LENGTHS, "requests_per_s": 200.0, "requests": 12_000}, "seeds": [0]}


def test_one_a100_at_200_requests_a_second_melts_down_as_sizing_says(bare: Warehouse) -> None:
    """The peer's `simulate` has it serve all of them within the SLO (facts on FleetSim, finding 1)."""
    found = resolved(bare, pools=[ONE], horizon_s=60.0, **HARD)
    (case,) = simulated(found)["cases"]
    needed = sized(found, verify=False)["sizes"][0]
    alone = evaluate(queue_pool(found, found.scenario.pools[0]), 1)
    assert not alone.stable
    assert needed["instances"] > 15
    assert alone.utilization == pytest.approx(200 / value(case, "capacity_per_s"), rel=1e-6)
    assert value(case, "throughput_per_s") == pytest.approx(alone.capacity_per_s, rel=0.10)
    assert not case["within_slo"]
    assert value(case, "slo_attainment") < 0.1
    assert value(case, "in_flight") > 10_000
    assert case["ended"] == ["horizon"]
    assert case["add_up"]


def test_the_size_found_does_not_melt_down(bare: Warehouse) -> None:
    found = resolved(bare, pools=[ONE], **HARD)
    told = sized(found)
    row = told["sizes"][0]
    case = told["cases"][-1]
    assert case["instances"] == row["instances"]
    assert case["within_slo"]
    assert value(case, "p99_ttft_s") <= 0.5
    assert row["one_instance_fewer"]["slo_met"] is False


def test_every_figure_is_there_with_its_unit_and_energy_adds_up(bare: Warehouse) -> None:
    report = simulated(resolved(bare))
    (case,) = report["cases"]
    assert set(UNITS) <= set(case["figures"])
    states = ("active_j", "idle_j", "warming_j", "empty_j", "down_j")
    assert sum(value(case, s) for s in states) == pytest.approx(value(case, "energy_j"))
    assert sum(value(p, "energy_j") for p in case["pools"]) == pytest.approx(value(case, "energy_j"))
    assert value(case, "j_per_success") == pytest.approx(value(case, "energy_j") / value(case, "completed"))
    assert sum(value(p, "completed") for p in case["pools"]) == value(case, "completed")
    assert case["add_up"]
    figure = case["figures"]["j_per_success"]
    assert (figure["unit"], figure["n"]) == ("J", 3)
    assert figure["low"] < figure["value"] < figure["high"]


def test_what_is_not_known_is_null_and_not_zero(bare: Warehouse) -> None:
    report = simulated(resolved(bare))
    figures = report["cases"][0]["figures"]
    assert figures["carbon_g"]["value"] is None
    assert figures["j_per_right_answer"]["value"] is None
    assert report["carbon_evidence_class"] is None
    assert "no intensity was asked for" in report["intensity"]["reasons"][0]


def test_joules_are_never_measured_and_low_quality_is_marked(bare: Warehouse) -> None:
    report = simulated(resolved(bare, pools=[H100, {"name": "a10g", "profile": "A10G", "instances": 2}]))
    assert report["evidence_class"] == "modeled"
    assert (report["quality"], report["presentable"]) == ("LOW", False)
    assert "for simulation only, no fact about production: A10G" in report["words"][0]
    assert [p["quality"] for p in report["cases"][0]["pools"]] == ["FAIR", "LOW"]


def test_the_same_scenario_gives_the_same_report_to_the_byte(bare: Warehouse) -> None:
    changes: dict[str, Any] = {
        "balancer": {"policy": "power_of_two"},
        "telemetry": {"interval_s": 0.5, "dropout": 0.2},
        "failures": {"mtbf_s": 60.0, "repair_s": 5.0},
    }
    one, again = simulated(resolved(bare, **changes)), simulated(resolved(bare, **changes))
    assert one["report_sha256"] == again["report_sha256"]
    other = simulated(resolved(bare, seeds=[5, 6, 7], **changes))
    assert other["report_sha256"] != one["report_sha256"]


def test_grams_are_joules_times_the_declared_intensity(bare: Warehouse) -> None:
    pools = [{**H100, "zone": "GB"}, {**A100, "zone": "FR"}]
    told = {"g_per_kwh": {"GB": 150.0, "FR": 40.0}, "version": "declared on 2026-11-01"}
    report = simulated(resolved(bare, pools=pools, intensity=told, seeds=[0]))
    (case,) = report["cases"]
    joules = {p["pool"]: value(p, "energy_j") for p in case["pools"]}
    assert value(case, "carbon_g") == pytest.approx((joules["h100"] * 150 + joules["a100"] * 40) / 3.6e6)
    assert report["carbon_evidence_class"] == "modeled"
    assert report["intensity"]["version"] == "declared on 2026-11-01"


def test_a_pool_without_a_zone_makes_the_fleets_grams_unknown(bare: Warehouse) -> None:
    told = {"g_per_kwh": {"GB": 150.0}, "version": "x"}
    report = simulated(resolved(bare, pools=[{**H100, "zone": "GB"}, A100], intensity=told, seeds=[0]))
    assert report["cases"][0]["figures"]["carbon_g"]["value"] is None
    assert "pool a100 has no zone" in report["intensity"]["reasons"][0]


def test_lost_telemetry_falls_back_and_is_counted(bare: Warehouse) -> None:
    fresh = {"balancer": {"policy": "energy_aware"}, "telemetry": {"interval_s": 0.2, "ttl_s": 5.0}, "seeds": [0]}
    dark = {**fresh, "telemetry": {"interval_s": 0.2, "ttl_s": 0.5, "dropout": 1.0}}
    (good,), (bad,) = (simulated(resolved(bare, **c))["cases"] for c in (fresh, dark))
    assert value(good, "fallback_telemetry") == 0
    assert value(bad, "fallback_telemetry") > 0.9 * value(bad, "decisions")
    share = {name: value(case["pools"][0], "completed") / 1000 for name, case in (("good", good), ("bad", bad))}
    assert share["good"] > 0.9, "the cheaper pool gets nearly all"
    assert share["bad"] == pytest.approx(0.5, abs=0.02), "round robin, the fallback"


def test_unknown_intensity_makes_the_carbon_aware_policy_fall_back(bare: Warehouse) -> None:
    pools = [{**H100, "zone": "GB"}, {**A100, "zone": "FR"}]
    told = {"g_per_kwh": {"GB": 150.0}, "version": "x"}
    (case,) = simulated(resolved(bare, pools=pools, intensity=told, balancer={"policy": "carbon_aware"}, seeds=[0]))[
        "cases"
    ]
    assert value(case, "fallback_carbon") == value(case, "decisions") == 1000


def test_a_failure_loses_what_ran_unless_there_is_another_attempt(bare: Warehouse) -> None:
    change = {"at_s": 50.0, "pool": "h100", "kind": "fail", "instances": [0, 1], "repair_s": 10.0}
    base = {"pools": [{**H100, "warmup_s": 5.0}], "changes": [change], "seeds": [0]}
    (once,), (twice,) = (simulated(resolved(bare, **base, max_attempts=n))["cases"] for n in (1, 2))
    assert once["rejections"]["failed"] > 0
    assert once["rejections"]["no_healthy_backend"] > 50, "about 15 s of 10 requests/s"
    assert value(once, "wasted_j") > 0
    assert value(once, "down_j") == 0, "an instance that is down is declared to draw nothing"
    assert value(once, "warming_j") > 0
    assert twice["rejections"].get("failed", 0) < once["rejections"]["failed"]
    assert once["add_up"] and twice["add_up"]


def test_a_bad_release_on_part_of_the_fleet_fails_in_part_and_a_rollback_ends_it(bare: Warehouse) -> None:
    bad = {"name": "new", "error_rate": 0.5}
    pool = {**H100, "instances": 4, "warmup_s": 2.0, "deployments": [bad]}
    half = {**pool, "deployments": [{**bad, "share": 0.5}]}
    out = {"at_s": 20.0, "pool": "h100", "kind": "redeploy", "instances": [0, 1], "to": "new"}
    back = {"at_s": 50.0, "pool": "h100", "kind": "redeploy", "instances": [0, 1], "to": "base"}
    cases = {
        name: simulated(resolved(bare, pools=[p], changes=c, seeds=[0], balancer={"policy": "random"}))["cases"][0]
        for name, p, c in (
            ("none", pool, []), ("partial", half, []), ("released", pool, [out]), ("rolled back", pool, [out, back])
        )
    }  # fmt: skip
    failed = {name: case["rejections"].get("failed", 0) for name, case in cases.items()}
    assert failed["none"] == 0
    assert failed["partial"] == pytest.approx(250, rel=0.25), "half the requests at an error rate of one half"
    assert 0 < failed["rolled back"] < 0.6 * failed["released"]
    assert value(cases["rolled back"], "warming_j") > value(cases["released"], "warming_j") > 0
    assert all(case["add_up"] for case in cases.values())


def test_hysteresis_and_dwell_bound_how_often_a_class_moves(bare: Warehouse) -> None:
    """Joules per request rise with load and both pools cost about the same, so a greedy choice goes to and fro."""
    twin = {**H100, "name": "twin"}
    base: dict[str, Any] = {
        "pools": [H100, twin],
        "workload": {"requests_per_s": 40.0, "requests": 4000},
        "telemetry": {"interval_s": 1.0, "ttl_s": 10.0},
        "seeds": [0],
    }
    moves = {}
    for name, told in (("greedy", {"hysteresis": 0.0}), ("calm", {"hysteresis": 0.1, "dwell_s": 10.0})):
        (case,) = simulated(resolved(bare, **base, balancer={"policy": "energy_aware", **told}))["cases"]
        moves[name] = value(case, "pool_changes")
        assert case["within_slo"]
    assert moves["calm"] <= 100.0 / 10.0 + 2, "at most one move in each dwell"
    assert moves["calm"] < moves["greedy"]
