"""What the readers of large logs share: wanted columns, pieces of a file, and how a file is refused."""

from __future__ import annotations

import json
import queue
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import InvalidOperation
from functools import cached_property
from typing import Any, BinaryIO, NoReturn

import polars as pl

from ingest.base import Parsed
from ingest.errors import PayloadError
from ingest.stream import Stream

CHUNK_BYTES = 16 << 20
LARGEST_RECORD = 64 << 20
BATCH_ROWS = 122_880  # a row group of DuckDB: such an insert is written once, without the write-ahead log
# What polars raises on text it cannot read; a panic of its parser is one of them.
POLARS_ERRORS = (pl.exceptions.PolarsError, pl.exceptions.PanicException, UnicodeDecodeError)
UNREADABLE = (ValueError, InvalidOperation, RecursionError)

Read = Callable[[int], tuple[dict[str, Any] | None, str]]


@dataclass(frozen=True)
class Columns:
    """What is wanted: columns that hold text or numbers, and columns that hold JSON objects (`nested`).

    rows_under: where an answer wraps its rows. required: without these a CSV is of another kind.
    """

    plain: tuple[str, ...]
    nested: Mapping[str, pl.Struct]
    rows_under: tuple[str, ...] = ("data",)
    required: tuple[str, ...] = ()

    @cached_property
    def names(self) -> tuple[str, ...]:
        return (*self.plain, *self.nested)

    def of(self, data: Mapping[str, Any]) -> dict[str, Any]:
        return {name: data[name] for name in self.names if name in data}


@dataclass(frozen=True)
class Chunk:
    """Rows `numbers` of a file; `read(i)` gives the i-th of them, or None and why it is none.

    frame: plain columns as String, nested ones as Struct; None where the rows must be read one by one.
    """

    numbers: Sequence[int]
    frame: pl.DataFrame | None
    read: Read


class Rest:
    """`head`, and then what is left of `file`."""

    def __init__(self, head: bytes, file: BinaryIO) -> None:
        self._head, self._file = head, file

    def read(self, size: int = -1) -> bytes:
        head, self._head = self._head, b""
        return head + self._file.read(size if size < 0 else max(1, size - len(head)))


class Unpacked:
    """The unpacked bytes of a gzip file, a piece at a time. Raises PayloadError where it is broken or cut off."""

    def __init__(self, about: Stream, packed: Rest) -> None:
        self._about, self._packed = about, packed
        self._unpack = zlib.decompressobj(wbits=31)
        self._rest = b""
        self._whole = False  # whether the last member has ended

    def read(self, size: int = -1) -> bytes:
        limit = size if size > 0 else 0
        out = bytearray()
        while not out or (limit == 0 or len(out) < limit):
            data = self._rest or self._packed.read(1 << 20)
            if not data:
                break
            try:
                out += self._unpack.decompress(data, limit and limit - len(out))
            except zlib.error as error:
                refuse(self._about, f"the file is broken gzip: {error}", fix="copy it again")
            self._rest = self._unpack.unconsumed_tail
            self._whole = self._unpack.eof
            if self._whole:  # a gzip file may hold several members
                self._rest = self._unpack.unused_data
                self._unpack = zlib.decompressobj(wbits=31)
        if not out and not self._whole:
            refuse(self._about, "the file is truncated gzip", fix="copy it again")
        return bytes(out)


def batched(parts: Iterable[Parsed], rows: int = BATCH_ROWS) -> Iterator[Parsed]:
    """`parts` joined until a batch holds `rows` rows: larger inserts cost less for each row."""
    waiting: list[Parsed] = []
    for part in parts:
        waiting.append(part)
        if sum(p.rows_in for p in waiting) >= rows:
            yield _joined(waiting)
            waiting = []
    if waiting:
        yield _joined(waiting)


def _joined(parts: list[Parsed]) -> Parsed:
    return replace(
        parts[0],
        tables={name: pl.concat([p.tables[name] for p in parts]) for name in parts[0].tables},
        rows_in=sum(p.rows_in for p in parts),
        rejects=tuple(r for p in parts for r in p.rejects),
        data_at=max((p.data_at for p in parts if p.data_at is not None), default=None),
        notes=tuple(dict.fromkeys(n for p in parts for n in p.notes)),
    )


def ahead(parts: Iterable[Parsed]) -> Iterator[Parsed]:
    """`parts`, each made in a thread of its own while the one before is being stored."""
    ready: queue.Queue[tuple[Parsed | None, BaseException | None]] = queue.Queue(1)
    left = threading.Event()

    def put(part: Parsed | None, error: BaseException | None = None) -> bool:
        while not left.is_set():
            try:
                ready.put((part, error), timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def work() -> None:
        try:
            if all(put(part) for part in parts):
                put(None)
        except BaseException as error:  # raised where the parts are used
            put(None, error)

    thread = threading.Thread(target=work, name="read-ahead", daemon=True)
    thread.start()
    try:
        while True:
            part, error = ready.get()
            if error is not None:
                raise error
            if part is None:
                return
            yield part
    finally:
        left.set()
        thread.join()


def refuse(about: Stream, message: str, *, fix: str) -> NoReturn:
    """Raise the PayloadError of this file."""
    raise PayloadError(message, fix=fix, source_id=about.source_id)


def reason(error: Exception) -> str:
    return error.msg if isinstance(error, json.JSONDecodeError) else type(error).__name__
