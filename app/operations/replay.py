"""Operations of the replay lab: list data sets, run policies on recorded outcomes, read reports and choices."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from pydantic import AwareDatetime, Field

from app.desk import Desk
from app.errors import Forbidden, NotFound
from app.operations import Actor, NoParams, Params, operation
from app.operations.plain import plain, plain_rows
from app.policy_errors import policy_errors
from app.replay import LANGUAGE, export, progress, publications, store
from app.replay.reports import whole
from policies.replay.datasets import datasets as outcome_datasets
from policies.replay.reward import LAMBDA_REINFORCED
from warehouse.clock import utcnow
from warehouse.evidence import EvidenceClass
from warehouse.snapshots import snapshot


@operation("replay.datasets", scope="read", params=NoParams)
def list_datasets(desk: Desk, actor: Actor, params: NoParams) -> dict[str, Any]:
    """List the data sets that can be replayed."""
    with policy_errors(), snapshot(desk.warehouse) as snap:
        recorded = [{"dataset": d.name, **plain(asdict(d))} for d in outcome_datasets(snap) if d.kind == "outcomes"]
        published = []
        for name in publications.published_names(snap):
            told = publications.published(snap, name)
            keys = ("dataset", "kind", "n", "evidence_class", "hypervolume", "reference_point", "origin")
            published.append({k: told[k] for k in keys} | {"points": len(told["points"])})
    return {"datasets": [*recorded, *published], "as_of": plain(utcnow())}


class RunParams(Params):
    dataset: str = Field(min_length=1, max_length=200)
    gpu: list[str] = Field(default_factory=list, max_length=16)
    """GPUs whose measured joules per token stand for the arms."""
    batch: list[float] = Field(default_factory=list, max_length=16)
    """Mean concurrent requests of the backend; the choices are evaluated once under each."""
    zone: list[str] = Field(default_factory=list, max_length=16)
    at: list[AwareDatetime] = Field(default_factory=list, max_length=48)
    """Hours of the grid intensity, with zone."""
    policies: list[str] = Field(default_factory=list, max_length=200)
    """Names or families; `default` is the default roster. Every fixed arm takes part in any case."""
    lambdas: list[float] = Field(default_factory=list, max_length=50)
    """Weights of joules, in right answers per joule, at which predicting policies are run."""
    rank_lambdas: list[float] = Field(default_factory=list, max_length=20)
    """Weights of the energy rank with which the learned controller is trained."""
    reward_lambda: float = Field(LAMBDA_REINFORCED, ge=0, le=100)
    """Weight of the energy rank in the reward that is reported, one for all policies."""
    embedder: str | None = Field(None, max_length=100)
    embeddings: str | None = None
    """A file of embeddings on this machine; only for the local user."""
    incumbent: str | None = Field(None, max_length=200)
    budget_j: float | None = Field(None, gt=0)
    seed: int = Field(0, ge=0, lt=2**31)
    arms: list[str] = Field(default_factory=list, max_length=500)
    benchmarks: list[str] = Field(default_factory=list, max_length=500)
    split: Literal["auto", "hash", "permutation"] = "auto"
    test_share: float = Field(0.3, gt=0, lt=1)
    leaked: Literal["refuse", "drop"] = "refuse"
    keep_partial: bool = False
    """Arms that do not know every query, too."""
    batch_mode: Literal["nearest", "interpolate"] = "nearest"
    edition: str | None = Field(None, max_length=20)
    """Edition of the benchmark of joules per token, v2 or v3; unset: the one that knows most arms."""
    evidence_class: EvidenceClass | None = None
    """Which joules to use where the outcomes tell several classes."""
    router_power_w: float | None = Field(None, gt=0)
    """Declared power of the machine that routes; without it the router's own joules are unknown."""
    keep_choices: bool = True
    stream: bool | None = None
    """Read the table in portions; unset: where it has more than 20 million outcomes."""
    task: str | None = Field(None, max_length=64)
    """A name under which `replay.progress` and `replay.cancel` speak of this run."""


@operation("replay.run", scope="operator", params=RunParams)
def run(desk: Desk, actor: Actor, params: RunParams) -> dict[str, Any]:
    """Replay policies on a data set and store what came of it."""
    if not actor.may("local") and (
        params.embeddings is not None or any(p.startswith(LANGUAGE) for p in params.policies)
    ):
        raise Forbidden(
            "Only the local user may name a file of embeddings or a folder of weights.",
            fix="use an embedder, or run it on this machine",
        )
    from app.replay import runs  # brings numba and scipy, which no other command needs

    with policy_errors(), progress.running(desk, params.task) as running:
        return runs.run(desk, actor, params, running)


