"""Indices of a front by their definitions, with figures worked out by hand and brute force."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.errors import FrontInvalid
from policies.pareto import hull_quality, mixing_hull
from policies.replay.curves import curve
from policies.replay.indices import (
    PUBLISHED,
    aiq,
    apgr,
    best_mix_within,
    best_within,
    cpt,
    deferral,
    hypervolume,
    quantile_points,
    recovered_gap,
    reference_for,
)
from policies.replay.policy import Threshold
from tests.policies.test_pareto import POINTS
from tests.replay.metrics.tables import random_table, table

NAN = float("nan")


def test_the_hypervolume_of_the_published_points() -> None:
    # 2609.23085, Table 2: accuracy and model energy of its 13 policies; reference (0, 5200 J).
    assert (PUBLISHED.version, PUBLISHED.accuracy, PUBLISHED.energy_j) == ("2609.23085-1", 0.0, 5200.0)
    assert hypervolume(POINTS[:, 1], POINTS[:, 0], PUBLISHED) == pytest.approx(3287.6091, abs=1e-9)
    with_unknown = np.vstack([POINTS, [NAN, 10.0]])
    assert hypervolume(with_unknown[:, 1], with_unknown[:, 0], PUBLISHED) == pytest.approx(3287.6091, abs=1e-9)


def test_the_reference_of_a_table_depends_on_its_fixed_arms_alone() -> None:
    made = table([[1, 0], [1, 0]], [[91.8, 5112.4], [91.8, 5112.4]])
    found = reference_for(made)
    assert (found.accuracy, found.energy_j) == (0.0, 5300.0)  # 1.02 x 5112.4 = 5214.6, up to two digits
    assert found.version == "d/dearest-arm-1.02-1/5300"
    assert reference_for(table([[1]], [[0.034]])).energy_j == pytest.approx(0.035)
    assert reference_for(table([[1], [1]], [[NAN], [50.0]])).energy_j == 51.0
    with pytest.raises(FrontInvalid, match="no energy"):
        reference_for(table([[1]], [[NAN]]))


def test_aiq_of_two_points_is_the_mean_height_of_the_line_between_them() -> None:
    assert aiq([1.0, 3.0], [0.4, 0.8]) == pytest.approx(0.6)


def test_aiq_takes_the_hull_and_is_flat_beyond_its_last_corner() -> None:
    # Hull (1, .4) (2, .8); (1.5, .5) lies below it, (4, .6) is dearer and worse: flat at .8 from 2 to 4.
    assert aiq([1.0, 1.5, 2.0, 4.0], [0.4, 0.5, 0.8, 0.6]) == pytest.approx((0.6 * 1 + 0.8 * 2) / 3)
    assert aiq([1.0, 2.0], [0.4, 0.8], high=4.0) == pytest.approx((0.6 * 1 + 0.8 * 2) / 3)


def test_aiq_has_no_value_for_one_cost_or_below_the_hull() -> None:
    assert aiq([1.0], [0.5]) is None
    assert aiq([], []) is None
    assert aiq([1.0, 2.0], [0.5, 0.6], low=0.5) is None


def test_random_routing_has_an_apgr_of_a_half_and_an_oracle_more() -> None:
    assert apgr([0.0, 1.0], [0.5, 0.9]) == pytest.approx(0.5)
    assert apgr([0.0, 0.25, 1.0], [0.5, 0.9, 0.9]) == pytest.approx(0.25 * 0.5 + 0.75)


def test_apgr_has_no_value_where_strong_is_no_better_or_an_end_is_missing() -> None:
    assert apgr([0.0, 1.0], [0.5, 0.5]) is None
    assert apgr([0.0, 0.5], [0.5, 0.9]) is None
    assert apgr([0.0, 0.5, 1.0], [0.5, NAN, 0.9]) is None


def test_cpt_is_the_share_of_strong_calls_that_recovers_a_part_of_the_gap() -> None:
    share, accuracy = [0.0, 0.4, 1.0], [0.5, 0.7, 0.9]
    assert cpt(share, accuracy, 0.5) == pytest.approx(0.4)
    assert cpt(share, accuracy, 0.2) == pytest.approx(0.16)
    assert cpt(share, accuracy, 0.8) == pytest.approx(0.4 + 0.6 * 0.6)
    assert cpt(share, accuracy, 1.5) is None
    assert cpt(share, [0.5, 0.7, 0.4], 0.5) is None


def test_the_recovered_gap() -> None:
    found = recovered_gap([0.5, 0.7, 0.9], 0.5, 0.9)
    assert found is not None and found.tolist() == pytest.approx([0.0, 0.5, 1.0])
    assert recovered_gap([0.5], 0.9, 0.5) is None


def test_ten_bins_are_a_coarse_view_of_the_exact_curve() -> None:
    rng = np.random.default_rng(2)
    made = random_table(rng, 1000, 2)
    score = rng.random(1000)
    found = curve(made, Threshold(score, 0, 1))
    seen = quantile_points(score, found.moved)
    assert len(seen) == 12  # eleven edges and the all-weak end
    assert (seen[0], found.moved[seen[-1]]) == (0, 1.0)
    np.testing.assert_allclose(found.moved[seen], [0, 0.001, *np.arange(0.1, 1.05, 0.1)], atol=1e-9)


def test_deferral_area_and_quality_neutral_cost_by_hand() -> None:
    # Fixed arms (1, .4) and (5, .8); the router's curve (1, .4) (3, .8) (5, .9).
    found = deferral([5.0, 1.0, 3.0], [0.9, 0.4, 0.8], [1.0, 5.0], [0.4, 0.8])
    assert found.area == pytest.approx((0.6 * 2 + 0.85 * 2) / 4)
    assert found.area_half == pytest.approx((0.4 + 0.7) / 2)  # from 1 to 2.5
    assert found.qnc == pytest.approx(3 / 5)


def test_a_router_that_never_reaches_the_best_arm_has_no_quality_neutral_cost() -> None:
    assert deferral([1.0, 2.0], [0.4, 0.7], [1.0, 5.0], [0.4, 0.8]).qnc is None


def test_where_the_router_offers_nothing_the_deferral_curve_is_0() -> None:
    found = deferral([3.0], [0.8], [1.0, 5.0], [0.4, 0.8])
    assert found.area == pytest.approx(0.8 * 2 / 4)
    assert found.area_half == 0.0
    assert deferral([], [], [1.0], [0.4]).area is None


def test_the_most_accurate_point_within_a_budget() -> None:
    energy, accuracy = [10.0, 20.0, 20.0, 40.0], [0.5, 0.7, 0.6, 0.9]
    found = best_within(energy, accuracy, 30.0)
    assert found is not None and (found.accuracy, found.energy_j, found.first) == (0.7, 20.0, 1)
    assert best_within(energy, accuracy, 9.0) is None
    assert best_within([10.0, 5.0], [0.5, 0.5], 10.0).energy_j == 5.0  # type: ignore[union-attr]


def test_mixing_spends_the_whole_budget() -> None:
    found = best_mix_within([10.0, 20.0, 40.0, NAN], [0.5, 0.7, 0.9, 1.0], 30.0)
    assert found is not None
    assert (found.accuracy, found.energy_j) == (pytest.approx(0.8), 30.0)
    assert (found.first, found.second, found.share) == (1, 2, 0.5)
    rich = best_mix_within([10.0, 20.0], [0.5, 0.7], 100.0)
    assert rich is not None and (rich.accuracy, rich.energy_j) == (0.7, 20.0)
    assert best_mix_within([10.0], [0.5], 9.0) is None


points = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=14)


@settings(max_examples=100, deadline=None)
@given(points, st.integers(0, 32))
def test_no_mixture_of_two_points_beats_the_best_within_a_budget(pairs: list[tuple[int, int]], budget: int) -> None:
    x, y = np.array(pairs, dtype=float).T
    share = np.linspace(0, 1, 21)[:, None, None]
    cost, quality = ((1 - share) * part[:, None] + share * part[None, :] for part in (x, y))
    found = best_mix_within(x, y, float(budget))
    able = quality[cost <= budget + 1e-12]
    if not able.size:
        assert found is None
    else:
        assert found is not None and found.accuracy >= able.max() - 1e-9
        assert found.energy_j <= budget
        single = best_within(x, y, float(budget))
        assert single is not None and single.accuracy <= found.accuracy + 1e-12


@settings(max_examples=100, deadline=None)
@given(points)
def test_aiq_is_the_mean_of_the_hull(pairs: list[tuple[int, int]]) -> None:
    x, y = np.array(pairs, dtype=float).T
    found = aiq(x, y)
    if x.min() == x.max():
        assert found is None
        return
    corners = mixing_hull(x, y)
    middle = x.min() + (np.arange(20_000) + 0.5) / 20_000 * (x.max() - x.min())
    assert found == pytest.approx(hull_quality(x[corners], y[corners], middle).mean(), abs=1e-3)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=40))
def test_the_hull_is_what_the_definition_says(pairs: list[tuple[int, int]]) -> None:
    x, y = np.array(pairs, dtype=float).T
    corners = set()
    for b in range(len(x)):  # a corner: no point or segment of two others is as good at no more cost
        if any(x[a] <= x[b] and y[a] >= y[b] and (x[a], y[a]) != (x[b], y[b]) for a in range(len(x))):
            continue
        between = ((a, c) for a in range(len(x)) for c in range(len(x)) if x[a] < x[b] < x[c])
        if all((y[b] - y[a]) * (x[c] - x[a]) > (y[c] - y[a]) * (x[b] - x[a]) for a, c in between):
            corners.add((x[b], y[b]))
    found = mixing_hull(x, y)
    assert [(x[i], y[i]) for i in found] == sorted(corners)


@pytest.mark.parametrize("shape", ["cloud", "concave", "steps", "slow"])
def test_a_hull_of_a_hundred_thousand_points_takes_milliseconds(shape: str) -> None:
    rng = np.random.default_rng(4)
    n = 100_000
    x = np.sort(rng.random(n))
    y = {
        "cloud": rng.random(n),
        "concave": np.sqrt(x),  # every point is a corner
        "steps": np.cumsum(rng.random(n) < np.linspace(0.9, 0.1, n)) / n,
        "slow": np.cumsum(rng.standard_normal(n)),
    }[shape]
    times = []
    for _ in range(5):
        started = time.perf_counter()
        corners = mixing_hull(x, y)
        times.append(time.perf_counter() - started)
    assert (np.diff(y[corners]) > 0).all() and (np.diff(np.diff(y[corners]) / np.diff(x[corners])) < 1e-9).all()
    assert (y <= np.interp(x, x[corners], y[corners]) + 1e-9).all()
    assert min(times) < 0.5  # 50 ms on a quiet core; the definition compares 10^10 pairs


def test_points_that_lose_one_per_round_are_finished_by_the_chain() -> None:
    # A concave arc whose far end is high above it: from the end backwards, each point falls after the one behind it.
    x = np.arange(400.0)
    y = np.r_[np.sqrt(x[:-1]), 1e4]
    assert mixing_hull(x, y).tolist() == [0, 399]
