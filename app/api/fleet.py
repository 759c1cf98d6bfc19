"""/v1/fleet: profiles, calibrations, live backends and experiments on a modelled fleet."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, ConfigDict, Field

from app.api.deps import BEARER, Called
from app.api.problems import DOCUMENTED
from app.operations.fleet import (
    EXPERIMENTS,
    CalibrateParams,
    CompareParams,
    FlexParams,
    ScenarioParams,
    SensitivityParams,
    SizeParams,
)

router = APIRouter(prefix="/v1/fleet", tags=["fleet"], dependencies=[BEARER], responses=DOCUMENTED)
RunId = Annotated[str, Path(description="Run id, or its first characters (8 or more).", max_length=64)]
CalibrationId = Annotated[str, Path(description="Calibration id, or its first characters (8 or more).", max_length=64)]


class Task(BaseModel):
    model_config = ConfigDict(extra="forbid")

    task: str = Field(min_length=1, max_length=64, description="The `task` that the run was started with.")


@router.get("/profiles")
def list_profiles(caller: Called) -> dict[str, Any]:
    """List power and throughput profiles, published and calibrated, with their curves."""
    return caller.call("fleet.profiles", {})


@router.get("/workloads")
def list_workloads(caller: Called) -> dict[str, Any]:
    """List the traces, distributions of lengths, zones and policies that a scenario may name."""
    return caller.call("fleet.workloads", {})


@router.get("/backends")
def list_backends(caller: Called, since_s: Annotated[float, Query(gt=0, le=31_622_400)] = 3600.0) -> dict[str, Any]:
    """Live backends: power, utilization, joules per success, age, measured beside modelled."""
    return caller.call("fleet.backends", {"since_s": since_s})


@router.get("/calibrations")
def list_calibrations(
    caller: Called,
    quantity: Literal["power", "throughput"] | None = None,
    model: str | None = None,
    hardware: str | None = None,
) -> dict[str, Any]:
    """List stored calibrations, newest first."""
    return caller.call("fleet.calibrations", {"quantity": quantity, "model": model, "hardware": hardware})


@router.get("/calibrations/{calibration_id}")
def read_calibration(caller: Called, calibration_id: CalibrationId) -> dict[str, Any]:
    """One calibration with its windows, residuals and band."""
    return caller.call("fleet.calibrations", {"id": calibration_id})


@router.post("/calibrate")
def calibrate(caller: Called, body: CalibrateParams) -> dict[str, Any]:
    """Fit power and throughput to measured windows and store the calibrations."""
    return caller.call("fleet.calibrate", body.model_dump(mode="json"))


@router.get("/holdout")
def read_holdout(
    caller: Called, provider: str | None = "ml.energy", model: str | None = None, hardware: str | None = None
) -> dict[str, Any]:
    """How well joules per token of a left-out concurrency are predicted."""
    return caller.call("fleet.holdout", {"provider": provider, "model": model, "hardware": hardware})


@router.post("/simulate")
def simulate(caller: Called, body: ScenarioParams) -> dict[str, Any]:
    """Simulate a fleet under one policy. It takes as long as it takes."""
    return caller.call("fleet.simulate", body.model_dump(mode="json"))


@router.post("/compare")
def compare(caller: Called, body: CompareParams) -> dict[str, Any]:
    """Compare load-balancing policies on the same requests."""
    return caller.call("fleet.compare", body.model_dump(mode="json"))


@router.post("/size")
def size(caller: Called, body: SizeParams) -> dict[str, Any]:
    """The fewest instances that keep an SLO."""
    return caller.call("fleet.size", body.model_dump(mode="json"))


@router.post("/flex")
def flex(caller: Called, body: FlexParams) -> dict[str, Any]:
    """What power caps save and cost at the load really carried."""
    return caller.call("fleet.flex", body.model_dump(mode="json"))


@router.post("/sensitivity")
def sensitivity(caller: Called, body: SensitivityParams) -> dict[str, Any]:
    """Whether the ranking of policies survives the error of the power model."""
    return caller.call("fleet.sensitivity", body.model_dump(mode="json"))


@router.get("/runs")
def list_runs(
    caller: Called, experiment: EXPERIMENTS | None = None, limit: Annotated[int, Query(ge=1, le=1000)] = 50
) -> dict[str, Any]:
    """List the stored experiments, newest first."""
    return caller.call("fleet.runs", {"experiment": experiment, "limit": limit})


@router.get("/runs/{run_id}")
def read_report(caller: Called, run_id: RunId) -> dict[str, Any]:
    """The report of an experiment."""
    return caller.call("fleet.report", {"id": run_id})


@router.get("/report")
def read_newest(caller: Called, experiment: EXPERIMENTS | None = None) -> dict[str, Any]:
    """The report of the newest experiment, of one kind where named."""
    return caller.call("fleet.report", {"experiment": experiment})


@router.get("/progress")
def read_progress(caller: Called, task: Annotated[str, Query(max_length=64)]) -> dict[str, Any]:
    """How far a run is that was started with this `task`."""
    return caller.call("fleet.progress", {"task": task})


@router.post("/cancel")
def cancel(caller: Called, body: Task) -> dict[str, Any]:
    """Cancel a run; nothing of it is kept."""
    return caller.call("fleet.cancel", body.model_dump())
