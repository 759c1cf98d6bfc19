"""Policies side by side on the same requests: pairs, ranking within the SLO, and what may not be compared."""

from __future__ import annotations

from typing import Any

import pytest

from policies.fleet.errors import FleetError, ScenarioInvalid
from policies.fleet.experiments import compared_policies, metric_rows
from policies.fleet.experiments.capping import cap_slots
from policies.fleet.experiments.figures import Run, figure, half_width, paired
from tests.fleet.experiments.made import A100, H100, resolved, store, value
from warehouse.engine import Warehouse

A10G = {"name": "a10g", "profile": "A10G", "instances": 8}


def by_policy(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {c["policy"]: c for c in report["cases"]}


def test_on_a_mixed_fleet_the_energy_aware_policy_takes_no_more_joules_than_least_loaded_within_the_slo(
    bare: Warehouse,
) -> None:
    report = compared_policies(resolved(bare), ["least_loaded", "energy_aware"])
    cases = by_policy(report)
    assert cases["energy_aware"]["within_slo"] and cases["least_loaded"]["within_slo"]
    assert value(cases["energy_aware"], "j_per_success") <= value(cases["least_loaded"], "j_per_success")
    (group,) = report["groups"]
    assert (group["best"], group["ranked_by"]) == ("energy_aware", "j_per_success")
    pair = group["pairs"][0]["metrics"]["j_per_success"]
    assert (pair["verdict"], pair["difference"]["n"]) == ("better", 3)
    assert pair["difference"]["high"] < 0


def test_where_consolidation_is_bad_for_latency_the_slo_wins(bare: Warehouse) -> None:
    """Packing fills one instance: fewer joules, longer iterations. A limit between the two decides."""
    found = resolved(
        bare,
        pools=[{**A100, "instances": 4}],
        workload={"requests_per_s": 20.0, "requests": 1500},
        slo={"ttft_s": 5.0, "tpot_s": 0.02},
    )
    report = compared_policies(found, ["pack", "least_loaded"])
    cases, (group,) = by_policy(report), report["groups"]
    assert value(cases["pack"], "j_per_success") < value(cases["least_loaded"], "j_per_success")
    assert cases["least_loaded"]["within_slo"] and not cases["pack"]["within_slo"]
    assert [r["policy"] for r in group["ranking"]] == ["least_loaded", "pack"]
    assert group["best"] == "least_loaded"
    assert "pack takes fewer joules and misses the SLO" in group["words"][1]


def test_loads_and_caps_make_a_case_each_with_the_same_lengths(bare: Warehouse) -> None:
    found = resolved(bare, pools=[H100], seeds=[0])
    report = compared_policies(found, ["round_robin", "least_loaded"], loads=[1.0, 2.0], caps=[0.0, 0.3])
    assert len(report["cases"]) == 8
    assert len(report["groups"]) == 4
    assert len({c["case_name"] for c in report["cases"]}) == 8
    tokens = {value(c, "output_tokens") for c in report["cases"]}
    assert len(tokens) == 1
    fast = [c for c in report["cases"] if c["load"] == 2.0 and c["cap"] == 0.0]
    slow = [c for c in report["cases"] if c["load"] == 1.0 and c["cap"] == 0.0]
    assert value(fast[0], "mean_power_w") > value(slow[0], "mean_power_w")
    assert value(fast[0], "j_per_success") < value(slow[0], "j_per_success"), "fuller batches share idle power"


def test_a_cap_holds_for_every_number_of_requests_below_it(bare: Warehouse) -> None:
    found = resolved(bare)
    for reduction in (0.1, 0.25, 0.4):
        for pool in found.pools(cap_slots(found, reduction)):
            full = pool.profile.power.tabulated(pool.profile.n_slots(pool.context_tokens))[1:].max()
            assert pool.slots is not None
            assert pool.profile.power.tabulated(pool.slots).max() <= full * (1 - reduction) * (1 + 1e-9)


def test_tokens_per_joule_of_different_models_are_refused(bare: Warehouse) -> None:
    report = compared_policies(resolved(bare, pools=[H100, A10G]), ["round_robin", "static"])
    (group,) = report["groups"]
    assert group["comparison"]["allowed"] is False
    assert "quality is not controlled for" in group["comparison"]["why"]
    assert (group["ranking"], group["best"], group["ranked_by"]) == ([], None, None)
    assert "tokens_per_j" not in group["pairs"][0]["metrics"]
    assert "j_per_success" not in group["pairs"][0]["metrics"]
    assert "p99_ttft_s" in group["pairs"][0]["metrics"], "latency is latency, whoever answers"


def test_one_set_of_outcomes_controls_for_quality(bare: Warehouse) -> None:
    """The small model is cheap per answer; per right answer the order may be another one."""
    told = {"outcome_set": "ours", "success": {"llama-3-70b": 0.9, "7b-class": 0.3}}
    report = compared_policies(resolved(bare, pools=[H100, A10G], quality=told), ["round_robin", "static"])
    (group,) = report["groups"]
    assert (group["comparison"]["basis"], group["ranked_by"]) == ("same_outcomes", "j_per_right_answer")
    case = by_policy(report)["round_robin"]
    served = {p["pool"]: value(p, "completed") for p in case["pools"]}
    right = 0.9 * served["h100"] + 0.3 * served["a10g"]
    assert value(case, "j_per_right_answer") == pytest.approx(value(case, "energy_j") / right, rel=1e-3)


def test_shares_of_right_answers_are_read_from_recorded_outcomes(warehouse: Warehouse) -> None:
    arms = {"big": "llama-3-70b", "small": "7b-class"}
    store(warehouse, "core.arm", [{"dataset": "ours", "arm": a, "model": m} for a, m in arms.items()])
    right = {("q1", "big"): 1, ("q1", "small"): 0, ("q2", "big"): 1, ("q2", "small"): 1, ("q3", "big"): 0}
    store(
        warehouse,
        "core.outcome",
        [{"dataset": "ours", "query_id": q, "arm": a, "correct": float(c)} for (q, a), c in right.items()],
    )
    found = resolved(warehouse, pools=[H100, A10G], quality={"outcome_set": "ours"})
    assert found.scenario.quality is not None
    assert found.scenario.quality.success == {"llama-3-70b": 1.0, "7b-class": 0.5}, "over q1 and q2: both answered"
    with pytest.raises(ScenarioInvalid, match="tell no one share"):
        resolved(warehouse, pools=[H100], quality={"outcome_set": "nope"})


def test_models_that_the_router_fixes_for_each_class_may_be_compared(bare: Warehouse) -> None:
    classes = [
        {"name": "hard", "share": 0.5, "logical_model": "llama-3-70b"},
        {"name": "easy", "share": 0.5, "logical_model": "7b-class"},
    ]
    found = resolved(bare, pools=[H100, A100, A10G], classes=classes)
    report = compared_policies(found, ["least_loaded", "energy_aware"])
    assert report["groups"][0]["comparison"]["allowed"] is True
    assert report["groups"][0]["comparison"]["basis"] == "same_logical_model"


@pytest.mark.parametrize(
    ("policies", "more", "told"),
    [
        (["pack"], {}, "fewer than two"),
        (["pack", "magic"], {}, "no policy 'magic'"),
        (["pack", "random"], {"loads": []}, "the loads are"),
        (["pack", "random"], {"loads": [0.0]}, "the loads are"),
        (["pack", "random"], {"caps": [1.0]}, "a reduction of 1"),
        (["pack", "carbon_aware"], {}, "no intensity"),
    ],
)
def test_a_comparison_that_makes_no_sense_is_refused(
    bare: Warehouse, policies: list[str], more: dict[str, Any], told: str
) -> None:
    with pytest.raises(FleetError, match=told):
        compared_policies(resolved(bare, seeds=[0]), policies, **more)


def test_a_cancelled_comparison_ends_with_what_cancelled_it(bare: Warehouse) -> None:
    class Cancelled(Exception):
        pass

    seen = []

    def step(stage: str, done: int, total: int) -> None:
        seen.append((done, total))
        if done >= 2:
            raise Cancelled

    with pytest.raises(Cancelled):
        compared_policies(resolved(bare), ["random", "round_robin", "least_loaded"], step=step)
    assert seen[0] == (0, 9)


def test_metric_rows_carry_class_unit_and_interval(bare: Warehouse) -> None:
    report = compared_policies(resolved(bare), ["round_robin", "least_loaded"])
    rows = list(metric_rows(report))
    found = {(r["case_name"], r["pool"], r["metric"]): r for r in rows}
    assert len(found) == len(rows)
    joules = found["least_loaded", "", "j_per_success"]
    assert (joules["unit"], joules["evidence_class"], joules["n"]) == ("J", "modeled", 3)
    assert joules["low"] < joules["value"] < joules["high"]
    grams = found["least_loaded", "", "carbon_g"]
    assert (grams["value"], grams["evidence_class"]) == (None, None)
    assert found["least_loaded", "h100", "energy_j"]["value"] > 0


def a_run(seed: int, joules: float) -> Run:
    return Run(seed, "drained", {"j_per_success": joules}, [], [], {})


def test_pairs_cancel_what_seeds_have_in_common() -> None:
    """Differences of 1 on seeds that differ by hundreds: t interval of the differences, not of the levels."""
    base = [a_run(i, v) for i, v in enumerate((100.0, 300.0, 800.0))]
    other = [a_run(i, v) for i, v in enumerate((99.0, 298.9, 798.9))]
    told = paired(base, other, "j_per_success")
    assert told["difference"]["value"] == pytest.approx(-3.2 / 3)
    assert told["difference"]["high"] == pytest.approx(-3.2 / 3 + 4.30265 * 0.057735 / 3**0.5, abs=1e-4)
    assert told["verdict"] == "better"
    assert paired(base, base, "j_per_success")["verdict"] == "same"
    assert paired(base[:1], other[:1], "j_per_success")["verdict"] == "no interval"


def test_a_figure_that_one_seed_does_not_know_is_not_known() -> None:
    assert figure([1.0, float("nan")], "J").value is None
    assert half_width([2.0, 2.0]) is None, "seeds that do not differ are no interval of width 0"
    assert figure([1.0, 3.0], "J").to_dict()["low"] == pytest.approx(2 - 12.7062, abs=1e-3)
