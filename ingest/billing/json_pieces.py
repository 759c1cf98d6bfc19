"""JSON lines, a JSON array, or an answer that wraps its rows, as pieces; see ingest/billing/tabular.py."""

from __future__ import annotations

import codecs
import io
import json
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import polars as pl

from ingest.billing.pieces import (
    CHUNK_BYTES,
    LARGEST_RECORD,
    POLARS_ERRORS,
    UNREADABLE,
    Chunk,
    Columns,
    Read,
    Rest,
    reason,
    refuse,
)
from ingest.read import loads, shape_of
from ingest.stream import Stream, chunks_of_lines

_LARGEST_ANSWER = 256 << 20  # a JSON object that wraps its rows is read whole
_ALONE = 128  # rows of a broken piece that are read one by one rather than halved again


def objects(about: Stream, file: Rest, columns: Columns) -> Iterator[Chunk]:
    """JSON lines, or one object that wraps its rows."""
    blocks = chunks_of_lines(file, CHUNK_BYTES)  # type: ignore[arg-type]
    number, block = next(blocks)
    if _is_answer(block, columns):
        body = block + b"".join(part for _, part in _bounded(about, blocks))
        yield from _answer(about, body, columns)
        return
    yield from _lines(number, block, columns)
    for number, block in blocks:
        yield from _lines(number, block, columns)


def _is_answer(block: bytes, columns: Columns) -> bool:
    line, _, others = block.lstrip().partition(b"\n")
    try:
        first = json.loads(line)
    except UNREADABLE:
        return line.strip()[-1:] in (b"{", b"[", b",", b":")  # printed over several lines
    if not isinstance(first, dict):
        return False
    wraps = any(isinstance(first.get(name), list) for name in columns.rows_under)
    return wraps or (not others.strip() and not first.keys() & set(columns.names))


