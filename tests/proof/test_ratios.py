"""Ratios by cluster, bootstrap and Fieller; quantiles; rates. Golden values: facts on statistics 4.3, scipy."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint

from policies.proof import errors
from policies.proof.intervals import ratio_delta, tango
from policies.proof.quantiles import minimum_n, quantile, quantile_contrast, quantile_interval
from policies.proof.rates import (
    Pairs,
    difference_independent,
    graded_difference,
    n_without_violation,
    over_slo,
    pairs,
    tango_clustered,
    violations_upper,
)
from policies.proof.ratios import (
    design_effect,
    percentile,
    ratio_bootstrap,
    ratio_clustered,
    ratio_draws,
    ratio_fieller,
    ratio_independent,
    uniform,
)
from tests.proof.test_intervals import Pairs as Arrays
from tests.proof.test_intervals import reference_pairs


def sample(n: int = 600, seed: int = 1) -> Arrays:
    rng = np.random.default_rng(seed)
    size = rng.lognormal(0, 0.5, n)
    return (
        80 * size * rng.lognormal(0, 0.2, n),
        (rng.uniform(size=n) < 0.9).astype(float),
        100 * size * rng.lognormal(0, 0.2, n),
        (rng.uniform(size=n) < 0.9).astype(float),
    )


# ratios ----------------------------------------------------------------------------


def test_the_bootstrap_of_the_reference_pairs() -> None:
    e1, s1, e0, s0 = reference_pairs()
    assert ratio_bootstrap(e1, s1, e0, s0, resamples=20_000) == pytest.approx((0.8211, 0.8935), abs=0.001)


def test_the_bootstrap_agrees_with_scipys() -> None:
    e1, s1, e0, s0 = sample(300)

    def ratio(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray, axis: int) -> np.ndarray:  # type: ignore[type-arg]
        return a.sum(axis) / b.sum(axis) / (c.sum(axis) / d.sum(axis))

    theirs = stats.bootstrap(
        (e1, s1, e0, s0), ratio, paired=True, vectorized=True, method="percentile", n_resamples=8_000,
        rng=np.random.default_rng(0),
    ).confidence_interval  # fmt: skip
    ours = ratio_bootstrap(e1, s1, e0, s0, resamples=8_000, seed=3)
    assert ours == pytest.approx((theirs.low, theirs.high), abs=0.004)


def test_the_bootstrap_is_the_same_for_the_same_seed() -> None:
    arms = sample(50)
    assert np.array_equal(ratio_draws(*arms, resamples=50, seed=7), ratio_draws(*arms, resamples=50, seed=7))
    assert not np.array_equal(ratio_draws(*arms, resamples=50, seed=7), ratio_draws(*arms, resamples=50, seed=8))
    golden = ratio_draws([1.0, 2.0, 4.0], [1, 1, 1], [8.0, 16.0, 32.0], [1, 1, 1], resamples=4, seed=0)
    assert golden == pytest.approx(np.array([1 / 8] * 4)), "resampled together: every draw has the ratio of its pairs"


def test_the_generator_is_splitmix64() -> None:
    """The first two outputs for seed 0 of the published reference code: e220a8397b1dcdaf, 6e789e6aa1b965f4."""
    state, first = uniform(np.uint64(0))
    _, second = uniform(state)
    assert first == (0xE220A8397B1DCDAF >> 11) / 2**53
    assert second == (0x6E789E6AA1B965F4 >> 11) / 2**53


def test_undefined_resamples_open_both_ends() -> None:
    assert percentile(np.array([math.nan] * 10), 0.95) == (0.0, math.inf)
    low, high = ratio_bootstrap([5.0, 5.0, 5.0], [1, 0, 0], [5.0, 5.0, 5.0], [1, 1, 1])
    assert low > 0 and high == math.inf


def test_clusters_of_one_are_the_plain_delta_with_students_quantile() -> None:
    arms = sample()
    low, high = ratio_clustered(*arms, clusters=np.arange(600))
    plain = ratio_delta(*arms)
    scale = stats.t.ppf(0.975, 599) / stats.norm.ppf(0.975)
    assert math.log(high / low) == pytest.approx(scale * math.log(plain[1] / plain[0]), rel=1e-9)


def test_a_request_logged_ten_times_is_one_cluster() -> None:
    """The sandwich ignores copies: ten copies of each of 60 requests say what the 60 say."""
    arms = [np.repeat(x[:60], 10) for x in sample()]
    low, high = ratio_clustered(*arms, clusters=np.repeat(np.arange(60), 10))
    alone = ratio_clustered(*[x[:60] for x in sample()], clusters=np.arange(60))
    assert (low, high) == pytest.approx(alone, rel=1e-9)
    boot = ratio_bootstrap(*arms, clusters=np.repeat(np.arange(60), 10), resamples=4_000)
    assert boot == pytest.approx(alone, rel=0.02)
    psi = np.repeat(np.random.default_rng(0).normal(size=60), 10)
    assert design_effect(psi, np.repeat(np.arange(60), 10)) == pytest.approx(10, rel=0.02)


def test_one_cluster_bounds_nothing() -> None:
    assert ratio_clustered(*sample(), clusters=["only"] * 600) == (0.0, math.inf)


def test_independent_samples_follow_welch_on_the_logarithm() -> None:
    e1, _, e0, s0 = sample()
    ones = np.ones(600)
    low, high = ratio_independent(e1, ones, e0, ones)
    expected = stats.ttest_ind(e1 / e1.mean(), e0 / e0.mean(), equal_var=False).confidence_interval(0.95)
    half = (expected.high - expected.low) / 2
    ratio = e1.mean() / e0.mean()
    assert (low, high) == pytest.approx((ratio * math.exp(-half), ratio * math.exp(half)), rel=1e-3)
    assert ratio_independent(e1[:1], [1], e0, s0) == (0.0, math.inf)
    assert ratio_independent([2.0, 2.0], [1, 1], [4.0, 4.0], [1, 1]) == (0.5, 0.5)


def test_independent_samples_follow_tea_tasting() -> None:
    """Its ratio of means is unpaired: the delta method on the logarithm with Welch's degrees of freedom."""
    tea_tasting = pytest.importorskip("tea_tasting", reason="tea-tasting is not installed")
    e1, s1, e0, s0 = sample()
    table = pl.DataFrame({"variant": [1] * 600 + [0] * 600, "e": np.r_[e1, e0], "s": np.r_[s1, s0]})
    theirs = tea_tasting.Experiment(r=tea_tasting.RatioOfMeans("e", "s")).analyze(table)["r"]
    expected = 1 + theirs.rel_effect_size_ci_lower, 1 + theirs.rel_effect_size_ci_upper
    assert ratio_independent(e1, s1, e0, s0) == pytest.approx(expected, rel=2e-3)


