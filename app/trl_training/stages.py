"""The two stages of training, each with TRL's own trainer: from weights in one folder to weights in another."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from app.trl_training.folder import forget_optimizers
from app.trl_training.settings import TrainSettings
from policies.replay.errors import WeightsMissing
from policies.replay.trl.data import TrainingSet
from policies.replay.trl.prompts import labels
from policies.replay.trl.rewards import TableReward

Report = Callable[[str], None]

_TOLD = (
    "loss", "mean_token_accuracy", "reward", "reward_std", "kl", "entropy", "unparsable", "missing", "grad_norm",
    "learning_rate",
)  # fmt: skip


@dataclass(frozen=True)
class Stage:
    """What a stage did: figures per logged step; `counts` are of the steps after `counted_from`, where it resumed."""

    steps: int
    counted_from: int
    history: list[dict[str, float | None]]
    counts: dict[str, int]


def supervise(data: TrainingSet, weights: Path, out: Path, settings: TrainSettings, report: Report) -> Stage:
    """SFT on the oracle's labels: the loss counts the label and the end of the turn, not the prompt."""
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    names = labels(len(data.arms))
    rows = [
        {"prompt": one.prompt, "completion": [{"role": "assistant", "content": names[one.label]}]}
        for one in data.examples
    ]
    config = SFTConfig(
        **_common(out, settings),
        num_train_epochs=settings.sft_epochs,
        learning_rate=settings.sft_learning_rate,
        per_device_train_batch_size=settings.sft_batch,
        gradient_accumulation_steps=settings.sft_accumulation,
        completion_only_loss=True,
        max_length=None,  # prompts are shortened when they are built: cutting here would cut the label
    )
    trainer = SFTTrainer(
        model=str(weights), args=config, train_dataset=Dataset.from_list(rows), processing_class=_tokenizer(weights)
    )
    return _run(trainer, "SFT", out, report, {"examples": len(rows)})


def reinforce(data: TrainingSet, weights: Path, out: Path, settings: TrainSettings, report: Report) -> Stage:
    """GRPO from the warm start in `weights`, KL-GRPO where beta > 0; the reference is the warm start.

    Advantages are (r - mean) / std within the group of one query, and the loss is averaged per completion, as in
    the paper. The rate is constant, so a checkpoint at step n is what a run of n steps would have given.
    """
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    rows = [{"prompt": one.prompt, "row": row} for row, one in enumerate(data.examples)]
    reward = TableReward(data.rewards(), data.arms)
    config = GRPOConfig(
        **_common(out, settings),
        max_steps=settings.rl_steps,
        learning_rate=settings.rl_learning_rate,
        lr_scheduler_type="constant",
        per_device_train_batch_size=settings.rl_group,
        gradient_accumulation_steps=settings.rl_queries,
        num_generations=settings.rl_group,
        max_completion_length=settings.rl_max_tokens,
        temperature=settings.rl_temperature,
        epsilon=settings.rl_epsilon,
        beta=settings.beta,
        loss_type="grpo",
        scale_rewards="group",
    )
    trainer = GRPOTrainer(
        model=str(weights),
        reward_funcs=reward,
        args=config,
        train_dataset=Dataset.from_list(rows),
        processing_class=_tokenizer(weights),
    )
    stage = _run(trainer, "KL-GRPO" if settings.beta else "GRPO", out, report, {})
    counts = {"completions": reward.completions, "unparsable": reward.unparsable, "missing": reward.missing}
    return replace(stage, counts=counts)


def _common(out: Path, settings: TrainSettings) -> dict[str, Any]:
    import torch

    gpu = settings.device == "cuda"
    return {
        "output_dir": str(out),
        "seed": settings.seed,
        "data_seed": settings.seed,
        "use_cpu": not gpu,
        "bf16": gpu and torch.cuda.is_bf16_supported(),  # autocast; the weights stay float32
        "gradient_checkpointing": gpu,
        "logging_steps": settings.log_steps,
        "save_steps": settings.save_steps,
        "report_to": "none",
        "disable_tqdm": True,
    }


def _tokenizer(weights: Path) -> Any:
    """Raises WeightsMissing without a chat template: there would be no telling the question from the answer."""
    from transformers import AutoTokenizer

    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(str(weights), local_files_only=True)
    except (OSError, ValueError) as error:
        raise WeightsMissing(f"{weights} has no tokenizer: {error}", fix="add the tokenizer to the weights") from error
    if tokenizer.chat_template is None:
        raise WeightsMissing(f"The tokenizer in {weights} has no chat template.", fix="use an instruction-tuned model")
    return tokenizer


def _run(trainer: Any, name: str, out: Path, report: Report, counts: dict[str, int]) -> Stage:
    """Train from the last checkpoint if there is one, keep the model, free the memory for the next stage."""
    from transformers import PrinterCallback
    from transformers.trainer_utils import get_last_checkpoint

    trainer.remove_callback(PrinterCallback)  # it prints to stdout, which belongs to the answer
    trainer.add_callback(_callback(name, out, report))
    checkpoint = get_last_checkpoint(str(out)) if out.is_dir() else None
    trainer.train(resume_from_checkpoint=checkpoint)
    trainer.save_model(str(out / "model"))
    history = [_figures(entry) for entry in trainer.state.log_history if "train_runtime" not in entry]
    begun_at = int(checkpoint.rpartition("-")[2]) if checkpoint else 0
    stage = Stage(int(trainer.state.global_step), begun_at, history, counts)
    del trainer
    gc.collect()
    _empty_cache()
    return stage


def _empty_cache() -> None:
    import torch

    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _figures(entry: dict[str, Any]) -> dict[str, float | None]:
    told: dict[str, float | None] = {"step": int(entry["step"])}
    for name in _TOLD:
        if name in entry:
            value = float(entry[name])
            told[name] = value if math.isfinite(value) else None
    return told


def _callback(name: str, out: Path, report: Report) -> Any:
    from transformers import TrainerCallback

    class Watch(TrainerCallback):  # type: ignore[misc]
        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            told = [f"{key} {float(logs[key]):.4g}" for key in _TOLD[:-2] if key in (logs or {})]
            if told:
                report(f"{name} step {state.global_step} of {state.max_steps}: {', '.join(told)}")

        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            forget_optimizers(out)

    return Watch()
