"""Labels and rewards from an outcome table, and what becomes of queries and cells that teach nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from policies.replay.errors import NothingToLearn, RouterInvalid
from policies.replay.reward import Weights
from policies.replay.table import Arm, OutcomeTable, Queries, strings
from policies.replay.trl.data import Counts, query_keys, read_lines, training_set
from policies.replay.trl.rewards import TableReward
from warehouse.evidence import EvidenceClass

NAN = float("nan")


def table(correct: list[list[float]], energy_j: list[list[float]], texts: list[str | None] | None = None) -> Any:
    n, k = np.shape(correct)
    nan = np.full((n, k), np.nan)
    told = strings([f"question {i}" for i in range(n)] if texts is None else texts)
    return OutcomeTable(
        dataset="toy",
        arms=tuple(Arm(name, name) for name in ("small", "medium", "large")[:k]),
        queries=Queries(strings([f"q{i}" for i in range(n)]), strings([""] * n), told),
        held_out=np.zeros(n, dtype=bool),
        correct=np.array(correct, dtype=float),
        energy_j=np.array(energy_j, dtype=float),
        latency_s=nan,
        cost_usd=nan,
        power_w=nan,
        output_tokens=nan,
        evidence_class=EvidenceClass.MEASURED,
        sha256="abc",
    )


# The example of arXiv 2609.23085, figure 2: 82 J right, 638 J wrong, 2864 J right.
GSM8K = ([[1.0, 0.0, 1.0]], [[82.0, 638.0, 2864.0]])


def test_the_reward_is_the_papers_gated_one_with_0_4_and_the_label_the_cheapest_correct_arm() -> None:
    (example,) = training_set(table(*GSM8K)).examples
    assert example.reward == pytest.approx((2.0, -1.0, 1.6))
    assert example.label == 0


@pytest.mark.parametrize("weight", [0.1, 0.3, 0.5, 0.7, 1.9])
def test_any_weight_of_energy_above_zero_gives_the_same_labels(weight: float) -> None:
    rng = np.random.default_rng(7)
    outcomes = table(rng.integers(0, 2, (40, 3)).astype(float).tolist(), rng.uniform(1, 9, (40, 3)).tolist())
    found = [e.label for e in training_set(outcomes, supervised=Weights(energy=weight)).examples]
    answered = outcomes.take(outcomes.correct.any(axis=1))
    cheapest = np.where(answered.correct == 1, answered.energy_j, np.inf).argmin(axis=1)
    assert found == cheapest.tolist()


def test_equal_rewards_give_the_least_joules_then_the_first_arm() -> None:
    free = Weights(energy=0.0)
    outcomes = table([[1, 1, 1], [1, 1, 0]], [[5, 3, 3], [2, 1, 1]])
    assert [e.label for e in training_set(outcomes, supervised=free).examples] == [1, 1]


def test_correctness_between_0_and_1_earns_the_expected_reward() -> None:
    (example,) = training_set(table([[0.5, 1.0, 0.0]], [[1, 2, 3]])).examples
    assert example.reward == pytest.approx((0.5 * 2 - 0.5, 2 - 0.4 * 0.5, -1))
    assert example.label == 1


def test_what_teaches_nothing_is_left_out_and_counted() -> None:
    outcomes = table(
        [[1, 0, NAN], [0, 0, 0], [NAN, NAN, 1], [1, 1, 1], [1, 1, 1], [0, 1, 1]],
        [[1, 2, 3], [1, 2, 3], [1, 2, NAN], [1, 2, 3], [1, 2, 3], [1, NAN, 3]],
        ["one", "two", "three", None, "  ", "six" * 99],
    )
    data = training_set(outcomes, max_chars=100)
    assert data.counts == Counts(
        queries=6, without_text=2, without_outcome=1, unanswered=1, used=2, shortened=1, cells=6, missing_cells=2
    )
    assert [e.label for e in data.examples] == [0, 2], "an arm without known energy is no label"
    assert np.isnan(data.rewards()).tolist() == [[False, False, True], [False, True, False]]


@pytest.mark.parametrize(
    ("outcomes", "words"),
    [
        (table([[0.0, 0.0]], [[1.0, 2.0]]), "has a text and an arm that answers it"),
        (table([[1.0, 0.0]], [[1.0, 2.0]], [None]), "has a text and an arm that answers it"),
        (table([[1.0, 1.0]], [[2.0, 2.0]]), "earn the same on every training query"),
        (table([[1.0]], [[2.0]]), "earn the same on every training query"),
        (replace(table(*GSM8K), queries=Queries(strings(["q0"]), strings([""]))), "has a text"),
    ],
    ids=["all wrong", "no text", "all tied", "one arm", "no texts at all"],
)
def test_a_table_that_tells_no_arms_apart_is_refused(outcomes: OutcomeTable, words: str) -> None:
    with pytest.raises(NothingToLearn, match=words):
        training_set(outcomes)


def test_a_training_set_comes_back_from_its_lines_unchanged() -> None:
    data = training_set(table([[1, 0, NAN], [0, 1, 1]], [[1, 2, 3], [4, 5, 6]], ["straße \ud800", "two\nlines"]))
    lines = list(data.lines())
    again = read_lines(iter(lines))
    assert list(again.lines()) == lines
    assert again.sha256 == data.sha256
    assert again.examples[0].prompt == data.examples[0].prompt
    assert again.counts == data.counts


def test_the_hash_changes_with_rewards_texts_and_weights() -> None:
    base = table(*GSM8K)
    sets = [
        training_set(base),
        training_set(base, reinforced=Weights(energy=0.3)),
        training_set(replace(base, energy_j=base.energy_j[:, ::-1])),
        training_set(table(*GSM8K, ["another"])),
        training_set(base, max_chars=8),
    ]
    assert len({data.sha256 for data in sets}) == len(sets)


def test_a_file_that_is_no_training_set_is_refused() -> None:
    lines = list(training_set(table(*GSM8K)).lines())
    row = json.loads(lines[1])
    for broken in ([], ["{}"], ["no json"], [lines[0].replace("trl-1", "trl-0"), lines[1]]):
        with pytest.raises(RouterInvalid, match="no training set"):
            read_lines(iter(broken))
    for change in ({"label": 3}, {"label": "0"}, {"reward": [1.0, 2.0]}):
        with pytest.raises(RouterInvalid, match="does not fit 3 arms"):
            read_lines(iter([lines[0], json.dumps(row | change)]))


def test_a_query_is_the_same_by_id_and_text() -> None:
    def keys(ids: list[str], texts: list[str]) -> list[str]:
        return query_keys(Queries(strings(ids), strings([""] * len(ids)), strings(texts)))

    assert keys(["a", "b"], ["x", "y"]) == keys(["a", "b"], ["x", "y"])
    assert len(set(keys(["a", "a", "b"], ["x", "y", "x"]))) == 3


# the reward of a rollout -------------------------------------------------------------------------


def test_rollouts_are_looked_up_and_those_without_arm_or_cell_are_counted() -> None:
    logged: list[tuple[str, float]] = []
    reward = TableReward(np.array([[2.0, -1.0, 1.6], [NAN, 1.8, -1.0]]), ("small", "medium", "large"))
    told = [[{"role": "assistant", "content": text}] for text in ("A", "C", "hm", "A", "medium")]
    earned = reward(completions=told, row=[0, 0, 0, 1, 1], prompts=[], log_metric=lambda *m: logged.append(m))
    assert earned == [2.0, 1.6, -1.0, None, 1.8]
    assert (reward.completions, reward.unparsable, reward.missing) == (5, 1, 1)
    assert logged == [("unparsable", 0.2), ("missing", 0.2)]
    reward(completions=["?"], row=[0])
    assert (reward.completions, reward.unparsable) == (6, 2)
