"""Fetch of LiteLLM's `/spend/logs/v2`: the last hours, page by page.

The window ends now and begins `window_hours` before, so that rows written late still come; loading a row twice
changes nothing. Pages are kept as they came, one after another. Where the window holds more than MAX_PAGES
pages the fetch fails and says so: a part of a window would look like less spend.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx

from ingest.base import Payload
from ingest.errors import FetchError, PayloadTooLarge
from ingest.http import NotModified
from ingest.http import fetch as get
from ingest.kind import Ask, Option

PAGE_SIZE = 100  # the most that LiteLLM gives
MAX_PAGES = 1000
WINDOW = Option("window_hours", "how far back each fetch looks", default="24")


def fetch(ask: Ask) -> Payload | NotModified:
    """All pages of the window. Raises what `ingest.http.fetch` raises, and FetchError for a wrong option."""
    headers = {"Authorization": f"Bearer {ask.secret}"} if ask.secret else None
    start_at = ask.now - timedelta(hours=_hours(ask))
    window: dict[str, Any] = {"start_date": f"{start_at:%Y-%m-%d %H:%M:%S}", "end_date": f"{ask.now:%Y-%m-%d %H:%M:%S}"}
    bodies: list[bytes] = []
    left = ask.max_bytes
    while True:
        pages = {**window, "page": len(bodies) + 1, "page_size": PAGE_SIZE}
        url = str(httpx.URL(ask.url).copy_merge_params(pages))
        got = get(
            url, source_id=ask.source_id, kind=ask.kind, headers=headers, max_bytes=max(1, left), offline=ask.offline
        )
        assert isinstance(got, Payload)  # nothing was asked for conditionally
        bodies.append(got.body)
        left -= len(got.body) + 1
        total = _total_pages(got.body)
        if len(bodies) >= total:
            return replace(got, body=b"\n".join(bodies), etag=None, last_modified=None)
        if len(bodies) == MAX_PAGES or left <= 0:
            raise PayloadTooLarge(
                f"the window of {_hours(ask):g} hours holds {total} pages, more than can be fetched at once",
                source_id=ask.source_id,
                field=WINDOW.name,
                fix="fetch more often with fewer window_hours, or import an export of the table",
            )


def _hours(ask: Ask) -> float:
    text = ask.options.get(WINDOW.name, WINDOW.default or "")
    try:
        hours = float(text)
    except ValueError:
        hours = 0.0
    if not 0 < hours <= 24 * 366:
        raise FetchError(
            f"the option {WINDOW.name} is {text!r}",
            source_id=ask.source_id,
            field=WINDOW.name,
            fix="write hours between 0 and 8784, such as 24",
        )
    return hours


def _total_pages(body: bytes) -> int:
    """As the page tells it; 1 where it tells nothing, because then it is the whole answer."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return 1  # the parser says what is wrong with the body
    total = document.get("total_pages") if isinstance(document, dict) else None
    return total if isinstance(total, int) and not isinstance(total, bool) and total > 0 else 1