class TaskParams(Params):
    task: str = Field(max_length=64)


@operation("replay.progress", scope="read", params=TaskParams)
def replay_progress(desk: Desk, actor: Actor, params: TaskParams) -> dict[str, Any]:
    """Say how far a running replay or training is."""
    found = progress.of(desk, params.task)
    return {"running": found is not None, **(found.as_dict() if found is not None else {})}


@operation("replay.cancel", scope="operator", params=TaskParams)
def replay_cancel(desk: Desk, actor: Actor, params: TaskParams) -> dict[str, Any]:
    """Cancel a running replay or training; nothing of it is kept."""
    found = progress.of(desk, params.task)
    if found is not None:
        found.cancelled = True
    return {"cancelled": found is not None}


class RunsParams(Params):
    dataset: str | None = Field(None, max_length=200)
    limit: int = Field(50, ge=1, le=1000)


@operation("replay.runs", scope="read", params=RunsParams)
def list_runs(desk: Desk, actor: Actor, params: RunsParams) -> dict[str, Any]:
    """List the stored runs, newest first."""
    return {"runs": plain(store.runs(desk.warehouse, params.dataset, params.limit)), "as_of": plain(utcnow())}


class ReportParams(Params):
    id: str | None = Field(None, max_length=64)
    """Run id, or its first eight characters or more; unset: the newest."""
    dataset: str | None = Field(None, max_length=200)


@operation("replay.report", scope="read", params=ReportParams)
def report(desk: Desk, actor: Actor, params: ReportParams) -> dict[str, Any]:
    """Tell the report of a run; of published points also without a run."""
    found = store.find(desk.warehouse, params.id, params.dataset)
    if found is not None:
        return whole(store.reports(desk.warehouse, found), found)
    with policy_errors(), snapshot(desk.warehouse) as snap:
        if params.dataset is not None and publications.is_published(snap, params.dataset):
            told = publications.published(snap, params.dataset)
            return whole([{**told, "as_of": plain(snap.as_of)}], None)
        if params.dataset is not None:
            known = [d["dataset"] for d in list_datasets(desk, actor, NoParams())["datasets"]]
            raise NotFound(
                f"No run of {params.dataset!r} is stored.",
                fix=f"run it with `joulebook replay run --dataset {params.dataset}`"
                if params.dataset in known
                else f"use one of {', '.join(known)}",
            )
    raise NotFound("No replay was run yet.", fix="run one with `joulebook replay run --dataset published`")


class ChoicesParams(Params):
    id: str = Field(min_length=8, max_length=64)
    path: str
    """The file to write, .csv or .parquet."""


@operation("replay.choices", scope="local", params=ChoicesParams)
def choices(desk: Desk, actor: Actor, params: ChoicesParams) -> dict[str, Any]:
    """Write the choices of a run to a file."""
    found = store.find(desk.warehouse, params.id)
    assert found is not None
    rows = export.export_choices(desk.warehouse, found, Path(params.path))
    return {"id": found, "path": params.path, "rows": rows}


class ChosenParams(Params):
    id: str = Field(min_length=8, max_length=64)
    policy: str = Field(max_length=200)
    after: str | None = Field(None, max_length=500)
    """The last query id of the page before."""
    limit: int = Field(10_000, ge=1, le=100_000)


@operation("replay.chosen", scope="read", params=ChosenParams)
def chosen(desk: Desk, actor: Actor, params: ChosenParams) -> dict[str, Any]:
    """Tell what a policy chose in a run, by query id, in pages."""
    found = store.find(desk.warehouse, params.id)
    assert found is not None
    rows = store.choices(desk.warehouse, found, params.policy, after=params.after, limit=params.limit)
    if rows.is_empty() and params.after is None:
        known = store.policies_with_choices(desk.warehouse, found)
        raise NotFound(
            f"No choice of {params.policy!r} is kept for the run {found}.",
            fix=f"use one of {', '.join(known)}" if known else "run it again with its choices kept",
        )
    last = str(rows["query_id"][-1]) if rows.height == params.limit else None
    return {"id": found, "policy": params.policy, "choices": plain_rows(rows.drop("policy")), "next": last}
