"""The controller on ZeroEval x ML.ENERGY (H100, batch 128; 7 models; 70/30). Skipped where the inputs are absent."""

from __future__ import annotations

import numpy as np
import pytest

from policies.replay.bootstrap import Paired, paired
from policies.replay.controller import Settings, lambdas_per_j, train
from policies.replay.metrics import evaluate
from policies.replay.policy import Choices
from policies.replay.reward import Weights, rewards_of
from policies.replay.table import OutcomeTable
from tests.replay.routers.test_real import zeroeval as zeroeval


def against(table: OutcomeTable, settings: Settings, arm: str) -> Paired:
    test = table.test()
    always = Choices(arms=np.full(len(test), table.arm_index(arm), dtype=np.int32))
    return paired(test, train(table.train(), settings, 0).route(test.queries), always)


def test_trained_on_joules_it_is_better_and_cheaper_than_the_cheapest_arm(zeroeval: OutcomeTable) -> None:
    """gemma-2-2b-it: fewest joules of all on average, and yet not on each kind of query."""
    slopes = lambdas_per_j(zeroeval.train())
    found = against(zeroeval, Settings(reward="joules", lam=slopes[0]), "gemma-2-2b-it")
    assert found.accuracy_difference.low is not None and found.accuracy_difference.low > 0
    assert found.energy_ratio.high is not None and found.energy_ratio.high < 1


def test_trained_on_joules_it_is_as_good_as_a_fixed_arm_for_fewer_joules(zeroeval: OutcomeTable) -> None:
    slopes = lambdas_per_j(zeroeval.train())
    found = against(zeroeval, Settings(reward="joules", lam=slopes[1]), "Meta-Llama-3.1-8B-Instruct")
    assert found.accuracy_difference.low is not None and found.accuracy_difference.low > 0
    assert found.energy_ratio.high is not None and found.energy_ratio.high < 1


def test_on_the_gated_reward_it_earns_more_than_any_fixed_arm(zeroeval: OutcomeTable) -> None:
    test = zeroeval.test()
    got = evaluate(test, [train(zeroeval.train(), Settings(lam=1.0), 0).route(test.queries)], weights=Weights(1.0))[
        0
    ].reward
    assert got is not None and got > rewards_of(test, Weights(1.0)).mean(axis=0).max() + 0.05


@pytest.mark.parametrize("stage", ["grpo", "kl-grpo"])
def test_reinforcement_mends_what_labels_alone_teach(zeroeval: OutcomeTable, stage: str) -> None:
    """The most frequent cheapest right arm is not the arm that is most often right."""
    test = zeroeval.test()
    rewards = [
        evaluate(test, [train(zeroeval.train(), Settings(stage=s), 0).route(test.queries)])[0].reward
        for s in ("sft", stage)
    ]
    assert rewards[0] is not None and rewards[1] is not None
    assert rewards[1] > rewards[0] + 0.5
