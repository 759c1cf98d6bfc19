"""What a training run can be told. The paper gives the model, the weights of energy and the steps, and no more."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class TrainSettings(BaseModel):
    """Defaults: "paper" is arXiv 2609.23085, "DeepSeekMath" arXiv 2402.03300, which introduced GRPO; else our own."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = Field("Qwen/Qwen2.5-1.5B-Instruct", min_length=1)
    """Folder with weights and tokenizer, or the name of weights on the hub (paper)."""
    revision: str | None = None
    """Commit of the weights on the hub."""
    download: bool = False
    """Fetch weights that are not on this machine from the hub."""
    device: Literal["cuda", "cpu"] = "cuda"
    seed: int = Field(0, ge=0, lt=2**32)

    sft_epochs: float = Field(3.0, ge=0)
    """0: no warm start."""
    sft_learning_rate: float = Field(1e-5, gt=0)
    sft_batch: int = Field(4, ge=1)
    """Queries per forward pass."""
    sft_accumulation: int = Field(4, ge=1)
    """Forward passes per step."""

    rl_steps: int = Field(1500, ge=0)
    """0: stop after the warm start (paper: 500, 750 and 1500)."""
    rl_learning_rate: float = Field(1e-6, gt=0)
    """DeepSeekMath."""
    rl_group: int = Field(8, ge=2)
    """Completions per query."""
    rl_queries: int = Field(8, ge=1)
    """Queries per step."""
    rl_temperature: float = Field(1.0, gt=0)
    rl_max_tokens: int = Field(8, ge=1)
    """Length of a completion: a label, the end, and room to be wrong in."""
    rl_epsilon: float = Field(0.2, gt=0)
    """Clip of the importance ratio."""
    beta: float = Field(0.04, ge=0)
    """Weight of the KL divergence from the warm start: 0 is GRPO, above is KL-GRPO (DeepSeekMath)."""

    save_steps: int = Field(250, ge=1)
    log_steps: int = Field(10, ge=1)