def test_fieller_of_a_ratio_meets_the_delta_method_where_successes_are_many() -> None:
    arms = sample(20_000)
    assert ratio_fieller(*arms) == pytest.approx(ratio_delta(*arms), rel=1e-3)
    assert ratio_fieller(*arms, paired=False) == pytest.approx(ratio_independent(*arms), rel=1e-3)


def test_fieller_of_a_ratio_opens_where_the_delta_method_would_pretend() -> None:
    e1, _, e0, _ = sample(50)
    one = np.zeros(50)
    one[0] = 1.0
    low, high = ratio_fieller(e1, one, e0, np.ones(50))
    assert low > 0 and high == math.inf
    assert math.isfinite(ratio_delta(e1, one, e0, np.ones(50))[1])
    assert ratio_fieller(e1, np.zeros(50), e0, np.ones(50)) == (0.0, math.inf)


# quantiles ----------------------------------------------------------------------------


def test_the_least_n_for_an_upper_bound() -> None:
    assert [minimum_n(0.95), minimum_n(0.95, two_sided=True), minimum_n(0.99)] == [59, 72, 299]


def test_below_that_n_the_upper_end_is_open_and_from_it_on_it_is_the_largest_value() -> None:
    values = np.random.default_rng(0).exponential(size=72)
    assert quantile_interval(values[:71])[1] == math.inf
    assert quantile_interval(values)[1] == values.max()
    assert quantile_interval(values, 0.01)[0] == -math.inf


def test_the_order_statistic_interval_by_the_binomial() -> None:
    """P95 of 1,000 values: the ends are the order statistics of ranks 936 and 964 (binomial tails below 2.5 %)."""
    values = np.arange(1, 1_001, dtype=float)
    low, high = quantile_interval(values)
    assert stats.binom.cdf(low - 1, 1_000, 0.95) <= 0.025 < stats.binom.cdf(low, 1_000, 0.95)
    assert stats.binom.sf(high - 1, 1_000, 0.95) <= 0.025 < stats.binom.sf(high - 2, 1_000, 0.95)
    assert quantile(values, 0.95) == 950.0


def test_the_paired_difference_of_quantiles() -> None:
    rng = np.random.default_rng(2)
    slow = rng.lognormal(0, 1, 2_000)
    assert quantile_contrast(slow + 0.25, slow, resamples=300) == pytest.approx((0.25, 0.25))
    assert quantile_contrast(slow * 1.1, slow, relative=True, resamples=300) == pytest.approx((1.1, 1.1))
    free = quantile_contrast(slow * 1.1, slow, relative=True, paired=False, resamples=300)
    assert free[1] - free[0] > 0.1
    apart = quantile_contrast(slow * 1.1, slow, relative=True, clusters=np.arange(2_000), resamples=300)
    assert apart == pytest.approx((1.1, 1.1))


def test_few_values_bound_no_quantile() -> None:
    assert quantile_contrast([1.0] * 71, [1.0] * 71) == (-math.inf, math.inf)
    assert quantile_contrast([1.0] * 71, [1.0] * 71, relative=True) == (0.0, math.inf)


def test_the_whole_cluster_is_resampled() -> None:
    rng = np.random.default_rng(3)
    tenant = np.repeat(np.arange(30), 40)
    slow = rng.lognormal(0, 0.2, 1_200) * rng.lognormal(0, 0.5, 30)[tenant]
    other = rng.lognormal(0, 0.2, 1_200)
    alone = quantile_contrast(slow, other, relative=True, resamples=400)
    together = quantile_contrast(slow, other, relative=True, clusters=tenant, resamples=400)
    assert together[1] - together[0] > 2 * (alone[1] - alone[0])


