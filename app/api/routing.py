"""Routing over HTTP: what routes where, what would, at which joules, and what is to be carried out."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from app.api.deps import BEARER, Called, IfMatch, seen_tag
from app.api.problems import DOCUMENTED

router = APIRouter(prefix="/v1", tags=["routing"], dependencies=[BEARER], responses=DOCUMENTED)


class Cell(BaseModel):
    model_config = ConfigDict(extra="forbid")

    category: str
    tier: int = Field(ge=1, le=3)
    latency: str = "interactive"
    offer_id: str | None


class Declaration(BaseModel):
    """What routes today. `version` may come as If-Match instead."""

    model_config = ConfigDict(extra="forbid")

    cells: list[Cell] = Field(min_length=1)
    fallbacks: dict[str, str] = Field(default_factory=dict, description="offer -> the offer to use when it fails")
    version: str | None = None
    reason: str | None = Field(None, max_length=2000)


class Question(BaseModel):
    """A request to route. `as_of`: decide with what was known then."""

    model_config = ConfigDict(extra="forbid")

    category: str
    tier: int
    required_context_tokens: int = Field(ge=0)
    latency: str = "interactive"
    residency: list[str] = Field(default_factory=list)
    as_of: AwareDatetime | None = None


class Target(BaseModel):
    model_config = ConfigDict(extra="forbid")

    target: str = Field(min_length=1, max_length=100)


@router.get("/energy-per-success")
def read_energy(
    caller: Called,
    offer_id: str,
    workload: str = "organic",
    provider: str | None = None,
    since: AwareDatetime | None = None,
) -> dict[str, Any]:
    """Joules per successful request of one offer; 409 where its observations may not be compared."""
    params = {"offer_id": offer_id, "workload": workload, "provider": provider, "since": since}
    return caller.call("energy.per_success", {k: v for k, v in params.items() if v is not None})


@router.get("/routing-table")
def read_table(caller: Called, response: Response) -> dict[str, Any]:
    """Read the routing table in force. The ETag is its version."""
    told = caller.call("routing.table", {})
    response.headers["ETag"] = f'"{told["version"]}"'
    return told


@router.put("/routing-table")
def declare_table(caller: Called, response: Response, body: Declaration, if_match: IfMatch = None) -> dict[str, Any]:
    """Declare what routes today, as the incumbent that proposals are compared with."""
    params = body.model_dump()
    params["version"] = seen_tag(if_match) or body.version
    told = caller.call("routing.declare", params)
    response.headers["ETag"] = f'"{told["version"]}"'
    return told


@router.post("/route")
def route(caller: Called, body: Question) -> dict[str, Any]:
    """Ask where a request would be routed, without routing it: eligible best first, the excluded with reasons."""
    return caller.call("routing.route", body.model_dump())


@router.post("/downstream/collect", tags=["downstream"])
def collect(caller: Called, body: Target) -> dict[str, Any]:
    """Collect the commands that wait for a target. What is not finished is handed over again."""
    return caller.call("recommend.collect", body.model_dump())
