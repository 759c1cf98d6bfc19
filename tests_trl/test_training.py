"""From a table of outcomes to a router: SFT, GRPO and KL-GRPO of a real, tiny language model."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from app.trl_training import load_policy, train_router
from policies.replay.decide import decide
from policies.replay.errors import QueryLeaked, RouterInvalid, WeightsMissing
from policies.replay.policy import HAND_BACK, Fitted
from policies.replay.reward import rewards_of
from policies.replay.table import Floats, strings
from policies.replay.trl.data import REINFORCED, training_set
from policies.replay.trl.router import LanguageRouter
from tests_trl.conftest import Trained, quick, reinforced
from tests_trl.toy import ARMS, WORDS, toy_table


def fitted(directory: Path) -> LanguageRouter:
    return load_policy(directory, "cpu").fit(toy_table().train(), 0)


def probabilities(directory: Path) -> Floats:
    """(N, K) of the arms on the held-out queries, scaled to 1."""
    likelihood = np.exp(fitted(directory).log_likelihood(toy_table().test().queries))
    return np.asarray(likelihood / likelihood.sum(axis=1, keepdims=True))


def mean_reward(directory: Path) -> float:
    """Expected reward on the held-out queries."""
    return float((probabilities(directory) * rewards_of(toy_table().test(), REINFORCED)).sum(axis=1).mean())


# SFT ------------------------------------------------------------------------------------------


def test_supervised_training_lowers_the_loss(supervised: Trained) -> None:
    loss = supervised.figures("sft", "loss")
    assert loss[0] > 1 and np.mean(loss[-5:]) < loss[0] / 10


def test_a_supervised_router_finds_the_cheapest_correct_arm_of_queries_it_has_not_seen(supervised: Trained) -> None:
    test = toy_table().test()
    router = fitted(supervised.out)
    assert isinstance(router, Fitted)
    oracle = np.array([WORDS.index(word) for word in test.queries.benchmarks])
    chosen = router.route(test.queries).arms
    assert chosen is not None
    assert (chosen == oracle).mean() > 0.9  # chance, and the best fixed arm: 1/3


def test_most_of_the_probability_lies_on_labels_so_the_constraint_takes_little_away(supervised: Trained) -> None:
    likelihood = fitted(supervised.out).log_likelihood(toy_table().test().queries)
    assert np.exp(likelihood).sum(axis=1).min() > 0.8
    assert np.exp(likelihood).sum(axis=1).max() <= 1 + 1e-6


def test_a_query_without_a_text_is_handed_back_and_its_neighbours_are_routed(supervised: Trained) -> None:
    test = toy_table().test()
    texts = test.queries.texts
    assert texts is not None
    queries = replace(test.queries, texts=strings([None, *texts[1:]]))
    with_gap, without = (fitted(supervised.out).route(q).arms for q in (queries, test.queries))
    assert with_gap is not None and without is not None
    assert with_gap[0] == HAND_BACK
    assert with_gap[1:].tolist() == without[1:].tolist()


def test_a_router_decides_among_the_policies_of_the_lab_before_outcomes_are_joined(supervised: Trained) -> None:
    table = toy_table()
    (router,) = decide([load_policy(supervised.out, "cpu")], table.train(), table.test(), 0)
    assert router.about.name == f"trl:{supervised.out}"
    assert router.route_s_per_query > 0
    assert router.notes["training_energy_j"] is None
    chosen = router.choices.arms
    assert chosen is not None
    assert table.test().correct[np.arange(len(chosen)), chosen].mean() > 0.9


def test_a_router_refuses_the_queries_that_it_was_trained_on(supervised: Trained) -> None:
    with pytest.raises(QueryLeaked, match="trained on 90 of these queries"):
        fitted(supervised.out).route(toy_table().queries)


# GRPO -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def grpo(warm: Trained, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return reinforced(warm, tmp_path_factory.mktemp("runs") / "grpo", rl_steps=30)


def test_reinforcement_raises_the_reward_of_rollouts_and_of_queries_it_has_not_seen(
    warm: Trained, grpo: Trained
) -> None:
    reward = grpo.figures("grpo", "reward")
    assert np.mean(reward[-10:]) > np.mean(reward[:10]) + 0.3
    assert mean_reward(grpo.out) > mean_reward(warm.out) + 0.3


def test_rollouts_that_name_no_arm_are_counted(grpo: Trained) -> None:
    counts = grpo.manifest["stages"]["grpo"]["counts"]
    assert counts["completions"] == 30 * 8 * 4
    assert counts["missing"] == 0
    share = np.mean(grpo.figures("grpo", "unparsable"))
    assert counts["unparsable"] == pytest.approx(share * counts["completions"])
    assert 0 < counts["unparsable"] < counts["completions"]


def test_a_penalty_on_divergence_keeps_the_policy_near_its_warm_start(
    warm: Trained, grpo: Trained, tmp_path: Path
) -> None:
    held = reinforced(warm, tmp_path / "kl", rl_steps=30, beta=5.0)
    start = probabilities(warm.out)

    def divergence(run: Trained) -> float:
        p = probabilities(run.out)
        return float((p * np.log(p / start)).sum(axis=1).mean())

    assert divergence(held) < divergence(grpo) / 4
    assert len(held.figures("grpo", "kl")) == 30, "KL-GRPO logs its divergence"
    assert grpo.figures("grpo", "kl") == [], "GRPO has no reference to diverge from"


def test_a_cell_that_is_not_recorded_is_counted_and_teaches_nothing(warm: Trained, tmp_path: Path) -> None:
    """Nothing but rollouts that name no arm has a reward: all of those earn the same, so no weight may move."""
    data = training_set(toy_table().train())
    unknown = tuple(replace(example, reward=(float("nan"),) * 3) for example in data.examples)
    run = reinforced(warm, tmp_path / "gaps", replace(data, examples=unknown), rl_steps=4)
    counts = run.manifest["stages"]["grpo"]["counts"]
    assert counts["missing"] > 0
    assert counts["unparsable"] > 0
    assert counts["missing"] + counts["unparsable"] == counts["completions"]
    assert probabilities(run.out).tolist() == probabilities(warm.out).tolist()


# a run and its folder ---------------------------------------------------------------------------


class _Interrupted(Exception):
    pass


def test_a_run_that_was_interrupted_goes_on_to_the_same_router(warm: Trained, tmp_path: Path) -> None:
    settings = quick(warm.out / "sft" / "model", sft_epochs=0, rl_steps=8, save_steps=4, beta=0.1)
    data = training_set(toy_table().train())
    whole = train_router(data, settings, tmp_path / "whole")

    def stop(line: str) -> None:
        if "step 6 of 8" in line:
            raise _Interrupted

    out = tmp_path / "parts"
    with pytest.raises(_Interrupted):
        train_router(data, settings, out, report=stop)
    with pytest.raises(RouterInvalid, match="has not come to its end"):
        load_policy(out, "cpu")
    with pytest.raises(RouterInvalid, match="holds a router already"):
        train_router(data, settings, out)
    assert [path.parent.name for path in out.rglob("optimizer.pt")] == ["checkpoint-4"]
    resumed = train_router(data, settings, out, resume=True)

    assert resumed["weights_sha256"] == whole["weights_sha256"]
    assert resumed["stages"]["grpo"]["counted_from"] == 4
    assert len(resumed["parts"]) == 2
    assert resumed["training_s"] == pytest.approx(sum(part["training_s"] for part in resumed["parts"]))
    assert train_router(data, settings, out, resume=True) == resumed, "a finished run is given as it is"


def test_a_router_chooses_the_same_after_it_was_moved_and_loaded_again(supervised: Trained, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(supervised.out, moved)
    assert probabilities(moved).tolist() == probabilities(supervised.out).tolist()


def test_every_checkpoint_routes_and_no_optimizer_outlives_its_stage(warm: Trained, tmp_path: Path) -> None:
    run = reinforced(warm, tmp_path / "run", rl_steps=6, save_steps=2, rl_learning_rate=2e-2)
    checkpoints = [run.out / "grpo" / f"checkpoint-{step}" for step in (2, 4, 6)]
    told = [probabilities(c) for c in checkpoints]
    assert np.abs(told[0] - told[2]).max() > 1e-4
    assert np.array_equal(told[2], probabilities(run.out))
    assert list(run.out.rglob("optimizer.pt")) == []


def test_weights_that_were_changed_after_training_are_refused(supervised: Trained, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(supervised.out, moved)
    weights = moved / "sft" / "model" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4] + b"\0\0\0\1")
    with pytest.raises(RouterInvalid, match="not those that were trained"):
        load_policy(moved, "cpu")


def test_a_run_is_not_resumed_with_other_settings_or_other_data(warm: Trained, weights: Path) -> None:
    data = training_set(toy_table().train())
    with pytest.raises(RouterInvalid, match=r"sft_epochs was 2\.0"):
        train_router(data, quick(weights, sft_epochs=3), warm.out, resume=True)
    with pytest.raises(RouterInvalid, match="other data"):
        train_router(training_set(toy_table(96).train()), quick(weights, sft_epochs=2), warm.out, resume=True)


def test_the_manifest_tells_what_the_router_was_made_of(supervised: Trained, weights: Path) -> None:
    told = supervised.manifest
    data = training_set(toy_table().train())
    assert told["arms"] == list(ARMS)
    assert told["data_sha256"] == data.sha256
    assert told["settings"]["model"] == str(weights)
    assert set(told["versions"]) == {"torch", "transformers", "trl", "datasets"}
    assert (told["training_energy_j"], told["training_energy_method"]) == (None, "no GPU, so no counter")
    policy = load_policy(supervised.out, "cpu")
    assert policy.about.parameters["weights_sha256"] == told["weights_sha256"]
    assert fitted(supervised.out).notes["training_s"] == told["training_s"] > 0


# bad input ------------------------------------------------------------------------------------


def test_weights_that_are_not_on_this_machine_are_not_fetched_unasked(tmp_path: Path) -> None:
    data = training_set(toy_table().train())
    with pytest.raises(WeightsMissing, match=r"Qwen2\.5-1\.5B-Instruct' are not on this machine"):
        train_router(data, quick(Path("Qwen/Qwen2.5-1.5B-Instruct")), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_weights_without_a_chat_template_are_refused(weights: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    shutil.copytree(weights, bare)
    (bare / "chat_template.jinja").unlink()
    with pytest.raises(WeightsMissing, match="no chat template"):
        train_router(training_set(toy_table().train()), quick(bare), tmp_path / "out")
