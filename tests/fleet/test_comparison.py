"""Tokens per joule across models are refused unless quality is controlled for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policies.fleet.comparison import Basis, Side, check_models, compare, side
from policies.fleet.errors import ComparisonRefused
from policies.fleet.power import published
from policies.fleet.queueing import Pool, fleet, size, two_pools
from tests.fleet.queueing.worlds import OWN, pool
from warehouse.evidence import EvidenceClass

LARGE = Side("large", {"llama-3-70b": 1.0}, EvidenceClass.MODELED, tokens_per_j=1.17)
SMALL = Side("small", {"7b-class": 1.0}, EvidenceClass.CALIBRATED, tokens_per_j=13.88)


def test_a_small_model_is_no_more_efficient_large_one() -> None:
    with pytest.raises(ComparisonRefused, match=r"large: 100% llama-3-70b; small: 100% 7b-class.*Fix: serve the same"):
        compare([LARGE, SMALL])


def test_the_gain_of_a_fleet_that_swaps_the_model_is_refused() -> None:
    """The peer prints +32.1 % for such a fleet."""
    long = pool(rate=100.0)
    hetero = fleet("two", [size(p) for p in two_pools(Pool("short", published("A10G"), 1_000, 0.0, OWN), long, 1_000)])
    with pytest.raises(ComparisonRefused):
        compare([side(size(long)), side(hetero)])


def test_the_same_model_on_other_hardware_compares() -> None:
    found = compare([side(size(pool("A100-80GB"))), side(size(pool("H100-80GB")))])
    assert (found.basis, found.metric, found.unit) == (Basis.SAME_MODEL, "tokens_per_j", "tok/J")
    assert found.sides[0].change == 0 and found.sides[0].better is None
    assert found.sides[1].change > 0 and found.sides[1].better
    assert found.words == "tokens_per_j on the same logical models; modeled"
    assert found.to_dict()["sides"][1]["better"] is True


def test_the_same_models_in_the_same_shares_compare_and_in_others_do_not() -> None:
    mixed = {"a": 0.3, "b": 0.7}
    one, two = replace(LARGE, models=mixed), replace(SMALL, models={"B": 0.7, "A": 0.3, "c": 0.0})
    assert compare([one, two]).basis is Basis.SAME_MODEL
    with pytest.raises(ComparisonRefused):
        compare([one, replace(two, models={"a": 0.4, "b": 0.6})])


def test_joules_per_success_on_one_set_of_outcomes_compare() -> None:
    judged = [replace(s, j_per_success=j, outcome_set="sha256:ab") for s, j in ((LARGE, 400.0), (SMALL, 90.0))]
    found = compare(judged)
    assert (found.basis, found.metric, found.higher_is_better) == (Basis.SAME_OUTCOMES, "j_per_success", False)
    assert found.sides[1].change == pytest.approx(-0.775) and found.sides[1].better
    assert found.evidence_class is EvidenceClass.MODELED


@pytest.mark.parametrize("change", [{"outcome_set": "sha256:cd"}, {"outcome_set": None}, {"j_per_success": None}])
def test_outcomes_that_differ_or_are_not_known_control_nothing(change: dict[str, object]) -> None:
    judged = [replace(s, j_per_success=100.0, outcome_set="sha256:ab") for s in (LARGE, SMALL)]
    with pytest.raises(ComparisonRefused):
        compare([judged[0], replace(judged[1], **change)])  # type: ignore[arg-type]


def test_other_requests_make_another_figure() -> None:
    with pytest.raises(ComparisonRefused, match="different requests"):
        compare([replace(LARGE, load="trace-1"), replace(LARGE, name="again", load="trace-2")])
    assert compare([replace(LARGE, load="trace-1"), replace(LARGE, name="again")]).sides[1].change == 0


def test_one_side_is_no_comparison_and_no_figure_is_none() -> None:
    with pytest.raises(ComparisonRefused, match="two"):
        compare([LARGE])
    with pytest.raises(ComparisonRefused):
        compare([LARGE, replace(LARGE, tokens_per_j=float("nan"))])


def test_a_table_can_ask_before_it_ranks() -> None:
    check_models([{"a": 1.0}, {"A": 1.0}], ["x", "y"])
    with pytest.raises(ComparisonRefused, match="x: 100% a; y: 100% b"):
        check_models([{"a": 1.0}, {"b": 1.0}], ["x", "y"])
