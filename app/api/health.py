"""/healthz for probes, /metrics for Prometheus. Both open, neither tells a secret."""

from __future__ import annotations

from importlib import metadata

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from app.api import problems
from app.api.metrics import metrics_text
from app.desk import Desk
from app.errors import AppError
from app.operations import as_app_error
from warehouse.errors import WarehouseError

router = APIRouter()


@router.get("/healthz", tags=["operations"])
def healthz(request: Request) -> JSONResponse:
    """200 once everything can serve; 503 with the reason while the warehouse cannot be used."""
    try:
        desk: Desk = request.app.state.get_desk()
        desk.warehouse.scalar("SELECT 1")
    except (AppError, WarehouseError) as error:
        found = as_app_error(error) if isinstance(error, WarehouseError) else error
        told = problems.document(503, found.message, path=request.url.path, fix=found.fix, warehouse="unusable")
        return problems.respond(told, {"Cache-Control": "no-store"})
    return JSONResponse(
        {
            "status": "ok",
            "version": metadata.version("joulebook"),
            "started_at": desk.started_at.isoformat(timespec="seconds") + "Z",
            "warehouse": "ok",
        },
        headers={"Cache-Control": "no-store"},
    )


@router.get("/metrics", tags=["operations"])
def metrics(request: Request) -> Response:
    """Freshness, runs, quarantine, recommendations, sampler and ledger as Prometheus text."""
    return Response(metrics_text(request.app.state.get_desk), media_type=CONTENT_TYPE_LATEST)
