"""Paired bootstrap: coverage of known answers, clusters, seeds, and what cannot be identified."""

from __future__ import annotations

import numpy as np
import pytest

from policies.replay.analytic import accuracy_difference, energy_per_correct_ratio
from policies.replay.bootstrap import paired, paired_columns, percentile, resample
from policies.replay.errors import ReplayError
from tests.replay.metrics.tables import always, random_table, table


def columns(seed: int = 0, n: int = 400) -> np.ndarray:
    """Correct and J of a policy, then of a comparator that is more often right and dearer."""
    rng = np.random.default_rng(seed)
    hard = rng.random(n)
    right1, right0 = (hard < 0.6).astype(float), (hard < 0.7).astype(float)
    joules0 = rng.gamma(4, 25, n)
    return np.column_stack([right1, joules0 * rng.uniform(0.4, 0.6, n), right0, joules0])


def test_a_replicate_draws_as_many_rows_as_there_are() -> None:
    sums, drawn = resample(np.ones((50, 1)), 20, seed=3)
    assert drawn.tolist() == [50.0] * 20
    assert sums[:, 0].tolist() == [50.0] * 20


def test_draws_have_the_mean_and_the_variance_of_drawing_with_replacement() -> None:
    values = np.arange(100.0)[:, None]
    sums, _ = resample(values, 20_000, seed=5)
    means = sums[:, 0] / 100
    assert means.mean() == pytest.approx(values.mean(), abs=5 * values.std() / 10 / np.sqrt(20_000))
    assert means.std() == pytest.approx(values.std() / 10, rel=0.03)


def test_each_row_is_drawn_as_often_as_any_other() -> None:
    sums, _ = resample(np.eye(40), 5000, seed=1)
    counts = sums.sum(axis=0)
    chi2 = ((counts - 5000) ** 2 / 5000).sum()
    assert chi2 < 90  # 39 degrees of freedom: exceeded once in 10^5 seeds
    assert np.corrcoef(sums[:, 0], sums[:, 1])[0, 1] == pytest.approx(-1 / 39, abs=0.06)


def test_a_seed_gives_the_same_replicates_and_another_seed_others() -> None:
    values = columns()
    assert resample(values, 40, 7)[0].tolist() == resample(values, 40, 7)[0].tolist()
    assert resample(values, 40, 7)[0].tolist() != resample(values, 40, 8)[0].tolist()
    np.testing.assert_array_equal(resample(values, 60, 7)[0][:40], resample(values, 40, 7)[0])


def test_policies_that_are_resampled_together_see_one_draw() -> None:
    values = columns()
    both, _ = resample(np.column_stack([values, values]), 50, 2)
    np.testing.assert_array_equal(both[:, :4], both[:, 4:])


def test_the_percentile_intervals_agree_with_the_closed_forms() -> None:
    values = columns(n=2000)
    found = paired_columns(values, replicates=4000, seed=1)
    tango = accuracy_difference(values[:, 0], values[:, 2])
    delta = energy_per_correct_ratio(values)
    for ours, theirs, tolerance in (
        (found.accuracy_difference, tango, 0.002),
        (found.energy_per_correct_ratio, delta, 0.01),
    ):
        assert ours.estimate == pytest.approx(theirs.estimate)
        assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=tolerance)
    assert found.energy_ratio.estimate == pytest.approx(values[:, 1].sum() / values[:, 3].sum())
    assert found.energy_ratio.low < 0.5 < found.energy_ratio.high  # type: ignore[operator]


def test_joules_per_correct_answer_are_a_ratio_of_sums() -> None:
    found = paired_columns(np.array([[1, 10.0, 1, 20.0], [0, 30.0, 1, 60.0]]), replicates=10).energy_per_correct_ratio
    assert found.estimate == pytest.approx((40 / 1) / (80 / 2))


def test_a_policy_against_itself_differs_in_no_replicate() -> None:
    made = random_table(np.random.default_rng(0), 200, 3)
    found = paired(made, always(1, 200), always(1, 200))
    assert (found.accuracy_difference.low, found.accuracy_difference.high) == (0.0, 0.0)
    assert (found.energy_ratio.low, found.energy_ratio.high) == (1.0, 1.0)


