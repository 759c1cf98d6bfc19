"""A scenario is a document: it is read whole or refused by name and place, and has a hash of what it means."""

from __future__ import annotations

from typing import Any

import pytest

from policies.fleet.errors import (
    CapacityZero,
    EligibleSetEmpty,
    FleetError,
    HardwareUnknown,
    ProfileIncomplete,
    ScenarioInvalid,
    TraceInvalid,
    TraceUnknown,
)
from policies.fleet.experiments import read
from tests.fleet.experiments.made import A100, H100, LENGTHS, resolved, scenario, trace
from warehouse.engine import Warehouse

FULL = scenario(
    title="everything",
    classes=[{"name": "eu", "share": 0.5, "residency": ["eu"], "tenant": "acme"}],
    routing=[{"tokens": 1024, "pools": ["a100"]}, {"pools": ["h100"]}],
    balancer={"policy": "energy_aware", "hysteresis": 0.1},
    telemetry={"interval_s": 1.0, "ttl_s": 5.0},
    intensity={"g_per_kwh": {"GB": 150}, "version": "x"},
    changes=[{"at_s": 3.0, "pool": "h100", "kind": "fail", "instances": [0], "repair_s": 5.0}],
    failures={"mtbf_s": 1e6, "repair_s": 10},
    quality={"outcome_set": "s", "success": {"llama-3-70b": 0.8}},
)


def test_a_scenario_survives_being_written_and_read() -> None:
    once = read(FULL)
    assert read(once.to_dict()) == once
    assert once.to_dict()["pools"][0] == H100
    assert "horizon_s" not in once.to_dict(), "what has its default is left out"


@pytest.mark.parametrize(
    ("changes", "kind", "told"),
    [
        ({"pools": []}, CapacityZero, "no pool"),
        ({"pools": [{**H100, "instances": 0}]}, CapacityZero, "pools[0]: pool h100 has 0 instances"),
        ({"pools": [{**H100, "slots": 0}]}, CapacityZero, "0 slots"),
        ({"pools": [H100, H100]}, ScenarioInvalid, "two are called 'h100'"),
        ({"pools": [{**H100, "colour": "red"}]}, ScenarioInvalid, "pools[0] has no 'colour'"),
        ({"pools": [{"name": "x", "instances": 1}]}, ScenarioInvalid, "profile of pools[0] is missing"),
        ({"pools": [{**H100, "instances": 1.5}]}, ScenarioInvalid, "pools[0].instances is 1.5, not a whole number"),
        ({"pools": [{**H100, "instances": True}]}, ScenarioInvalid, "pools[0].instances is True"),
        ({"pools": "h100"}, ScenarioInvalid, "pools is 'h100', not a list"),
        ({"workload": {"requests_per_s": float("nan")}}, ScenarioInvalid, "workload.requests_per_s is nan"),
        ({"workload": {"requests_per_s": 0}}, ScenarioInvalid, "requests_per_s of the workload is 0"),
        ({"workload": {"cdf": "x"}}, ScenarioInvalid, "does not name one source"),
        ({"workload": {"requests": 0}}, ScenarioInvalid, "requests of the workload is 0"),
        ({"seeds": []}, ScenarioInvalid, "0 seeds"),
        ({"seeds": [1, 1]}, ScenarioInvalid, "two are called '1'"),
        ({"slo": {"ttft_s": 0}}, FleetError, "ttft_s of the SLO is 0"),
        ({"balancer": {"policy": "magic"}}, FleetError, "there is no policy 'magic'"),
        ({"classes": [{"name": "x"}]}, ScenarioInvalid, "classes[0]: class x does not say which"),
        ({"classes": [{"name": "x", "share": 0.7}, {"name": "y", "share": 0.7}]}, ScenarioInvalid, "sum to 1.4"),
        ({"classes": [{"name": "x", "share": 1, "pools": ["nope"]}]}, ScenarioInvalid, "no pool 'nope'"),
        (
            {"changes": [{"at_s": 1, "pool": "h100", "kind": "explode"}]},
            ScenarioInvalid,
            "changes[0].kind is 'explode'",
        ),
        ({"intensity": {}}, ScenarioInvalid, "neither declared nor looked up"),
    ],
)
def test_what_no_fleet_can_be_is_refused_with_its_place(
    changes: dict[str, Any], kind: type[FleetError], told: str
) -> None:
    with pytest.raises(kind) as refused:
        read(scenario(**changes))
    assert told in refused.value.message
    assert refused.value.fix


