"""Paired success rates and joules per success: reference answers, edges, properties.

Golden values: the reference answers computed for the study of methods (facts on statistics, section 4.3), Newcombe
(1998) table II for (36, 12, 2, 0), and hand computations on the small table below.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import minimize_scalar

from policies.errors import PolicyError
from policies.proof import errors
from policies.proof.intervals import fieller, fieller_g, newcombe_paired, ratio_delta, tango
from tests.support import shared

# Ten requests: joules and success of candidate and control.
E1 = [90.0, 110.0, 70.0, 130.0, 95.0, 105.0, 80.0, 120.0, 100.0, 100.0]
S1 = [1, 1, 1, 0, 1, 1, 1, 1, 1, 1]
E0 = [120.0, 140.0, 100.0, 150.0, 125.0, 115.0, 120.0, 130.0, 110.0, 140.0]
S0 = [1, 1, 0, 1, 1, 1, 1, 1, 1, 0]

Pairs = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]


def reference_pairs() -> Pairs:
    """(e1, s1, e0, s0) of 400 paired replays."""
    rows = np.loadtxt(shared("data/stats_reference/pairs400.csv"), delimiter=",", skiprows=1)
    return rows[:, 3], rows[:, 4], rows[:, 1], rows[:, 2]


# reference answers ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counts", "confidence", "low", "high"),
    [
        ((5, 12, 200), 0.95, -0.080656, 0.006003),
        ((5, 12, 200), 0.90, -0.072351, -0.001177),
        ((12, 2, 50), 0.95, 0.0611, 0.3447),
        ((0, 0, 200), 0.95, -0.01885, 0.01885),
    ],
)
def test_tango_gives_the_reference_answers(
    counts: tuple[int, int, int], confidence: float, low: float, high: float
) -> None:
    assert tango(*counts, confidence) == pytest.approx((low, high), abs=5e-5 if counts == (12, 2, 50) else 5e-6)


@pytest.mark.parametrize(
    ("table", "low", "high"),
    [((170, 5, 12, 13), -0.079715, 0.007213), ((36, 12, 2, 0), 0.0569, 0.3404)],
)
def test_newcombe_gives_the_reference_answers(table: tuple[int, int, int, int], low: float, high: float) -> None:
    assert newcombe_paired(*table) == pytest.approx((low, high), abs=5e-5)


def test_the_ratio_of_the_reference_pairs() -> None:
    e1, s1, e0, s0 = reference_pairs()
    r1, r0 = e1.sum() / s1.sum(), e0.sum() / s0.sum()
    assert (r0, r1, r1 / r0) == pytest.approx((225.528466, 193.120219, 0.856301), abs=5e-7)
    assert ratio_delta(e1, s1, e0, s0) == pytest.approx((0.820963, 0.893160), abs=5e-7)
    assert e1[s1 == 1].mean() == pytest.approx(169.6, abs=0.05), "the mean of successes is another, wrong, estimand"


def test_fieller_of_the_reference_pairs() -> None:
    e1, s1, _, _ = reference_pairs()
    assert fieller(e1, s1) == pytest.approx((171.473, 215.275), abs=5e-4)
    assert fieller_g(s1) == pytest.approx(0.00108, abs=5e-6)


def test_the_ratio_of_ten_requests_by_hand() -> None:
    # R1 = 1000 / 9, R0 = 1250 / 8; psi from the definition
    psi = [(a / 100 - b / 0.9) - (c / 125 - d / 0.8) for a, b, c, d in zip(E1, S1, E0, S0, strict=True)]
    half = 1.959963984540054 * stats.tstd(psi) / math.sqrt(10)
    ratio = (1000 / 9) / (1250 / 8)
    assert ratio_delta(E1, S1, E0, S0) == pytest.approx((ratio * math.exp(-half), ratio * math.exp(half)), rel=1e-12)


def test_where_all_succeed_fieller_is_students_interval_of_the_mean() -> None:
    expected = stats.ttest_1samp(E1, 0.0).confidence_interval(0.95)
    assert fieller(E1, [1] * 10) == pytest.approx((expected.low, expected.high), rel=1e-12)


# what scipy can confirm ----------------------------------------------------------------------------


def score_statistic(b: int, c: int, n: int, d: float) -> float:
    """|Z| of Tango's score test by maximising the trinomial likelihood numerically: no closed form shared."""

    def minus_log(q: float) -> float:
        cells = [(b, q + d), (c, q), (n - b - c, 1 - 2 * q - d)]
        return -sum(k * math.log(p) for k, p in cells if k)

    low, high = max(0.0, -d) + 1e-12, (1 - d) / 2 - 1e-12
    q = minimize_scalar(minus_log, bounds=(low, high), method="bounded", options={"xatol": 1e-13}).x
    return abs(b - c - n * d) / math.sqrt(n * (2 * q + d * (1 - d)))


