"""Domination by fixed arms and by their mixtures, and the ranges in which a curve lies above them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.pareto import hull_quality, mixing_hull
from policies.replay.curves import threshold_sweep
from policies.replay.domination import complete_rows, hull_at, verdicts
from policies.replay.frontier import frontier
from policies.replay.policy import Threshold
from tests.replay.metrics.tables import always, arms, mixing, random_table, table

NAN = float("nan")


def hard_and_easy(n: int = 600, seed: int = 0) -> tuple:
    """Weak (10 J) answers only what is easy, strong (100 J) nearly all; the score knows what is hard."""
    rng = np.random.default_rng(seed)
    hard = rng.random(n) < 0.4
    right = np.column_stack([~hard & (rng.random(n) < 0.95), rng.random(n) < 0.9])
    made = table(right, np.tile([10.0, 100.0], (n, 1)) * rng.uniform(0.9, 1.1, (n, 1)))
    return made, hard, rng


def test_a_policy_that_a_fixed_arm_beats_is_told_so() -> None:
    made = table([[1, 0, 1], [1, 0, 1], [0, 1, 0], [1, 1, 0]], [[10.0, 20.0, 30.0]] * 4)
    worse = verdicts(made, [arms(1, 1, 0, 2)])[0]  # 0 of 4 at 20 J, against arm0's 3 of 4 at 10 J
    assert [one.arm for one in worse.dominated_by] == ["arm0", "arm1"]
    assert worse.dominated_by[0].confidence > 0.95
    assert worse.by_hull
    assert (worse.gain.estimate, worse.best_arm_within) == (-0.75, "arm0")


def test_equal_points_do_not_dominate_each_other() -> None:
    made = table([[1, 1], [0, 1]])
    same = verdicts(made, [always(0, 2)])[0]
    assert (same.dominated_by, same.by_hull, same.dominates) == ((), False, ())
    assert same.margin.estimate == 0.0
    assert (same.hull_confidence, same.best_arm_within) == (0.0, "arm0")


def test_a_policy_may_lie_below_the_line_between_arms_that_do_not_dominate_it() -> None:
    right = np.zeros((100, 2))
    right[:20, 0] = 1
    right[:80, 1] = 1
    made = table(right, np.tile([10.0, 110.0], (100, 1)))
    # 20 easy ones to strong, that weak answers too: 0.2 right at 30 J; the mixture reaches 0.32 there.
    wasteful = np.zeros(100, np.int32)
    wasteful[:20] = 1
    found = verdicts(made, [arms(*wasteful)])[0]
    assert [one.arm for one in found.dominated_by] == ["arm0"]
    wiser = wasteful.copy()
    wiser[:20], wiser[20:25], wiser[85:90] = 0, 1, 1  # 0.25 right at 20 J; the mixture reaches 0.26
    found = verdicts(made, [arms(*wiser)])[0]
    assert found.dominated_by == ()
    assert found.by_hull
    assert found.margin.estimate == pytest.approx(0.25 - 0.26)


def test_a_mixture_of_arms_is_on_the_hull_and_not_dominated_by_it() -> None:
    made = random_table(np.random.default_rng(1), 300, 2)
    made = table(np.column_stack([made.correct[:, 0] * made.correct[:, 1], np.ones(300)]))
    found = verdicts(made, [mixing(np.full((300, 2), 0.5))])[0]
    assert not found.by_hull
    assert found.margin.estimate == pytest.approx(0.0, abs=1e-12)


def test_a_wise_router_lies_above_the_hull_with_the_interval_to_prove_it() -> None:
    made, hard, _ = hard_and_easy()
    found = verdicts(made, [arms(*hard.astype(int))])[0]
    assert found.margin.estimate > 0.1 and found.margin.low > 0  # type: ignore[operator]
    assert (found.dominated_by, found.by_hull, found.hull_confidence) == ((), False, 0.0)
    assert found.best_arm_within == "arm0" and found.gain.low > 0  # type: ignore[operator]


def test_a_policy_that_is_better_and_cheaper_dominates_the_arm() -> None:
    made = table([[1, 0], [0, 1]], [[10.0, 40.0], [40.0, 10.0]])
    assert verdicts(made, [arms(0, 1)])[0].dominates == ("arm0", "arm1")


def test_cheaper_than_every_arm_the_margin_is_over_declining() -> None:
    made = table([[1, 1], [1, 1]], [[10.0, 30.0], [30.0, 10.0]])
    found = verdicts(made, [arms(0, 1)])[0]  # all right at 10 J; both arms all right at 20 J
    assert (found.best_arm_within, found.gain.estimate) == (None, None)
    assert found.margin.estimate == pytest.approx(1 - 0.5)


def test_queries_with_a_missing_cell_are_left_out_for_all_and_counted() -> None:
    made = table([[1, 0], [NAN, 1], [0, 1]])
    assert complete_rows(made).tolist() == [True, False, True]
    assert [one.n for one in verdicts(made, [always(0, 3), always(1, 3)])] == [2, 2]
    nothing = verdicts(table([[NAN, 1]]), [always(1, 1)])[0]
    assert (nothing.n, nothing.accuracy, nothing.margin.low) == (0, None, None)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 20), st.integers(0, 20)), min_size=1, max_size=7), st.floats(0, 22))
def test_the_hull_of_a_row_is_the_hull(pairs: list[tuple[int, int]], at: float) -> None:
    x, y = np.array(pairs, dtype=float).T
    corners = mixing_hull(x, y)
    expected = hull_quality(x[corners], y[corners], at)
    found = hull_at(x[None, :], y[None, :], np.array([at]))[0]
    assert found == (-np.inf if np.isnan(expected) else pytest.approx(float(expected)))
    declining = hull_at(x[None, :], y[None, :], np.array([at]), declining=True)[0]
    assert declining == pytest.approx(float(np.interp(at, np.r_[0.0, x[corners]], np.r_[0.0, y[corners]])))


def test_a_front_above_the_hull_is_proved_over_its_middle() -> None:
    made, hard, rng = hard_and_easy()
    sweep = threshold_sweep(Threshold(hard + rng.random(len(hard)), 0, 1), made)
    found = frontier(made, sweep, replicates=500)
    assert found is not None
    assert len(found.point) == 64 and found.n == 600
    assert (np.diff(found.energy_j) > 0).all()
    assert len(found.proved) == 1
    proved = found.proved[0]
    assert 10 < proved.low_j < 46 < proved.high_j < 100, "around the 40 % that are hard"
    assert found.ranges[0].points >= found.proved_pointwise[0].points >= proved.points
    assert (found.margin[0], found.margin[-1]) == pytest.approx((0.0, 0.0), abs=1e-9), "the ends are fixed arms"
    inner = slice(1, -1)
    assert (found.low_all[inner] <= found.low[inner] + 1e-9).all(), "the band for all points is the wider one"


def test_a_front_of_a_blind_score_is_not_proved() -> None:
    made, hard, rng = hard_and_easy(seed=3)
    found = frontier(made, threshold_sweep(Threshold(rng.random(len(hard)), 0, 1), made), replicates=500)
    assert found is not None and found.proved == ()


def test_without_mixing_the_comparator_is_the_best_arm_that_costs_no_more() -> None:
    made, hard, rng = hard_and_easy()
    sweep = threshold_sweep(Threshold(hard + rng.random(len(hard)), 0, 1), made)
    alone, mixed = frontier(made, sweep, mixing=False, replicates=50), frontier(made, sweep, replicates=50)
    assert alone is not None and mixed is not None
    assert (alone.margin >= mixed.margin - 1e-12).all()
    assert alone.against == "fixed arms"


def test_no_complete_query_gives_no_front() -> None:
    made = table([[NAN, 1.0]])
    assert frontier(made, threshold_sweep(Threshold(np.array([0.5]), 0, 1), made)) is None
