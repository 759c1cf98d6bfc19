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


def land_reference(
    tx: Transaction,
    *,
    source_id: str,
    kind: str,
    url: str,
    fetched_at: datetime,
    sha256: str,
    size_bytes: int,
    run_id: str,
) -> Landed:
    """Keep where a large file lies and what its bytes hash to; the bytes stay with whoever holds the file."""
    payload_id = content_hash([source_id, kind, sha256])
    if tx.query("SELECT 1 FROM landing.payload WHERE payload_id = $id", {"id": payload_id}).height:
        return Landed(payload_id, sha256, is_new=False)
    row = {
        "payload_id": payload_id,
        "source_id": source_id,
        "kind": kind,
        "url": url,
        "fetched_at": fetched_at,
        "sha256": sha256,
        "size_bytes": size_bytes,
        "encoding": "reference",
        "body": b"",
        "run_id": run_id,
    }
    schema = {c.name: c.polars for c in columns("landing.payload")}
    frame = pl.DataFrame([{name: row.get(name) for name in schema}], schema=schema, orient="row")
    tx.append("landing.payload", frame)
    return Landed(payload_id, sha256, is_new=True)


def read_body(warehouse: Warehouse, payload_id: str) -> bytes | None:
    """The bytes of a landed payload; None where there is none of that id, or only a reference to a large file."""
    body = warehouse.scalar(
        "SELECT body FROM landing.payload WHERE payload_id = $id AND encoding = 'zlib'", {"id": payload_id}
    )
    return zlib.decompress(body) if body is not None else None


def latest_validators(warehouse: Warehouse, source_id: str, kind: str) -> tuple[str | None, str | None]:
    """(etag, last_modified) of what a source sent last that was loaded, for a conditional request.

    A refused payload does not count: "not modified" would then confirm what was never taken, and make the last
    good data look young.
    """
    frame = warehouse.query(
        "SELECT p.etag, p.last_modified FROM ops.run r JOIN landing.payload p USING (payload_id) "
        "WHERE r.source_id = $s AND p.kind = $k AND r.state IN ('OK', 'PARTIAL') "
        "ORDER BY r.started_at DESC, r.run_id DESC LIMIT 1",
        {"s": source_id, "k": kind},
    )
    return (frame.item(0, 0), frame.item(0, 1)) if frame.height else (None, None)
