"""Ridge and logistic regression by their optimality conditions; text features by hand; regression; strong/weak."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

from policies.errors import ParametersInvalid
from policies.replay.errors import ArmUnknown, BudgetUnreachable, NothingToLearn
from policies.replay.policy import Threshold
from policies.replay.routers.features import Scale, flesch_reading_ease, one_hot, raw_features, text_counts
from policies.replay.routers.linear import cross_validated, logistic, logistic_loss, ridge, split
from policies.replay.routers.operating import Point
from policies.replay.routers.regression import Regression
from policies.replay.routers.strong_weak import StrongWeak
from policies.replay.table import Queries, strings
from tests.replay.routers.tables import NAN, graded, replayed, table, two_kinds


class TestLinear:
    @given(st.integers(0, 2**31), st.floats(0.01, 100.0))
    def test_logistic_regression_ends_where_the_gradient_is_zero(self, seed: int, l2: float) -> None:
        rng = np.random.default_rng(seed)
        design = np.column_stack([rng.normal(size=(40, 3)), np.ones(40)])
        target = rng.uniform(size=40)
        weights = logistic(design, target, l2)
        penalty = np.array([l2, l2, l2, 1e-3])
        gradient = design.T @ (expit(design @ weights) - target) + penalty * weights
        assert np.abs(gradient).max() < 0.01

    @pytest.mark.parametrize("always", [0.0, 1.0])
    def test_answers_that_are_all_right_or_all_wrong_stay_finite(self, always: float) -> None:
        weights = logistic(np.ones((30, 1)), np.full(30, always), 1.0)
        assert np.isfinite(weights).all() and abs(expit(weights[0]) - always) < 0.01

    def test_ridge_without_penalty_is_least_squares(self) -> None:
        rng = np.random.default_rng(0)
        design = np.column_stack([rng.normal(size=(50, 2)), np.ones(50)])
        assert ridge(design, design @ [2.0, -1.0, 5.0], 0.0) == pytest.approx([2.0, -1.0, 5.0], abs=1e-3)

    def test_a_feature_of_pure_noise_gets_the_largest_penalty(self) -> None:
        rng = np.random.default_rng(0)
        design = np.column_stack([rng.normal(size=(60, 20)), np.ones(60)])
        chosen = cross_validated(
            logistic, design, (rng.uniform(size=60) > 0.5).astype(float), [0.1, 1000.0], 0, loss=logistic_loss
        )
        assert chosen.l2 == 1000.0

    def test_folds_partition_the_rows(self) -> None:
        assert sorted(np.concatenate(split(13, 1)).tolist()) == list(range(13))
        assert len(split(1, 0)) == 1


class TestFeatures:
    def test_counts_of_a_text(self) -> None:
        counts = text_counts("Add 12 to 345.\nOk?")
        assert counts[:7] == pytest.approx(np.log1p([18, 5, 2, 3, 1, 2, 2]))

    def test_an_empty_text_counts_as_nothing(self) -> None:
        assert set(text_counts("")) == {0.0}

    def test_flesch_of_a_simple_sentence(self) -> None:
        """Six words of one syllable in one sentence: 206.835 - 1.015 x 6 - 84.6."""
        assert flesch_reading_ease("The cat sat on the mat.") == pytest.approx(116.145)
        assert flesch_reading_ease("42 + 1") == 206.835

    def test_unknown_text_and_tokens_are_unknown_and_become_the_mean(self) -> None:
        queries = Queries(
            strings(["a", "b"]), strings(["x", "x"]), strings(["one two", None]), None, np.array([NAN, 9.0])
        )
        raw = raw_features(queries)
        assert np.isnan(raw[1, :-1]).all() and np.isnan(raw[0, -1])
        assert Scale.of(raw).apply(raw)[1, :-1].tolist() == [0.0] * (raw.shape[1] - 1)

    def test_an_unseen_value_is_a_row_of_zeros(self) -> None:
        assert one_hot(strings(["b", "z"]), ("a", "b")).tolist() == [[0.0, 1.0], [0.0, 0.0]]


class TestRegression:
    def test_it_learns_hardness_from_the_text_alone(self) -> None:
        one = graded()
        error = Regression().fit(one, 0).curve(one.queries).error[:, 0]
        hard = np.array([len(text) for text in one.queries.texts])
        assert np.corrcoef(error, hard)[0, 1] > 0.9

    def test_mean_predicted_joules_are_the_mean_joules(self) -> None:
        """exp of a predicted logarithm alone would be too low."""
        one = graded()
        predicted = Regression().fit(one, 0).curve(one.queries).energy_j
        assert predicted.mean(axis=0) == pytest.approx(one.energy_j.mean(axis=0), rel=0.03)

    def test_without_texts_it_still_knows_the_benchmark(self) -> None:
        one = two_kinds(texts=None)
        fitted = Regression(point=Point(1e-3)).fit(one.train(), 0)
        assert fitted.notes["texts"] is False
        assert replayed(one.test(), fitted.route(one.test().queries).arms)[0] == 1.0

    def test_a_query_that_only_weak_arms_were_asked_does_not_look_hard(self) -> None:
        """Benchmark x is asked of the weak arm only; both benchmarks are equally hard for it."""
        rng = np.random.default_rng(0)
        weak, strong = rng.uniform(size=400) < 0.3, rng.uniform(size=400) < 0.9
        on_x = np.arange(400) % 2 == 0
        one = table(np.column_stack([weak, np.where(on_x, NAN, strong)]), benchmarks=np.where(on_x, "x", "y").tolist())
        error = Regression().fit(one, 0).curve(one.queries).error
        assert abs(error[on_x, 1].mean() - error[~on_x, 1].mean()) < 0.1


class TestStrongWeak:
    def test_the_score_is_higher_where_only_the_strong_arm_is_right(self) -> None:
        one = two_kinds(120)
        fitted = StrongWeak("b", "a").fit(one.train(), 0)
        score = fitted.score(one.test().queries)
        hard = one.test().correct[:, 0] == 0
        assert score[hard].min() > score[~hard].max()

    def test_its_curve_is_the_score_so_every_threshold_is_exact(self) -> None:
        one = two_kinds(120)
        fitted = StrongWeak("b", "a").fit(one.train(), 0)
        swept = fitted.curve(one.test().queries)
        assert isinstance(swept, Threshold) and (swept.weak, swept.strong) == (0, 1)
        taken = np.where(swept.score >= fitted.threshold, 1, 0)
        assert taken.tolist() == fitted.route(one.test().queries).arms.tolist()

    def test_the_default_threshold_sends_half_of_training_to_the_strong_arm(self) -> None:
        notes = StrongWeak("b", "a").fit(graded(), 0).notes
        assert notes["train_strong_share"] == pytest.approx(0.5, abs=0.01)

    @pytest.mark.parametrize(("share", "arms"), [(0.0, {0}), (1.0, {1})])
    def test_a_share_of_none_and_of_all(self, share: float, arms: set[int]) -> None:
        one = graded()
        fitted = StrongWeak("b", "a", share).fit(one, 0)
        assert fitted.notes["train_strong_share"] == share
        if share == 0.0:
            assert set(fitted.route(one.queries).arms.tolist()) <= {0, 1}

    def test_a_budget_is_kept_on_the_training_part(self) -> None:
        one = graded()
        fitted = StrongWeak("b", "a", point=Point(budget_j=60.0)).fit(one, 0)
        assert replayed(one, fitted.route(one.queries).arms)[1] <= 60.0 * 1.1
        with pytest.raises(BudgetUnreachable, match="below the least"):
            StrongWeak("b", "a", point=Point(budget_j=1.0)).fit(one, 0)

    def test_lambda_asks_the_strong_arm_to_be_worth_its_joules(self) -> None:
        one = graded()
        fitted = StrongWeak("b", "a", point=Point(2e-3)).fit(one, 0)
        extra = (one.energy_j[:, 1] - one.energy_j[:, 0]).mean()
        assert fitted.threshold == pytest.approx(2e-3 * extra)

    def test_an_arm_that_never_wins_is_nothing_to_learn(self) -> None:
        with pytest.raises(NothingToLearn, match="c scores higher than b on 0 of the 40"):
            StrongWeak("c", "b").fit(two_kinds().train(), 0)

    def test_only_queries_that_both_were_asked_count(self) -> None:
        one = two_kinds(120)
        correct = one.correct.copy()
        correct[:30, 1] = NAN
        assert StrongWeak("b", "a").fit(replace(one, correct=correct), 0).notes["n_train"] == 90

    def test_bad_arms_and_shares_are_refused(self) -> None:
        with pytest.raises(ArmUnknown):
            StrongWeak("z", "a").fit(two_kinds(), 0)
        with pytest.raises(ParametersInvalid, match="not distinct"):
            StrongWeak("a", "a").fit(two_kinds(), 0)
        with pytest.raises(ParametersInvalid, match="strong_share"):
            StrongWeak("b", "a", 1.5)