@pytest.mark.parametrize("counts", [(5, 12, 200), (12, 2, 50), (1, 0, 30), (40, 40, 100), (3, 9, 12)])
def test_both_limits_of_tango_are_just_rejected_by_the_score_test(counts: tuple[int, int, int]) -> None:
    for limit in tango(*counts):
        if abs(limit) < 1:
            assert score_statistic(*counts, limit) == pytest.approx(1.959964, abs=1e-4)


def test_wilson_limits_inside_newcombe_are_those_of_statsmodels() -> None:
    from statsmodels.stats.proportion import proportion_confint

    # With phi = 0 (a margin of zero) and one sure rate the hybrid limits reduce to Wilson's own distances.
    low1, high1 = proportion_confint(30, 40, method="wilson")
    low0, high0 = proportion_confint(40, 40, method="wilson")
    low, high = newcombe_paired(30, 0, 10, 0)
    assert low == pytest.approx(-0.25 - math.hypot(0.75 - low1, high0 - 1))
    assert high == pytest.approx(-0.25 + math.hypot(high1 - 0.75, 1 - low0))


def test_tango_agrees_with_mcnemars_uncorrected_test_on_zero() -> None:
    """At a difference of 0 the score statistic is McNemar's: 0 leaves the interval exactly where p falls below."""
    from statsmodels.stats.contingency_tables import mcnemar

    for b, c in [(5, 12), (4, 13), (3, 12), (12, 2), (9, 20), (8, 20)]:
        p = mcnemar([[100, b], [c, 10]], exact=False, correction=False).pvalue
        low, high = tango(b, c, 110 + b + c, 1 - p)
        edge = high if c > b else low
        assert edge == pytest.approx(0.0, abs=1e-9)


# edges ----------------------------------------------------------------------------


def test_no_discordance_keeps_a_width() -> None:
    low, high = tango(0, 0, 200)
    assert low > -0.02 and high < 0.02, "2 pp passes at 200 pairs without discordance, only just"
    assert tango(0, 0, 180)[0] < -0.02


@pytest.mark.parametrize(("b", "c"), [(7, 0), (0, 7)])
def test_all_pairs_discordant_reach_the_end_of_the_scale(b: int, c: int) -> None:
    low, high = tango(b, c, 7)
    assert (high if b else -low) == 1.0
    assert (low if b else -high) == pytest.approx((7 - 3.841459) / (7 + 3.841459), abs=1e-6)


def test_without_success_the_set_has_no_upper_end() -> None:
    assert fieller(E1, [0] * 10) == (0.0, math.inf)
    assert ratio_delta(E1, [0] * 10, E0, S0) == (0.0, math.inf)
    assert fieller_g([0] * 10) == math.inf


def test_few_successes_give_a_lower_end_alone() -> None:
    success = [1] + [0] * 9
    assert fieller_g(success) >= 1
    low, high = fieller(E1, success)
    assert 0 < low < sum(E1) and high == math.inf


def test_one_request_bounds_nothing() -> None:
    assert ratio_delta([5.0], [1], [6.0], [1]) == (0.0, math.inf)
    assert fieller([5.0], [1]) == (0.0, math.inf)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: tango(-1, 0, 10), errors.CountsInvalid),
        (lambda: tango(1.5, 0, 10), errors.CountsInvalid),
        (lambda: tango(math.nan, 0, 10), errors.CountsInvalid),
        (lambda: tango(6, 5, 10), errors.CountsInvalid),
        (lambda: tango(0, 0, 0), errors.NoData),
        (lambda: tango(1, 1, 10, 1.0), errors.ConfidenceInvalid),
        (lambda: tango(1, 1, 10, math.nan), errors.ConfidenceInvalid),
        (lambda: tango(1, 1, 10, 95), errors.ConfidenceInvalid),
        (lambda: newcombe_paired(0, 0, 0, 0), errors.NoData),
        (lambda: newcombe_paired(1, 1, -1, 1), errors.CountsInvalid),
        (lambda: newcombe_paired(1, 1, 1, 1, 0.0), errors.ConfidenceInvalid),
        (lambda: ratio_delta(E1, S1, E0[:9], S0), errors.LengthsDiffer),
        (lambda: ratio_delta([math.nan, 1], [1, 1], [1, 1], [1, 1]), errors.ValuesInvalid),
        (lambda: ratio_delta([-1.0, 1], [1, 1], [1, 1], [1, 1]), errors.ValuesInvalid),
        (lambda: ratio_delta([[1.0]], [1], [1], [1]), errors.ValuesInvalid),
        (lambda: ratio_delta(["x"], [1], [1], [1]), errors.ValuesInvalid),
        (lambda: ratio_delta([], [], [], []), errors.NoData),
        (lambda: fieller(E1, S1[:3]), errors.LengthsDiffer),
        (lambda: fieller([math.inf, 1], [1, 1]), errors.ValuesInvalid),
        (lambda: fieller([], []), errors.NoData),
        (lambda: fieller(E1, S1, -0.1), errors.ConfidenceInvalid),
    ],
)
def test_nonsense_is_refused_by_name(call: Callable[[], object], error: type[errors.ProofError]) -> None:
    with pytest.raises(error) as caught:
        call()
    assert "Fix:" in str(caught.value) and caught.value.transient is False


