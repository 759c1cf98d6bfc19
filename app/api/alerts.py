"""/v1/alerts: read them, acknowledge one."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from app.api.deps import BEARER, Called, IfMatch, seen_tag
from app.api.problems import DOCUMENTED
from app.errors import BadRequest

router = APIRouter(prefix="/v1/alerts", tags=["alerts"], dependencies=[BEARER], responses=DOCUMENTED)


class Acknowledgement(BaseModel):
    """`version` may come as If-Match instead."""

    model_config = ConfigDict(extra="forbid")

    version: int | None = Field(None, ge=1, description="The version that was seen.")
    reason: str | None = Field(None, max_length=2000)


def _version(if_match: str | None, in_body: int | None) -> int | None:
    """The version that the acknowledgement saw, from header or body; they must not contradict each other."""
    tag = seen_tag(if_match)
    if tag is None:
        return in_body
    if not tag.isdigit():
        raise BadRequest(f"If-Match is {tag[:50]!r}, not the ETag of an alert.", fix='send it as read: "1"')
    if in_body is not None and in_body != int(tag):
        raise BadRequest(f"If-Match names version {tag}, the body {in_body}.", fix="send one of them")
    return int(tag)


@router.get("")
def list_alerts(
    caller: Called,
    all_: Annotated[bool, Query(alias="all", description="Cleared ones too.")] = False,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 500,
) -> dict[str, Any]:
    """List the open alerts, bad ones first, and how the channels fare that they are sent through."""
    return caller.call("alert.list", {"all": all_, "limit": limit})


@router.post("/{alert_id}/acknowledge")
def acknowledge(
    caller: Called,
    response: Response,
    alert_id: Annotated[str, Path(description="Alert id, or its first characters (8 or more).", max_length=64)],
    body: Acknowledgement | None = None,
    if_match: IfMatch = None,
) -> dict[str, Any]:
    """Acknowledge an alert: it is told again only when it gets worse, or clears and comes back."""
    given = body or Acknowledgement(version=None, reason=None)
    params = {"id": alert_id, "version": _version(if_match, given.version), "reason": given.reason}
    told = caller.call("alert.ack", params)
    response.headers["ETag"] = told["etag"]
    return told
