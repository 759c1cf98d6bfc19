"""A source is two halves: `fetch` brings bytes, `parse` is a pure function from bytes to typed frames.

A file given by hand takes the same `parse`; nothing else turns payloads into facts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

import polars as pl


@dataclass(frozen=True)
class Payload:
    """Bytes as they came, and what is known about their coming."""

    source_id: str
    kind: str
    url: str
    fetched_at: datetime  # naive UTC
    body: bytes
    http_status: int | None = None
    content_type: str | None = None
    etag: str | None = None
    last_modified: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)  # what a person declared: see ingest.kind.Option


@dataclass(frozen=True)
class Reject:
    """A row, or one field of a row, that must not become a fact.

    `whole_row` False means: this field was dropped (stored as NULL or left out), its row loaded.
    """

    reason: str
    row_no: int | None = None
    natural_key: str | None = None
    field: str | None = None
    value: str | None = None
    raw: str | None = None  # the row as JSON text
    whole_row: bool = True


@dataclass(frozen=True)
class Parsed:
    """What a payload says: frames per table (see `warehouse.tables.frame_schema`) and what was refused.

    Invariant, tested for every parser: rows_in == height of the primary frame + whole-row rejects.
    `complete` marks a full listing: whatever of the same provider is absent from it was removed.
    `data_at` is the newest instant of the world that the payload speaks of, where it tells one.
    """

    primary: str
    tables: Mapping[str, pl.DataFrame]
    rows_in: int
    rejects: tuple[Reject, ...] = ()
    complete: bool = False
    data_at: datetime | None = None
    notes: tuple[str, ...] = field(default=())
    distinct: frozenset[str] = frozenset()  # tables in which the stream so far has told no key twice

    @property
    def rows_quarantined(self) -> int:
        return sum(1 for r in self.rejects if r.whole_row)


Parser = Callable[[Payload], Parsed]