def test_every_error_is_in_the_tree_of_the_docstring() -> None:
    named = [n for n, c in vars(errors).items() if inspect.isclass(c) and issubclass(c, PolicyError)]
    assert errors.__doc__ and [n for n in named if n not in errors.__doc__] == []


def test_whole_numbers_in_any_type_are_counts() -> None:
    expected = tango(5, 12, 200)
    assert tango(np.int64(5), np.float64(12.0), np.uint8(200)) == expected
    assert tango(True, 0, 10) == tango(1, 0, 10)


# properties ----------------------------------------------------------------------------


@st.composite
def tables(draw: st.DrawFn) -> tuple[int, int, int, int]:
    cells = draw(st.tuples(*[st.integers(0, 400)] * 4))
    return cells if sum(cells) else (1, 0, 0, 0)


@given(tables(), st.sampled_from([0.5, 0.9, 0.95, 0.999]))
def test_both_paired_intervals_hold_the_estimate_and_mirror(table: tuple[int, int, int, int], level: float) -> None:
    a, b, c, d = table
    n = sum(table)
    for found, mirrored in (
        (tango(b, c, n, level), tango(c, b, n, level)),
        (newcombe_paired(a, b, c, d, level), newcombe_paired(a, c, b, d, level)),
    ):
        low, high = found
        assert -1 <= low <= (b - c) / n + 1e-9 and (b - c) / n - 1e-9 <= high <= 1
        assert mirrored == pytest.approx((-high, -low), abs=1e-9)


@given(tables())
def test_more_confidence_is_never_narrower(table: tuple[int, int, int, int]) -> None:
    _, b, c, _ = table
    n = sum(table)
    (low90, high90), (low95, high95) = tango(b, c, n, 0.90), tango(b, c, n, 0.95)
    assert low95 <= low90 + 1e-12 and high90 <= high95 + 1e-12


amounts = st.floats(1e-6, 1e9)


@st.composite
def arms(draw: st.DrawFn) -> tuple[list[float], list[int], list[float], list[int]]:
    n = draw(st.integers(1, 12))
    energy = st.lists(amounts, min_size=n, max_size=n)
    success = st.lists(st.integers(0, 1), min_size=n, max_size=n)
    return draw(energy), draw(success), draw(energy), draw(success)


@given(arms(), st.sampled_from([0.1, 0.5, 0.9, 0.99, 0.9999]))
def test_no_interval_is_ever_nan_and_each_is_in_order(
    data: tuple[list[float], list[int], list[float], list[int]], level: float
) -> None:
    e1, s1, e0, s0 = data
    for low, high in (ratio_delta(e1, s1, e0, s0, level), fieller(e1, s1, level)):
        assert 0 <= low <= high
    if sum(s1):
        low, high = fieller(e1, s1, level)
        assert low <= sum(e1) / sum(s1) * (1 + 1e-9) and high * (1 + 1e-9) >= sum(e1) / sum(s1)


@given(arms(), st.sampled_from([2.0**-10, 2.0**20]))
def test_the_unit_of_energy_does_not_matter(
    data: tuple[list[float], list[int], list[float], list[int]], unit: float
) -> None:
    e1, s1, e0, s0 = data
    scaled = [e * unit for e in e1], [e * unit for e in e0]
    assert ratio_delta(scaled[0], s1, scaled[1], s0) == pytest.approx(ratio_delta(e1, s1, e0, s0), rel=1e-9)
    assert fieller(scaled[0], s1) == pytest.approx([x * unit for x in fieller(e1, s1)], rel=1e-6)


@given(arms())
def test_swapping_the_arms_inverts_the_ratio(data: tuple[list[float], list[int], list[float], list[int]]) -> None:
    e1, s1, e0, s0 = data
    low, high = ratio_delta(e1, s1, e0, s0)
    if math.isfinite(high) and low > 1e-100 and high < 1e100:
        assert ratio_delta(e0, s0, e1, s1) == pytest.approx((1 / high, 1 / low), rel=1e-9)
