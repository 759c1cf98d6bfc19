"""What all predicting policies share: the lesson, operating points, missing cells, the sweep."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.errors import ParametersInvalid
from policies.replay.errors import BudgetUnreachable, EmbeddingInvalid, NothingToLearn
from policies.replay.policy import Tradeoff
from policies.replay.routers.greenserv import GreenServ
from policies.replay.routers.knn import Knn
from policies.replay.routers.means import column_means, lesson
from policies.replay.routers.operating import Point, Prediction, lambda_within, masked, pick
from policies.replay.routers.regression import Regression
from policies.replay.routers.uniroute import ByBenchmark, UniRoute
from policies.replay.table import OutcomeTable
from tests.replay.routers.tables import NAN, graded, replayed, table, two_kinds

Family = Callable[[Point], Any]
FAMILIES: dict[str, Family] = {
    "knn": lambda point: Knn(5, point=point),
    "knn:model": lambda point: Knn(5, "model", point),
    "uniroute": lambda point: UniRoute(2, point=point),
    "uniroute:model": lambda point: UniRoute(2, "model", point=point),
    "benchmark": lambda point: ByBenchmark(point=point),
    "regression": lambda point: Regression(point=point),
    "regression-embedding": lambda point: Regression(True, point),
}
every = pytest.mark.parametrize("family", FAMILIES.values(), ids=list(FAMILIES))


@every
class TestEveryPredictingPolicy:
    def test_it_sends_easy_queries_to_the_cheap_arm_and_hard_ones_to_the_able(self, family: Family) -> None:
        one = two_kinds()
        test = one.test()
        arms = family(Point(1e-3)).fit(one.train(), 0).route(test.queries).arms
        assert replayed(test, arms) == (1.0, pytest.approx((10 + 200) / 2))

    def test_a_dear_joule_leaves_only_the_cheapest_arm(self, family: Family) -> None:
        one = two_kinds()
        arms = family(Point(10.0)).fit(one.train(), 0).route(one.test().queries).arms
        assert set(arms.tolist()) == {0}

    def test_the_sweep_at_its_lambda_is_the_point(self, family: Family) -> None:
        one = two_kinds()
        fitted = family(Point(2e-3)).fit(one.train(), 0)
        swept = fitted.curve(one.test().queries)
        assert isinstance(swept, Tradeoff)
        cost = swept.error + 2e-3 * swept.energy_j
        taken = np.take_along_axis(cost, fitted.route(one.test().queries).arms[:, None], axis=1)[:, 0]
        assert taken == pytest.approx(cost.min(axis=1))

    def test_a_joule_budget_is_kept_on_the_training_part(self, family: Family) -> None:
        train = graded()
        fitted = family(Point(budget_j=80.0)).fit(train, 0)
        assert replayed(train, fitted.route(train.queries).arms)[1] <= 80.0 * 1.05
        assert fitted.notes["lambda_per_j"] > 0

    def test_a_budget_that_is_not_scarce_changes_nothing(self, family: Family) -> None:
        assert family(Point(budget_j=1e6)).fit(two_kinds().train(), 0).lambda_per_j == 0.0

    def test_a_budget_below_the_cheapest_routing_names_the_least(self, family: Family) -> None:
        with pytest.raises(BudgetUnreachable, match="give at least 15"):
            family(Point(budget_j=2.0)).fit(two_kinds().train(), 0)

    def test_the_same_seed_gives_the_same_predictions(self, family: Family) -> None:
        one = two_kinds()
        first, second = (family(Point()).fit(one.train(), 3).curve(one.test().queries) for _ in range(2))
        assert np.array_equal(first.error, second.error) and np.array_equal(first.energy_j, second.energy_j)

    def test_cells_of_the_held_out_part_change_nothing(self, family: Family) -> None:
        one = two_kinds()
        other = one.correct.copy()
        other[one.held_out] = 1.0 - other[one.held_out]
        changed = replace(one, correct=other)
        a = family(Point()).fit(one.train(), 0).curve(one.test().queries)
        b = family(Point()).fit(changed.train(), 0).curve(changed.test().queries)
        assert np.array_equal(a.error, b.error)

    def test_missing_cells_stay_out_of_the_means(self, family: Family) -> None:
        """Each arm was asked only a part: unknown is not wrong, so the able arm stays able."""
        one = two_kinds(n=120)
        hole = np.random.default_rng(1).uniform(size=one.correct.shape) < 0.3
        holed = replace(one, correct=np.where(hole, NAN, one.correct), energy_j=np.where(hole, NAN, one.energy_j))
        arms = family(Point(1e-3)).fit(holed.train(), 0).route(one.test().queries).arms
        assert replayed(one.test(), arms)[0] == 1.0

    def test_an_arm_that_training_knows_nothing_of_is_never_taken(self, family: Family) -> None:
        one = two_kinds()
        correct = one.correct.copy()
        correct[:, 0] = NAN
        holed = replace(one, correct=correct)
        fitted = family(Point()).fit(holed.train(), 0)
        swept = fitted.curve(one.test().queries)
        assert np.isfinite(swept.error).all() and np.isfinite(swept.energy_j).all()
        for lambda_per_j in (0.0, 1e-3, 1.0, 1e6):
            assert 0 not in pick(Prediction(swept.error, swept.energy_j), lambda_per_j)

    def test_without_any_joules_it_still_routes_for_accuracy(self, family: Family) -> None:
        one = two_kinds()
        bare = replace(one, energy_j=np.full(one.energy_j.shape, NAN))
        fitted = family(Point()).fit(bare.train(), 0)
        assert fitted.curve(one.test().queries) is None
        assert replayed(one.test(), fitted.route(one.test().queries).arms)[0] == 1.0
        with pytest.raises(NothingToLearn, match="no joules are known"):
            family(Point(0.5)).fit(bare.train(), 0).route(one.test().queries)
        with pytest.raises(NothingToLearn, match="budget needs joules"):
            family(Point(budget_j=5.0)).fit(bare.train(), 0)

    def test_no_queries_give_no_choices(self, family: Family) -> None:
        one = two_kinds()
        assert len(family(Point()).fit(one.train(), 0).route(one.queries.take(np.zeros(60, dtype=np.bool_)))) == 0


@pytest.mark.parametrize(
    "policy", [Knn(), UniRoute(), Regression(True), GreenServ()], ids=lambda policy: policy.about.name
)
class TestEmbeddings:
    def test_missing_embeddings_are_named_with_the_fix(self, policy: Knn) -> None:
        with pytest.raises(EmbeddingInvalid, match="embed the texts first"):
            policy.fit(two_kinds(embeddings=None).train(), 0)

    def test_embeddings_that_are_not_finite_are_refused(self, policy: Knn) -> None:
        one = two_kinds()
        assert one.queries.embeddings is not None
        one.queries.embeddings[3, 1] = float("inf")
        with pytest.raises(EmbeddingInvalid, match="row 3"):
            policy.fit(one.train(), 0)


class TestLesson:
    def test_it_counts_queries_that_teach_nothing(self) -> None:
        one = table([[1, 0], [1, 1], [0, 0], [NAN, 0], [NAN, NAN]])
        assert lesson(one, "x") == {"n_train": 5, "tied_queries": 2, "unanswered_queries": 2}

    @pytest.mark.parametrize(
        ("scores", "why"),
        [
            (np.empty((0, 2)), "none of the 0"),
            ([[NAN, NAN]], "has a graded answer"),
            ([[0, 0], [0, NAN]], "no arm has any of the 2"),
            ([[1, 1], [0.5, 0.5]], "tie on every one of the 2"),
            ([[1], [0]], None),
        ],
    )
    def test_a_part_in_which_arms_cannot_be_told_apart_is_refused(self, scores: OutcomeTable, why: str | None) -> None:
        with pytest.raises(NothingToLearn, match=why or "tie"):
            lesson(table(scores), "x")

    def test_arms_that_were_asked_different_queries_can_differ_by_their_means(self) -> None:
        assert lesson(table([[1, NAN], [NAN, 0]]), "x")["tied_queries"] == 0

    def test_means_leave_out_what_is_unknown(self) -> None:
        assert column_means(np.array([[1.0, NAN], [NAN, NAN], [0.0, NAN]]))[0] == 0.5
        assert np.isnan(column_means(np.array([[1.0, NAN]]))[1])


class TestOperatingPoint:
    @pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
    def test_lambda_is_a_number_from_zero(self, value: float) -> None:
        with pytest.raises(ParametersInvalid, match="lambda_per_j"):
            Point(value)

    def test_names_tell_the_point(self) -> None:
        assert [Point().suffix, Point(0.001).suffix, Point(budget_j=200.0).suffix] == ["", "@0.001", "@200J"]

    def test_equal_costs_go_to_fewer_joules_then_to_the_first(self) -> None:
        error = np.array([[0.5, 0.5, 0.5]])
        assert pick(Prediction(error, np.array([[3.0, 2.0, 2.0]])), 0.0).tolist() == [1]
        assert pick(Prediction(error, None), 0.0).tolist() == [0]

    @given(st.integers(0, 2**31), st.floats(0.0, 1.0))
    def test_the_lambda_of_a_budget_keeps_it_and_no_smaller_one_does(self, seed: int, share: float) -> None:
        rng = np.random.default_rng(seed)
        prediction = Prediction(rng.uniform(size=(20, 4)), rng.uniform(1, 50, size=(20, 4)))
        assert prediction.energy_j is not None
        least = prediction.energy_j.min(axis=1).mean()
        budget = float(least + share * (prediction.energy_j.max(axis=1).mean() - least)) + 1e-9

        def spent(at: float) -> float:
            assert prediction.energy_j is not None
            return float(np.take_along_axis(prediction.energy_j, pick(prediction, at)[:, None], axis=1).mean())

        found = lambda_within(prediction, budget)
        assert spent(found) <= budget
        assert found == 0.0 or spent(found * (1 - 1e-6)) > budget

    def test_no_usable_arm_is_nothing_to_learn(self) -> None:
        with pytest.raises(NothingToLearn, match="No arm has both"):
            masked(np.ones((2, 2)), None, np.array([False, False]))
