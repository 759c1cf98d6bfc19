"""Likelihoods of labels, against probabilities taken one token at a time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from app.trl_training.scorer import TorchScorer
from policies.replay.trl.prompts import labels, messages
from tests_trl.conftest import Trained


def by_hand(weights: Path, prompt: list[dict[str, str]], label: str) -> float:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(weights))
    model = AutoModelForCausalLM.from_pretrained(str(weights)).eval()
    text = tokenizer.apply_chat_template(prompt, add_generation_prompt=True, tokenize=False)
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    total = 0.0
    for token in tokenizer(label)["input_ids"]:
        with torch.no_grad():
            total += float(torch.log_softmax(model(torch.tensor([ids])).logits[0, -1], dim=-1)[token])
        ids = [*ids, token]
    return total


@pytest.mark.parametrize("arms", [3, 30])
def test_the_score_of_a_label_is_the_sum_of_its_tokens_log_probabilities(supervised: Trained, arms: int) -> None:
    """Three labels of one token, and thirty of two, which share their first."""
    weights = supervised.out / "sft" / "model"
    prompt = messages("please prove it", [f"arm {i}" for i in range(arms)])
    scores = TorchScorer(weights, arms, "cpu")([prompt, prompt])
    assert scores.shape == (2, arms)
    assert np.array_equal(scores[0], scores[1])
    for index in (0, 1, arms - 1):
        assert scores[0, index] == pytest.approx(by_hand(weights, prompt, labels(arms)[index]), abs=1e-4)


def test_a_prompt_scores_the_same_whatever_stands_beside_it(supervised: Trained) -> None:
    scorer = TorchScorer(supervised.out / "sft" / "model", 3, "cpu")
    short, long = (messages(text, ["a", "b", "c"]) for text in ("sum", "please prove it again " * 20))
    assert np.array_equal(scorer([short, long])[0], scorer([short])[0])
