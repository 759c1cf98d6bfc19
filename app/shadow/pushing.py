"""Pairs and labels that programs send: the same bytes, parser, quarantine and run record as an imported file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from app.errors import BadRequest
from app.operations import Actor
from ingest.base import Payload
from ingest.kinds import kind
from ingest.pipeline import refresh
from warehouse.clock import utcnow
from warehouse.runs import SourceRow, register_source

if TYPE_CHECKING:
    from app.desk import Desk

SHOWN_REFUSALS, NAMED = 100, 10


def source_of(kind_name: str, actor: Actor, source: str | None) -> str:
    """Each sender has sources of its own, so that nobody restates what somebody else measured."""
    sender = quote(actor.name.removeprefix("token:"), safe="")  # a name with a colon is not another's source
    return f"push:{kind_name}:{sender}" + (f":{source}" if source else "")


def push(desk: Desk, actor: Actor, kind_name: str, rows: Sequence[Any], source: str | None) -> dict[str, Any]:
    """Load `rows` of a kind; sending the same again changes nothing. Raises BadRequest where every row was refused."""
    found = kind(kind_name)
    source_id = source_of(kind_name, actor, source)
    body = json.dumps(list(rows), ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    payload = Payload(source_id, kind_name, f"push://{source_id}", utcnow(), body, content_type="application/json")
    row = SourceRow(
        source_id, kind_name, f"{found.title} (sent)", "file", None, None, found.stale_after_s, found.expire_after_s
    )
    with desk.warehouse.transaction() as tx:
        register_source(tx, row)
    outcome = refresh(desk.warehouse, found, source_id, lambda: payload, trigger="import")
    refused = refusals(desk, outcome.run_id)
    if outcome.state == "FAILED":
        named = "; ".join(f"{r['key'] or 'row ' + str(r['row_no'])}: {r['reason']}" for r in refused[:NAMED])
        more = f" (and {len(refused) - NAMED} more)" if len(refused) > NAMED else ""
        raise BadRequest(
            f"Every row was refused. {named}{more}" if refused else outcome.error or "Nothing could be read.",
            fix="correct the named fields and send again" if refused else outcome.fix or "send a list of rows",
        )
    told = {k: v for k, v in asdict(outcome).items() if k.startswith("rows_")}
    return {"source_id": source_id, "run_id": outcome.run_id, "state": outcome.state, **told, "refused": refused,
            "notes": list(outcome.notes)}  # fmt: skip


def refusals(desk: Desk, run_id: str) -> list[dict[str, Any]]:
    """What a run refused, row by row: the first hundred."""
    frame = desk.warehouse.query(
        "SELECT row_no, natural_key AS key, field, value, reason FROM ops.quarantine WHERE run_id = $run "
        "ORDER BY row_no, field LIMIT $most",
        {"run": run_id, "most": SHOWN_REFUSALS},
    )
    return frame.to_dicts()
