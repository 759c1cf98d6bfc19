"""Pareto fronts: strict dominance with ties kept, exact hypervolume, the mixing hull."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.errors import FrontInvalid
from policies.pareto import hull_quality, hypervolume_2d, mixing_hull, non_dominated

# Table 2 of arXiv 2609.23085: policy, accuracy, model energy (J).
TABLE_2 = [
    ("always_smallest", 0.189, 91.8),
    ("always_medium", 0.791, 4127.9),
    ("always_large", 0.735, 5112.4),
    ("K-NN", 0.790, 3697.6),
    ("UniRoute", 0.618, 2192.2),
    ("Smoothie", 0.599, 1070.6),
    ("RouteLLM", 0.721, 4958.6),
    ("GreenServ", 0.567, 277.0),
    ("SFT", 0.502, 822.8),
    ("KL-GRPO-500", 0.591, 1339.8),
    ("KL-GRPO-1500", 0.609, 1691.9),
    ("GRPO-750", 0.584, 811.8),
    ("GRPO-0.3", 0.573, 297.0),
]
NAMES = [row[0] for row in TABLE_2]
POINTS = np.array([row[1:] for row in TABLE_2])
UP_DOWN = (1, -1)
REFERENCE = (0.0, 5200.0)  # accuracy, J


def names(mask: np.ndarray) -> set[str]:
    return {n for n, keep in zip(NAMES, mask, strict=True) if keep}


def test_the_front_of_the_published_points() -> None:
    assert names(non_dominated(POINTS, UP_DOWN)) == {
        "always_smallest", "GreenServ", "GRPO-0.3", "GRPO-750", "Smoothie", "KL-GRPO-1500", "UniRoute", "K-NN",
        "always_medium",
    }  # fmt: skip


def test_the_hypervolume_of_the_published_points() -> None:
    # Sum by hand over the nine front points, e.g. 0.189 * (5200 - 91.8) + (0.567 - 0.189) * (5200 - 277.0) + ...
    assert hypervolume_2d(POINTS, UP_DOWN, REFERENCE) == pytest.approx(3287.6091, abs=1e-9)


def test_one_fixed_arm_dominates_every_learned_policy_of_the_paper() -> None:
    # Always-Qwen2.5-7B, Table 8 of the same paper: 0.640 at 281.6 J.
    with_7b = np.vstack([POINTS, [0.640, 281.6]])
    mask = non_dominated(with_7b, UP_DOWN)
    assert mask[-1]
    assert names(mask[:-1]) == {"always_smallest", "GreenServ", "K-NN", "always_medium"}


def test_the_mixing_hull_of_the_published_points() -> None:
    hull = mixing_hull(POINTS[:, 1], POINTS[:, 0])
    # Slopes per J fall: 0.378/185.2, 0.006/20, 0.217/3400.6, 0.001/430.3; the others lie below those lines.
    assert [NAMES[i] for i in hull] == ["always_smallest", "GreenServ", "GRPO-0.3", "K-NN", "always_medium"]
    halfway = hull_quality(POINTS[hull, 1], POINTS[hull, 0], [(297.0 + 3697.6) / 2, 10.0, 9999.0])
    assert halfway[0] == pytest.approx((0.573 + 0.790) / 2)
    assert np.isnan(halfway[1]), "below the cheapest arm nothing is reachable"
    assert halfway[2] == 0.791


def test_ties_stay_on_the_front_together() -> None:
    points = [(0.5, 10.0), (0.5, 10.0), (0.5, 11.0), (0.4, 10.0)]
    assert non_dominated(points, UP_DOWN).tolist() == [True, True, False, False]


def test_one_objective_keeps_all_that_are_best() -> None:
    assert non_dominated([[3.0], [1.0], [1.0]], (-1,)).tolist() == [False, True, True]


def test_no_points_give_an_empty_front_and_no_volume() -> None:
    assert non_dominated([], UP_DOWN).tolist() == []
    assert hypervolume_2d([], UP_DOWN, REFERENCE) == 0.0
    assert mixing_hull([], []).tolist() == []


def test_points_that_miss_the_reference_add_nothing() -> None:
    assert hypervolume_2d([(0.9, 6000.0), (-0.1, 10.0)], UP_DOWN, REFERENCE) == 0.0


@pytest.mark.parametrize(
    ("points", "directions", "told"),
    [
        ([(0.5, float("nan"))], UP_DOWN, "unknown values"),
        ([(0.5, float("inf"))], UP_DOWN, "unknown values"),
        ([(0.5, 1.0)], (1, 0), r"\+1"),
        ([(0.5, 1.0)], (1,), "one column per objective"),
    ],
)
def test_points_without_a_place_are_refused(points: list, directions: tuple, told: str) -> None:
    with pytest.raises(FrontInvalid, match=told):
        non_dominated(points, directions)


coordinate = st.integers(0, 6).map(float) | st.floats(-10, 10, allow_nan=False)


def dominates(a: np.ndarray, b: np.ndarray) -> bool:
    return bool((a >= b).all() and (a > b).any())


@settings(max_examples=150, deadline=None)
@given(
    st.integers(1, 4).flatmap(lambda d: st.lists(st.lists(coordinate, min_size=d, max_size=d), min_size=1, max_size=25))
)
def test_the_front_is_what_the_definition_says(points: list) -> None:
    array = np.array(points)
    expected = [not any(dominates(b, a) for b in array) for a in array]
    assert non_dominated(array, (1,) * array.shape[1]).tolist() == expected


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=1, max_size=20))
def test_the_hypervolume_is_the_area_of_dominated_cells(points: list) -> None:
    cells = sum(any(x > i and y > j for x, y in points) for i in range(8) for j in range(8))
    assert hypervolume_2d(np.array(points, dtype=float), (1, 1), (0.0, 0.0)) == cells


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=25))
def test_no_mix_of_two_arms_rises_above_the_hull(points: list) -> None:
    array = np.array(points, dtype=float)
    corners = array[mixing_hull(array[:, 0], array[:, 1])]
    share = np.linspace(0, 1, 11)[:, None, None, None]  # x first arm x second arm x (cost, quality)
    mixes = (share * array[None, :, None, :] + (1 - share) * array[None, None, :, :]).reshape(-1, 2)
    reach = hull_quality(corners[:, 0], corners[:, 1], mixes[:, 0])
    assert (mixes[:, 1] <= reach + 1e-9).all()
    slopes = np.diff(corners[:, 1]) / np.diff(corners[:, 0])
    assert (slopes > 0).all()
    assert (np.diff(slopes) < 0).all()


def test_a_hundred_thousand_points_take_far_less_than_a_quadratic_scan() -> None:
    rng = np.random.default_rng(7)
    x = rng.random(100_000)
    worst_case = np.column_stack([x, 1 - x])  # all of them on the front
    started = time.perf_counter()
    assert non_dominated(worst_case, (1, 1)).all()
    assert time.perf_counter() - started < 5.0  # a quadratic scan of 10^10 comparisons takes minutes
