"""The router's sets are enforced: who may not serve a request never does, and a set that is empty is a rejection."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from policies.fleet.errors import ScenarioInvalid
from policies.fleet.experiments import read, simulated
from policies.fleet.experiments.resolve import may_serve
from policies.fleet.power import published
from policies.fleet.sim import POLICIES
from tests.fleet.experiments.made import A100, H100, resolved, scenario, trace, value
from warehouse.engine import Warehouse

EU = {**H100, "residency": ["eu", "gdpr"], "safety": ["clinical"], "authorized": ["acme"], "context_tokens": 8192}


@pytest.mark.parametrize(
    ("wanted", "allowed"),
    [
        ({}, False),  # the pool serves named tenants only
        ({"tenant": "acme"}, True),
        ({"tenant": "other"}, False),
        ({"tenant": "acme", "residency": ["eu"]}, True),
        ({"tenant": "acme", "residency": ["eu", "us"]}, False),
        ({"tenant": "acme", "safety": ["clinical"]}, True),
        ({"tenant": "acme", "safety": ["finance"]}, False),
        ({"tenant": "acme", "logical_model": "LLAMA-3-70B"}, True),
        ({"tenant": "acme", "logical_model": "7b-class"}, False),
        ({"tenant": "acme", "context_tokens": 8192}, True),
        ({"tenant": "acme", "context_tokens": 8193}, False),
        ({"tenant": "acme", "pools": ["a100"]}, False),
    ],
)
def test_a_pool_serves_a_class_only_with_everything_that_it_requires(wanted: dict[str, Any], allowed: bool) -> None:
    told = read(scenario(pools=[EU, A100], classes=[{"name": "c", "share": 1.0, **wanted}]))
    assert may_serve(told.pools[0], published("H100-80GB"), told.classes[0]) is allowed


@pytest.mark.parametrize("policy", [p for p in POLICIES if p != "carbon_aware"])
def test_no_policy_leaves_the_set(bare: Warehouse, policy: str) -> None:
    found = resolved(
        bare,
        pools=[{**H100, "residency": ["eu"]}, {**A100, "authorized": ["acme"]}],
        classes=[{"name": "eu", "share": 0.4, "residency": ["eu"]}, {"name": "acme", "share": 0.3, "tenant": "acme",
                 "pools": ["a100"]}],
        balancer={"policy": policy},
        seeds=[0],
    )  # fmt: skip
    (case,) = simulated(found)["cases"]
    kind = found.sim(0).routed
    assert kind is not None
    counts = np.bincount(kind.kind, minlength=3)
    served = {p["pool"]: value(p, "completed") for p in case["pools"]}
    assert served == {"h100": counts[0] + counts[2], "a100": counts[1]}
    assert [c["class"] for c in case["classes"]] == ["eu", "acme", "other"]


def test_an_empty_set_is_an_explicit_rejection_and_adds_up(bare: Warehouse) -> None:
    found = resolved(
        bare,
        classes=[{"name": "eu", "share": 0.25, "residency": ["eu"]}, {"name": "any", "share": 0.75}],
        seeds=[0],
    )
    (case,) = simulated(found)["cases"]
    assert set(case["rejections"]) == {"no_eligible_backend"}
    assert 150 < case["rejections"]["no_eligible_backend"] < 350
    assert value(case, "rejected_no_eligible_backend") == case["rejections"]["no_eligible_backend"]
    assert case["add_up"]
    assert value(case, "offered") == 1000
    assert value(case, "slo_attainment") < 0.85, "a rejected request has not met the SLO"


def test_requests_too_long_for_every_pool_are_rejected_by_name(bare: Warehouse) -> None:
    found = resolved(bare, pools=[{**H100, "context_tokens": 2048}], seeds=[0])
    (case,) = simulated(found)["cases"]
    assert set(case["rejections"]) == {"context_too_long"}
    assert case["rejections"]["context_too_long"] == int((found.workloads[0].tokens > 2048).sum())


def test_classes_of_a_trace_are_its_categories_and_the_first_that_describes_a_request_has_it(
    warehouse: Warehouse,
) -> None:
    trace(warehouse, [(i / 10, 100, 10, ("chat", "code", None)[i % 3]) for i in range(30)])
    told = {"lengths": None, "requests_per_s": None, "requests": None, "trace": "t"}
    found = resolved(
        warehouse,
        workload=told,
        classes=[
            {"name": "c", "category": "code", "pools": ["a100"]},
            {"name": "t", "category": "chat", "pools": ["h100"]},
        ],
        seeds=[0],
    )
    routed = found.sim(0).routed
    assert routed is not None
    assert routed.kind.tolist() == [1, 0, 2] * 10
    with pytest.raises(ScenarioInvalid, match="which no request has"):
        resolved(warehouse, workload=told, classes=[{"name": "x", "category": "poetry"}]).sim(0)


def test_a_length_rule_cuts_the_sets_further(bare: Warehouse) -> None:
    rules = [{"tokens": 1024, "pools": ["a100"]}, {"pools": ["h100"]}]
    found = resolved(bare, routing=rules, seeds=[0])
    (case,) = simulated(found)["cases"]
    short = int((found.workloads[0].tokens <= 1024).sum())
    assert {p["pool"]: value(p, "completed") for p in case["pools"]} == {"h100": 1000 - short, "a100": short}
