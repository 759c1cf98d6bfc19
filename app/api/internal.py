"""The private door of the command line: any operation, as the local operator. Guarded by the per-start secret."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Path

from app.api.deps import Called
from app.operations import call

router = APIRouter(prefix="/internal", include_in_schema=False)


@router.post("/call/{operation}")
def call_operation(
    caller: Called,
    operation: Annotated[str, Path(max_length=100)],
    params: Annotated[dict[str, Any] | None, Body()] = None,
) -> dict[str, Any]:
    """Run one operation; app/api/guard.py has checked the secret."""
    return call(caller.desk, operation, params or {}, caller.actor)