def test_clusters_are_drawn_whole_and_widen_the_interval() -> None:
    values = np.repeat(columns(n=100), 20, axis=0)
    sessions = np.repeat(np.arange(100), 20)
    alone, whole = paired_columns(values, seed=1), paired_columns(values, seed=1, clusters=sessions)
    assert whole.clusters == 100
    assert alone.accuracy_difference.estimate == whole.accuracy_difference.estimate

    def width(of: object) -> float:
        return of.accuracy_difference.high - of.accuracy_difference.low  # type: ignore[attr-defined, no-any-return]

    assert width(whole) > 3 * width(alone)


def test_clusters_of_unequal_size_count_by_their_queries() -> None:
    values = np.array([[1.0, 1.0, 0.0, 1.0]] * 3 + [[0.0, 1.0, 0.0, 1.0]])
    sums, drawn = resample(values, 200, 0, clusters=["a", "a", "a", "b"])
    assert set(drawn.tolist()) == {2.0, 4.0, 6.0}
    assert set((sums[:, 0] / drawn).tolist()) == {0.0, 0.75, 1.0}


def test_a_missing_cell_leaves_the_other_measure_identifiable() -> None:
    values = columns()
    values[3, 1] = np.nan
    found = paired_columns(values, replicates=50)
    assert found.missing == 1
    assert found.energy_ratio.estimate is found.energy_ratio.low is found.energy_per_correct_ratio.high is None
    assert found.accuracy_difference.low is not None


def test_without_success_there_is_no_ratio_per_success() -> None:
    values = columns()
    values[:, 0] = 0
    found = paired_columns(values, replicates=50)
    assert (found.energy_per_correct_ratio.estimate, found.energy_per_correct_ratio.high) == (None, None)
    assert energy_per_correct_ratio(values).estimate is None


def test_few_successes_leave_the_upper_bound_open() -> None:
    values = columns()
    values[1:, 0] = 0  # one success: more than a third of the draws have none
    values[0, 0] = 1
    found = paired_columns(values).energy_per_correct_ratio
    assert found.estimate is not None and found.low is not None and found.high is None


def test_an_undefined_replicate_leaves_no_interval() -> None:
    assert percentile(1.0, np.array([1.0, np.nan, 2.0])).low is None


def test_tango_is_for_answers_that_are_right_or_wrong() -> None:
    # Facts of the score interval: b = 5, c = 12 of 200 gives -0.080656 to 0.006003.
    one, other = np.r_[np.ones(5), np.zeros(12), np.ones(183)], np.r_[np.zeros(5), np.ones(12), np.ones(183)]
    found = accuracy_difference(one, other)
    assert (found.estimate, found.low, found.high) == pytest.approx((-0.035, -0.080656, 0.006003), abs=1e-6)
    assert accuracy_difference(np.array([0.5]), np.array([1.0])).low is None
    assert accuracy_difference(np.empty(0), np.empty(0)).estimate is None


@pytest.mark.parametrize("bad", [np.empty((0, 4)), np.full((3, 2), np.nan), np.ones(4)])
def test_columns_that_cannot_be_resampled_are_refused(bad: np.ndarray) -> None:
    with pytest.raises(ReplayError):
        resample(bad)


def test_clusters_must_be_one_per_query() -> None:
    with pytest.raises(ReplayError, match="one cluster per query"):
        resample(np.ones((3, 1)), clusters=["a"])


def test_the_pair_of_a_table_takes_its_columns() -> None:
    made = table([[1, 0], [1, 1]], [[10.0, 40.0], [10.0, 40.0]])
    found = paired(made, always(0, 2), always(1, 2), replicates=10)
    assert (found.accuracy_difference.estimate, found.energy_ratio.estimate) == (0.5, 0.25)
    assert found.energy_per_correct_ratio.estimate == pytest.approx((20 / 2) / (80 / 1))
