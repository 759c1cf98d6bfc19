"""Train the learned controller from recorded outcomes and keep it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import AwareDatetime, Field

from app.desk import Desk
from app.errors import Forbidden
from app.operations import Actor, Params, operation
from app.policy_errors import policy_errors
from app.replay import progress


class TrainParams(Params):
    dataset: str = Field(min_length=1, max_length=200)
    stage: Literal["sft", "grpo", "kl-grpo"] = "grpo"
    """sft: imitate oracle labels; grpo: then follow the reward; kl-grpo: the same, held near sft."""
    reward: Literal["gated", "joules"] = "gated"
    """gated: lambda weighs the energy rank, 0 to 1; joules: correct - lambda x J, lambda in 1/J."""
    lam: float | None = Field(None, ge=0, le=1000)
    """lambda of the reward. Unset: 0.4 for gated; for joules the last slope of the hull of fixed arms."""
    lam_supervised: float = Field(0.5, ge=0, le=1000)
    per_s: float = Field(0.0, ge=0)
    """What a second of latency costs in the gated reward."""
    per_w: float = Field(0.0, ge=0)
    """What a watt of mean power costs in the gated reward."""
    beta: float = Field(0.05, ge=0, le=1000)
    """Weight of the distance to the supervised policy, for kl-grpo."""
    estimator: Literal["exact", "sampled"] = "exact"
    """exact: every arm counts by its probability; sampled: `group` arms are drawn per query."""
    scale: Literal["batch", "group", "none"] = "batch"
    """By what advantages are divided: the deviation over the batch, over the group, or nothing."""
    group: int = Field(8, ge=2, le=4096)
    steps: int = Field(400, ge=1, le=1_000_000)
    """At most so many per stage; a validation part of the training queries stops earlier."""
    hidden: int = Field(0, ge=0, le=1024)
    """Units of a hidden layer; 0: linear."""
    unanswered: Literal["exclude", "cheapest"] = "exclude"
    """Queries that no arm has right: no label for sft, or the cheapest arm."""
    see_benchmarks: bool = False
    """Let it see the benchmark of a query, which a router at work is not told."""
    gpu: str | None = Field(None, max_length=100)
    batch: float | None = Field(None, gt=0)
    """With `gpu`: measured joules per token at so many concurrent requests stand for the arms, as in `replay.run`."""
    zone: str | None = Field(None, max_length=50)
    at: AwareDatetime | None = None
    arms: list[str] = Field(default_factory=list, max_length=500)
    benchmarks: list[str] = Field(default_factory=list, max_length=500)
    seed: int = Field(0, ge=0, lt=2**31)
    split: Literal["auto", "hash", "permutation"] = "auto"
    test_share: float = Field(0.3, gt=0, lt=1)
    leaked: Literal["refuse", "drop"] = "refuse"
    keep_partial: bool = False
    batch_mode: Literal["nearest", "interpolate"] = "nearest"
    edition: str | None = Field(None, max_length=20)
    evidence_class: Literal["measured", "allocated", "calibrated", "modeled"] | None = None
    embedder: str | None = Field(None, max_length=100)
    embeddings: str | None = None
    """A file of embeddings on this machine; only for the local user."""
    machine_power_w: float | None = Field(None, gt=0, le=1e7)
    """Declared power of this machine while it trains; without it the training's joules are unknown."""
    task: str | None = Field(None, max_length=64)
    """A name under which `replay.progress` and `replay.cancel` speak of this training."""


@operation("replay.train", scope="operator", params=TrainParams)
def train(desk: Desk, actor: Actor, params: TrainParams) -> dict[str, Any]:
    """Train the learned controller on a data set, keep it, and tell what it does on the held-out queries."""
    if params.embeddings is not None and not actor.may("local"):
        raise Forbidden(
            "Only the local user may name a file of embeddings.", fix="use an embedder, or run it on this machine"
        )
    from app.replay import trainings

    with policy_errors(), progress.running(desk, params.task) as running:
        return trainings.train(desk, actor, params, running)


class TrainedParams(Params):
    dataset: str | None = Field(None, max_length=200)
    limit: int = Field(50, ge=1, le=1000)


@operation("replay.trained", scope="read", params=TrainedParams)
def list_trained(desk: Desk, actor: Actor, params: TrainedParams) -> dict[str, Any]:
    """List the trained controllers, newest first."""
    from app.replay import trained_store

    return {"trained": trained_store.listed(desk.warehouse, params.dataset, params.limit)}
