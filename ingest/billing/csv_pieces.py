"""CSV, cut at the ends of its records; see ingest/billing/tabular.py."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

import polars as pl

from ingest.billing.pieces import CHUNK_BYTES, LARGEST_RECORD, POLARS_ERRORS, Chunk, Columns, Read, Rest, refuse
from ingest.stream import Stream


def records(about: Stream, file: Rest, columns: Columns) -> Iterator[Chunk]:
    header: list[str] | None = None
    first = 0
    for block in _blocks(about, file):
        if header is None:
            line, block = _first_record(block)
            header = _header(about, line, columns)
        for chunk in _csv_pieces(first, block, header, columns):
            first += len(chunk.numbers)
            yield chunk


def _header(about: Stream, line: bytes, columns: Columns) -> list[str]:
    try:
        (header,) = csv.reader([line.decode()], strict=True)
    except (UnicodeDecodeError, ValueError, csv.Error):
        refuse(about, "the first line is no CSV header", fix="check the kind and that the file is UTF-8")
    header = [name.strip() for name in header]
    missing = [name for name in columns.required if name not in header]
    if missing:
        known = ", ".join(header[:8])
        refuse(about, f"the CSV has no column {', '.join(missing)}; it has {known}", fix="export it with its header")
    if len(set(header)) < len(header):
        refuse(about, "the CSV names a column twice", fix="export it again")
    return header


def _blocks(about: Stream, file: Rest) -> Iterator[bytes]:
    """Blocks that end with a record: at a line break outside quotes, where the number of quotes is even."""
    rest = b""
    while block := file.read(CHUNK_BYTES):
        block = rest + block
        cut = len(block)
        odd = block.count(b'"') % 2
        while True:
            before = block.rfind(b"\n", 0, cut)
            odd ^= block.count(b'"', before + 1, cut) % 2
            cut = before
            if cut < 0 or not odd:
                break
        if cut < 0:
            if len(block) > LARGEST_RECORD:
                refuse(about, f"no record ends within {LARGEST_RECORD} bytes: a quote is not closed", fix="check it")
            rest = block
            continue
        yield block[: cut + 1]
        rest = block[cut + 1 :]
    if rest:
        yield rest


def _first_record(block: bytes) -> tuple[bytes, bytes]:
    cut = block.find(b"\n")
    while cut >= 0 and block.count(b'"', 0, cut) % 2:
        cut = block.find(b"\n", cut + 1)
    return (block, b"") if cut < 0 else (block[:cut].rstrip(b"\r"), block[cut + 1 :])


def _csv_pieces(first: int, block: bytes, header: list[str], columns: Columns) -> Iterator[Chunk]:
    if not block.strip():
        return
    whole, cut_line = (block, b"") if block.endswith(b"\n") else _last_record(block)
    if whole:
        frame = _csv_frame(whole, header, columns)
        if frame is None:
            chunk = _csv_rows(first, whole, header, columns)
        else:
            chunk = Chunk(range(first, first + frame.height), frame, _frame_reader(frame))
        first += len(chunk.numbers)
        yield chunk
    if cut_line.strip():  # the file may have been cut off here, so the number of fields is counted
        yield _csv_rows(first, cut_line, header, columns)


def _last_record(block: bytes) -> tuple[bytes, bytes]:
    cut = block.rfind(b"\n")
    while cut >= 0 and block.count(b'"', 0, cut) % 2:
        cut = block.rfind(b"\n", 0, cut)
    return block[: cut + 1], block[cut + 1 :]


def _csv_frame(block: bytes, header: list[str], columns: Columns) -> pl.DataFrame | None:
    """The wanted columns of CSV records; None where a record is broken or too long."""
    if b"\n\n" in block or b"\n\r\n" in block or block[:1] in b"\r\n":
        return None  # an empty line is no record, and would come as one
    try:
        frame = pl.read_csv(io.BytesIO(block), has_header=False, schema=dict.fromkeys(header, pl.String()))
        absent = [pl.lit(None, dtype=pl.String()).alias(n) for n in columns.names if n not in header]
        return (
            frame.with_columns(absent)
            .select(columns.names)
            .with_columns(pl.col(name).str.json_decode(kind) for name, kind in columns.nested.items())
        )
    except POLARS_ERRORS:
        return None


def _csv_rows(first: int, block: bytes, header: list[str], columns: Columns) -> Chunk:
    rows: list[tuple[dict[str, Any] | None, str]] = []
    csv.field_size_limit(LARGEST_RECORD)
    reader = csv.reader(io.StringIO(block.decode("utf-8", "surrogateescape"), newline=""), strict=True)
    while True:
        try:
            fields = next(reader)
        except StopIteration:
            break
        except csv.Error as error:
            rows.append((None, f"the record is broken CSV: {error}"))
            continue
        if not fields:
            continue
        if len(fields) != len(header):
            rows.append((None, f"the record has {len(fields)} fields, the header {len(header)}"))
        elif any("\udc80" <= c <= "\udcff" for field in fields for c in field):
            rows.append((None, "the record is not UTF-8 text"))
        else:
            rows.append((columns.of({n: f for n, f in zip(header, fields, strict=True) if f}), ""))
    return Chunk(range(first, first + len(rows)), None, rows.__getitem__)


def _frame_reader(frame: pl.DataFrame) -> Read:
    def read(index: int) -> tuple[dict[str, Any] | None, str]:
        return {k: v for k, v in frame.row(index, named=True).items() if v is not None}, ""

    return read