@pytest.mark.parametrize(
    ("changes", "kind", "told"),
    [
        ({"pools": [{**H100, "profile": "RTX9000"}]}, HardwareUnknown, "RTX9000"),
        ({"pools": [{**H100, "profile": "calibration:00000000"}]}, FleetError, "no calibration is '00000000'"),
        ({"pools": [{**H100, "declared": {"colour": 1}}]}, ScenarioInvalid, "declares 'colour'"),
        ({"workload": {"lengths": None, "trace": "nope"}}, TraceUnknown, "nope"),
        ({"workload": {"lengths": [[100, 0.5], [50, 1.0]]}}, TraceInvalid, "do not rise"),
        ({"classes": [{"name": "eu", "share": 1, "residency": ["eu"]}]}, EligibleSetEmpty, "no pool may serve"),
    ],
)
def test_what_a_name_does_not_stand_for_is_refused(
    bare: Warehouse, changes: dict[str, Any], kind: type[FleetError], told: str
) -> None:
    with pytest.raises(kind, match=told):
        resolved(bare, **changes)


def test_a_profile_without_a_needed_parameter_names_it_and_a_pool_may_declare_it(bare: Warehouse) -> None:
    b200 = {"name": "b200", "profile": "B200", "instances": 1}
    with pytest.raises(ProfileIncomplete, match="max_slots"):
        resolved(bare, pools=[b200]).sim(0)
    declared = {"W_ms": 3.0, "H_ms_per_seq": 0.2, "calibration_ctx": 8192, "chunk_tokens": 1024, "kv_blocks": 65536,
                "block_tokens": 16, "max_slots": 64}  # fmt: skip
    found = resolved(bare, pools=[{**b200, "declared": declared}])
    assert found.profiles["b200"].n_slots(8192) == 64
    assert "declared for this run" in found.profiles["b200"].notes[-1]
    assert found.quality == "LOW", "declaring capacity does not better a LOW curve"


def test_the_hash_covers_what_the_figures_hang_on_and_nothing_else(bare: Warehouse) -> None:
    base = resolved(bare).scenario_sha256
    assert resolved(bare).scenario_sha256 == base
    others = [
        {"seeds": [0, 1, 3]},
        {"workload": {"requests": 999}},
        {"pools": [H100, {**A100, "declared": {"usd_per_hour": 1.0}}]},
        {"slo": {"ttft_s": 0.4}},
        {"intensity": {"g_per_kwh": {"GB": 100}, "version": "x"}, "pools": [{**H100, "zone": "GB"}, A100]},
    ]
    hashes = {resolved(bare, **changes).scenario_sha256 for changes in others}
    assert len(hashes) == len(others)
    assert base not in hashes


def test_a_trace_that_says_other_lengths_is_another_scenario(warehouse: Warehouse) -> None:
    told = {"lengths": None, "requests_per_s": None, "requests": None, "trace": "t"}
    trace(warehouse, [(0.0, 100, 10, None), (1.0, 100, 10, None)])
    trace(warehouse, [(0.0, 100, 10, None), (1.0, 100, 11, None)], name="u")
    one, other = (resolved(warehouse, workload={**told, "trace": name}) for name in ("t", "u"))
    assert one.workload_sha256 != other.workload_sha256


def test_lengths_of_a_workload_are_those_of_its_source(bare: Warehouse) -> None:
    found = resolved(bare, workload={"lengths": LENGTHS, "output_share": 0.5}).source.lengths
    assert found.output_mean == pytest.approx(found.prompt_mean, rel=0.01)
