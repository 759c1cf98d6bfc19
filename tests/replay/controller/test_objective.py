"""Losses, gradients and the pieces of group relative policy optimisation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.replay.controller.model import Adam, Parameters, backward, forward, initial, kl, penalty, softmax
from policies.replay.controller.objective import advantages, cross_entropy, sampled_group, surrogate
from policies.replay.table import Bools, Floats

RNG = np.random.default_rng(7)
N, D, K = 9, 5, 4


def parameters(hidden: int) -> Parameters:
    return tuple(RNG.normal(0, 0.5, p.shape) for p in initial(D, K, hidden, RNG))


def numeric(loss: Callable[[Parameters], float], at: Parameters) -> Parameters:
    """Central differences."""
    found = []
    for i, array in enumerate(at):
        slope = np.zeros_like(array)
        for place in np.ndindex(*array.shape):
            moved = [[p.copy() for p in at] for _ in range(2)]
            moved[0][i][place] += 1e-6
            moved[1][i][place] -= 1e-6
            slope[place] = (loss(tuple(moved[0])) - loss(tuple(moved[1]))) / 2e-6
        found.append(slope)
    return tuple(found)


def agree(loss_and_slope: Callable[[Floats], tuple[float, Floats]], hidden: int, allowed: Bools | None = None) -> None:
    x, at, l2 = RNG.normal(size=(N, D)), parameters(hidden), 0.03

    def loss(p: Parameters) -> float:
        return loss_and_slope(softmax(forward(p, x)[0], allowed))[0] + penalty(p, l2)

    logits, h = forward(at, x)
    exact = backward(at, x, h, loss_and_slope(softmax(logits, allowed))[1], l2)
    for a, b in zip(exact, numeric(loss, at), strict=True):
        np.testing.assert_allclose(a, b, atol=2e-8)


@pytest.mark.parametrize("hidden", [0, 3])
def test_the_gradient_of_the_supervised_loss_is_that_of_finite_differences(hidden: int) -> None:
    labels = np.eye(K)[RNG.integers(0, K, N)]
    labels[0] = 0.25  # four arms tie
    agree(lambda p: cross_entropy(p, labels), hidden)


@pytest.mark.parametrize("hidden", [0, 3])
@pytest.mark.parametrize("scale", ["batch", "group", "none"])
@pytest.mark.parametrize("beta", [0.0, 0.7])
def test_the_gradient_of_the_surrogate_is_that_of_finite_differences(hidden: int, scale: str, beta: float) -> None:
    allowed = RNG.random((N, K)) < 0.8
    allowed[:, 0] = True
    old, reference = (softmax(RNG.normal(size=(N, K)), allowed) for _ in range(2))
    weight = sampled_group(old, 6, RNG)
    advantage = advantages(RNG.choice([-1.0, 1.6, 1.8, 2.0], (N, K)), weight, scale)
    agree(lambda p: surrogate(p, old, weight, advantage, 0.2, beta, reference), hidden, allowed)


def test_at_the_old_policy_the_gradient_is_that_of_the_expected_reward() -> None:
    p, rewards = softmax(RNG.normal(size=(N, K))), RNG.normal(size=(N, K))
    advantage = advantages(rewards, p, "none")
    expected = p * (rewards - (p * rewards).sum(axis=1, keepdims=True)) / N
    np.testing.assert_allclose(-surrogate(p, p, p, advantage, 0.2, 0.0, None)[1], expected, atol=1e-12)


def test_a_ratio_beyond_the_clip_no_longer_pulls() -> None:
    old, p = np.array([[0.5, 0.5]]), np.array([[0.65, 0.35]])
    for advantage, moves in (([[1.0, 0.0]], False), ([[-1.0, 0.0]], True)):
        slope = surrogate(p, old, old, np.array(advantage), 0.2, 0.0, None)[1]
        assert bool(np.abs(slope).max() > 0) is moves


def test_group_advantages_have_mean_0_and_deviation_1_within_the_group() -> None:
    weight = np.array([[0.25, 0.25, 0.5]])
    found = advantages(np.array([[2.0, -1.0, 1.6]]), weight, "group")
    assert (weight * found).sum() == pytest.approx(0)
    assert (weight * found**2).sum() == pytest.approx(1)


def test_only_the_group_scale_blows_small_differences_up() -> None:
    """Query 0: all right, 0.02 apart; query 1: right or wrong."""
    rewards, weight = np.array([[2.0, 1.98], [2.0, -1.0]]), np.full((2, 2), 0.5)
    for scale, ratio in (("group", 1.0), ("batch", 150.0), ("none", 150.0)):
        found = advantages(rewards, weight, scale)
        assert found[1, 0] / found[0, 0] == pytest.approx(ratio)


def test_equal_rewards_teach_nothing() -> None:
    for scale in ("batch", "group", "none"):
        assert not advantages(np.full((3, 4), -1.0), np.full((3, 4), 0.25), scale).any()


@given(st.integers(2, 40), st.integers(0, 2**32 - 1))
def test_an_arm_without_an_outcome_is_never_sampled(size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    allowed = np.array([[True, False, True], [False, False, True]])
    drawn = sampled_group(softmax(rng.normal(size=(2, 3)), allowed), size, rng)
    assert not drawn[~allowed].any()
    np.testing.assert_allclose(drawn.sum(axis=1), 1.0)


def test_the_sampled_group_is_right_on_average() -> None:
    p = np.array([[0.7, 0.2, 0.1]])
    drawn = np.mean([sampled_group(p, 8, RNG) for _ in range(4000)], axis=0)
    np.testing.assert_allclose(drawn, p, atol=0.01)


def test_kl_is_0_at_the_reference_and_known_for_two_arms() -> None:
    p = np.array([[0.5, 0.5]])
    assert kl(p, p)[0] == pytest.approx(0)
    assert kl(p, np.array([[0.9, 0.1]]))[0] == pytest.approx(0.5 * np.log(0.5 / 0.9) + 0.5 * np.log(0.5 / 0.1))


def test_the_first_step_of_adam_is_the_rate_times_the_sign_of_the_gradient() -> None:
    at = (np.array([1.0, 1.0]),)
    moved = Adam.over(at, 0.1).step(at, (np.array([3.0, -0.5]),))
    np.testing.assert_allclose(moved[0], [0.9, 1.1], atol=1e-6)
