"""Shares become integer weights: exact where that can be, never zero, never more than a format takes."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.recommend.exports.shares import LARGEST, as_fraction, integer_weights, split

SIDE = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, LARGEST), min_size=1, max_size=4)


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        (0.1, {"old": 90, "new": 10}),
        (0.25, {"old": 75, "new": 25}),
        (0.5, {"old": 50, "new": 50}),
        (0.001, {"old": 999, "new": 1}),
        (1.0, {"new": 100}),
        (0.0, {"old": 100}),
    ],
)
def test_a_canary_of_ten_percent_is_90_to_10_and_what_has_no_share_is_left_out(
    share: float, expected: dict[str, int]
) -> None:
    assert integer_weights(split({"old": 1}, {"new": 1}, as_fraction(share))) == expected


def test_the_incumbents_own_division_is_kept_among_what_is_left_to_it() -> None:
    told = integer_weights(split({"a": 70, "b": 30}, {"c": 1}, as_fraction(0.1)))
    assert told == {"a": 63, "b": 27, "c": 10}


def test_a_third_is_exact_although_a_hundred_is_not_divisible_by_it() -> None:
    assert integer_weights({"a": Fraction(1, 3), "b": Fraction(2, 3)}) == {"a": 1, "b": 2}


@given(SIDE, SIDE, st.integers(0, 1000))
def test_weights_are_in_proportion_and_within_what_formats_take(
    old: dict[str, int], new: dict[str, int], permille: int
) -> None:
    new = {f"new-{name}": weight for name, weight in new.items()}
    shares = split(old, new, Fraction(permille, 1000))
    assert sum(shares.values()) == 1
    told = integer_weights(shares)
    assert set(told) == {name for name, share in shares.items() if share > 0}
    total = sum(told.values())
    assert all(1 <= weight <= LARGEST for weight in told.values()) and total <= LARGEST + len(told)
    for name, weight in told.items():
        assert abs(Fraction(weight, total) - shares[name]) <= Fraction(len(told) + 1, LARGEST), name


@given(st.floats(0.0001, 1.0))
def test_a_share_is_the_decimal_that_was_written(share: float) -> None:
    assert abs(float(as_fraction(share)) - share) < 1e-6
    assert as_fraction(round(share, 3)).denominator in {d for d in range(1, 1001) if 1000 % d == 0}
