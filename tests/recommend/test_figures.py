"""The statistics of a promise and of an outcome, against reference values."""

from __future__ import annotations

import csv
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.recommend.figures import compare, ratio, wilson_bounds
from tests.support import shared


def test_joules_per_success_count_the_energy_of_failures() -> None:
    # 10 attempts of 100 J, 8 succeed: 125 J per success, not 100 (mean of the successful).
    found = ratio([100.0] * 10, [1.0] * 8 + [0.0] * 2)
    assert found is not None
    assert found.value == pytest.approx(125.0)


def test_the_reference_ratio_of_the_paired_data_is_met() -> None:
    # facts/statistics.md 4.3: R0 = 225.528466, R1 = 193.120219, ratio 0.856301.
    rows = list(csv.DictReader(shared("data/stats_reference/pairs400.csv").read_text().splitlines()))
    old, new = (ratio([float(r[f"E{a}_J"]) for r in rows], [float(r[f"S{a}"]) for r in rows]) for a in (0, 1))
    assert old is not None
    assert new is not None
    assert old.value == pytest.approx(225.528466, abs=1e-6)
    assert new.value == pytest.approx(193.120219, abs=1e-6)
    found = compare(old, new)
    assert found is not None
    assert found.difference == pytest.approx(0.856301 - 1, abs=1e-6)


def test_the_interval_is_the_delta_method_worked_by_hand() -> None:
    # x = 8, 12 with s = 1, 1: R = 10, psi = -0.2, 0.2, sd = 0.282843, se = 0.2; t(1 df) = 12.706205.
    found = ratio([8.0, 12.0], [1.0, 1.0])
    assert found is not None
    assert found.se_log == pytest.approx(0.2)
    assert found.interval == pytest.approx((10 * math.exp(-12.706205 * 0.2), 10 * math.exp(12.706205 * 0.2)))


def test_two_equal_spreads_have_the_degrees_of_freedom_of_welch() -> None:
    # Both se = 0.02 with n = 5: df = 8, t = 2.306004, half = 2.306004 * 0.02 * sqrt(2).
    xs = [1.0, 1.0 + 0.02 * math.sqrt(10), 1.0, 1.0 - 0.02 * math.sqrt(10), 1.0]
    old, new = ratio(xs, [1.0] * 5), ratio([x / 2 for x in xs], [1.0] * 5)
    found = compare(old, new)
    assert old is not None
    assert found is not None
    assert found.interval is not None
    assert old.se_log == pytest.approx(0.02)
    half = 2.306004 * 0.02 * math.sqrt(2)
    assert found.interval == pytest.approx((0.5 * math.exp(-half) - 1, 0.5 * math.exp(half) - 1))


@pytest.mark.parametrize(
    ("amounts", "units"),
    [([], []), ([1.0], [0.0]), ([math.nan, 1.0], [1.0, 1.0]), ([1.0, math.inf], [1.0, 1.0])],
    ids=["no run", "no success", "NaN", "infinite"],
)
def test_no_data_has_no_ratio(amounts: list[float], units: list[float]) -> None:
    assert ratio(amounts, units) is None


def test_one_run_has_a_value_but_no_interval() -> None:
    found = ratio([5.0], [1.0])
    assert found is not None
    assert (found.value, found.interval) == (5.0, None)


def test_too_few_successes_make_the_interval_unbounded_and_none_is_given() -> None:
    # Fieller's g = t^2 var(mean s) / mean(s)^2 = 12.706^2 * 0.25 / 0.25 >= 1.
    found = ratio([5.0, 5.0], [1.0, 0.0])
    assert found is not None
    assert found.interval is None


def test_wilson_bounds_match_the_textbook() -> None:
    # Wilson 95 % two-sided for 8 of 10: 0.4901625 .. 0.9433178 (statsmodels proportion_confint, method wilson).
    assert wilson_bounds(8, 10, z=1.959963984540054) == pytest.approx((0.4901625, 0.9433178), abs=1e-6)


@given(st.lists(st.floats(0.1, 1e6), min_size=2, max_size=30), st.floats(0.01, 100))
def test_scaling_the_energy_scales_ratio_and_interval_alike(amounts: list[float], factor: float) -> None:
    one, other = ratio(amounts, [1.0] * len(amounts)), ratio([x * factor for x in amounts], [1.0] * len(amounts))
    assert one is not None
    assert other is not None
    assert other.value == pytest.approx(one.value * factor, rel=1e-9)
    if one.se_log is not None and other.se_log is not None:
        assert other.se_log == pytest.approx(one.se_log, rel=1e-6, abs=1e-9)


@given(st.lists(st.floats(0.1, 1e6), min_size=2, max_size=30))
def test_an_offer_is_never_separable_from_itself(amounts: list[float]) -> None:
    same = ratio(amounts, [1.0] * len(amounts))
    found = compare(same, same)
    assert found is not None
    assert found.separable in (False, None)
