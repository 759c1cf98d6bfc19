"""Rows of logs that may be large, whatever they come as: JSON lines, a JSON array or answer, CSV, Parquet.

`chunks` cuts a file into pieces of about 16 MiB. Each piece has a frame of the wanted columns as text, read
at once, for checks over whole columns; and gives any of its rows alone, as its format wrote it, for the
rows that such a check does not clear. A piece that cannot be read at once is halved until what is wrong
in it is alone, so that one broken line costs no other line.

Only the wanted columns are ever kept: logs also hold prompts and answers, which are nobody's business here.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import Any, BinaryIO

from ingest.billing import csv_pieces, json_pieces, parquet_pieces
from ingest.billing.pieces import Chunk, Columns, Rest, Unpacked, refuse
from ingest.stream import Stream

__all__ = ["Chunk", "Columns", "chunks"]

_HEAD_BYTES = 1 << 16
_GZIP = b"\x1f\x8b"
_ENCODINGS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}


def chunks(about: Stream, file: BinaryIO | Any, columns: Columns) -> Iterator[Chunk]:
    """The rows of `file`, in order. Raises PayloadError where it is no such log at all."""
    head = file.read(_HEAD_BYTES)
    if head.startswith(_GZIP):
        file = Unpacked(about, Rest(head, file))
        head = file.read(_HEAD_BYTES)
    for mark, name in _ENCODINGS.items():
        if head.startswith(mark):
            refuse(
                about, f"the file is {name} data, not UTF-8 text", fix="unpack it, or export JSON lines, CSV or Parquet"
            )
    if head.startswith(b"PAR1"):
        yield from parquet_pieces.records(about, Rest(head, file), columns)
        return
    head = head.removeprefix(codecs.BOM_UTF8)
    start = head.lstrip()
    if not start:
        refuse(about, "the file is empty", fix="export it again")
    if start.startswith(b"<"):
        refuse(about, "the file is markup, such as a sign-in page, not data", fix="check how it was fetched")
    whole = Rest(head, file)
    if start.startswith(b"["):
        yield from json_pieces.array(about, whole, columns)
    elif start.startswith(b"{"):
        yield from json_pieces.objects(about, whole, columns)
    else:
        yield from csv_pieces.records(about, whole, columns)
