"""Files of outcomes on their way through the whole pipeline."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ingest.kinds import kind
from ingest.pipeline import RunOutcome
from ingest.stream import Stream, refresh_stream
from tests.ingest.samples import NOW
from warehouse.engine import Warehouse


class Desk:
    """Imports files into a warehouse as `joulebook import` does."""

    def __init__(self, warehouse: Warehouse, folder: Path) -> None:
        self.warehouse, self.folder = warehouse, folder

    def write(self, name: str, body: Any) -> Path:
        path = self.folder / name
        if not isinstance(body, bytes | str):
            body = json.dumps(body)
        data = body if isinstance(body, bytes) else body.encode()
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    def load(self, name: str, body: Any, *, file: str = "x.csv", source: str = "", **options: str) -> RunOutcome:
        """A payload of the kind `name`; its counts must add up."""
        return self.load_file(name, self.write(file, body), source=source, **options)

    def load_file(self, name: str, path: Path, *, source: str = "", **options: str) -> RunOutcome:
        found = kind(name)
        declared = {o.name: o.default for o in found.options if o.default is not None} | options
        about = Stream(source or f"file:{name}", name, path, NOW, declared)
        told = refresh_stream(self.warehouse, found, about, trigger="import")
        if told.state != "FAILED":
            assert told.rows_in is not None
            assert told.rows_in == sum(
                n or 0 for n in (told.rows_loaded, told.rows_unchanged, told.rows_quarantined)
            ), told
        return told

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self.warehouse.query(sql).rows()

    def reasons(self) -> list[str]:
        """Why rows and fields are in quarantine, in order."""
        return [str(r) for (r,) in self.rows("SELECT reason FROM ops.quarantine ORDER BY quarantine_id")]


def long_csv(columns: str, rows: Iterable[Sequence[object]]) -> str:
    return "\n".join([columns, *(",".join(str(v) for v in row) for row in rows)]) + "\n"
