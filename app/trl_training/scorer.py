"""Log-likelihoods of labels by a causal language model. One query at a time: padding would let neighbours matter."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from policies.replay.errors import RouterInvalid
from policies.replay.table import Floats
from policies.replay.trl.prompts import Messages, labels


class TorchScorer:
    """Sum of the log-probabilities of a label's tokens after the prompt; one forward pass where each is one token."""

    def __init__(self, weights: Path, arms: int, device: str = "auto") -> None:
        """Raises RouterInvalid where the folder cannot be loaded or its tokenizer cannot tell the labels apart."""
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self._torch = torch
        self.device = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(str(weights), local_files_only=True)
            model: Any = AutoModelForCausalLM.from_pretrained(str(weights), local_files_only=True, dtype="auto")
        except (OSError, ValueError) as error:
            raise RouterInvalid(f"The weights in {weights} cannot be loaded: {error}", fix="train again") from error
        self._model: Any = model.to(self.device).eval()
        self._labels = [self._tokenizer(label, add_special_tokens=False)["input_ids"] for label in labels(arms)]
        if len({tuple(ids) for ids in self._labels}) < arms or not all(self._labels):
            raise RouterInvalid(
                f"The tokenizer in {weights} does not tell the labels of {arms} arms apart.",
                fix="train a model whose vocabulary has capital letters",
            )

    def __call__(self, prompts: Sequence[Messages]) -> Floats:
        scores = np.empty((len(prompts), len(self._labels)))
        with self._torch.inference_mode():
            for row, prompt in enumerate(prompts):
                told = self._tokenizer.apply_chat_template(
                    prompt, add_generation_prompt=True, tokenize=True, return_dict=True
                )
                scores[row] = self._scores(list(told["input_ids"]))
        return scores

    def _scores(self, prompt: list[int]) -> list[float]:
        if all(len(ids) == 1 for ids in self._labels):
            last = self._log_probabilities(prompt, 1)[0]
            return [float(last[ids[0]]) for ids in self._labels]
        found = []
        for ids in self._labels:
            rows = self._log_probabilities(prompt + ids[:-1], len(ids))
            found.append(sum(float(row[token]) for row, token in zip(rows, ids, strict=True)))
        return found

    def _log_probabilities(self, ids: list[int], positions: int) -> Any:
        """(positions, vocabulary): of the token after each of the last `positions` of `ids`."""
        given = self._torch.tensor([ids], device=self.device)
        logits = self._model(input_ids=given, use_cache=False, logits_to_keep=positions).logits[0]
        return self._torch.log_softmax(logits.float(), dim=-1).cpu()
