"""Policies that look at no query, and the oracle, which looks at all of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.errors import ParametersInvalid
from policies.replay.errors import ArmUnknown, BudgetUnreachable, NothingToLearn
from policies.replay.policy import HAND_BACK
from policies.replay.routers.fixed import FixedArm, MixingHull, Random, fixed_arms, half_of_best, roles
from policies.replay.routers.oracle import Oracle, unanswered
from tests.replay.routers.tables import NAN, table, two_kinds


class TestFixedArms:
    def test_always_takes_the_named_arm(self) -> None:
        one = two_kinds()
        assert FixedArm("b").fit(one, 0).route(one.queries).arms.tolist() == [1] * 60
        assert FixedArm("b").about.name == "always-b"

    def test_an_arm_that_is_not_there_is_refused_with_the_arms_that_are(self) -> None:
        with pytest.raises(ArmUnknown, match=r"no arm 'z'.*a, b, c"):
            FixedArm("z").fit(two_kinds(), 0)

    def test_roles_follow_the_parameters_and_not_the_joules(self) -> None:
        one = two_kinds(sizes=[70.0, 8.0, 27.0])
        assert roles(one) == {"smallest": "b", "medium": "c", "large": "a"}

    def test_without_parameters_of_every_arm_roles_follow_mean_joules(self) -> None:
        one = two_kinds(sizes=[70.0, None, 27.0])
        assert roles(one) == {"smallest": "a", "medium": "b", "large": "c"}

    def test_without_parameters_and_joules_there_are_no_roles(self) -> None:
        assert roles(table([[1.0, 0.0]], [[NAN, NAN]])) == {}

    def test_two_arms_have_no_medium(self) -> None:
        assert roles(table([[1.0, 0.0]])) == {"smallest": "a", "large": "b"}


class TestRandom:
    def test_it_is_the_uniform_expectation_and_not_a_draw(self) -> None:
        one = two_kinds()
        probability = Random().fit(one, 0).route(one.queries).probability
        assert probability is not None and np.allclose(probability, 1 / 3)


class TestMixingHull:
    scores = ((1, 1, 1, 0), (0, 1, 1, 0), (0, 0, 1, 0), (0, 0, 0, 0))  # means .25 .5 .75 0
    joules = ((10.0, 20.0, 60.0, 30.0),) * 4

    def test_the_mean_joules_of_the_mixture_are_the_budget(self) -> None:
        one = table(self.scores, self.joules)
        probability = MixingHull(40.0).fit(one, 0).route(one.queries).probability
        assert probability is not None
        assert probability[0].tolist() == [0.0, 0.5, 0.5, 0.0]
        assert (probability[0] * self.joules[0]).sum() == pytest.approx(40.0)

    def test_beyond_the_best_arm_a_budget_buys_nothing_more(self) -> None:
        one = table(self.scores, self.joules)
        probability = MixingHull(500.0).fit(one, 0).route(one.queries).probability
        assert probability is not None and probability[0].tolist() == [0.0, 0.0, 1.0, 0.0]

    def test_a_budget_below_the_cheapest_arm_names_the_least(self) -> None:
        with pytest.raises(BudgetUnreachable, match=r"5 J.*cheapest arm a, 10 J"):
            MixingHull(5.0).fit(table(self.scores, self.joules), 0)

    @given(st.floats(10.0, 60.0), st.integers(0, 2**31))
    def test_no_other_mixture_of_the_same_joules_is_better(self, budget: float, seed: int) -> None:
        rng = np.random.default_rng(seed)
        scores, joules = rng.integers(0, 2, (12, 4)).astype(float), np.tile([10.0, 25.0, 40.0, 60.0], (12, 1))
        scores[0] = [0, 0, 0, 1]
        one = table(scores, joules)
        p = MixingHull(budget).fit(one, 0).route(one.queries).probability
        assert p is not None and p[0].sum() == pytest.approx(1.0)
        reached = float(p[0] @ scores.mean(axis=0))
        assert float(p[0] @ joules[0]) <= budget + 1e-9
        for low in range(4):
            for high in range(4):
                if joules[0, low] <= budget <= joules[0, high] and low != high:
                    share = (budget - joules[0, low]) / (joules[0, high] - joules[0, low])
                    assert (1 - share) * scores[:, low].mean() + share * scores[:, high].mean() <= reached + 1e-9

    def test_arms_are_compared_on_the_queries_that_all_were_asked(self) -> None:
        """c was asked only the one easy query: its mean of 1.0 would look best."""
        one = table([[1, 1, 1], [0, 1, NAN], [0, 1, NAN], [0, 0, NAN]])
        assert fixed_arms(one).accuracy.tolist() == [1.0, 1.0, 1.0]
        assert fixed_arms(one).over == "1 queries of all arms"

    def test_without_joules_there_is_no_hull(self) -> None:
        with pytest.raises(NothingToLearn, match="both scores and joules"):
            MixingHull(5.0).fit(table([[1.0, 0.0]], [[NAN, NAN]]), 0)

    @pytest.mark.parametrize("budget", [0.0, -1.0, float("nan"), float("inf")])
    def test_a_budget_is_a_positive_number(self, budget: float) -> None:
        with pytest.raises(ParametersInvalid, match="budget_j"):
            MixingHull(budget)

    def test_the_default_budget_is_half_of_what_the_most_accurate_arm_takes(self) -> None:
        assert half_of_best(table(self.scores, self.joules)) == 30.0

    def test_the_default_budget_knows_nothing_of_the_held_out_part(self) -> None:
        full = two_kinds()
        other = full.energy_j.copy()
        other[full.held_out] *= 1000
        changed = two_kinds()
        assert half_of_best(full) == half_of_best(
            table(changed.correct, other, held_out=changed.held_out, names=full.names)
        )


class TestOracle:
    def test_it_takes_the_cheapest_correct_arm(self) -> None:
        one = table([[0, 1, 1], [1, 1, 1], [0, 0, 1]], [[1, 5, 4], [3, 2, 9], [1, 1, 1]])
        assert Oracle().route_seeing(one, one, 0).arms.tolist() == [2, 1, 2]

    def test_queries_that_nobody_answers_go_to_the_cheapest_arm_and_are_counted(self) -> None:
        one = table([[0, 0], [0, 1]], [[7, 3], [1, 9]])
        assert Oracle().route_seeing(one, one, 0).arms.tolist() == [1, 1]
        assert Oracle().notes(one) == {"unanswered_queries": 1, "ungraded_queries": 0}
        assert unanswered(one).tolist() == [True, False]

    def test_with_fractional_scores_it_reaches_the_best_score(self) -> None:
        one = table([[0.4, 0.9, 0.9], [0.2, 0.1, 0.0]], [[1, 6, 5], [9, 1, 1]])
        assert Oracle().route_seeing(one, one, 0).arms.tolist() == [2, 0]

    def test_a_missing_cell_is_neither_right_nor_cheap(self) -> None:
        one = table([[NAN, 1, 0], [1, 1, 1]], [[1, 5, 2], [NAN, 5, 4]])
        assert Oracle().route_seeing(one, one, 0).arms.tolist() == [1, 2]

    def test_a_query_without_any_graded_answer_is_handed_back(self) -> None:
        one = table([[NAN, NAN], [1, 0]])
        assert Oracle().route_seeing(one, one, 0).arms.tolist() == [HAND_BACK, 0]
        assert Oracle().notes(one)["ungraded_queries"] == 1

    def test_without_joules_cheap_means_usd_and_without_both_the_first_listed(self) -> None:
        unknown = [[NAN, NAN]]
        priced = table([[1, 1]], unknown, cost_usd=[[0.2, 0.1]])
        assert Oracle().route_seeing(priced, priced, 0).arms.tolist() == [1]
        bare = table([[1, 1]], unknown)
        assert Oracle().route_seeing(bare, bare, 0).arms.tolist() == [0]

    def test_it_says_that_it_cannot_be_deployed(self) -> None:
        assert not Oracle().about.deployable and "outcomes" in Oracle().about.note

    @given(st.integers(0, 2**31), st.integers(1, 12), st.integers(1, 5))
    def test_no_choice_is_more_accurate_and_none_as_accurate_is_cheaper(self, seed: int, n: int, k: int) -> None:
        rng = np.random.default_rng(seed)
        one = table(rng.integers(0, 3, (n, k)) / 2, rng.uniform(1, 9, (n, k)))
        arms = Oracle().route_seeing(one, one, 0).arms
        assert arms is not None
        for row, arm in enumerate(arms):
            best = one.correct[row] == one.correct[row].max()
            assert best[arm] and one.energy_j[row, arm] == one.energy_j[row][best].min()
