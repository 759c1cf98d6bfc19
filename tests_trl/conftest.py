"""A tiny Qwen2 model with random weights and a tokenizer made of the tests' own words; no network at all."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from app.trl_training import TrainSettings, train_router
from policies.replay.trl.data import TrainingSet, training_set
from policies.replay.trl.prompts import messages
from tests_trl.toy import toy_table

torch.set_num_threads(1)  # a model this small only waits for other threads

_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.fixture(autouse=True, scope="session")
def no_network() -> Iterator[None]:
    """Any way out is an error of the test."""

    def refuse(self: socket.socket, address: Any) -> None:
        raise AssertionError(f"a test reached for the network: {address}")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", refuse)
        yield


def save_tokenizer(folder: Path, texts: list[str]) -> Any:
    """Qwen2's own kind of tokenizer, its merges learned from `texts`."""
    from transformers import Qwen2Tokenizer

    marks = ["<|im_start|>", "<|im_end|>"]
    tokenizer = Qwen2Tokenizer().train_new_from_iterator(
        [*texts, "system user assistant"], vocab_size=1000, new_special_tokens=marks
    )
    tokenizer.eos_token = "<|im_end|>"
    tokenizer.chat_template = _TEMPLATE
    tokenizer.save_pretrained(str(folder))
    return tokenizer


def save_model(folder: Path, tokenizer: Any) -> None:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=512,
        initializer_range=0.1,  # wide enough for so small a model to tell words apart within a few steps
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    Qwen2ForCausalLM(config).save_pretrained(str(folder))


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model that knows nothing yet."""
    folder = tmp_path_factory.mktemp("weights")
    table = toy_table()
    assert table.queries.texts is not None
    told = [m["content"] for text in table.queries.texts for m in messages(text, table.names)]
    save_model(folder, save_tokenizer(folder, told))
    return folder


def quick(weights: Path, **changes: Any) -> TrainSettings:
    """Settings for a model of 30,000 parameters on a CPU."""
    settings: dict[str, Any] = {
        "model": str(weights),
        "device": "cpu",
        "sft_epochs": 6,
        "sft_learning_rate": 5e-3,
        "sft_batch": 8,
        "sft_accumulation": 1,
        "rl_steps": 0,
        "rl_learning_rate": 4e-3,
        "rl_group": 8,
        "rl_queries": 4,
        "rl_max_tokens": 3,
        "beta": 0.0,
        "log_steps": 1,
        "save_steps": 1000,
    }
    return TrainSettings.model_validate(settings | changes)


@dataclass(frozen=True)
class Trained:
    """A run: its folder and its manifest."""

    out: Path
    manifest: dict[str, Any]

    def figures(self, stage: str, name: str) -> list[float]:
        """A figure of every logged step that tells it."""
        return [row[name] for row in self.manifest["stages"][stage]["history"] if name in row]


@pytest.fixture(scope="session")
def supervised(weights: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """A router after SFT alone, trained until it knows the toy."""
    out = tmp_path_factory.mktemp("runs") / "supervised"
    return Trained(out, train_router(training_set(toy_table().train()), quick(weights), out))


@pytest.fixture(scope="session")
def warm(weights: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """A warm start that writes labels and does not know yet which."""
    out = tmp_path_factory.mktemp("runs") / "warm"
    return Trained(out, train_router(training_set(toy_table().train()), quick(weights, sft_epochs=2), out))


def reinforced(warm: Trained, out: Path, data: TrainingSet | None = None, **changes: Any) -> Trained:
    """GRPO from the warm start."""
    settings = quick(warm.out / "sft" / "model", sft_epochs=0, **{"rl_steps": 40} | changes)
    return Trained(out, train_router(data or training_set(toy_table().train()), settings, out))
