"""Completions as files hold them: a JSON object, an array, JSON lines, or the raw text of SSE streams.

Whatever the shape, the result is a list of `Record`s: one completion each, in the form of a non-stream
response (id, created, model, choices, usage, energy, cost), and what could not be read of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import InvalidOperation
from typing import Any

from ingest.base import Payload
from ingest.read import loads, parse_json, read_text, refuse, shape_of

_SSE_LINE = re.compile(r"^(data|event|id|retry)?:", re.M)
_NEWLINE = re.compile(r"\r\n|\n|\r")  # and no other: JSON strings may hold U+2028
_COMMENTS = ("energy", "cost", "joulebook")
_TELLING = frozenset({"choices", "usage", "energy", "cost"})
_UNREADABLE = (ValueError, InvalidOperation, RecursionError)


@dataclass
class Record:
    """One completion. `faults` are (field, text, reason) of parts that could not be read.

    ended: None for non-stream responses; for a stream, whether its [DONE] was seen.
    """

    data: dict[str, Any]
    ended: bool | None = None
    last_created: Any = None
    faults: list[tuple[str, str, str]] = field(default_factory=list)
    unreadable: str | None = None  # the reason why nothing of the record is usable


def read_records(payload: Payload) -> list[Record]:
    """The completions of a payload. Raises PayloadError where it holds neither JSON nor SSE."""
    text = read_text(payload)
    body = text.lstrip()
    if body[0] in "{[":
        return _from_json(text, payload)
    if _SSE_LINE.search(text):
        return list(_from_sse(text))
    refuse(payload, "the payload is neither JSON nor an event stream", fix="save the response body as it came")


def _from_json(text: str, payload: Payload) -> list[Record]:
    lines = [line for line in _NEWLINE.split(text) if line.strip()]
    if len(lines) > 1 and lines[0].lstrip().startswith("{"):
        read = [_line(line) for line in lines]
        if any(record.unreadable is None for record in read):
            return read
    document = parse_json(text, payload, allow_nan=True)
    if isinstance(document, dict) and not document.keys() & _TELLING:
        known = ", ".join(sorted(document)[:8]) or "nothing"
        refuse(payload, f"the object is no completion; it has {known}", field="choices", fix="check the kind")
    listed = document if isinstance(document, list) else [document]
    return [_whole(data) for data in listed]


def _line(line: str) -> Record:
    try:
        return _whole(loads(line, allow_nan=True))
    except _UNREADABLE as error:
        return Record({"line": line[:200]}, unreadable=f"the line is not JSON: {_reason(error)}")


def _whole(data: Any) -> Record:
    if isinstance(data, dict):
        return Record(data)
    return Record({"row": data}, unreadable=f"the completion is {shape_of(data)}, not an object")


def _from_sse(text: str) -> Iterator[Record]:
    """One record per stream: a new one begins with another id, or with data behind [DONE].

    The `: energy` and `: cost` comments belong to the stream whose chunk came last.
    """
    current: Record | None = None
    for line in _NEWLINE.split(text):
        name, _, value = line.partition(":")
        value = value.strip()
        if name.strip() == "data":
            if value == "[DONE]":
                if current is not None:
                    current.ended = True
                continue
            chunk, fault = _read_object(value)
            if chunk is None:
                if current is None or current.ended:
                    yield Record({"data": value[:200]}, unreadable=f"the first chunk of a stream {fault}")
                else:
                    current.faults.append(("data", value, fault))
                continue
            if current is None or current.ended or chunk.get("id", current.data.get("id")) != current.data.get("id"):
                if current is not None:
                    yield current
                current = Record({}, ended=False)
            _merge(current, chunk)
        elif not name.strip():
            comment, _, body = value.partition(" ")
            if comment in _COMMENTS:
                if current is None:
                    current = Record({}, ended=False, unreadable=f"the {comment} line belongs to no stream")
                _comment(current, comment, body.strip())
    if current is not None:
        yield current


def _merge(record: Record, chunk: dict[str, Any]) -> None:
    """Lay a chunk over its stream: first `created`, last of everything else that is told."""
    record.last_created = chunk.get("created", record.last_created)
    for name, value in chunk.items():
        if name == "choices":
            _merge_choices(record, value)
        elif value is not None and not (name == "created" and "created" in record.data):
            record.data[name] = value


def _merge_choices(record: Record, choices: Any) -> None:
    merged: dict[Any, dict[str, Any]] = {c["index"]: c for c in record.data.setdefault("choices", [])}
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict):
            index = choice.get("index", 0)
            key = index if isinstance(index, int) else 0
            known = merged.setdefault(key, {"index": key, "finish_reason": None})
            known["finish_reason"] = choice.get("finish_reason") or known["finish_reason"]
    record.data["choices"] = [merged[k] for k in sorted(merged)]


def _comment(record: Record, name: str, body: str) -> None:
    value, fault = _read_object(body)
    if value is None:
        record.faults.append((name, body, fault))
    elif name in record.data:
        record.faults.append((name, body, "came twice in one stream; the first one was kept"))
    else:
        record.data[name] = value


def _read_object(text: str) -> tuple[dict[str, Any] | None, str]:
    try:
        value = loads(text, allow_nan=True)
    except _UNREADABLE as error:
        return None, f"is not JSON: {_reason(error)}"
    return (value, "") if isinstance(value, dict) else (None, f"is {shape_of(value)}, not an object")


def _reason(error: Exception) -> str:
    return error.msg if isinstance(error, json.JSONDecodeError) else type(error).__name__
