"""The difference of two success rates: never naked, never of width zero."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.recommend.figures import success_difference


def test_five_of_five_on_both_sides_proves_nothing() -> None:
    low, high = success_difference(5, 5, 5, 5)
    assert (low, high) == pytest.approx((-0.4345, 0.4345), abs=1e-3)


def test_a_known_example() -> None:
    """Newcombe (1998), Statistics in Medicine 17:873, table II (a), method 10: 56 of 70 against 48 of 80."""
    assert success_difference(56, 70, 48, 80) == pytest.approx((0.0524, 0.3339), abs=5e-5)


@given(st.integers(1, 500), st.integers(1, 500), st.data())
def test_the_interval_holds_the_difference_and_mirrors_when_the_sides_change(
    n1: int, n0: int, data: st.DataObject
) -> None:
    s1, s0 = data.draw(st.integers(0, n1)), data.draw(st.integers(0, n0))
    low, high = success_difference(s1, n1, s0, n0)
    assert -1 <= low <= s1 / n1 - s0 / n0 <= high <= 1
    assert low < high
    assert success_difference(s0, n0, s1, n1) == pytest.approx((-high, -low))
