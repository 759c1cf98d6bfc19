"""Large tables of a bill, CSV or Parquet, as chunks of text columns: memory stays flat in the file's size.

CSV: UTF-8 with or without a byte order mark, comma separated, quoted fields may hold line ends; gzip is
unpacked on the way. A row with too few or too many fields is handed on as a `Misfit` beside the rows that
fit. A last row that breaks off means that the file was cut, and such a file is refused whole, because
a cut delivery would take the place of a whole one.

Parquet: every column as the text that CSV would have: decimals exactly, times as ISO 8601 (with Z where the
column is in UTC), lists and maps as JSON.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import gzip
import hashlib
import io
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any, BinaryIO, NoReturn

import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from ingest.errors import PayloadError
from ingest.stream import Stream

BLOCK_BYTES = 2 << 20  # of CSV, of which up to 32 are read ahead; no single row may be longer
ROWS = 25_000  # about as many make a chunk
_PARQUET_ROWS = 50_000
_BUFFER = 1 << 20
_MARK = "\U0010ffff"  # a character that no text has
_GZIP, _PARQUET, _BOM = b"\x1f\x8b", b"PAR1", b"\xef\xbb\xbf"
_TEXT = (pa.string(), pa.large_string(), pa.string_view())


@dataclass(frozen=True)
class Misfit:
    """A row of `fields` fields where the header has `expected`."""

    row_no: int
    fields: int
    expected: int
    text: str


@dataclass(frozen=True)
class Chunk:
    """Some rows: `frame` has String columns under their names in the file; `row_nos` count from 0."""

    frame: pl.DataFrame
    row_nos: list[int]
    misfits: tuple[Misfit, ...] = ()
    not_utf8: frozenset[int] = frozenset()  # places in `frame` of rows with bytes that are no UTF-8


@dataclass
class Sheet:
    """An opened table: its column names, sha256 of the file's bytes, and its rows in chunks."""

    names: tuple[str, ...]
    sha256: str
    chunks: Iterator[Chunk] = field(repr=False)


class _Utf8(io.RawIOBase):
    """Bytes of `body` with a mark in place of each that is no UTF-8, so that one of them costs its row only."""

    def __init__(self, body: io.BufferedReader) -> None:
        self._body, self._decoder = body, codecs.getincrementaldecoder("utf-8")("joulebook.mark")
        self._ready = b""
        self.damaged = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            block = self._body.read1(_BUFFER)
            text = self._decoder.decode(block, final=not block)
            self.damaged = self.damaged or _MARK in text
            self._ready = text.encode()
            if not block:
                break
        taken, self._ready = self._ready[: len(buffer)], self._ready[len(buffer) :]
        buffer[: len(taken)] = taken
        return len(taken)


codecs.register_error("joulebook.mark", lambda error: (_MARK, getattr(error, "end", 0)))


@contextlib.contextmanager
def open_sheet(about: Stream, file: BinaryIO) -> Iterator[Sheet]:
    """The table in `file`. Raises PayloadError where there is none: empty, markup, other encoding, damaged."""
    with contextlib.ExitStack() as own:
        with _readable(about):
            digest, body = _digest(about, file, own)
            head = body.peek(_BUFFER)
        if head.startswith(_PARQUET):
            yield _parquet(about, body, digest)
        else:
            _check_head(about, head)
            yield _csv(about, body, head, digest)


def _digest(about: Stream, file: BinaryIO, own: contextlib.ExitStack) -> tuple[str, io.BufferedReader]:
    """sha256 of the bytes, and a reader of the unpacked ones.

    A file that cannot be read twice is hashed from its path first. Parquet needs random access, so it is
    read to its end here and then opened by its path.
    """
    if file.seekable():
        digest = _sha256(file)
        file.seek(0)
        return digest, _unpacked(_buffered(file))
    with about.open() as first:
        digest = _sha256(first)
    reader = _buffered(file)
    if reader.peek(4).startswith(_PARQUET):
        while reader.read(_BUFFER):
            pass
        return digest, _buffered(own.enter_context(about.open()))
    return digest, _unpacked(reader)


def _sha256(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    while block := file.read(_BUFFER):
        digest.update(block)
    return digest.hexdigest()


def _buffered(file: Any) -> io.BufferedReader:
    return file if isinstance(file, io.BufferedReader) else io.BufferedReader(file, _BUFFER)


def _unpacked(reader: io.BufferedReader) -> io.BufferedReader:
    if not reader.peek(2).startswith(_GZIP):
        return reader
    return _buffered(gzip.GzipFile(fileobj=reader))


def _check_head(about: Stream, head: bytes) -> None:
    if not head.strip():
        refuse(about, "the payload is empty", fix="export it again")
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        refuse(about, "the payload is UTF-16 data, not UTF-8 text", fix="save it as UTF-8")
    start = head.removeprefix(_BOM).lstrip()
    if start.startswith(b"<"):
        refuse(about, "the payload is markup, not data", fix="a sign-in or error page may have been saved")
    if start.startswith((b"{", b"[")):
        refuse(about, "the payload is JSON, not CSV or Parquet", fix="check the kind")


def _csv(about: Stream, body: io.BufferedReader, head: bytes, digest: str) -> Sheet:
    names = _header(about, head)
    misfits: list[Misfit] = []

    def handle(row: Any) -> str:
        misfits.append(Misfit(row.number - 2, row.actual_columns, row.expected_columns, row.text[:4000]))
        return "skip"

    text = _Utf8(body)
    with _readable(about):
        reader = pa_csv.open_csv(
            io.BufferedReader(text, _BUFFER),
            read_options=pa_csv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES),
            parse_options=pa_csv.ParseOptions(newlines_in_values=True, invalid_row_handler=handle),
            convert_options=pa_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
            ),
        )
    return Sheet(names, digest, _csv_chunks(about, reader, text, misfits))


