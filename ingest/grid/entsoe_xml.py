"""XML from outside as a tree, safely: no document type, no entity, nothing fetched, bounded in depth and size.

The parser is expat of the standard library with everything that a hostile document needs switched off: a
declared document type or entity ends the parsing before anything is expanded. Namespaces are dropped, as their
version number changes with the schema. Packed answers (gzip, zip of documents) are unpacked under the same bound.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any
from xml.etree.ElementTree import Element, TreeBuilder  # builds the tree; it parses nothing
from xml.parsers import expat

from ingest.base import Payload
from ingest.read import refuse

MAX_UNPACKED_BYTES = 128 * 2**20
MAX_DOCUMENTS = 1000
_MAX_DEPTH = 32
_MAX_ATTRIBUTES = 32
_GZIP, _ZIP = b"\x1f\x8b", b"PK\x03\x04"


class _Forbidden(Exception):
    """What no sound document holds; the message says what."""


def documents(payload: Payload) -> Iterator[Element]:
    """The root of each document of `payload`: one, or those of a zip. Raises PayloadError."""
    body = payload.body
    if body.startswith(_GZIP):
        body = _unzipped(payload, body)
    if body.startswith(_ZIP):
        yield from (_tree(payload, part) for part in _members(payload, body))
    else:
        yield _tree(payload, body)


def _unzipped(payload: Payload, body: bytes) -> bytes:
    unpack = zlib.decompressobj(wbits=31)
    try:
        result = unpack.decompress(body, MAX_UNPACKED_BYTES + 1)
    except zlib.error as error:
        refuse(payload, f"the payload is broken gzip: {error}")
    if len(result) > MAX_UNPACKED_BYTES:
        refuse(payload, f"the payload unpacks to more than {MAX_UNPACKED_BYTES} bytes", fix="ask for fewer days")
    if not unpack.eof:
        refuse(payload, "the payload is truncated gzip", fix="fetch it again")
    return result


def _members(payload: Payload, body: bytes) -> Iterator[bytes]:
    left = MAX_UNPACKED_BYTES
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            names = [info for info in archive.infolist() if not info.is_dir()]
            if not names or len(names) > MAX_DOCUMENTS:
                refuse(payload, f"the zip holds {len(names)} documents, not 1 to {MAX_DOCUMENTS}")
            for info in names:
                with archive.open(info) as member:
                    part = member.read(left + 1)  # what the directory says about sizes is not believed
                left -= len(part)
                if left < 0:
                    refuse(payload, f"the zip unpacks to more than {MAX_UNPACKED_BYTES} bytes", fix="ask for less")
                yield part
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OSError) as error:
        refuse(payload, f"the payload is a zip that cannot be read: {str(error)[:120]}", fix="fetch it again")


def _tree(payload: Payload, body: bytes) -> Element:
    if not body.strip():
        refuse(payload, f"the payload is empty ({len(body)} bytes)", fix="try again; check the source if it stays so")
    builder, depth = TreeBuilder(), 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > _MAX_DEPTH or len(attributes) > _MAX_ATTRIBUTES:
            raise _Forbidden("it nests deeper, or has more attributes, than any known format")
        builder.start(name.rpartition(" ")[2], {key.rpartition(" ")[2]: value for key, value in attributes.items()})

    def end(name: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(name.rpartition(" ")[2])

    def forbidden(*_: Any) -> Any:
        raise _Forbidden("it declares a document type or an entity, which is never read")

    parser = expat.ParserCreate(namespace_separator=" ")
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, builder.data
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = parser.UnparsedEntityDeclHandler = forbidden
    parser.ExternalEntityRefHandler = forbidden
    try:
        parser.Parse(body, True)
        return builder.close()
    except _Forbidden as error:
        refuse(payload, f"the document is refused: {error}", fix="check the address")
    except expat.ExpatError as error:
        where = f"line {error.lineno}, column {error.offset}"
        refuse(payload, f"the payload is not XML: {expat.ErrorString(error.code)} at {where}", fix="check the address")
    except (ValueError, LookupError) as error:  # an encoding that nobody has
        refuse(payload, f"the payload is not XML that can be read: {str(error)[:120]}", fix="save it as UTF-8")
