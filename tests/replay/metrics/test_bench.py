"""The benchmark of the replay arithmetic: what it times is right, and its figures are there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from app.benching import NAMES
from policies.replay.curves import curve
from policies.replay.policy import Threshold
from policies.replay.totals import matrix_totals
from tests.bench import replay

SMALL = replay.Sizes(
    policies=3,
    queries=300,
    curve_queries=200,
    loop_thresholds=5,
    loop_rows=20,
    loop_prices=2,
    hull_points=1000,
    replicates=100,
    repeats=1,
)


def test_the_floor_and_the_compiled_pass_sum_the_same() -> None:
    rng = np.random.default_rng(1)
    matrices = replay.outcomes(rng, 300, 4)
    arms = rng.integers(0, 4, (5, 300)).astype(np.int32)
    found = matrix_totals(*matrices, arms)
    np.testing.assert_allclose(
        np.column_stack([found.correct, found.energy_j, found.latency_s]), replay.gather(*matrices, arms)
    )


def test_the_restated_loops_give_what_they_should() -> None:
    rng = np.random.default_rng(2)
    correct, energy, latency = replay.outcomes(rng, 100, 2)
    score = rng.random(100)
    made = curve(replay.table_of(correct, energy, latency), Threshold(score, 0, 1))
    points = [1, 40, 100]
    loop = replay.routellm_loop(score, correct[:, 0], correct[:, 1], made.sweep.parameter[points])
    assert loop.tolist() == pytest.approx(made.accuracy[points].tolist())
    predicted = rng.random((100, 2))
    frames = [pd.DataFrame(part) for part in (predicted, energy, correct)]
    best = (predicted * 50.0 - energy).argmax(axis=1).astype(np.int32)
    found = matrix_totals(correct, energy, latency, best[None, :])
    np.testing.assert_allclose(
        replay.routerbench_loop(*frames, np.array([50.0])),
        [[found.accuracy[0], found.energy_j_per_query[0]]],
    )


def test_a_small_run_tells_every_figure() -> None:
    figures: dict[str, object] = {}
    for part in (replay.metrics, replay.curves, replay.routerbench, replay.hulls, replay.bootstraps):
        figures |= part(SMALL, np.random.default_rng(3))
    assert {
        "metrics_query_policies_per_s",
        "metrics_ratio_to_numpy_gather",
        "hull_100k_ms",
        "bootstrap_2000x10k_s",
        "curve_all_thresholds_ms",
        "routellm_restated_loop_query_policies_per_s",
        "routerbench_restated_loop_query_policies_per_s",
    } <= set(figures)
    assert all(value > 0 for value in figures.values())  # type: ignore[operator]
    assert "replay" in NAMES


def test_a_streamed_table_is_the_table(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    replay.write_table(tmp_path, 2_000, 3, 2, rng)
    told = replay.stream(tmp_path, 2_000, 3, 2)
    matrices = [np.fromfile(tmp_path / name).reshape(2_000, 3) for name in ("correct", "energy_j", "latency_s")]
    arms = np.ascontiguousarray(np.fromfile(tmp_path / "arms", np.int32).reshape(2_000, 2).T)
    whole = matrix_totals(*matrices, arms)
    assert told["accuracy"] == pytest.approx(whole.accuracy.tolist())
    assert told["figures_accuracy"] == pytest.approx(whole.accuracy.tolist())
