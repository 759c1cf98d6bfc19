"""Landing: every payload as it came, compressed, once. Any typed table can be rebuilt from here."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from datetime import datetime

import polars as pl

from warehouse.engine import Transaction, Warehouse
from warehouse.ids import content_hash, sha256
from warehouse.tables import columns


@dataclass(frozen=True)
class Landed:
    payload_id: str
    sha256: str
    is_new: bool


def land(
    tx: Transaction,
    *,
    source_id: str,
    kind: str,
    url: str,
    fetched_at: datetime,
    body: bytes,
    run_id: str,
    http_status: int | None = None,
    content_type: str | None = None,
    etag: str | None = None,
    last_modified: str | None = None,
) -> Landed:
    """Keep `body`; the same bytes of the same source and kind land only once."""
    digest = sha256(body)
    payload_id = content_hash([source_id, kind, digest])
    if tx.query("SELECT 1 FROM landing.payload WHERE payload_id = $id", {"id": payload_id}).height:
        return Landed(payload_id, digest, is_new=False)
    row = {
        "payload_id": payload_id,
        "source_id": source_id,
        "kind": kind,
        "url": url,
        "fetched_at": fetched_at,
        "http_status": http_status,
        "content_type": content_type,
        "etag": etag,
        "last_modified": last_modified,
        "sha256": digest,
        "size_bytes": len(body),
        "encoding": "zlib",
        "body": zlib.compress(body, 6),
        "run_id": run_id,
    }
    schema = {c.name: c.polars for c in columns("landing.payload")}
    tx.append("landing.payload", pl.DataFrame([row], schema=schema, orient="row"))
    return Landed(payload_id, digest, is_new=True)


def read_body(warehouse: Warehouse, payload_id: str) -> bytes | None:
    """The bytes of a landed payload, or None where there is none of that id."""
    body = warehouse.scalar("SELECT body FROM landing.payload WHERE payload_id = $id", {"id": payload_id})
    return zlib.decompress(body) if body is not None else None


def latest_validators(warehouse: Warehouse, source_id: str, kind: str) -> tuple[str | None, str | None]:
    """(etag, last_modified) of the newest payload of a source, for a conditional request."""
    frame = warehouse.query(
        "SELECT etag, last_modified FROM landing.payload WHERE source_id = $s AND kind = $k "
        "ORDER BY fetched_at DESC, payload_id LIMIT 1",
        {"s": source_id, "k": kind},
    )
    return (frame.item(0, 0), frame.item(0, 1)) if frame.height else (None, None)
