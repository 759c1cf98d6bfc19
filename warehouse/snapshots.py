"""A snapshot: what was known at an instant, read from one committed state. Policies see nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import polars as pl

from warehouse.clock import utcnow
from warehouse.digests import FrameDigest
from warehouse.engine import Transaction, Warehouse
from warehouse.ids import content_hash, sha256

_PARAMETER = re.compile(r"\$(\w+)")


class Snapshot:
    """Reads as of `as_of`; `digest` identifies everything that was read through it."""

    def __init__(self, reader: Transaction, as_of: datetime) -> None:
        self.as_of = as_of
        self.known_at = as_of
        self._reader = reader
        self._read: list[list[str]] = []

    def sql(self, text: str, **params: Any) -> pl.DataFrame:
        """Rows of a SELECT; `$as_of` is bound by itself. The text must fix its row order."""
        bound = self._bound(text, params)
        frame = self._reader.query(text, bound)
        self._read.append([text, str(sorted(bound.items())), sha256(frame.write_csv().encode())])
        return frame

    def frame(self, text: str, **params: Any) -> pl.DataFrame:
        """The same for results of millions of rows: they are digested by their bytes, column by column."""
        bound = self._bound(text, params)
        frame = self._reader.query(text, bound)
        digest = FrameDigest()
        digest.update(frame)
        self._read.append([text, str(sorted(bound.items())), digest.hexdigest()])
        return frame

    def _bound(self, text: str, params: dict[str, Any]) -> dict[str, Any]:
        wanted = set(_PARAMETER.findall(text))
        return {k: v for k, v in {"as_of": self.as_of, **params}.items() if k in wanted}

    @property
    def digest(self) -> str:
        """sha256 over every statement, its parameters and its rows so far."""
        return content_hash(self._read)


@contextmanager
def snapshot(warehouse: Warehouse, as_of: datetime | None = None) -> Iterator[Snapshot]:
    """Open a snapshot as of `as_of` (naive UTC, default now)."""
    with warehouse.reading() as reader:
        yield Snapshot(reader, as_of or utcnow())