def _header(about: Stream, head: bytes) -> tuple[str, ...]:
    try:
        text = head.removeprefix(_BOM).decode("utf-8", "joulebook.mark")
        names = next(csv.reader(io.StringIO(text, newline="")))
    except (csv.Error, StopIteration) as error:
        refuse(about, f"the payload is no CSV: {error or 'it has no header'}", fix="export it again")
    if len(names) == 1 and ";" in names[0]:
        refuse(about, "the columns are separated by ';'", fix="save it comma separated, with decimal points")
    if any(_MARK in name for name in names):
        refuse(about, "the header is not UTF-8 text", fix="save it as UTF-8")
    if twice := sorted({n for n in names if names.count(n) > 1}):
        refuse(about, f"the column {twice[0]!r} is there twice", field=twice[0], fix="export it again")
    return tuple(names)


def _csv_chunks(about: Stream, reader: Any, text: _Utf8, misfits: list[Misfit]) -> Iterator[Chunk]:
    at = told = 0  # the next row number; how many misfits were handed on
    while batches := _some(about, reader):
        wrong = {m.row_no for m in misfits[told:]}
        frame = pl.DataFrame(pl.from_arrow(pa.Table.from_batches(batches)))
        row_nos: list[int] = []
        height = frame.height
        while len(row_nos) < height:
            if at not in wrong:
                row_nos.append(at)
            at += 1
        frame, damaged = _marked(frame) if text.damaged else (frame, frozenset())
        ready = [m for m in misfits[told:] if m.row_no < at]
        told += len(ready)
        yield Chunk(frame, row_nos, tuple(ready), damaged)
    rest = misfits[told:]
    if rest and rest[-1].fields < rest[-1].expected and rest[-1].row_no >= at:
        refuse(
            about,
            f"the file is cut: its last row has {rest[-1].fields} of {rest[-1].expected} fields",
            fix="export it again; half a delivery must not take the place of a whole one",
        )
    if rest:
        yield Chunk(pl.DataFrame(schema=dict.fromkeys(reader.schema.names, pl.String)), [], tuple(rest))


def _some(about: Stream, reader: Any) -> list[pa.RecordBatch]:
    """The next batches, about ROWS rows of them; none at the end."""
    found: list[pa.RecordBatch] = []
    with _readable(about), contextlib.suppress(StopIteration):
        while sum(b.num_rows for b in found) < ROWS:
            found.append(reader.read_next_batch())
    return found


def _marked(frame: pl.DataFrame) -> tuple[pl.DataFrame, frozenset[int]]:
    """The frame with U+FFFD for the marks, and the places of the rows that had one."""
    held = frame.select(pl.any_horizontal(pl.all().str.contains(_MARK, literal=True))).to_series()
    return frame.with_columns(pl.all().str.replace_all(_MARK, "\ufffd", literal=True)), frozenset(held.arg_true())


def _parquet(about: Stream, body: io.BufferedReader, digest: str) -> Sheet:
    with _readable(about):
        table = pa_parquet.ParquetFile(body)
        names = tuple(table.schema_arrow.names)
    if twice := sorted({n for n in names if names.count(n) > 1}):
        refuse(about, f"the column {twice[0]!r} is there twice", field=twice[0], fix="export it again")
    return Sheet(names, digest, _parquet_chunks(about, table))


def _parquet_chunks(about: Stream, table: Any) -> Iterator[Chunk]:
    at = 0
    batches = table.iter_batches(batch_size=_PARQUET_ROWS)
    while True:
        with _readable(about):
            batch = next(batches, None)
            if batch is None:
                return
            batch.validate(full=True)  # text of a damaged file may be no UTF-8, which nothing after this survives
            frame = pl.DataFrame(
                {
                    name: pl.Series(name, _as_text(column), dtype=pl.String)
                    for name, column in zip(batch.schema.names, batch.columns, strict=True)
                }
            )
        yield Chunk(frame, list(range(at, at + frame.height)))
        at += frame.height


def _as_text(column: Any) -> Any:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    if column.type in _TEXT or pa.types.is_integer(column.type):
        return column.cast(pa.string())
    if pa.types.is_floating(column.type):  # the shortest text that is this very number, as repr has it
        return pl.Series(column.cast(pa.float64())).cast(pl.String)
    return [None if value is None else _plain(value) for value in column.to_pylist()]


def _plain(value: Any) -> str:
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z" if value.tzinfo else value.isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, dict | list):
        pairs = isinstance(value, list) and all(isinstance(v, tuple) and len(v) == 2 for v in value)
        return json.dumps(dict(value) if pairs else value, ensure_ascii=False, default=str)
    return str(value)


@contextlib.contextmanager
def _readable(about: Stream) -> Iterator[None]:
    """Errors of the bytes as PayloadError."""
    try:
        yield
    except (pa.ArrowException, OSError, zlib.error, EOFError, ValueError, OverflowError) as error:
        told = str(error).splitlines()[0] if str(error) else type(error).__name__
        refuse(about, f"the payload cannot be read: {told[:200]}", fix="export it again")


def refuse(about: Stream, message: str, *, field: str = "", fix: str = "") -> NoReturn:
    """Raise the PayloadError of this file."""
    raise PayloadError(message, source_id=about.source_id, field=field, fix=fix)
