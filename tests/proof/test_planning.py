"""Sample sizes, sequences and many comparisons. Golden values: facts on statistics 4.3, statsmodels, scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from policies.proof import errors
from policies.proof.intervals import log_ratio, ratio_delta
from policies.proof.multiple import best_of, drill_down, holm, p_harm, simultaneous
from policies.proof.planning import (
    expected_range,
    log_sd_of_range,
    n_noninferiority,
    n_ratio_gain,
    n_separable,
    rank_intervals,
    separable,
)
from policies.proof.sequences import (
    FIRST_LOOK_N,
    difference_sequence,
    half_width,
    log_ratio_sequence,
    mean_sequence,
    tuned_rho,
)

# sample sizes ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("margin", "expected"),
    [
        (0.01, (5_254, 10_508, 21_015)),
        (0.02, (1_314, 2_627, 5_254)),
        (0.03, (584, 1_168, 2_335)),
        (0.05, (211, 421, 841)),
    ],
)
def test_pairs_for_noninferiority(margin: float, expected: tuple[int, int, int]) -> None:
    assert tuple(n_noninferiority(margin, psi) for psi in (0.05, 0.10, 0.20)) == expected


def test_pairs_for_noninferiority_at_five_and_eighty_percent() -> None:
    assert n_noninferiority(0.02, 0.10, alpha=0.05, power=0.80) == 1_546


def test_a_hoped_for_gain_needs_fewer_pairs_and_a_loss_more() -> None:
    plain = n_noninferiority(0.02, 0.10)
    assert n_noninferiority(0.02, 0.10, difference=0.01) < plain < n_noninferiority(0.02, 0.10, difference=-0.01)
    with pytest.raises(errors.ValuesInvalid):
        n_noninferiority(0.02, 0.10, difference=-0.02)
    with pytest.raises(errors.ValuesInvalid):
        n_noninferiority(0.02, 0.05, difference=0.06)


def test_five_samples_are_too_few() -> None:
    sd = log_sd_of_range(4.0, 5)
    assert expected_range(5) == pytest.approx(2.326, abs=5e-4)  # d2 of control charts
    assert sd == pytest.approx(0.60, abs=0.005)
    assert math.sqrt(math.expm1(sd**2)) == pytest.approx(0.65, abs=0.005)
    assert [n_separable(r, sd) for r in (2.0, 1.95, 1.5, 1.2, 1.1)] == [12, 13, 34, 168, 614]
    assert n_separable(0.5, sd) == n_separable(2.0, sd)


def test_pairs_until_a_gain_is_shown() -> None:
    n = n_ratio_gain(0.10, 0.4, required=0.05)
    se = 0.4 / math.sqrt(n)
    assert math.log(0.9) + (1.959964 + 1.281552) * se == pytest.approx(math.log(0.95), abs=1e-4)
    with pytest.raises(errors.ValuesInvalid):
        n_ratio_gain(0.05, 0.4, required=0.05)


@pytest.mark.parametrize("wrong", [0.0, -1.0, math.nan, math.inf])
def test_impossible_plans_are_refused(wrong: float) -> None:
    with pytest.raises(errors.ProofError):
        n_noninferiority(wrong, 0.1)
    with pytest.raises(errors.ProofError):
        n_separable(wrong, 0.6)
    with pytest.raises(errors.ProofError):
        n_separable(2.0, wrong)
    with pytest.raises(errors.ProofError):
        n_noninferiority(0.02, wrong)


def test_neighbours_that_overlap_share_their_ranks() -> None:
    arms = [(1.0, 2.0), (1.5, 3.0), (4.0, 5.0), (0.1, 0.2)]
    assert rank_intervals(arms) == [(2, 3), (2, 3), (4, 4), (1, 1)]
    assert separable(arms[0], arms[2]) and not separable(arms[0], arms[1])


@given(st.lists(st.tuples(st.floats(0, 9), st.floats(0, 9)).map(lambda t: (min(t), max(t))), min_size=1, max_size=12))
def test_ranks_hold_the_rank_of_every_order_the_intervals_allow(intervals: list[tuple[float, float]]) -> None:
    ranks = rank_intervals(intervals)
    middle = np.array([(a + b) / 2 for a, b in intervals])
    for (best, worst), m in zip(ranks, middle, strict=True):
        assert 1 <= best <= worst <= len(intervals)
        assert best <= 1 + (middle < m).sum() and (middle <= m).sum() <= worst


# sequences ----------------------------------------------------------------------------


def test_the_sequence_by_its_formula() -> None:
    rho, n = tuned_rho(1_000), 700
    inner = 2 * (n * rho**2 + 1) / (n**2 * rho**2) * math.log(math.sqrt(n * rho**2 + 1) / 0.05)
    assert half_width(n, 2.0, 1_000) == pytest.approx(2.0 * math.sqrt(inner))


def test_at_the_planned_n_it_is_1_55_times_as_wide_and_narrowest_there() -> None:
    once = 1.959964 / math.sqrt(1_000)
    assert half_width(1_000, 1.0, 1_000) / once == pytest.approx(1.55, abs=0.005)
    for other in (500, 2_000):
        assert half_width(1_000, 1.0, other) > half_width(1_000, 1.0, 1_000)


def test_the_path_ends_in_the_sequence_of_all_values() -> None:
    x = np.random.default_rng(0).normal(3.0, 2.0, 400)
    lows, highs = mean_sequence(x, 400)
    half = float(half_width(400, x.std(ddof=1), 400))
    assert (lows[-1], highs[-1]) == pytest.approx((x.mean() - half, x.mean() + half))
    assert np.isinf(lows[: FIRST_LOOK_N - 1]).all() and np.isfinite(lows[FIRST_LOOK_N - 1 :]).all()


def test_agreement_never_gives_a_sequence_without_width() -> None:
    low, high = difference_sequence([1] * 200, [1] * 200, 1_000)
    assert low < -0.02 and high > 0.02
    assert difference_sequence([1] * 29, [1] * 29, 1_000) == (-1.0, 1.0)


def test_the_ratio_sequence_is_the_wider_delta_interval() -> None:
    rng = np.random.default_rng(0)
    arms = rng.lognormal(0, 0.3, 500), np.ones(500), rng.lognormal(0.2, 0.3, 500), np.ones(500)
    once, always = ratio_delta(*arms), log_ratio_sequence(*arms, 500)
    assert math.log(always[1] / always[0]) / math.log(once[1] / once[0]) == pytest.approx(1.55, abs=0.01)
    wide = log_ratio_sequence(*arms, 500, design_effect=4.0)
    assert math.log(wide[1] / wide[0]) / math.log(always[1] / always[0]) == pytest.approx(2.0)
    assert log_ratio_sequence(*[x[:20] for x in arms], 500) == (0.0, math.inf)
    with pytest.raises(errors.CountsInvalid):
        log_ratio_sequence(*arms, 0)


# many comparisons ----------------------------------------------------------------------------


P_VALUES = [
    [0.03],
    [0.01, 0.04, 0.03, 0.005],
    [0.5, 0.5, 1.0, 0.0],
    list(np.random.default_rng(0).uniform(size=15) ** 3),
]


@pytest.mark.parametrize("p", P_VALUES)  # each call of theirs takes a tenth of a second
def test_holm_is_that_of_statsmodels(p: list[float]) -> None:
    assert holm(p) == pytest.approx(multipletests(p, method="holm")[1])


@pytest.mark.parametrize("p", P_VALUES)
def test_drill_downs_are_adjusted_as_by_statsmodels(p: list[float]) -> None:
    rows = drill_down({f"c{i:02}": x for i, x in enumerate(p)})
    expected = multipletests(p, alpha=0.05, method="fdr_bh")
    found = {row.category: row for row in rows}
    assert [found[f"c{i:02}"].q for i in range(len(p))] == pytest.approx(expected[1])
    assert [row.q for row in rows] == sorted(row.q for row in rows)


def test_wrong_p_values_are_refused() -> None:
    for wrong in ([1.2], [-0.1], [math.nan]):
        with pytest.raises(errors.ValuesInvalid):
            holm(wrong)
    with pytest.raises(errors.NoData):
        holm([])
    assert drill_down({}) == []


def test_harm_by_category_is_the_exact_one_sided_mcnemar_test() -> None:
    from statsmodels.stats.contingency_tables import mcnemar

    one, zero = [0] * 9 + [1] * 2 + [1] * 30, [1] * 9 + [0] * 2 + [1] * 30
    assert p_harm(one, zero) == pytest.approx(mcnemar([[30, 2], [9, 0]], exact=True).pvalue / 2)
    assert p_harm([1, 1], [1, 1]) == 1.0


def test_each_of_k_bounds_holds_at_alpha_over_k() -> None:
    assert simultaneous(0.95, 5) == pytest.approx(0.99)
    assert simultaneous(0.95, 1) == 0.95
    with pytest.raises(errors.ValuesInvalid):
        simultaneous(0.95, 0)


def crowd(
    k: int, gain: float, n: int = 400, seed: int = 0
) -> tuple[dict[str, tuple[np.ndarray, np.ndarray]], tuple[np.ndarray, np.ndarray]]:  # type: ignore[type-arg]
    rng = np.random.default_rng(seed)
    ones, control = np.ones(n), rng.lognormal(0, 0.4, n)
    arms = {f"a{i}": (control * rng.lognormal(0, 0.4, n) * (1 - gain * (i == 0)), ones) for i in range(k)}
    return arms, (control, ones)


def test_the_best_of_k_has_holms_p_value() -> None:
    arms, control = crowd(6, 0.0)
    found = best_of(arms, control)
    p = {}
    for name, arm in arms.items():
        pair = log_ratio(*arm, *control)
        assert pair is not None
        from scipy.stats import norm

        p[name] = float(norm.cdf(pair[0] / (pair[1].std(ddof=1) / 20)))
    expected = dict(zip(p, multipletests(list(p.values()), method="holm")[1], strict=True))
    assert found.p_holm == pytest.approx(expected[found.name])
    assert found.p_raw == pytest.approx(p[found.name]) and found.p_raw == min(p.values())
    assert found.p_raw < found.p_max_t <= found.p_holm + 0.02
    assert found.k == 6


def test_the_gain_of_the_luckiest_shrinks() -> None:
    """Winner's curse: of 20 equal arms the best looks frugal; held out and shrunken it does not."""
    plain, held, shrunk = [], [], []
    for seed in range(40):
        found = best_of(*crowd(20, 0.0, n=100, seed=seed))
        plain.append(found.gain)
        held.append(found.held_out_gain or 0.0)
        shrunk.append(found.shrunken_gain)
    truth = 1 - math.exp(0.08)  # the mean of a log-normal factor of sd 0.4 lies above 1
    assert np.mean(plain) > truth + 0.07
    assert np.mean(held) == pytest.approx(truth, abs=0.03)
    assert abs(np.mean(shrunk) - truth) < 0.5 * abs(np.mean(plain) - truth)


def test_a_true_gain_survives_shrinking() -> None:
    found = best_of(*crowd(8, 0.4, n=2_000))
    assert found.name == found.held_out_name == "a0"
    assert found.shrunken_gain == pytest.approx(found.gain, abs=0.02)
    assert found.held_out_interval[0] < 1 - (found.held_out_gain or 0) < found.held_out_interval[1] < 0.75
    two = best_of(*crowd(2, 0.4, n=2_000))
    assert 0.3 < two.shrunken_gain <= two.gain


def test_arms_that_cannot_be_compared_still_count_in_the_correction() -> None:
    arms, control = crowd(3, 0.05)
    silent = arms | {"silent": (control[0], np.zeros(400))}
    assert best_of(silent, control).p_holm >= best_of(arms, control).p_holm
    with pytest.raises(errors.NoData):
        best_of({"silent": silent["silent"]}, control)
