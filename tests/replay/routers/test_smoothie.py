"""Smoothie against the formula written out, and its refusals."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.errors import ParametersInvalid
from policies.replay.errors import EmbeddingInvalid, NothingToLearn, OutputsMissing
from policies.replay.routers.smoothie import Outputs, Smoothie, differences, squared_distances
from policies.replay.table import strings
from tests.replay.routers.tables import two_kinds


def outputs_of(n: int, seed: int = 0) -> np.ndarray:
    """(n, 3, 5): the second arm stays nearest to what all three mean."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(n, 1, 5))
    return truth + rng.normal(size=(n, 3, 5)) * np.array([0.6, 0.1, 0.8])[None, :, None]


@given(st.integers(0, 2**31), st.integers(3, 6))
def test_the_closed_form_is_the_mean_over_all_pairs(seed: int, n_arms: int) -> None:
    """E||l_i - y||^2 ~ (D_ij + D_ik - D_jk) / 2, averaged over pairs j < k other than i."""
    outputs = np.random.default_rng(seed).normal(size=(4, n_arms, 3))
    distance = squared_distances(outputs)
    for n in range(4):
        for i in range(n_arms):
            others = [arm for arm in range(n_arms) if arm != i]
            d = [[float(((outputs[n, a] - outputs[n, b]) ** 2).sum()) for b in range(n_arms)] for a in range(n_arms)]
            pairs = [0.5 * (d[i][j] + d[i][k] - d[j][k]) for j, k in combinations(others, 2)]
            assert differences(distance)[n, i] == pytest.approx(np.mean(pairs), abs=1e-9)


def test_it_finds_the_arm_whose_outputs_are_nearest_to_the_truth() -> None:
    test = two_kinds(120)
    chosen = Smoothie(None, Outputs(test.queries.ids, outputs_of(120))).route_seeing(test, test, 0)
    assert set(chosen.arms.tolist()) == {1}


def test_locally_it_may_choose_another_arm_per_neighbourhood() -> None:
    test = two_kinds(120)
    outputs = outputs_of(120)
    hard = np.arange(120) % 2 == 1
    outputs[hard] = outputs[hard][:, [1, 0, 2]]
    chosen = Smoothie(40, Outputs(test.queries.ids, outputs)).route_seeing(test, test, 0).arms
    assert (chosen == np.where(hard, 0, 1)).mean() > 0.95


def test_outputs_are_matched_by_query_and_not_by_place() -> None:
    test = two_kinds(60)
    outputs, order = outputs_of(60), np.random.default_rng(3).permutation(60)
    a = Smoothie(1, Outputs(test.queries.ids, outputs)).route_seeing(test, test, 0)
    b = Smoothie(1, Outputs(test.queries.ids[order], outputs[order])).route_seeing(test, test, 0)
    assert a.sha256 == b.sha256


def test_it_says_that_it_sees_outputs() -> None:
    about = Smoothie().about
    assert not about.deployable and about.note == "sees outputs, not deployable"


class TestRefusals:
    def test_a_table_without_outputs_is_named(self) -> None:
        with pytest.raises(OutputsMissing, match="made records none"):
            Smoothie().route_seeing(two_kinds(), two_kinds(), 0)

    def test_a_query_without_outputs_is_named(self) -> None:
        test = two_kinds(10)
        with pytest.raises(OutputsMissing, match="1 queries have no embedded outputs; the first is q9"):
            Smoothie(None, Outputs(test.queries.ids[:9], outputs_of(9))).route_seeing(test, test, 0)

    def test_outputs_of_another_shape_or_not_finite_are_refused(self) -> None:
        test = two_kinds(10)
        with pytest.raises(EmbeddingInvalid, match="shape"):
            Smoothie(None, Outputs(test.queries.ids, outputs_of(10)[:, :2])).route_seeing(test, test, 0)
        bad = outputs_of(10)
        bad[3, 1, 0] = float("nan")
        with pytest.raises(EmbeddingInvalid, match="not finite"):
            Smoothie(None, Outputs(test.queries.ids, bad)).route_seeing(test, test, 0)

    def test_two_arms_have_no_pairs(self) -> None:
        test = two_kinds(4)
        two = test.__class__(**{**test.__dict__, "arms": test.arms[:2]})
        with pytest.raises(NothingToLearn, match="three arms"):
            Smoothie(None, Outputs(strings(["q0"]), outputs_of(1))).route_seeing(two, two, 0)

    def test_k_is_a_count(self) -> None:
        with pytest.raises(ParametersInvalid):
            Smoothie(0)
