"""Rebuild the typed tables from landing: every payload that once loaded is parsed and loaded again, in order.

So a mended parser, or a damaged table, costs a rebuild and not the past. What does not come from payloads is
not rebuilt: the ledger, power samples of this host, and large files that landing keeps by reference.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from ingest.base import Payload
from ingest.kinds import kind
from ingest.pipeline import refresh
from warehouse import landing
from warehouse.engine import Warehouse
from warehouse.runs import SourceRow, register_source

_RUNS = """
SELECT r.source_id, r.kind, r.started_at, r.finished_at, r.options, r.run_id = p.run_id AS first,
       p.payload_id, p.url, p.fetched_at, p.http_status, p.content_type, p.etag, p.last_modified, p.encoding
FROM ops.run r JOIN landing.payload p USING (payload_id)
WHERE r.state IN ('OK', 'PARTIAL') AND NOT r.not_modified
ORDER BY r.started_at, r.run_id
"""


@dataclass
class Rebuilt:
    """What a rebuild did. `skipped` names what landing holds only by reference."""

    payloads: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)


def rebuild(old: Warehouse, new: Warehouse) -> Rebuilt:
    """Load everything that `old` has landed into the empty `new`, with the instants at which it was learned."""
    told = Rebuilt()
    with new.transaction() as tx:
        for row in old.query("SELECT * EXCLUDE (updated_at) FROM ops.source").iter_rows(named=True):
            register_source(tx, SourceRow(**row))
    for run in old.query(_RUNS).iter_rows(named=True):
        body = landing.read_body(old, run["payload_id"])
        if body is None:
            told.skipped.append(f"{run['source_id']}: {run['url']}")
            continue
        payload = Payload(
            run["source_id"],
            run["kind"],
            run["url"],
            # The same bytes may have come again: then they were true again.
            run["fetched_at"] if run["first"] else run["started_at"],
            body,
            run["http_status"],
            run["content_type"],
            run["etag"],
            run["last_modified"],
            json.loads(run["options"]) if run["options"] else {},
        )
        outcome = refresh(
            new,
            kind(run["kind"]),
            run["source_id"],
            lambda p=payload: p,  # type: ignore[misc]
            trigger="rebuild",
            accept_shrink=True,
            known_from=run["finished_at"],
        )
        told.payloads += 1
        if outcome.state == "FAILED":
            told.failed.append(f"{run['source_id']}: {outcome.error}")
    return told
