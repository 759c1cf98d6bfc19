"""The training set of the language-model router, written to a file for a machine that has a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from app.desk import Desk
from app.errors import BadRequest
from app.operations import Actor, Params, operation
from app.operations.plain import plain
from app.policy_errors import policy_errors
from app.trl_training.files import write_training_set
from policies.replay.load import load_table
from policies.replay.reward import LAMBDA_REINFORCED, LAMBDA_SUPERVISED, Weights
from policies.replay.table import Condition
from policies.replay.trl.data import training_set
from policies.replay.trl.prompts import MAX_CHARS
from warehouse.evidence import EvidenceClass
from warehouse.snapshots import snapshot


class TrainingSetParams(Params):
    dataset: str = Field(min_length=1, max_length=200)
    path: str
    """The file to write, JSON lines. It holds the texts of the training queries."""
    gpu: str | None = None
    """With `batch`: measured joules per token of this GPU stand for the arms, as in `replay.run`."""
    batch: float | None = Field(None, gt=0)
    arms: list[str] = Field(default_factory=list, max_length=500)
    benchmarks: list[str] = Field(default_factory=list, max_length=500)
    seed: int = Field(0, ge=0, lt=2**31)
    split: Literal["auto", "hash", "permutation"] = "auto"
    test_share: float = Field(0.3, gt=0, lt=1)
    leaked: Literal["refuse", "drop"] = "refuse"
    keep_partial: bool = False
    batch_mode: Literal["nearest", "interpolate"] = "nearest"
    edition: Literal["v2", "v3"] | None = None
    evidence_class: EvidenceClass | None = None
    lambda_sft: float = Field(LAMBDA_SUPERVISED, ge=0, le=100)
    """Weight of the energy rank in the labels."""
    lambda_rl: float = Field(LAMBDA_REINFORCED, ge=0, le=100)
    """Weight of the energy rank in the reward."""
    max_chars: int = Field(MAX_CHARS, ge=100)
    """A longer query loses its middle."""


@operation("replay.training_set", scope="local", params=TrainingSetParams)
def write(desk: Desk, actor: Actor, params: TrainingSetParams) -> dict[str, Any]:
    """Write what the language-model router trains on to a file; held-out queries are no part of it."""
    with policy_errors(), snapshot(desk.warehouse) as snap:
        table, _ = load_table(
            snap,
            params.dataset,
            condition=Condition(gpu=params.gpu, batch=params.batch),
            **params.model_dump(
                include={"arms", "benchmarks", "seed", "split", "test_share", "leaked", "keep_partial", "batch_mode",
                         "edition", "evidence_class"}
            ),
        )  # fmt: skip
        data = training_set(
            table.train(), Weights(energy=params.lambda_sft), Weights(energy=params.lambda_rl), params.max_chars
        )
    try:
        write_training_set(data, Path(params.path))
    except OSError as error:
        raise BadRequest(
            f"{params.path} cannot be written: {error.strerror}.", fix="name a file in a folder of yours"
        ) from error
    told: dict[str, Any] = plain(
        {
            "path": params.path,
            "dataset": data.dataset,
            "sha256": data.sha256,
            "arms": list(data.arms),
            "evidence_class": table.evidence_class,
            "energy_method": table.energy_method,
            "counts": vars(data.counts),
        }
    )
    return told
