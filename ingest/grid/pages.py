"""Several answers of one source as one payload, byte for byte: windows of time, and pages of a long answer.

One answer stays as it came. More become a JSON list of the answers in the order of their asking; `answers`
takes either form, so that a joined payload lands, parses and imports like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import httpx

from ingest.base import Payload
from ingest.errors import FetchError, PayloadTooLarge
from ingest.http import NotModified, fetch
from ingest.kind import Ask
from ingest.read import read_json, refuse, shape_of

_BOM = b"\xef\xbb\xbf"
_SHORTEST_SECRET = 6  # shorter ones would cut into words


def answers(payload: Payload) -> list[dict[str, Any]]:
    """The answers of `payload`, each an object. Raises PayloadError."""
    document = read_json(payload, allow_nan=True)
    listed = document if isinstance(document, list) else [document]
    for one in listed:
        if not isinstance(one, dict):
            refuse(payload, f"the payload is {shape_of(one)}, not an object", fix="check kind and address")
    if not listed:
        refuse(payload, "the payload is an empty list", fix="check kind and address")
    return listed


def joined(pages: Sequence[Payload]) -> Payload:
    """`pages` as one payload; the validators of a single page are kept, those of several mean nothing."""
    if len(pages) == 1:
        return pages[0]
    body = b"[" + b",".join(page.body.removeprefix(_BOM) for page in pages) + b"]"
    return replace(pages[0], body=body, fetched_at=pages[-1].fetched_at, etag=None, last_modified=None)


def windows(start_at: datetime, end_at: datetime, longest: timedelta) -> Iterator[tuple[datetime, datetime]]:
    """[start, end) in steps of at most `longest`."""
    while start_at < end_at:
        until = min(start_at + longest, end_at)
        yield start_at, until
        start_at = until


def with_query(url: str, **params: str) -> str:
    """`url` with `params` set; what the address says of the same names gives way."""
    return str(httpx.URL(url).copy_merge_params(params))


def get(
    ask: Ask, url: str, *, headers: Mapping[str, str] | None = None, left_bytes: int, conditional: bool = False
) -> Payload | NotModified:
    """One GET within `ask`'s limits; a secret that the answer repeats is cut out before anything is kept.

    A source that answers 304 although nothing conditional was asked is refused by `ingest.http`.
    """
    got = fetch(
        url,
        source_id=ask.source_id,
        kind=ask.kind,
        headers=headers,
        etag=ask.etag if conditional else None,
        last_modified=ask.last_modified if conditional else None,
        max_bytes=left_bytes,
        offline=ask.offline,
    )
    secret = (ask.secret or "").encode()
    if isinstance(got, Payload) and len(secret) >= _SHORTEST_SECRET and secret in got.body:
        return replace(got, body=got.body.replace(secret, b"REDACTED"))
    return got


class Pages:
    """Collects the pages of one fetch under one limit of bytes."""

    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self.pages: list[Payload] = []

    def get(self, url: str, *, headers: Mapping[str, str] | None = None) -> Payload:
        left = self.ask.max_bytes - sum(len(page.body) + 1 for page in self.pages) - 1
        if left <= 0:
            raise PayloadTooLarge(
                f"the answers hold more than the {self.ask.max_bytes} bytes that {self.ask.kind} may have",
                source_id=self.ask.source_id,
                fix="ask for fewer days",
            )
        got = get(self.ask, url, headers=headers, left_bytes=left)
        assert isinstance(got, Payload)  # nothing conditional was asked
        self.pages.append(got)
        return got

    def joined(self) -> Payload:
        return joined(self.pages)


def whole_option(ask: Ask, name: str, *, low: int, high: int) -> int | None:
    """The option `name` as a whole number within [low, high]; None where it is not given. Raises FetchError."""
    told = ask.options.get(name)
    if told is None:
        return None
    if not told.isascii() or not told.isdecimal() or not low <= int(told[:9]) <= high:
        raise FetchError(
            f"the option {name} is {told!r}, not a whole number from {low} to {high}",
            source_id=ask.source_id,
            field=name,
            fix=f"set [sources.{ask.source_id}] options.{name}",
        )
    return int(told)


def needed(ask: Ask, name: str) -> str:
    """The option `name`, which a fetch cannot do without. Raises FetchError."""
    told = ask.options.get(name)
    if not told:
        raise FetchError(
            f"the option {name} is not set",
            source_id=ask.source_id,
            field=name,
            fix=f"set [sources.{ask.source_id}] options.{name}",
        )
    return told


def secret_of(ask: Ask, what: str) -> str:
    """The secret of the source. Raises FetchError naming what it is, never the secret."""
    if not ask.secret:
        raise FetchError(
            f"the source needs {what}",
            source_id=ask.source_id,
            field="secret",
            fix=f"set [sources.{ask.source_id}] secret to the name of a secret that holds it",
        )
    return ask.secret
