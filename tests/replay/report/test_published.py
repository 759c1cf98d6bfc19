"""The front of arXiv:2609.23085 from its own tables: golden values are the paper's, or follow from its tables."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from typing import Any

import polars as pl
import pytest

from ingest.base import Payload
from ingest.sample.published import fixed_arms_document, parse, published_document
from policies.replay.errors import DatasetUnknown, RewardsIncomparable
from policies.replay.published import Point, adds_up, points_of, published_report
from policies.replay.report_reward import ranked
from warehouse.errors import IncomparableObservations


def points(document: dict[str, Any]) -> list[Point]:
    payload = Payload("s", "published-points", "file:///p", datetime(2026, 1, 1), json.dumps(document).encode())
    tables = parse(payload).tables
    with_source = tables["core.published_point"].with_columns(pl.lit("s").alias("source_id"))
    return points_of(with_source, tables["core.published_slice"])


@pytest.fixture(scope="module")
def table_2() -> list[Point]:
    return points(published_document())


@pytest.fixture(scope="module")
def arms() -> list[Point]:
    return points(fixed_arms_document())


@pytest.fixture(scope="module")
def report(table_2: list[Point], arms: list[Point]) -> dict[str, Any]:
    return published_report("published", table_2, arms)


def test_table_2_has_its_hypervolume_and_reference_point(report: dict[str, Any]) -> None:
    assert report["hypervolume"] == pytest.approx(3287.6091, abs=1e-9)
    assert report["reference_point"] == {"accuracy": 0.0, "energy_j": 5200.0, "version": "2609.23085-1"}
    assert len(report["front"]) == 9
    assert report["evidence_class"] == "modeled"


def test_every_point_off_the_front_says_what_dominates_it(report: dict[str, Any]) -> None:
    by = {p["policy"]: p["dominated_by"] for p in report["points"]}
    assert by["RouteLLM"] == ["always_medium", "K-NN"]
    assert {name for name, dominators in by.items() if not dominators} == set(report["front"])


def test_with_the_fixed_arm_of_the_text_five_points_are_left(report: dict[str, Any]) -> None:
    both = report["with_fixed_arms"]
    assert both["front"] == ["always_smallest", "GreenServ (λ=0.5)", "Always-Qwen2.5-7B", "K-NN", "always_medium"]
    # Rectangles by hand: .189 x 5108.2 + .378 x 4923 + .073 x 4918.4 + .15 x 1502.4 + .001 x 1072.1
    assert both["hypervolume"] == pytest.approx(3411.8191, abs=1e-4)


def test_words_say_that_one_fixed_arm_dominates_every_learned_policy(report: dict[str, Any]) -> None:
    told = next(s for s in report["statements"] if "dominates" in s)
    assert told.startswith("The fixed arm Always-Qwen2.5-7B (0.640 at 281.6 J")
    for name in ("UniRoute", "Smoothie", "every learned policy", "SFT (λe=0.5)", "step 1500", "step 750", "λe=0.3"):
        assert name in told
    for name in ("K-NN", "always_medium", "GreenServ"):
        assert name not in told


def test_words_do_not_claim_every_learned_policy_where_one_is_not_dominated(
    table_2: list[Point], arms: list[Point]
) -> None:
    better = [replace(p, accuracy=0.65) if "750" in p.policy else p for p in table_2]
    told = " ".join(published_report("published", better, arms)["statements"])
    assert "every learned policy" not in told
    assert "SFT (λe=0.5)" in told


def test_power_of_calls_and_energy_over_time_are_two_figures(report: dict[str, Any]) -> None:
    """1691.9 J / 13.118 s = 129 W, where the table's mean of per-call power is 55.2 W."""
    (kl,) = (p for p in report["points"] if "step 1500" in p["policy"])
    assert kl["power_w_mean_of_calls"] == 55.2
    assert kl["power_w_energy_over_time"] == pytest.approx(128.98, abs=0.01)


def test_the_counts_of_the_benchmarks_give_back_the_overall_row(report: dict[str, Any]) -> None:
    checks = {c["policy"]: c for c in report["adds_up"]}
    smallest = checks["always_smallest"]
    assert (smallest["correct"], smallest["n"]) == (173, 913)
    assert smallest["accuracy"] == pytest.approx(0.1895, abs=5e-5)
    assert smallest["energy_j"] == pytest.approx(91.8, abs=0.05)
    for c in checks.values():
        assert c["accuracy"] == pytest.approx(c["accuracy_told"], abs=0.001)
        assert c["energy_j"] == pytest.approx(c["energy_j_told"], rel=0.01)  # Table 4 rounds to 100 J from 1 kJ on


def test_what_is_untold_stays_untold(arms: list[Point], report: dict[str, Any]) -> None:
    assert adds_up(arms[0]) is not None, "one benchmark of seven has its count"
    assert adds_up(arms[0])["covers_all"] is False  # type: ignore[index]
    (seven,) = (p for p in report["with_fixed_arms"]["points"] if p["policy"] == "Always-Qwen2.5-7B")
    assert seven["latency_s"] is seven["power_w_energy_over_time"] is None


def test_rewards_of_other_weights_are_not_compared(report: dict[str, Any]) -> None:
    weights = report["rewards_by_weight"]
    assert {weight: len(names) for weight, names in weights.items()} == {"0.3": 1, "0.4": 3, "0.5": 1}
    assert "step 1500" in weights["0.4"][0], "0.720 is the largest of its block"
    assert any("are not compared" in s for s in report["statements"])
    with pytest.raises(RewardsIncomparable, match=r"0\.3: b; 0\.4: a"):
        ranked([("a", 0.4, 0.7), ("b", 0.3, 0.6)])
    assert ranked([("a", 0.4, 0.5), ("b", 0.4, 0.6)]) == ["b", "a"]


def test_points_of_two_evidence_classes_make_no_front(table_2: list[Point]) -> None:
    mixed = [replace(table_2[0], evidence_class="measured"), *table_2[1:]]
    with pytest.raises(IncomparableObservations, match="mixes evidence classes"):
        published_report("published", mixed)


def test_no_points_are_named() -> None:
    with pytest.raises(DatasetUnknown, match="nothing-here"):
        published_report("nothing-here", [])
