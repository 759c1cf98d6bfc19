"""Questions about the desk itself: is the ledger whole, what ran, what was refused."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import Field

from app.desk import Desk
from app.errors import BadRequest
from app.operations import Actor, NoParams, Params, operation
from app.operations.plain import plain_rows
from ingest.rebuild import rebuild
from warehouse import ledger
from warehouse.constraints import broken_keys
from warehouse.engine import Warehouse


class Head(Params):
    seq: int = Field(ge=0)
    hash: str = Field(min_length=64, max_length=64)


class VerifyParams(Params):
    """`against`: heads of the chain that were kept elsewhere (see `audit.anchor`)."""

    against: tuple[Head, ...] = Field((), max_length=1000)


@operation("verify", scope="read", params=VerifyParams)
def verify(desk: Desk, actor: Actor, params: VerifyParams) -> dict[str, Any]:
    """Verify the ledger's hash chain, its anchor, and the declared keys."""
    told = ledger.verify(desk.warehouse)
    keys = broken_keys(desk.warehouse)
    elsewhere = ledger.against(desk.warehouse, [(h.seq, h.hash) for h in params.against])
    return {
        "ok": told.ok and not keys and not elsewhere,
        "events": told.events,
        "head": told.head,
        "problems": [*told.problems, *elsewhere, *keys],
        "compared": len(params.against),
        "refused_until_accepted": ledger.behind(desk.warehouse),
    }


class AcceptParams(Params):
    reason: str = Field(min_length=3, max_length=500)


@operation("verify.accept", scope="local", params=AcceptParams)
def accept(desk: Desk, actor: Actor, params: AcceptParams) -> dict[str, Any]:
    """Anchor the ledger as it stands, after a restore, and put that on record."""
    with desk.command_lock:
        event = ledger.accept(
            desk.warehouse, reason=params.reason, actor=actor.name, role=actor.role, channel=actor.channel
        )
    return {**verify(desk, actor, VerifyParams()), "accepted": event.data["problems"]}


class RebuildParams(Params):
    into: Path


@operation("rebuild", scope="local", params=RebuildParams)
def rebuild_tables(desk: Desk, actor: Actor, params: RebuildParams) -> dict[str, Any]:
    """Rebuild the typed tables from landing into a new warehouse file."""
    if params.into.exists():
        raise BadRequest(f"{params.into} exists already.", fix="name a new file; nothing is overwritten")
    if not params.into.absolute().parent.is_dir():
        raise BadRequest(f"There is no folder {params.into.absolute().parent}.", fix="make it, or name another file")
    fresh = Warehouse.open(params.into.absolute())
    try:
        told = rebuild(desk.warehouse, fresh)
    finally:
        fresh.close()
    return {"into": str(params.into), **asdict(told)}


class ListParams(Params):
    source: str | None = None
    limit: int = Field(50, ge=1, le=10_000)


@operation("runs", scope="read", params=ListParams)
def runs(desk: Desk, actor: Actor, params: ListParams) -> dict[str, Any]:
    """List the latest runs, newest first."""
    frame = desk.warehouse.query(
        "SELECT * FROM ops.run WHERE $source IS NULL OR source_id = $source ORDER BY started_at DESC, run_id LIMIT $n",
        {"source": params.source, "n": params.limit},
    )
    return {"runs": plain_rows(frame)}


@operation("quarantine", scope="read", params=ListParams)
def quarantine(desk: Desk, actor: Actor, params: ListParams) -> dict[str, Any]:
    """List quarantined rows, newest first."""
    frame = desk.warehouse.query(
        "SELECT * FROM ops.quarantine WHERE $source IS NULL OR source_id = $source "
        "ORDER BY quarantined_at DESC, row_no, quarantine_id LIMIT $n",
        {"source": params.source, "n": params.limit},
    )
    return {"quarantine": plain_rows(frame)}


@operation("ping", scope="read", params=NoParams)
def ping(desk: Desk, actor: Actor, params: NoParams) -> dict[str, Any]:
    """Answer, so that a command knows this console is its own."""
    return {"ok": True, "started_at": desk.started_at.isoformat() + "Z", "home": str(desk.settings.home)}
