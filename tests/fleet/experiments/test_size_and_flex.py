"""Sizes and caps in closed form, simulated, and under the peer's convention beside them."""

from __future__ import annotations

import pytest

from policies.fleet.errors import CapacityZero, ScenarioInvalid
from policies.fleet.experiments import flexed, sized
from tests.fleet.experiments.made import A100, H100, resolved, store, value
from warehouse.engine import Warehouse

HARD = {"workload": {"requests_per_s": 60.0, "requests": 4000}, "seeds": [0, 1]}
CDF = [(256, 0.1), (1024, 0.55), (4096, 0.95), (8000, 1.0)]


@pytest.fixture
def with_cdf(warehouse: Warehouse) -> Warehouse:
    store(warehouse, "core.length_cdf", [{"cdf": "c", "tokens": t, "share": s} for t, s in CDF])
    return warehouse


def test_each_pool_is_sized_for_the_whole_load_and_simulated(bare: Warehouse) -> None:
    told = sized(resolved(bare, **HARD))
    h100, a100 = told["sizes"]
    assert h100["instances"] < a100["instances"]
    assert h100["boards"] == 8 * h100["instances"]
    for row in told["sizes"]:
        assert row["fleet"]["slo_met"] and row["fleet"]["stable"]
        assert row["verified"]["instances"] <= row["instances"], "the closed form is not too small"
    assert told["comparison"]["allowed"] is True
    by_name = {c["case_name"]: c for c in told["cases"]}
    first = by_name[f"h100: {h100['instances']} instances"]
    assert value(first, "tokens_per_j") == pytest.approx(h100["fleet"]["tokens_per_j"], rel=0.15)


def test_two_pools_share_the_load_by_length(bare: Warehouse) -> None:
    found = resolved(bare, pools=[{**A100, "context_tokens": 2048}, H100], **HARD)
    with pytest.raises(CapacityZero, match="no request of pool a100 fits into 1 tokens"):
        sized(resolved(bare, pools=[{**A100, "context_tokens": 1}], **HARD))
    told = sized(found, split_tokens=2048, verify=False)
    split = told["sizes"][-1]
    assert split["name"] == "a100 up to 2048 tokens, h100 beyond"
    assert split["instances"] == sum(p["instances"] for p in split["pools"])
    assert split["fleet"]["requests_per_s"] == pytest.approx(60.0)


def test_the_peers_figures_stand_beside_ours_under_their_own_name(with_cdf: Warehouse) -> None:
    workload = {"lengths": None, "cdf": "c", "requests_per_s": 60.0}
    told = sized(resolved(with_cdf, pools=[A100], workload=workload), peer=True, verify=False)
    ours, peer = told["sizes"][0], told["sizes"][0]["peer"]
    f = peer["fleet"]
    assert f["paper_normalised_tokens_per_j"] == pytest.approx(8 * f["tokens_per_j"]), "eight boards, one counted"
    assert f["tokens_per_j"] == pytest.approx(ours["fleet"]["tokens_per_j"], rel=0.15)
    assert peer["pools"][0]["board_power_w"] < 400


def test_sizing_refuses_what_it_cannot_answer(bare: Warehouse) -> None:
    classes = [{"name": "eu", "share": 0.5}]
    with pytest.raises(ScenarioInvalid, match="whole load"):
        sized(resolved(bare, classes=classes))
    with pytest.raises(ScenarioInvalid, match="end-to-end"):
        sized(resolved(bare, slo={"e2e_s": 10.0}))


def test_a_cap_saves_nothing_where_it_does_not_bind_and_costs_joules_where_it_does(bare: Warehouse) -> None:
    found = resolved(bare, pools=[{**A100, "instances": 8}], **HARD)
    told = flexed(found, levels=[0.02, 0.3, 0.6])
    none, light, hard, beyond = told["levels"]
    assert none["slots"] == {} and none["simulated"]["against_no_cap"]["j_per_success"]["verdict"] == "same"
    assert hard["slots"]["a100"] < light["slots"]["a100"]
    assert hard["simulated"]["figures"]["mean_power_w"]["value"] < none["simulated"]["figures"]["mean_power_w"]["value"]
    assert any("RAISES joules per success" in w for w in hard["words"])
    assert hard["analytic"]["raises_j_per_request"] is True
    assert (beyond["possible"], beyond["simulated"]) == (False, None)
    assert "park instances" in beyond["words"][0]
    assert told["largest_within_slo"] in (0.0, 0.02)


def test_a_fleet_of_several_pools_is_simulated_alone(bare: Warehouse) -> None:
    told = flexed(resolved(bare, seeds=[0]), levels=[0.1])
    assert all(row["analytic"] is None for row in told["levels"])
    assert "simulated alone" in " ".join(told["notes"])
    assert told["levels"][1]["slots"].keys() == {"h100", "a100"}


def test_the_peers_flex_table_is_printed_beside(with_cdf: Warehouse) -> None:
    workload = {"lengths": None, "cdf": "c", "requests_per_s": 60.0}
    found = resolved(with_cdf, pools=[{**H100, "instances": 8}], workload=workload)
    told = flexed(found, levels=[0.1, 0.3], peer=True, verify=False)
    assert [r["concurrency_cap"] for r in told["peer"]["levels"]] == [128, 48, 13]
    assert told["peer"]["levels"][1]["result"]["board_power_w"] == pytest.approx(540, abs=1)
    assert told["cases"] == []