# rates ----------------------------------------------------------------------------


def test_the_paired_table() -> None:
    table = pairs([1, 1, 0, 0, 1], [1, 0, 1, 0, 1])
    assert table == Pairs(2, 1, 1, 1) and table.n == 5 and table.difference == 0 and table.discordance == 0.4


def test_share_over_the_slo_is_a_paired_table() -> None:
    table = over_slo([1.0, 9.0, 9.0, 1.0], [1.0, 1.0, 9.0, 9.0], 8.0)
    assert (table.a, table.b, table.c, table.d) == (1, 1, 1, 1)
    assert table.tango() == tango(1, 1, 4)


def test_no_violation_bounds_the_rate() -> None:
    assert [n_without_violation(rate) for rate in (0.01, 0.005, 0.001)] == [299, 598, 2_995]
    assert violations_upper(0, 299) <= 0.01 < violations_upper(0, 298)


@pytest.mark.parametrize(("k", "n"), [(0, 20), (1, 100), (7, 50), (49, 50)])
def test_violations_follow_clopper_and_pearson(k: int, n: int) -> None:
    expected = proportion_confint(k, n, alpha=0.10, method="beta")[1]
    assert violations_upper(k, n) == pytest.approx(expected, rel=1e-9)
    assert violations_upper(n, n) == 1.0


@pytest.mark.parametrize("counts", [(40, 50, 45, 50), (1, 30, 9, 40), (0, 20, 20, 20), (10, 10, 9, 10)])
def test_independent_rates_follow_newcombe(counts: tuple[int, int, int, int]) -> None:
    expected = confint_proportions_2indep(*counts, method="newcomb", compare="diff")
    assert difference_independent(*counts) == pytest.approx(expected, abs=1e-9)


def test_copies_in_a_cluster_do_not_narrow_the_paired_interval() -> None:
    rng = np.random.default_rng(0)
    one, zero = (rng.uniform(size=80) < 0.9).astype(float), (rng.uniform(size=80) < 0.9).astype(float)
    table = pairs(one, zero)
    copied, n = tango_clustered(np.repeat(one, 10), np.repeat(zero, 10), np.repeat(np.arange(80), 10))
    assert n == pytest.approx(80, rel=0.02)
    assert copied == pytest.approx(table.tango(), abs=2e-3)
    silent, n = tango_clustered([1] * 100, [1] * 100, np.repeat(np.arange(10), 10))
    assert n == 10 and silent == pytest.approx(tango(0, 0, 10))
    assert tango_clustered(one, zero, np.zeros(80))[1] == 1.0


def test_graded_success_follows_the_paired_t_test() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.uniform(size=30), rng.uniform(size=30)
    expected = stats.ttest_rel(a, b).confidence_interval(0.9)
    assert graded_difference(a, b, 0.9) == pytest.approx((expected.low, expected.high))
    assert graded_difference([0.5], [0.5]) == (-1.0, 1.0)
    assert graded_difference([0.5, 0.7], [0.5, 0.7]) == (-1.0, 1.0)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60))
def test_every_pair_is_counted_once(rows: list[tuple[bool, bool]]) -> None:
    one, zero = [a for a, _ in rows], [b for _, b in rows]
    table = pairs(one, zero)
    assert table.n == len(rows) and min(table.a, table.b, table.c, table.d) >= 0
    assert table.b == sum(a and not b for a, b in rows) and table.c == sum(b and not a for a, b in rows)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: pairs([0.5], [1]), errors.ValuesInvalid),
        (lambda: pairs([1, 1], [1]), errors.LengthsDiffer),
        (lambda: over_slo([1], [1], 0.0), errors.ValuesInvalid),
        (lambda: over_slo([1], [1], math.nan), errors.ValuesInvalid),
        (lambda: violations_upper(3, 2), errors.CountsInvalid),
        (lambda: violations_upper(0, 0), errors.NoData),
        (lambda: n_without_violation(0.0), errors.ConfidenceInvalid),
        (lambda: difference_independent(3, 2, 1, 2), errors.CountsInvalid),
        (lambda: quantile_interval([]), errors.NoData),
        (lambda: quantile_interval([math.nan]), errors.ValuesInvalid),
        (lambda: quantile_contrast([1.0], [1.0, 2.0]), errors.LengthsDiffer),
        (lambda: quantile_contrast([1.0], [1.0], resamples=0), errors.ValuesInvalid),
        (lambda: ratio_bootstrap(*sample(5), resamples=0), errors.ValuesInvalid),
        (lambda: ratio_clustered(*sample(5), clusters=[1, 2]), errors.LengthsDiffer),
        (lambda: ratio_independent([1.0], [1, 1], [1.0], [1]), errors.LengthsDiffer),
    ],
)
def test_nonsense_is_refused_by_name(call: Callable[[], object], error: type[errors.ProofError]) -> None:
    with pytest.raises(error):
        call()
