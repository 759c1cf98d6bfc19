"""Files of our own making, imported as an operator imports them."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl

from app.sources import declared_options
from ingest.base import Parsed, Payload
from ingest.kinds import KINDS
from ingest.pipeline import RunOutcome, refresh
from ingest.stream import Stream, refresh_stream
from warehouse.engine import Warehouse

AT = datetime(2026, 11, 29, 12)
REQUESTS = "SELECT * EXCLUDE (source_id, run_id, known_from) FROM core.request_trace ORDER BY trace, request_no"


def parse(kind: str, body: str | bytes, name: str = "t.csv", **options: str) -> Parsed:
    """What the parser of a kind makes of a file of that name."""
    found = KINDS[kind]
    given = body.encode() if isinstance(body, str) else body
    told = declared_options(found, options)
    return found.parse(Payload(f"file:{kind}", kind, f"file:///data/{name}", AT, given, options=told))


def rows(parsed: Parsed) -> list[dict[str, Any]]:
    return parsed.tables[parsed.primary].to_dicts()


def load(warehouse: Warehouse, kind: str, path: Path, **options: str) -> RunOutcome:
    """Import a file."""
    found, source = KINDS[kind], f"file:{kind}"
    told = declared_options(found, options)
    if found.stream is not None:
        return refresh_stream(warehouse, found, Stream(source, kind, path, AT, told), trigger="import")
    payload = Payload(source, kind, path.as_uri(), AT, path.read_bytes(), options=told)
    return refresh(warehouse, found, source, lambda: payload, trigger="import")


def loaded(warehouse: Warehouse) -> pl.DataFrame:
    return warehouse.query(REQUESTS)
