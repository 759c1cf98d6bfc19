"""The gated reward: rank of energy within a query, ties, missing cells, fractional answers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from policies.replay.errors import ReplayError
from policies.replay.reward import Weights, energy_rank, reward, rewards_of
from tests.replay.metrics.tables import table

NAN = float("nan")


def test_rank_runs_from_0_for_the_least_energy_to_1_for_the_most() -> None:
    assert energy_rank([[30.0, 10.0, 20.0]]).tolist() == [[1.0, 0.0, 0.5]]


def test_equal_energies_share_the_lowest_of_their_ranks() -> None:
    assert energy_rank([[10.0, 10.0, 20.0], [5.0, 5.0, 5.0]]).tolist() == [[0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]


def test_a_missing_cell_has_no_rank_and_takes_none() -> None:
    np.testing.assert_array_equal(energy_rank([[NAN, 7.0, 9.0], [NAN, NAN, 4.0]]), [[NAN, 0, 1], [NAN, NAN, 0]])


def test_the_papers_reward() -> None:
    # 2609.23085: right 2 - lambda z, wrong -1; lambda 0.4, K = 3.
    np.testing.assert_allclose(reward([[1, 1, 0]], [[10.0, 20.0, 30.0]], 0.4), [[2.0, 1.8, -1.0]])


def test_the_general_form_has_terms_of_latency_and_power() -> None:
    found = reward([[1, 0]], [[1.0, 2.0]], 0.5, latency_s=[[4.0, 1.0]], power_w=[[100.0, 1.0]], per_s=0.1, per_w=0.001)
    np.testing.assert_allclose(found, [[2 - 0.4 - 0.1, -1.0]])


def test_a_share_of_correctness_gives_the_expected_reward() -> None:
    assert reward([[0.25, 1.0]], [[1.0, 2.0]], 0.4)[0, 0] == pytest.approx(0.25 * 2 + 0.75 * -1)


def test_what_is_unknown_has_no_reward() -> None:
    found = reward([[NAN, 1, 0]], [[1.0, NAN, 2.0]], 0.4, latency_s=[[1.0, 1.0, NAN]], per_s=0.1)
    assert np.isnan(found).all()


def test_a_weight_without_its_matrix_is_refused() -> None:
    with pytest.raises(ReplayError, match="power_w"):
        reward([[1]], [[1.0]], 0.4, per_w=0.1)


def test_a_tables_rewards_use_its_own_matrices() -> None:
    made = table([[1, 1]], [[10.0, 20.0]])
    np.testing.assert_allclose(rewards_of(made, Weights(energy=0.5, per_s=0.1)), [[2 - 0.1, 2 - 0.5 - 0.2]])


@given(arrays.arrays(np.float64, (4, 5), elements=st.sampled_from([1.0, 2.0, 3.0, NAN])), st.floats(0.01, 1.9))
def test_the_best_reward_is_the_cheapest_right_arm_for_any_lambda(energy: np.ndarray, lam: float) -> None:
    right = np.tile([1.0, 0.0, 1.0, 1.0, 0.0], (4, 1))
    rewards = reward(right, energy, lam)
    for n in range(4):
        able = [k for k in range(5) if right[n, k] and np.isfinite(energy[n, k])]
        if able:
            assert energy[n, np.nanargmax(rewards[n])] == min(energy[n, k] for k in able)
