"""Calibrated joules: output tokens x measured joules per token at a GPU and a batch, never beyond what was measured."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policies.replay.energy_join import Configuration, configurations, join, matching_gpus, model_key
from policies.replay.errors import ConditionUnknown
from policies.replay.load import load_table
from policies.replay.table import Condition
from tests.replay.load.world import LARGE, SMALL, arm, cell, fill, joinable, measured, point, query, reading
from warehouse.engine import Warehouse
from warehouse.evidence import EvidenceClass


def known(warehouse: Warehouse, *points: dict[str, Any]) -> tuple[Configuration, ...]:
    fill(warehouse, [], points=list(points))
    with reading(warehouse) as snap:
        return configurations(snap)


def at(found: tuple[Configuration, ...], batch: float, **more: Any) -> float:
    return join(found, {"a": SMALL}, gpu=more.pop("gpu", "H100"), batch=batch, **more).rates["a"].j_per_token


def test_energy_is_tokens_times_joules_per_token_and_calibrated(warehouse: Warehouse) -> None:
    joinable(warehouse)
    with reading(warehouse) as snap:
        table, notes = load_table(snap, "toy", condition=Condition(gpu="H100", batch=128), batch_mode="interpolate")
    assert table.names == ("large", "small")
    np.testing.assert_allclose(table.energy_j, [[50 * 1.0, 100 * 0.1]] * 4)
    assert table.evidence_class is EvidenceClass.CALIBRATED
    assert table.energy_method == (
        "output tokens x J/token: ML.ENERGY v2 on H100, batch 128, log-log between measured batches "
        "(GPUs only; published table, itself modeled)"
    )
    assert len(notes.observation_ids) == 2 and notes.calibration_id is not None
    assert [rate.batches for rate in notes.energy_rates] == [(126,), (128,)]


def test_latency_is_time_per_output_token_and_energy_is_power_times_latency(warehouse: Warehouse) -> None:
    joinable(warehouse)
    with reading(warehouse) as snap:
        table, _ = load_table(snap, "toy", condition=Condition(gpu="H100", batch=32), batch_mode="interpolate")
    np.testing.assert_allclose(table.latency_s, [[50 * 0.032, 100 * 0.032]] * 4)
    np.testing.assert_allclose(table.power_w, [[4 / 0.032, 0.4 / 0.032]] * 4)
    np.testing.assert_allclose(table.energy_j, table.power_w * table.latency_s)


@pytest.mark.parametrize(
    ("attributes", "seconds"),
    [
        ({"avg_tpot_s": 0.02, "median_itl_ms": 9.0}, 0.02),
        ({"median_itl_ms": 9.0, "output_tokens_per_s": 1000.0}, 0.009),
        ({"output_tokens_per_s": 1000.0}, 0.032),  # Little's law: 32 requests share 1,000 tokens/s
        ({"power_w": 1.0}, None),
    ],
)
def test_time_per_token_in_order_of_preference(
    warehouse: Warehouse, attributes: dict[str, float], seconds: float | None
) -> None:
    (found,) = known(warehouse, point(SMALL, 32, 0.4, **attributes))
    assert found.s_per_token == seconds


def test_between_two_batches_it_is_linear_in_both_logarithms(warehouse: Warehouse) -> None:
    found = known(warehouse, point(SMALL, 32, 0.4), point(SMALL, 128, 0.1))
    assert at(found, 64) == pytest.approx(0.2)  # halfway between 32 and 128, and between 0.4 and 0.1


@given(st.floats(32, 128))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
def test_it_stays_between_its_neighbours_and_falls_with_the_batch(batch: float) -> None:
    points = tuple(
        Configuration((str(b),), "v2", SMALL, "H100", 1, "chat", "tp1", b, b, j, 0.01, "modeled")
        for b, j in ((32.0, 0.4), (128.0, 0.1))
    )
    value = at(points, batch)
    assert 0.1 * (1 - 1e-12) <= value <= 0.4 * (1 + 1e-12)
    assert value == pytest.approx(0.4 * 32 / batch)


@pytest.mark.parametrize("batch", [31.0, 129.0, 1e9])
def test_it_is_never_extrapolated_and_the_measured_range_is_named(warehouse: Warehouse, batch: float) -> None:
    joinable(warehouse)
    with (
        reading(warehouse) as snap,
        pytest.raises(ConditionUnknown, match=r"on H100 at batch 32 to 12[68]; .* outside"),
    ):
        load_table(snap, "toy", condition=Condition(gpu="H100", batch=batch), batch_mode="interpolate")


def test_up_to_the_limit_of_the_largest_configuration_its_own_figure_stands(warehouse: Warehouse) -> None:
    found = known(warehouse, point(SMALL, 32, 0.4), point(SMALL, 120, 0.1, limit=128))
    assert at(found, 128) == 0.1
    assert "a" in join(found, {"a": SMALL}, gpu="H100", batch=129).missing


def test_nearest_takes_the_configuration_with_the_nearest_limit_within_a_factor_of_two(warehouse: Warehouse) -> None:
    found = known(warehouse, point(SMALL, 191, 0.4, limit=192), point(SMALL, 255, 0.1, limit=256))
    assert at(found, 128, mode="nearest") == 0.4
    assert at(found, 500, mode="nearest") == 0.1
    for far in (90, 520):
        assert "a" in join(found, {"a": SMALL}, gpu="H100", batch=far, mode="nearest").missing
    with pytest.raises(ConditionUnknown, match="use one of interpolate, nearest"):
        at(found, 128, mode="spline")


def test_an_arm_outside_its_range_is_left_out_with_the_reason_or_refused_where_asked_for(warehouse: Warehouse) -> None:
    joinable(warehouse)
    fill(
        warehouse,
        [cell(f"q{i}", "tiny") for i in range(4)],
        arms=[arm("tiny", "acme/Tiny")],
        points=[point("acme/Tiny", 500, 0.01)],
    )
    condition = Condition(gpu="H100", batch=64)
    with reading(warehouse) as snap:
        table, notes = load_table(snap, "toy", condition=condition, batch_mode="interpolate")
        assert table.names == ("large", "small")
        assert notes.arms_left_out == {"tiny": "acme/Tiny was measured on H100 at batch 500 to 500; 64 is outside"}
        with pytest.raises(ConditionUnknown, match="tiny has none"):
            load_table(snap, "toy", condition=condition, arms=["small", "tiny"], batch_mode="interpolate")


def test_a_gpu_is_found_by_a_word_of_its_name_and_an_unknown_one_lists_what_there_is(warehouse: Warehouse) -> None:
    found = known(
        warehouse,
        point(SMALL, 32, 0.4),
        point(SMALL, 32, 0.3, gpu="H100", edition="v3"),
        point(SMALL, 32, 0.2, gpu="NVIDIA A100-SXM4-40GB"),
    )
    assert matching_gpus(found, "h100") == {"NVIDIA H100 80GB HBM3", "H100"}
    assert matching_gpus(found, "NVIDIA H100 80GB HBM3") == {"NVIDIA H100 80GB HBM3"}
    assert matching_gpus(found, "A100") == {"NVIDIA A100-SXM4-40GB"}
    with pytest.raises(ConditionUnknown, match=r"'MI300'.*use one of H100, NVIDIA A100-SXM4-40GB, NVIDIA H100"):
        matching_gpus(found, "MI300")
    with pytest.raises(ConditionUnknown, match="mlenergy-v2"):
        matching_gpus((), "H100")


@pytest.mark.parametrize(
    "condition",
    [Condition(gpu="H100"), Condition(batch=64), Condition(gpu="H100", batch=0), Condition("H100", math.nan)],
)
def test_gpu_and_batch_come_together_and_the_batch_is_above_0(warehouse: Warehouse, condition: Condition) -> None:
    joinable(warehouse)
    with reading(warehouse) as snap, pytest.raises(ConditionUnknown):
        load_table(snap, "toy", condition=condition, batch_mode="interpolate")


def test_the_same_model_has_one_name_in_both_editions() -> None:
    assert model_key("meta-llama/Meta-Llama-3.1-8B-Instruct") == model_key("meta-llama/Llama-3.1-8B-Instruct")
    assert model_key("meta-llama/Llama-3.1-8B") != model_key("meta-llama/Llama-3.1-8B-Instruct")


def test_one_edition_answers_for_all_arms_and_another_only_fills_in(warehouse: Warehouse) -> None:
    found = known(
        warehouse,
        point(SMALL, 64, 0.4),
        point(LARGE, 64, 4.0),
        point(LARGE, 64, 3.0, gpu="H100", edition="v3"),
        point("acme/New", 64, 1.0, gpu="H100", edition="v3"),
    )
    models: dict[str, str | None] = {"small": SMALL, "large": LARGE, "new": None}
    rates = join(found, models, gpu="H100", batch=64).rates
    assert {name: r.edition for name, r in rates.items()} == {"large": "ML.ENERGY v2", "small": "ML.ENERGY v2"}
    rates = join(found, {"large": LARGE, "new": "acme/New"}, gpu="H100", batch=64).rates
    assert {r.edition for r in rates.values()} == {"ML.ENERGY v3"}
    assert join(found, {"large": LARGE}, gpu="H100", batch=64, edition="v2").rates["large"].j_per_token == 4.0
    with pytest.raises(ConditionUnknown, match=r"use one of ML\.ENERGY v2, ML\.ENERGY v3"):
        join(found, models, gpu="H100", batch=64, edition="v9")


def test_mixed_editions_are_said(warehouse: Warehouse) -> None:
    joinable(warehouse)
    fill(
        warehouse,
        [cell(f"q{i}", "new") for i in range(4)],
        arms=[arm("new", "acme/New")],
        points=[point("acme/New", 64, 1.0, gpu="H100", edition="v3")],
    )
    with reading(warehouse) as snap:
        _, notes = load_table(snap, "toy", condition=Condition(gpu="H100", batch=64), batch_mode="interpolate")
    assert "several editions" in notes.warnings[0] and "ML.ENERGY v3: new" in notes.warnings[0]


def test_fewest_gpus_and_chat_workloads_come_first(warehouse: Warehouse) -> None:
    found = known(
        warehouse,
        point(SMALL, 64, 0.8, gpus=2),
        point(SMALL, 64, 0.4),
        point(SMALL, 64, 0.1, task="image-chat"),
        point(SMALL, 500, 0.05, task="image-chat", limit=500),
    )
    assert at(found, 64) == 0.4
    assert "a" in join(found, {"a": SMALL}, gpu="H100", batch=400).missing  # never from another workload


def test_repeated_runs_of_a_configuration_are_averaged(warehouse: Warehouse) -> None:
    found = known(warehouse, point(SMALL, 64, 0.4), point(SMALL, 64, 0.2, repeat=2))
    assert len(found) == 1 and found[0].j_per_token == pytest.approx(0.3) and len(found[0].observation_ids) == 2


def test_a_call_without_output_tokens_has_no_joules(warehouse: Warehouse) -> None:
    joinable(warehouse)
    fill(warehouse, [cell("q0", "small", tokens=None), cell("q1", "small", tokens=0)])
    with reading(warehouse) as snap:
        table, notes = load_table(snap, "toy", condition=Condition("H100", 64), keep_partial=True)
    small = table.arm_index("small")
    assert np.isnan(table.energy_j[:2, small]).all() and np.isnan(table.power_w[:2, small]).all()
    assert notes.missing_cells == 2 and notes.coverage == 6 / 8


def test_joules_of_the_cells_are_not_used_under_another_load_and_that_is_said(warehouse: Warehouse) -> None:
    joinable(warehouse)
    fill(warehouse, [cell("q0", "small", **measured(5.0))])
    with reading(warehouse) as snap:
        table, notes = load_table(snap, "toy", condition=Condition("H100", 128), batch_mode="interpolate")
    assert table.energy_j[0, 1] == pytest.approx(10.0)
    assert notes.warnings == ("1 cells tell joules of their own, which hold for another load and are not used here",)


def test_the_calibration_id_names_observations_and_condition(warehouse: Warehouse) -> None:
    joinable(warehouse)
    with reading(warehouse) as snap:
        ids = [
            load_table(snap, "toy", condition=Condition("H100", batch), batch_mode="interpolate")[1].calibration_id
            for batch in (64, 64, 65)
        ]
    assert ids[0] == ids[1] != ids[2]


def test_an_observation_learned_later_is_not_used(warehouse: Warehouse) -> None:
    from datetime import timedelta

    from tests.replay.load.world import NOW, put

    joinable(warehouse)
    put(warehouse, "core.energy_observation", [point(SMALL, 64, 9.0)], at=NOW + timedelta(days=1))
    with reading(warehouse) as snap:
        table, _ = load_table(snap, "toy", condition=Condition("H100", 64), batch_mode="interpolate")
    assert table.energy_j[0, 1] == pytest.approx(100 * 0.2)


def test_an_arm_without_a_declared_model_is_never_guessed(warehouse: Warehouse) -> None:
    joinable(warehouse)
    fill(warehouse, [cell("q0", SMALL)], queries=[query("q0")])
    with reading(warehouse) as snap:
        _, notes = load_table(snap, "toy", condition=Condition("H100", 64), batch_mode="interpolate")
    assert notes.arms_left_out[SMALL] == "no benchmarked model is declared for it (energy_model)"
