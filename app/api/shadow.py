"""/v1/shadow: send pairs and labels, read what shadows say."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from app.api.deps import BEARER, Called
from app.api.problems import DOCUMENTED
from app.operations.shadowing import LabelsParams, PairsParams

router = APIRouter(prefix="/v1/shadow", tags=["shadow"], dependencies=[BEARER], responses=DOCUMENTED)


@router.post("/pairs")
def send_pairs(caller: Called, body: PairsParams) -> dict[str, Any]:
    """Send mirrored and replayed pairs. The same pair again changes nothing; a changed one restates it."""
    return caller.call("shadow.pairs", body.model_dump())


@router.post("/labels")
def send_labels(caller: Called, body: LabelsParams) -> dict[str, Any]:
    """Send what the router knew of billed requests: category, tier, session, propensity."""
    return caller.call("shadow.labels", body.model_dump())


@router.get("/status")
def read_status(caller: Called) -> dict[str, Any]:
    """How far every shadow is."""
    return caller.call("shadow.status", {})


@router.get("/report")
def read_report(
    caller: Called, id: Annotated[str, Query(description="Recommendation id, or router.", max_length=64)] = "router"
) -> dict[str, Any]:
    """Where a policy would have chosen otherwise, what that is worth, and what its gate says."""
    return caller.call("shadow.report", {"id": id})


@router.get("/request")
def read_request(
    caller: Called, request_id: Annotated[str, Query(description="provider/account/usage_key", max_length=600)]
) -> dict[str, Any]:
    """What each policy would have chosen for one request, with the whole ranking behind it."""
    return caller.call("shadow.request", {"request_id": request_id})


@router.post("/decide")
def decide(
    caller: Called, most: Annotated[int | None, Query(description="Requests of this round, per policy.")] = None
) -> dict[str, Any]:
    """Ask the shadowing policies about logged requests that they have not seen."""
    return caller.call("shadow.decide", {"most": most})
