"""Fetching from WattTime: Basic sign-in for a token that lives 30 minutes, renewed before it ends and after a 401.

The secret is "user:password". Neither it nor a token is ever stored, logged or part of an error.
"""

from __future__ import annotations

import base64
import hashlib
import threading
import time
from datetime import timedelta
from decimal import InvalidOperation

import httpx

from ingest.base import Payload
from ingest.errors import FetchError, PayloadError, SourceRefused
from ingest.grid.pages import Pages, get, needed, secret_of, whole_option, windows, with_query
from ingest.http import NotModified
from ingest.kind import Ask
from ingest.read import loads

TOKEN_LIFE_S = 30 * 60.0
RENEW_BEFORE_S = 2 * 60.0
LONGEST = timedelta(days=32)  # the widest historical window that the API answers
LONGEST_HORIZON_H = 72
_LOGIN_BYTES = 64 * 1024

_tokens: dict[tuple[str, str], tuple[str, float]] = {}  # (login address, hash of the secret) -> (token, until)
_lock = threading.Lock()


def fetch(ask: Ask) -> Payload | NotModified:
    """The series that the options name, in windows of at most 32 days. Raises FetchError subclasses."""
    series, signal = ask.options.get("series", "historical"), ask.options.get("signal", "co2_moer")
    url = with_query(str(httpx.URL(ask.url).join(f"/v3/{series}")), region=needed(ask, "region"), signal_type=signal)
    hours = whole_option(ask, "hours", low=1, high=24 * 400) or 24
    pages = _Session(ask)
    if series == "forecast":
        pages.read(with_query(url, horizon_hours=str(min(hours, LONGEST_HORIZON_H))))
        return pages.joined()
    end_at = ask.now.replace(second=0, microsecond=0)
    for start, end in windows(end_at - timedelta(hours=hours), end_at, LONGEST):
        pages.read(with_query(url, start=f"{start:%Y-%m-%dT%H:%MZ}", end=f"{end:%Y-%m-%dT%H:%MZ}"))
    return pages.joined()


class _Session(Pages):
    """Pages read with a token; one that is refused is renewed once per page."""

    def read(self, url: str) -> None:
        try:
            self.get(url, headers=_bearer(_token(self.ask)))
        except SourceRefused as refused:
            if refused.status != 401:
                raise
            self.get(url, headers=_bearer(_token(self.ask, renew=True)))


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _token(ask: Ask, *, renew: bool = False) -> str:
    """A token with at least RENEW_BEFORE_S to live; `renew` asks for a new one whatever is known."""
    user = secret_of(ask, 'a WattTime sign-in, "user:password"')
    if ":" not in user:
        raise FetchError(
            'the secret is not of the form "user:password"', source_id=ask.source_id, field="secret",
            fix="write the WattTime user name, a colon and the password",
        )  # fmt: skip
    url = str(httpx.URL(ask.url).join("/login"))
    key = (url, hashlib.sha256(user.encode()).hexdigest())
    with _lock:  # one sign-in for all who wait: /login admits 100 in 5 minutes
        token, until = _tokens.get(key, ("", 0.0))
        if renew or time.monotonic() > until - RENEW_BEFORE_S:
            asked_at = time.monotonic()
            _tokens.pop(key, None)
            token = _sign_in(ask, url, user)
            _tokens[key] = (token, asked_at + TOKEN_LIFE_S)
    return token


def _sign_in(ask: Ask, url: str, user: str) -> str:
    basic = base64.b64encode(user.encode()).decode()
    answer = get(ask, url, headers={"Authorization": f"Basic {basic}"}, left_bytes=_LOGIN_BYTES)
    assert isinstance(answer, Payload)  # nothing conditional was asked
    try:
        document = loads(answer.body.decode())
    except (ValueError, InvalidOperation, RecursionError):  # nothing of the answer is quoted: it may hold the token
        document = None
    token = document.get("token") if isinstance(document, dict) else None
    if not isinstance(token, str) or not token.isascii() or not token.isprintable() or not token.strip():
        raise PayloadError(
            "the sign-in answered with no usable token",
            source_id=ask.source_id,
            field="token",
            fix="check the address of the source; try again later",
        )
    return token
