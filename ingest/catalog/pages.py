"""Catalogs that come in pages: follow `links.next`, and keep every page as it came.

A payload of several pages is their bodies with the record separator (0x1E, as in RFC 7464) between them; JSON
text can never hold that byte, so the pages are told apart again without reading them.

Pages are followed on the host of the first one only, because the request may carry a secret. A page that cannot
be fetched fails the whole fetch: half a listing must not look like a smaller catalog. Where there are more
than MAX_PAGES, or a page names one that was read before, the listing stays open (its last page still names a
next one) and the parser does not remove what it lacks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import httpx

from ingest.base import Payload
from ingest.errors import PayloadTooLarge
from ingest.http import NotModified
from ingest.http import fetch as get
from ingest.kind import Ask

MAX_PAGES = 50
SEPARATOR = b"\x1e"


def fetch(ask: Ask) -> Payload | NotModified:
    """All pages of a listing. Raises what `ingest.http.fetch` raises."""
    headers = {"Authorization": f"Bearer {ask.secret}"} if ask.secret else None
    common: dict[str, Any] = {
        "source_id": ask.source_id,
        "kind": ask.kind,
        "headers": headers,
        "offline": ask.offline,
    }
    first = get(ask.url, etag=ask.etag, last_modified=ask.last_modified, max_bytes=ask.max_bytes, **common)
    if isinstance(first, NotModified):
        return first
    bodies, left = [first.body], ask.max_bytes - len(first.body)
    url, seen = ask.url, {ask.url}
    while len(bodies) < MAX_PAGES:
        following = _address(url, bodies[-1])
        if following is None or following in seen:
            break
        if left <= 0:
            raise PayloadTooLarge(
                f"the pages of the listing hold more than the {ask.max_bytes} bytes that {ask.kind} may have",
                source_id=ask.source_id,
                fix="check the address; the last good data stay in force",
            )
        page = get(following, max_bytes=left, **common)
        assert isinstance(page, Payload)  # nothing was asked for conditionally
        bodies.append(page.body)
        left -= len(page.body) + len(SEPARATOR)
        url = following
        seen.add(url)
    if len(bodies) == 1:
        return first
    # "Not modified" about the first page would say nothing about the others, so no validators are kept.
    return replace(first, body=SEPARATOR.join(bodies), etag=None, last_modified=None)


def pages(payload: Payload) -> Iterator[Payload]:
    """The payload page by page; one that came alone is its own page."""
    for body in payload.body.split(SEPARATOR):
        yield replace(payload, body=body)


def next_page(document: Any) -> str | None:
    """Where a page says that its listing goes on; None on the last one."""
    links = document.get("links") if isinstance(document, Mapping) else None
    told = links.get("next") if isinstance(links, Mapping) else None
    if isinstance(told, Mapping):
        told = told.get("href")
    return (told if isinstance(told, str) else "?") if told else None


def _address(url: str, body: bytes) -> str | None:
    """The address of the page after `body`, on the same host and scheme; None where there is none to follow."""
    try:
        told = next_page(json.loads(body))
        target = httpx.URL(url).join(told) if told else None
    except (ValueError, RecursionError, httpx.InvalidURL):
        return None  # the parser says what is wrong with the body
    here = httpx.URL(url)
    same = target is not None and (target.scheme, target.host, target.port) == (here.scheme, here.host, here.port)
    return str(target) if same else None
