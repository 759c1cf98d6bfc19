"""Bills with a ceiling, worked out by hand and against the rule request by request."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.proof import errors
from policies.proof.bills import Bill, bill_of
from policies.proof.sensitivity import Input, break_even_pieces, sobol

KWH = 3.6e6


def test_a_bill_without_a_ceiling_is_the_tariff() -> None:
    assert Bill().per_j([0.0, 3.6, 7.2]).tolist() == [0.0, 1e-6, 2e-6]
    assert Bill().scaled(1.5).per_j(3.6) == pytest.approx(1.5e-6)


def test_two_requests_reach_their_ceilings_one_after_the_other() -> None:
    bill = bill_of([1 * KWH, 3 * KWH], [1 * KWH, 3 * KWH], [3.0, 3.0])
    assert bill.kinks.tolist() == pytest.approx([1.0, 3.0])
    # at $0.5 0.5 + 1.5, at $1 1 + 3, at $2 2 + 3, at $3 and $9 3 + 3; over 4 kWh
    assert (bill.per_j([0.5, 1.0, 2.0, 3.0, 9.0]) * 4 * KWH).tolist() == pytest.approx([2.0, 4.0, 5.0, 6.0, 6.0])


def test_charged_joules_are_billed_and_consumed_ones_divide() -> None:
    bill = bill_of([2 * KWH], [1 * KWH], [math.inf])
    assert bill.kinks.size == 0
    assert bill.per_j(8.0) * KWH == pytest.approx(4.0)


@given(
    runs=st.lists(st.tuples(st.floats(1, 1e7), st.floats(0.5, 2), st.floats(1e-6, 1e2)), min_size=1, max_size=8),
    tariff=st.floats(0, 1e3),
)
def test_the_bill_is_that_of_every_request_by_the_rule(runs: list[tuple[float, float, float]], tariff: float) -> None:
    joules, flex, ceiling = (np.array(x) for x in zip(*runs, strict=True))
    by_rule = float(np.minimum(tariff * joules * flex / KWH, ceiling).sum() / joules.sum())
    assert float(bill_of(joules, joules * flex, ceiling).per_j(tariff)) == pytest.approx(by_rule, rel=1e-9, abs=1e-18)


def test_what_was_not_billed_has_no_bill() -> None:
    for call in (([0.0], [1.0], [1.0]), ([1.0], [1.0], [0.0])):
        with pytest.raises(errors.ValuesInvalid):
            bill_of(*call)


def test_turns_between_kinks_beyond_them_and_after_a_stretch_of_nothing() -> None:
    def margin(x: dict[str, np.ndarray]) -> np.ndarray:
        return np.interp(x["a"], [0, 1, 2, 3, 4, 100], [-1, 1, 0, 0, -1, 95])

    assert break_even_pieces(margin, {"a": 0.0}, "a", [1, 2, 3, 4]) == pytest.approx([0.5, 2.0, 5.0])
    assert break_even_pieces(lambda x: x["a"] + 1, {"a": 0.0}, "a", []) == []
    assert break_even_pieces(lambda x: 0 * x["a"], {"a": 0.0}, "a", [1.0]) == []
    with pytest.raises(errors.ValuesInvalid, match="moon"):
        break_even_pieces(margin, {"a": 0.0}, "moon", [])


def test_a_single_uncertain_input_has_all_of_the_variance() -> None:
    shares = sobol(lambda x: 2 * x["a"] + x["b"], {"a": Input(1.0, 1.0), "b": Input(1.0, 0.0)})
    assert [(s.name, s.first, s.total) for s in shares] == [("a", 1.0, 1.0), ("b", 0.0, 0.0)]
    (alone,) = sobol(lambda x: x["a"] ** 3, {"a": Input(1.0, 1.0)})
    assert (alone.first, alone.total) == (1.0, 1.0)
