"""Exact curves: every threshold and every lambda, against routing at that very value."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.replay.curves import curve, threshold_sweep, tradeoff_sweep
from policies.replay.errors import ReplayError
from policies.replay.picks import picked
from policies.replay.policy import Threshold, Tradeoff
from tests.replay.metrics.tables import always, arms, random_table, table

SEEDS = st.integers(0, 10**6)


def test_the_curve_of_four_queries_by_hand() -> None:
    made = table([[0, 1], [1, 1], [1, 0], [0, 1]], [[1.0, 5.0]] * 4)
    found = curve(made, Threshold(np.array([0.9, 0.2, 0.5, 0.5]), weak=0, strong=1))
    assert found.sweep.parameter.tolist() == [np.inf, 0.9, 0.5, 0.2]
    assert found.moved.tolist() == [0.0, 0.25, 0.75, 1.0], "the two of score 0.5 share a threshold"
    assert found.accuracy.tolist() == [0.5, 0.75, 0.75, 0.75]
    assert found.energy_j.tolist() == [1.0, 2.0, 4.0, 5.0]


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.integers(1, 30), st.integers(2, 4))
def test_a_threshold_curve_is_what_each_threshold_gives(seed: int, n: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    made = random_table(rng, n, k, missing=0.03)
    score = rng.integers(0, 8, n) / 8
    weak, strong = rng.permutation(k)[:2].tolist()
    found = curve(made, Threshold(score, weak, strong))
    assert found.sweep.parameter.tolist() == [np.inf, *sorted(set(score.tolist()), reverse=True)]
    for i, t in enumerate(found.sweep.parameter):
        expected = np.where(score >= t, strong, weak)
        choice = found.sweep.choices(i)
        assert choice.arms is not None and choice.arms.tolist() == expected.tolist()
        assert found.moved[i] == pytest.approx((expected == strong).mean())
        for name in ("energy_j", "latency_s", "cost_usd", "power_w"):
            assert getattr(found, name)[i] == pytest.approx(picked(getattr(made, name), choice).mean(), nan_ok=True)
        assert found.accuracy[i] == pytest.approx(picked(made.correct, choice).mean(), nan_ok=True)


@settings(max_examples=80, deadline=None)
@given(SEEDS, st.integers(1, 15), st.integers(1, 5), st.booleans())
def test_a_lambda_curve_is_what_each_lambda_gives(seed: int, n: int, k: int, ties: bool) -> None:
    rng = np.random.default_rng(seed)
    made = random_table(rng, n, k)
    error = rng.integers(0, 4, (n, k)) / 4 if ties else rng.random((n, k))
    joules = rng.integers(1, 5, (n, k)).astype(float) if ties else rng.uniform(1, 50, (n, k))
    found = curve(made, Tradeoff(error, joules))
    lambdas = found.sweep.parameter
    assert lambdas[0] == 0.0
    assert (np.diff(lambdas) > 0).all()
    upper = np.r_[lambdas[1:], lambdas[-1] * 2 + 1]
    rows = np.arange(n)
    for i, between in enumerate((lambdas + upper) / 2):  # no breakpoint lies inside: every query's arm is the least
        taken = found.sweep.choices(i).arms
        assert taken is not None
        loss = error + between * joules
        np.testing.assert_allclose(loss[rows, taken], loss.min(axis=1), rtol=1e-12, atol=1e-12)
        assert found.energy_j[i] == pytest.approx(made.energy_j[rows, taken].mean())
        assert found.accuracy[i] == pytest.approx(made.correct[rows, taken].mean())
    last = found.sweep.choices(len(found) - 1).arms
    assert last is not None and joules[rows, last].tolist() == joules.min(axis=1).tolist(), "in the end all is cheap"
    assert len(found) - 1 <= n * (k - 1)


def test_between_breakpoints_nothing_changes_and_at_one_the_cheaper_arm_is_taken() -> None:
    made = table([[0, 1]], [[10.0, 30.0]])
    found = curve(made, Tradeoff(np.array([[0.5, 0.1]]), np.array([[10.0, 30.0]])))
    assert found.sweep.parameter.tolist() == [0.0, pytest.approx(0.02)]  # (0.5 - 0.1) / (30 - 10)
    assert found.accuracy.tolist() == [1.0, 0.0]


def test_of_equal_predictions_the_first_arm_is_taken() -> None:
    sweep = tradeoff_sweep(Tradeoff(np.array([[0.2, 0.2, 0.2]]), np.array([[5.0, 5.0, 7.0]])), table([[1, 1, 1]]))
    assert (sweep.start.tolist(), len(sweep)) == ([0], 1)


def test_arms_on_one_line_are_left_at_once() -> None:
    sweep = tradeoff_sweep(Tradeoff(np.array([[0.3, 0.2, 0.1]]), np.array([[1.0, 2.0, 3.0]])), table([[1, 1, 1]]))
    assert sweep.start.tolist() == [2]
    last = sweep.choices(len(sweep) - 1).arms
    assert last is not None and last.tolist() == [0]
    np.testing.assert_allclose(sweep.parameter[1:], 0.1)


def test_an_arm_without_a_prediction_is_not_chosen() -> None:
    nan = np.nan
    sweep = tradeoff_sweep(Tradeoff(np.array([[nan, 0.2, 0.1]]), np.array([[1.0, 2.0, nan]])), table([[1, 1, 1]]))
    assert (sweep.start.tolist(), len(sweep)) == ([1], 1)


def test_a_missing_cell_blanks_only_the_points_that_pick_it() -> None:
    made = table([[np.nan, 1], [0, 1]])
    found = curve(made, Threshold(np.array([0.9, 0.1]), 0, 1))
    np.testing.assert_array_equal(found.accuracy, [np.nan, 0.5, 1.0])


@pytest.mark.parametrize(
    ("swept", "told"),
    [
        (Threshold(np.array([0.1, np.nan]), 0, 1), "NaN"),
        (Threshold(np.array([0.1]), 0, 1), "2 queries"),
        (Threshold(np.array([0.1, 0.2]), 0, 5), "Arm 5"),
        (Tradeoff(np.ones((2, 3)), np.ones((2, 2))), "shapes"),
        (Tradeoff(np.full((2, 2), np.nan), np.ones((2, 2))), "q0"),
    ],
)
def test_what_cannot_be_swept_is_refused(swept: Threshold | Tradeoff, told: str) -> None:
    with pytest.raises(ReplayError, match=told):
        curve(table([[1, 0], [0, 1]]), swept)


def test_a_curve_without_queries_has_no_means() -> None:
    found = curve(table(np.empty((0, 2))), Threshold(np.empty(0), 0, 1))
    assert len(found) == 1
    assert tradeoff_sweep(Tradeoff(np.empty((0, 2)), np.empty((0, 2))), table(np.empty((0, 2)))).parameter.tolist() == [
        0.0
    ]


def test_fourteen_thousand_thresholds_take_milliseconds() -> None:
    rng = np.random.default_rng(1)
    made = random_table(rng, 14_042, 2)
    swept = Threshold(rng.random(14_042), 0, 1)
    times = []
    for _ in range(5):
        started = time.perf_counter()
        found = curve(made, swept)
        times.append(time.perf_counter() - started)
    assert len(found) == 14_043
    assert min(times) < 0.2  # evaluating each threshold takes minutes


def test_the_choices_of_a_point_are_a_policy_of_their_own() -> None:
    made = replace(table([[0, 1], [1, 0]]), dataset="x")
    sweep = threshold_sweep(Threshold(np.array([0.3, 0.6]), 0, 1), made)
    assert sweep.choices(0).sha256 == always(0, 2).sha256
    assert sweep.choices(1).sha256 == arms(0, 1).sha256
    assert sweep.choices(0).sha256 == always(0, 2).sha256, "looking at a later point changes no earlier one"
