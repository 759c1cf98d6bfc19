"""The desk's decision table, replayed: the same score on means of the training part."""

from __future__ import annotations

import numpy as np
import pytest

from policies.errors import ParametersInvalid
from policies.replay.errors import NothingToLearn
from policies.replay.routers.decision_table import DecisionTable, arm_tiers
from policies.replay.table import strings
from policies.router.parameters import Weights
from tests.replay.routers.tables import NAN, table


def priced(**more: object):  # type: ignore[no-untyped-def]
    """Means per arm: score .5/1, joules 10/40, USD 1/2."""
    given = {"cost_usd": [[1, 2], [1, 2]], "benchmarks": ["x", "x"], **more}
    return table([[1, 1], [0, 1]], [[10, 40], [10, 40]], **given)  # type: ignore[arg-type]


def test_the_score_is_the_desks() -> None:
    """a: .3 + .3 + .4 x .5 = .8; b: .3 x 1/2 + .3 x 10/40 + .4 x 1 = .625."""
    one = priced()
    assert DecisionTable().fit(one, 0).route(one.queries).arms.tolist() == [0, 0]


def test_weights_decide() -> None:
    one = priced()
    policy = DecisionTable(weights=Weights(0.1, 0.1, 0.8))
    assert policy.fit(one, 0).route(one.queries).arms.tolist() == [1, 1]
    assert policy.about.name == "decision-table-1:0.1/0.1/0.8"


def test_each_benchmark_has_its_own_row_and_an_unseen_one_the_row_over_all() -> None:
    one = table(
        [[1, 1], [1, 1], [0, 1], [0, 1], [0, 1]], benchmarks=["chat"] * 2 + ["math"] * 3, cost_usd=np.ones((5, 2))
    )
    fitted = DecisionTable(weights=Weights(0.0, 0.2, 0.8)).fit(one, 0)
    assert fitted.notes["table"] == {"chat": "a", "math": "b"}
    queries = one.queries
    queries.benchmarks[:] = strings(["math", "chat", "law", "math", "math"])
    assert fitted.route(queries).arms.tolist() == [1, 0, 1, 1, 1]


def test_an_unpriced_arm_is_out_and_unknown_is_not_free() -> None:
    one = priced(cost_usd=[[NAN, 2], [NAN, 2]])
    assert DecisionTable().fit(one, 0).route(one.queries).arms.tolist() == [1, 1]


def test_where_no_arm_is_priced_cost_is_neutral_for_all() -> None:
    one = priced(cost_usd=None)
    assert DecisionTable(weights=Weights(0.2, 0.1, 0.7)).fit(one, 0).route(one.queries).arms.tolist() == [1, 1]
    assert DecisionTable().fit(one, 0).route(one.queries).arms.tolist() == [0, 0]


def test_ties_go_to_the_arms_name() -> None:
    one = table([[1, 0], [0, 1]], np.ones((2, 2)), names=["zeta", "alpha"], cost_usd=np.ones((2, 2)))
    assert DecisionTable().fit(one, 0).route(one.queries).arms.tolist() == [1, 1]


class TestTiers:
    def test_they_are_thirds_by_parameters(self) -> None:
        one = table([[1] * 6], sizes=[70, 8, 2, 27, 9, 405])
        assert arm_tiers(one).tolist() == [3, 1, 1, 2, 2, 3]

    def test_without_parameters_they_are_thirds_by_joules_and_without_both_all_are_capable(self) -> None:
        assert arm_tiers(table([[1, 1, 1]], [[30, 10, 20]])).tolist() == [3, 1, 2]
        assert arm_tiers(table([[1, 1]], [[NAN, NAN]])).tolist() == [3, 3]

    def test_efforts_of_one_model_share_a_tier(self) -> None:
        assert arm_tiers(table([[1, 1, 1]], sizes=[8, 8, 70])).tolist() == [1, 1, 3]

    def test_a_query_is_served_by_its_tier_or_above(self) -> None:
        one = priced(sizes=[2, 405])
        assert DecisionTable(2).fit(one, 0).route(one.queries).arms.tolist() == [1, 1]

    def test_a_tier_without_an_eligible_arm_is_named(self) -> None:
        one = priced(cost_usd=[[1, NAN], [1, NAN]], sizes=[2, 405])
        with pytest.raises(NothingToLearn, match="no arm of tier 2 or above"):
            DecisionTable(2).fit(one, 0)

    def test_tiers_are_1_to_3(self) -> None:
        with pytest.raises(ParametersInvalid, match="tier"):
            DecisionTable(4)


def test_there_is_nothing_to_sweep() -> None:
    one = priced()
    assert DecisionTable().fit(one, 0).curve(one.queries) is None
