"""Safe readers: payload bytes to text or JSON, or a PayloadError that says what came instead.

JSON numbers are read as Decimal, so that prices keep every digit their source wrote.
"""

from __future__ import annotations

import json
import re
import zlib
from datetime import datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, NoReturn

from ingest.base import Payload
from ingest.errors import PayloadError, PayloadTooLarge
from warehouse.clock import utcnow

_GZIP = b"\x1f\x8b"
_LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_ENCODINGS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16", _GZIP: "gzip"}


def read_text(payload: Payload) -> str:
    """The payload as text: UTF-8, with or without a byte order mark, neither empty nor a web page.

    Raises PayloadError naming the source and what was seen.
    """
    body = payload.body
    for mark, name in _ENCODINGS.items():
        if body.startswith(mark):
            refuse(payload, f"the payload is {name} data, not UTF-8 text", fix="unpack it or save it as UTF-8")
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        refuse(
            payload,
            f"the payload is not UTF-8 text: byte 0x{body[error.start]:02x} at position {error.start}",
            fix="save it as UTF-8",
        )
    if not text.strip():
        refuse(payload, f"the payload is empty ({len(body)} bytes)", fix="try again; check the source if it stays so")
    if text.lstrip().startswith("<"):
        what = "a web page" if re.match(r"\s*<(!doctype\s+html|html|head|body)", text, re.I) else "markup"
        refuse(
            payload,
            f"the payload is {what}, not data: it begins with {_excerpt(text.lstrip())}",
            fix="check the address; a sign-in page, a proxy or an error page may have answered",
        )
    return text


def read_json(payload: Payload, *, allow_nan: bool = False) -> Any:
    """The payload as JSON; fractions become Decimal, lone surrogates become U+FFFD.

    NaN and Infinity are not JSON. They are refused, or with `allow_nan` become non-finite Decimals for
    a parser that refuses them field by field. Raises PayloadError.
    """
    return parse_json(read_text(payload), payload, allow_nan=allow_nan)


def parse_json(text: str, payload: Payload, *, allow_nan: bool = False) -> Any:
    """`text` of `payload` as JSON, under the rules of `read_json`."""
    try:
        value = loads(text, allow_nan=allow_nan)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated"):
            refuse(
                payload,
                f"the payload is truncated: its JSON ends unfinished after {len(payload.body)} bytes ({where})",
                fix="fetch or export it again",
            )
        seen = _excerpt(text[error.pos :])
        refuse(payload, f"the payload is not JSON: {error.msg} at {where}, where it has {seen}", fix="send JSON")
    except RecursionError:
        refuse(payload, "the payload nests deeper than any known format", fix="check what the source sends")
    except (ValueError, InvalidOperation) as error:  # NaN, or a number of absurd length
        refuse(payload, f"the payload holds a number that cannot be read: {error}", fix="send finite numbers")
    return value


def loads(text: str, *, allow_nan: bool = False) -> Any:
    """`json.loads` with exact decimals. Raises ValueError (its JSONDecodeError), InvalidOperation, RecursionError."""
    constant = _constant if allow_nan else _no_constant
    value = json.loads(text, parse_float=Decimal, parse_constant=constant)
    return _without_surrogates(value) if _SURROGATE_ESCAPE.search(text) else value


def field_of(payload: Payload, document: Any, name: str, kind: type) -> Any:
    """`document[name]`, which must be of `kind` (dict or list). Raises PayloadError naming the field."""
    shape: dict[type, str] = {dict: "an object", list: "a list"}
    if not isinstance(document, dict):
        refuse(payload, f"the payload is {shape_of(document)}, not an object with {name!r}", field=name)
    if isinstance(document.get("error"), dict | str):
        told = document["error"]
        told = told.get("message") or told.get("code") if isinstance(told, dict) else told
        refuse(
            payload, f"the source answered with an error: {_excerpt(str(told))}", field="error", fix="try again later"
        )
    if name not in document:
        known = ", ".join(sorted(map(str, document))[:8]) or "nothing"
        refuse(payload, f"the payload has no {name!r}; it has {known}", field=name, fix="check kind and address")
    value = document[name]
    if not isinstance(value, kind):
        refuse(payload, f"{name!r} is {shape_of(value)}, not {shape[kind]}", field=name, fix="check kind and address")
    return value


def shape_of(value: Any) -> str:
    """What a JSON value is, in words."""
    if value is None:
        return "null"
    names = {bool: "true or false", dict: "an object", list: "a list", str: "text"}
    return names.get(type(value), "a number")


def refuse(payload: Payload, message: str, *, fix: str = "", field: str = "") -> NoReturn:
    """Raise the PayloadError of this payload."""
    raise PayloadError(message, fix=fix, source_id=payload.source_id, field=field)


def read_file(path: Path, *, source_id: str, kind: str, max_bytes: int, now: datetime | None = None) -> Payload:
    """A file given by hand as a payload; a gzip file is unpacked, and no more than `max_bytes` are taken.

    Raises PayloadError (no such file, unreadable, broken gzip) and PayloadTooLarge.
    """
    try:
        with path.open("rb") as file:
            body = file.read(max_bytes + 1)
    except OSError as error:
        raise PayloadError(
            f"the file {path} cannot be read: {error.strerror or error}", fix="check the path", source_id=source_id
        ) from error
    if body.startswith(_GZIP):
        unpack = zlib.decompressobj(wbits=31)
        try:
            body = unpack.decompress(body, max_bytes + 1)
        except zlib.error as error:
            raise PayloadError(f"the file {path} is broken gzip: {error}", source_id=source_id) from error
        if not unpack.eof and len(body) <= max_bytes:
            raise PayloadError(f"the file {path} is truncated gzip", fix="copy it again", source_id=source_id)
    if len(body) > max_bytes:
        raise PayloadTooLarge(
            f"the file {path} holds more than the {max_bytes} bytes that {kind} may have",
            fix="check that it is the right file, or split it",
            source_id=source_id,
        )
    return Payload(source_id=source_id, kind=kind, url=path.absolute().as_uri(), fetched_at=now or utcnow(), body=body)


def _excerpt(text: str) -> str:
    return repr(text[:40] + ("…" if len(text) > 40 else ""))


def _constant(name: str) -> Decimal:
    return Decimal(name)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return _LONE_SURROGATE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_without_surrogates(v) for v in value]
    if isinstance(value, dict):
        return {_without_surrogates(k): _without_surrogates(v) for k, v in value.items()}
    return value
