"""/v1/replay: data sets, runs, reports and choices of the replay lab."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, ConfigDict, Field

from app.api.deps import BEARER, Called
from app.api.problems import DOCUMENTED
from app.operations.replay import RunParams
from app.operations.replay_train import TrainParams

router = APIRouter(prefix="/v1/replay", tags=["replay"], dependencies=[BEARER], responses=DOCUMENTED)
RunId = Annotated[str, Path(description="Run id, or its first characters (8 or more).", max_length=64)]


class Task(BaseModel):
    model_config = ConfigDict(extra="forbid")

    task: str = Field(min_length=1, max_length=64, description="The `task` that the run was started with.")


@router.get("/datasets")
def list_datasets(caller: Called) -> dict[str, Any]:
    """List the data sets that can be replayed."""
    return caller.call("replay.datasets", {})


@router.get("/runs")
def list_runs(
    caller: Called, dataset: str | None = None, limit: Annotated[int, Query(ge=1, le=1000)] = 50
) -> dict[str, Any]:
    """List the stored runs, newest first."""
    return caller.call("replay.runs", {"dataset": dataset, "limit": limit})


@router.post("/runs")
def run(caller: Called, body: RunParams) -> dict[str, Any]:
    """Replay policies on a data set, store and answer the report. It takes as long as it takes."""
    return caller.call("replay.run", body.model_dump(mode="json"))


@router.get("/runs/{run_id}")
def read_report(caller: Called, run_id: RunId) -> dict[str, Any]:
    """The report of a run."""
    return caller.call("replay.report", {"id": run_id})


@router.get("/runs/{run_id}/choices")
def read_choices(
    caller: Called,
    run_id: RunId,
    policy: str,
    after: Annotated[str | None, Query(description="The last query id of the page before.")] = None,
    limit: Annotated[int, Query(ge=1, le=100_000)] = 10_000,
) -> dict[str, Any]:
    """What a policy chose, by query id; `next` is the `after` of the next page."""
    return caller.call("replay.chosen", {"id": run_id, "policy": policy, "after": after, "limit": limit})


@router.get("/report")
def read_newest(caller: Called, dataset: str | None = None) -> dict[str, Any]:
    """The report of the newest run, of `dataset` where named; of published points also without a run."""
    return caller.call("replay.report", {"dataset": dataset})


@router.post("/train")
def train(caller: Called, body: TrainParams) -> dict[str, Any]:
    """Train the learned controller and keep it. It takes as long as it takes."""
    return caller.call("replay.train", body.model_dump(mode="json"))


@router.get("/trained")
def list_trained(
    caller: Called, dataset: str | None = None, limit: Annotated[int, Query(ge=1, le=1000)] = 50
) -> dict[str, Any]:
    """List the trained controllers, newest first."""
    return caller.call("replay.trained", {"dataset": dataset, "limit": limit})


@router.get("/progress")
def read_progress(caller: Called, task: Annotated[str, Query(max_length=64)]) -> dict[str, Any]:
    """How far a run is that was started with this `task`."""
    return caller.call("replay.progress", {"task": task})


@router.post("/cancel")
def cancel(caller: Called, body: Task) -> dict[str, Any]:
    """Cancel a run; nothing of it is kept."""
    return caller.call("replay.cancel", body.model_dump())
