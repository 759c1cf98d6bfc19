"""Rows of a trace as text columns, whatever the file is: CSV or JSON lines, also gzipped, or Parquet."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import polars as pl

from ingest.base import Reject
from ingest.billing.pieces import POLARS_ERRORS, UNREADABLE
from ingest.billing.sheets import open_sheet, refuse
from ingest.fields import plain_json
from ingest.outcomes.columns import sound_rows
from ingest.read import loads, shape_of
from ingest.stream import Stream, chunks_of_lines

_HEAD = 1 << 12
_BLOCK_BYTES = 8 << 20
_LARGEST_INT = 2**63


@dataclass(frozen=True)
class Piece:
    """Some rows: `frame` has String columns and `row_no`; `came` counts the refused ones, too."""

    frame: pl.DataFrame
    came: int
    rejects: list[Reject] = field(default_factory=list)


def pieces(
    about: Stream, file: BinaryIO, lines: Mapping[str, pl.DataType] | Sequence[str], *, sheets: bool = True
) -> Iterator[Piece]:
    """The rows of a file. `lines`: what to read of JSON lines; a table has all its columns.

    Raises PayloadError where it is no such file; `sheets` False: where it is not JSON lines.
    """
    reader = _buffered(file)
    head = _start(reader.peek(_HEAD))
    if head.startswith(b"["):
        refuse(about, "the payload is a JSON array", fix="write one JSON object per line")
    if head.startswith(b"{"):
        types = lines if isinstance(lines, Mapping) else dict.fromkeys(lines, pl.String())
        yield from _json_lines(about, reader, types)
    elif not head:
        refuse(about, "the payload is empty", fix="export it again")
    elif sheets or head.startswith((b"PAR1", b"<")):
        with open_sheet(about, reader) as sheet:
            for chunk in sheet.chunks:
                frame, rejects, came = sound_rows(chunk)
                # a header behind an empty line is found late, and its columns come with types of their own
                text = frame.select("row_no", pl.exclude("row_no").cast(pl.String))
                yield Piece(text, came, rejects)
    else:
        refuse(about, "the payload is no JSON lines", fix="check the kind")


def _buffered(file: Any) -> io.BufferedReader:
    return file if isinstance(file, io.BufferedReader) else io.BufferedReader(file)


def _start(head: bytes) -> bytes:
    if head.startswith(b"\x1f\x8b"):
        try:
            head = zlib.decompressobj(wbits=31).decompress(head, _HEAD)
        except zlib.error:
            return b"?"  # open_sheet tells what is wrong
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()


def _json_lines(about: Stream, reader: io.BufferedReader, types: Mapping[str, pl.DataType]) -> Iterator[Piece]:
    packed = reader.peek(2).startswith(b"\x1f\x8b")
    plain: Any = gzip.GzipFile(fileobj=reader) if packed else reader
    try:
        for first, block in chunks_of_lines(plain, _BLOCK_BYTES):
            body = block.removeprefix(b"\xef\xbb\xbf") if not first else block
            yield _read_at_once(first, body, types) or _read_one_by_one(first, body, types)
    except (OSError, EOFError, zlib.error) as error:
        refuse(about, f"the payload cannot be read: {error}", fix="copy or export it again")


def _read_at_once(first: int, block: bytes, types: Mapping[str, pl.DataType]) -> Piece | None:
    """None where any line is empty, broken or of another shape."""
    count = block.count(b"\n") + (not block.endswith(b"\n"))
    try:
        frame = pl.read_ndjson(io.BytesIO(block), schema=types)
    except POLARS_ERRORS:
        return None
    if frame.height != count:
        return None
    return Piece(frame.with_columns(pl.int_range(first, first + count, dtype=pl.Int64).alias("row_no")), count)


def _read_one_by_one(first: int, block: bytes, types: Mapping[str, pl.DataType]) -> Piece:
    rows: list[dict[str, Any]] = []
    rejects: list[Reject] = []
    for number, line in enumerate(block.split(b"\n"), first):
        if not line.strip():
            continue
        why, data = "", None
        try:
            data = loads(line.decode(), allow_nan=True)
        except UNREADABLE:
            why = "the line is not JSON"
        if not why and not isinstance(data, dict):
            why = f"the line is {shape_of(data)}, not an object"
        if why or data is None:
            rejects.append(Reject(why, row_no=number, raw=line[:4000].decode("utf-8", "replace")))
        else:
            rows.append({"row_no": number, **{name: _as(data.get(name), kind) for name, kind in types.items()}})
    frame = pl.DataFrame(rows, schema={**types, "row_no": pl.Int64()})
    return Piece(frame, len(rows) + len(rejects), rejects)


def _as(value: Any, kind: pl.DataType) -> Any:
    if isinstance(kind, pl.List):
        whole = isinstance(value, list) and all(type(v) is int and abs(v) < _LARGEST_INT for v in value)
        return value if whole else None
    if value is None or isinstance(value, str):
        return value
    return plain_json(value) if isinstance(value, dict | list | bool) else str(value)
