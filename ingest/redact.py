"""Addresses without their secrets, fit for the warehouse, pages, logs and errors."""

from __future__ import annotations

import re

import httpx

_SECRET_NAME = re.compile(r"key|token|secret|auth|passw|pwd|signature|^sig$|credential", re.I)


def redact_url(url: str) -> str:
    """`url` fit to be stored and shown: no user, no password, no secret among the query values."""
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, TypeError, ValueError):
        return "an unreadable address"
    if parsed.userinfo:
        parsed = parsed.copy_with(username=None, password=None)
    params = parsed.params
    if any(_SECRET_NAME.search(name) for name in params):
        parsed = parsed.copy_with(
            params=[(n, "REDACTED" if _SECRET_NAME.search(n) else v) for n, v in params.multi_items()]
        )
    return str(parsed.copy_with(fragment=None))