def _bounded(about: Stream, blocks: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    size = 0
    for number, block in blocks:
        size += len(block)
        if size > _LARGEST_ANSWER:
            refuse(about, f"the answer is larger than {_LARGEST_ANSWER} bytes", fix="export JSON lines instead")
        yield number, block


def _answer(about: Stream, body: bytes, columns: Columns) -> Iterator[Chunk]:
    """One answer, or several pages of it one after another."""
    first = 0
    for document in _documents(about, body):
        if not isinstance(document, dict):
            refuse(about, f"the answer is {shape_of(document)}, not an object", fix="check the kind")
        rows = _rows_of(about, document, columns)
        yield _parsed_rows(first, rows, columns)
        first += len(rows)


def _documents(about: Stream, body: bytes) -> Iterator[Any]:
    decode = json.JSONDecoder(parse_float=Decimal, parse_constant=Decimal).raw_decode
    try:
        text, at = body.decode().strip(), 0
        while at < len(text):
            document, at = decode(text, at)
            yield document
            while text[at : at + 1].isspace():
                at += 1
    except UNREADABLE as error:
        refuse(about, f"the answer is not JSON: {reason(error)}", fix="fetch or export it again")


def _rows_of(about: Stream, document: dict[str, Any], columns: Columns) -> list[Any]:
    for name in columns.rows_under:
        rows = document.get(name)
        if isinstance(rows, list):
            return rows
    if document.keys() & set(columns.names):  # one row, printed over several lines
        return [document]
    if isinstance(document.get("error"), dict | str):
        refuse(about, f"the source answered with an error: {str(document['error'])[:80]!r}", fix="try again later")
    known = ", ".join(sorted(map(str, document))[:8]) or "nothing"
    refuse(about, f"the answer has no {' or '.join(columns.rows_under)}; it has {known}", fix="check the kind")


def _parsed_rows(first: int, rows: list[Any], columns: Columns) -> Chunk:
    def read(index: int) -> tuple[dict[str, Any] | None, str]:
        return _object(rows[index], columns)

    return Chunk(range(first, first + len(rows)), None, read)


def _object(value: Any, columns: Columns) -> tuple[dict[str, Any] | None, str]:
    if isinstance(value, dict):
        return columns.of(value), ""
    return None, f"the row is {shape_of(value)}, not an object"


def array(about: Stream, file: Rest, columns: Columns) -> Iterator[Chunk]:
    """A JSON array, element by element; each becomes a line, because JSON strings hold no line breaks."""
    waiting: list[bytes] = []
    size = first = 0
    for element in _elements(about, file):
        waiting.append(element.replace("\n", " ").encode())
        size += len(element)
        if size >= CHUNK_BYTES:
            yield from _lines(first, b"\n".join(waiting) + b"\n", columns)
            first, waiting, size = first + len(waiting), [], 0
    if waiting:
        yield from _lines(first, b"\n".join(waiting) + b"\n", columns)


def _elements(about: Stream, file: Rest) -> Iterator[str]:
    text = _Text(about, file)
    decode = json.JSONDecoder().raw_decode
    text.skip("[")
    comma = False
    while text.next_is_not("]", comma=comma):
        while True:
            try:
                _, end = decode(text.buffer, text.at)
            except UNREADABLE as error:
                if not text.more():
                    refuse(about, f"the array is broken or cut off: {reason(error)}", fix="fetch or export it again")
                continue
            if end < len(text.buffer) or not text.more():
                break
        yield text.buffer[text.at : end]
        text.at = end
        comma = True


class _Text:
    """A window of text that moves on over a file."""

    def __init__(self, about: Stream, file: Rest) -> None:
        self._about, self._file = about, file
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self.buffer, self.at = "", 0
        self._ended = False

    def more(self) -> bool:
        """Read on; False at the end of the file."""
        if self._ended:
            return False
        if len(self.buffer) - self.at > LARGEST_RECORD:
            refuse(self._about, f"one row is larger than {LARGEST_RECORD} characters", fix="check the file")
        data = self._file.read(max(1 << 20, len(self.buffer) - self.at))
        self._ended = not data
        try:
            text = self._decoder.decode(data, self._ended)
        except UnicodeDecodeError as error:
            refuse(self._about, f"the file is not UTF-8 text: {error.reason}", fix="save it as UTF-8")
        self.buffer, self.at = self.buffer[self.at :] + text, 0
        return True

    def skip(self, mark: str) -> None:
        while not self.buffer[self.at :].lstrip().startswith(mark) and self.more():
            pass
        self.at = self.buffer.index(mark, self.at) + 1

    def next_is_not(self, end: str, *, comma: bool) -> bool:
        """Move to the next element; False where `end` comes. `comma`: one must come before a further element."""
        while True:
            while self.at < len(self.buffer) and self.buffer[self.at] in " \t\r\n":
                self.at += 1
            if self.at == len(self.buffer):
                if not self.more():
                    refuse(self._about, "the array is cut off", fix="fetch or export it again")
            elif self.buffer[self.at] == end:
                return False
            elif not comma:
                return True
            elif self.buffer[self.at] != ",":
                refuse(self._about, "the array is broken: two rows without a comma between", fix="export it again")
            else:
                self.at += 1
                comma = False


def _lines(first: int, block: bytes, columns: Columns) -> Iterator[Chunk]:
    height = block.count(b"\n") + (not block.endswith(b"\n"))
    yield from _halved(range(first, first + height), block, columns)


def _halved(numbers: Sequence[int], block: bytes, columns: Columns) -> Iterator[Chunk]:
    frame = _ndjson(block, columns)
    if frame is not None and frame.height == len(numbers):  # and so no line is empty
        yield Chunk(numbers, frame, _line_reader(block, columns))
        return
    lines = block.split(b"\n")
    full = [i for i, line in enumerate(lines) if line.strip()]
    if len(full) < len(numbers):
        numbers, lines = [numbers[i] for i in full], [lines[i] for i in full]
        if lines:
            yield from _halved(numbers, b"\n".join(lines) + b"\n", columns)
    elif len(numbers) <= _ALONE:
        yield Chunk(numbers, None, _line_reader(block, columns))
    else:
        half = len(numbers) // 2
        yield from _halved(numbers[:half], b"\n".join(lines[:half]) + b"\n", columns)
        yield from _halved(numbers[half:], b"\n".join(lines[half : len(numbers)]) + b"\n", columns)


def _ndjson(block: bytes, columns: Columns) -> pl.DataFrame | None:
    """The wanted columns of JSON lines; None where any line is broken or of another shape."""
    text = dict.fromkeys(columns.plain, pl.String())
    try:
        return pl.read_ndjson(io.BytesIO(block), schema={**text, **columns.nested})
    except POLARS_ERRORS:
        pass
    try:  # objects that were written as text
        frame = pl.read_ndjson(io.BytesIO(block), schema={**text, **dict.fromkeys(columns.nested, pl.String())})
        return frame.with_columns(pl.col(name).str.json_decode(kind) for name, kind in columns.nested.items())
    except POLARS_ERRORS:
        return None


def _line_reader(block: bytes, columns: Columns) -> Read:
    lines: list[bytes] = []

    def read(index: int) -> tuple[dict[str, Any] | None, str]:
        if not lines:
            lines.extend(block.split(b"\n"))
        try:
            return _object(loads(lines[index].decode(), allow_nan=True), columns)
        except UnicodeDecodeError:
            return None, "the line is not UTF-8 text"
        except UNREADABLE as error:
            return None, f"the line is not JSON: {reason(error)}"

    return read
