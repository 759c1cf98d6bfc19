"""One HTTP GET as a payload: bounded in time and bytes, conditional, retried where a retry can help.

Bounds: connect and read time-outs, a deadline over each attempt that also ends a source which drips
bytes, and a cap on the bytes after decompression. Only gzip is asked for, and it is unpacked step by
step, so that a bomb never grows beyond the cap. Redirects stay on their host. Errors and stored
addresses carry no header value, no user name or password and no secret of the query.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from importlib import metadata
from typing import Any

import httpx
from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt
from tenacity.wait import wait_exponential, wait_random

from ingest.base import Payload
from ingest.deadline import Deadline
from ingest.errors import (
    FetchError,
    IngestError,
    OfflineMode,
    PayloadError,
    PayloadTooLarge,
    SourceRefused,
    SourceUnreachable,
)
from ingest.redact import redact_url
from warehouse.clock import utcnow

MAX_REDIRECTS = 3
CONNECT_TIMEOUT_S = 5.0
READ_TIMEOUT_S = 10.0
MAX_WAIT_S = 30.0
_CHUNK = 64 * 1024
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_SHOWN_HEADERS = frozenset({"accept", "user-agent", "accept-encoding", "if-none-match", "if-modified-since"})


@dataclass(frozen=True)
class NotModified:
    """The source confirmed that what it last sent still holds."""

    source_id: str
    kind: str
    url: str
    fetched_at: datetime
    etag: str | None = None
    last_modified: str | None = None
    http_status: int = 304


def fetch(
    url: str,
    *,
    source_id: str,
    kind: str,
    headers: Mapping[str, str] | None = None,
    etag: str | None = None,
    last_modified: str | None = None,
    max_bytes: int,
    timeout_s: float = 15,
    attempts: int = 3,
    offline: bool = False,
    client: httpx.Client | None = None,
    max_wait_s: float = MAX_WAIT_S,
) -> Payload | NotModified:
    """GET `url` within `timeout_s` per attempt, at most `attempts` times.

    Transient failures (no connection, time-out, broken transfer, 429, 5xx) are tried again after an
    exponential, jittered wait, or after the source's Retry-After; one that is longer than `max_wait_s`
    is honoured by not trying again, and the error carries it. `client` is used and left open.

    Raises OfflineMode, SourceUnreachable, SourceRefused, PayloadTooLarge, PayloadError or FetchError.
    """
    shown = redact_url(url)
    if offline:
        raise OfflineMode(
            f"offline = true forbids the call to {shown}",
            source_id=source_id,
            fix="set offline = false, or import a file",
        )
    if not url.lower().startswith(("http://", "https://")):
        raise FetchError(
            f"{shown} is no http or https address", source_id=source_id, field="url", fix="correct the url"
        )
    sent = {
        "User-Agent": user_agent(),
        "Accept": "application/json, text/csv;q=0.9, */*;q=0.5",
        **(headers or {}),
        "Accept-Encoding": "gzip",
    }
    if etag:
        sent["If-None-Match"] = etag
    if last_modified:
        sent["If-Modified-Since"] = last_modified
    attempt = _Attempt(url, sent, source_id, kind, max_bytes, timeout_s)
    step = min(0.5, max_wait_s / 4)
    backoff = wait_exponential(multiplier=step, max=min(8.0, max_wait_s / 2)) + wait_random(0, step)

    def wait(state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        asked = error.retry_after_s if isinstance(error, SourceRefused) else None
        return backoff(state) if asked is None else asked

    def again(error: BaseException) -> bool:
        asked = error.retry_after_s if isinstance(error, SourceRefused) else None
        return isinstance(error, IngestError) and error.transient and (asked is None or asked <= max_wait_s)

    with contextlib.ExitStack() as stack:
        used = client or stack.enter_context(httpx.Client())
        retrying = Retrying(
            stop=stop_after_attempt(max(1, attempts)), wait=wait, retry=retry_if_exception(again), reraise=True
        )
        return retrying(attempt.run, used)


@dataclass(frozen=True)
class _Attempt:
    """One try at one address."""

    url: str
    headers: Mapping[str, str]
    source_id: str
    kind: str
    max_bytes: int
    timeout_s: float

    def run(self, client: httpx.Client) -> Payload | NotModified:
        watch = Deadline(self.timeout_s)
        try:
            with watch:
                return self._follow(client, watch)
        # `from None`: what these errors quote (header values, addresses) must not reach a traceback.
        except httpx.InvalidURL:
            raise FetchError("the address is malformed", source_id=self.source_id, field="url") from None
        except (httpx.LocalProtocolError, UnicodeEncodeError):
            raise FetchError(
                "the request cannot be sent: a header holds characters that are not allowed",
                source_id=self.source_id,
                field="secret",
                fix="write the secret again, without spaces and line breaks",
            ) from None
        except (httpx.HTTPError, httpx.StreamError, OSError, ValueError) as error:
            raise self._unreachable(error, watch) from None

    def _follow(self, client: httpx.Client, watch: Deadline) -> Payload | NotModified:
        url = httpx.URL(self.url)
        status = 0
        for _ in range(MAX_REDIRECTS + 1):
            request = client.build_request(
                "GET", url, headers=dict(self.headers), timeout=self._timeout(), extensions={"trace": watch.trace}
            )
            response = client.send(request, stream=True, follow_redirects=False)
            with contextlib.closing(response):
                watch.watch(response.extensions.get("network_stream"))
                if response.status_code not in _REDIRECTS:
                    return self._received(response, watch)
                status = response.status_code
                url = self._redirected(url, response)
        raise self._refused(
            f"redirected more than {MAX_REDIRECTS} times", status, fix="set the url to its final address"
        )

    def _timeout(self) -> httpx.Timeout:
        read = min(READ_TIMEOUT_S, self.timeout_s)
        return httpx.Timeout(connect=min(CONNECT_TIMEOUT_S, self.timeout_s), read=read, write=read, pool=read)

    def _redirected(self, url: httpx.URL, response: httpx.Response) -> httpx.URL:
        location = response.headers.get("location", "")
        target = url.join(location)
        upgrade = (url.scheme, target.scheme) == ("http", "https")
        same = (target.scheme, target.port) == (url.scheme, url.port) or upgrade
        if not location or target.host != url.host or not same:
            raise self._refused(
                f"redirected to {redact_url(str(target)) if location else 'nowhere'}, which is not followed",
                response.status_code,
                fix="if you trust that address, set it as the url of the source",
            )
        return target

    def _received(self, response: httpx.Response, watch: Deadline) -> Payload | NotModified:
        status = response.status_code
        told = {"etag": response.headers.get("etag"), "last_modified": response.headers.get("last-modified")}
        conditional = {"if-none-match", "if-modified-since"} & {name.lower() for name in self.headers}
        shown = redact_url(self.url)
        if status == 304 and conditional:
            return NotModified(self.source_id, self.kind, shown, utcnow(), **told)
        if status not in (200, 203):
            reason = "".join(c for c in response.reason_phrase[:40] if c.isprintable())
            raise self._refused(f"answered {status} {reason}".rstrip(), status, response)
        body = b"".join(self._body(response, watch))
        return Payload(
            source_id=self.source_id,
            kind=self.kind,
            url=shown,
            fetched_at=utcnow(),
            body=body,
            http_status=status,
            content_type=response.headers.get("content-type"),
            **told,
        )

    def _body(self, response: httpx.Response, watch: Deadline) -> Iterator[bytes]:
        """The unpacked body, never more than max_bytes of it."""
        length = response.headers.get("content-length", "")
        if length.isdecimal() and int(length[:18]) > self.max_bytes:
            raise self._too_large(f"announces {length[:18]} bytes, more")
        encoding = response.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("identity", "", "gzip", "x-gzip"):
            raise PayloadError(
                f"the payload is packed as {encoding!r}, and gzip was asked for", source_id=self.source_id
            )
        unpack = zlib.decompressobj(wbits=31) if "gzip" in encoding else None
        left = self.max_bytes
        for raw in response.iter_raw(_CHUNK):
            watch.check()
            for part in (raw,) if unpack is None else self._unpacked(unpack, raw, watch):
                left -= len(part)
                if left < 0:
                    raise self._too_large("sends more")
                yield part
        if unpack is not None and not unpack.eof:
            raise SourceUnreachable("the compressed payload ended early", source_id=self.source_id)

    def _unpacked(self, unpack: Any, raw: bytes, watch: Deadline) -> Iterator[bytes]:
        try:
            while raw:
                watch.check()
                yield unpack.decompress(raw, _CHUNK)
                raw = unpack.unconsumed_tail
        except zlib.error as error:
            raise PayloadError(f"the payload is broken gzip: {error}", source_id=self.source_id) from error

    def _too_large(self, what: str) -> PayloadTooLarge:
        return PayloadTooLarge(
            f"{redact_url(self.url)} {what} than the {self.max_bytes} bytes that {self.kind} may have",
            source_id=self.source_id,
            fix="check the address; the last good data stay in force",
        )

    def _refused(self, what: str, status: int, response: httpx.Response | None = None, fix: str = "") -> SourceRefused:
        return SourceRefused(
            f"{redact_url(self.url)} {what}",
            status=status,
            retry_after_s=_retry_after_s(response) if response is not None else None,
            source_id=self.source_id,
            fix=fix or _FIXES.get(status, "try again later" if status >= 500 else "check the address"),
        )

    def _unreachable(self, error: Exception, watch: Deadline) -> SourceUnreachable:
        shown = redact_url(self.url)
        if watch.expired:
            what = f"{shown} did not finish within {self.timeout_s:g} s"
        elif isinstance(error, httpx.TimeoutException):
            step = "connect to" if isinstance(error, httpx.ConnectTimeout) else "hear from"
            what = f"timed out trying to {step} {shown}"
        elif isinstance(error, httpx.RemoteProtocolError):
            what = f"{shown} broke off: {self._safe(str(error))}"
        else:
            what = f"no connection to {shown}: {self._safe(str(error)) or type(error).__name__}"
        return SourceUnreachable(what, source_id=self.source_id, fix="check the network, the address and the source")

    def _safe(self, text: str) -> str:
        """`text` without the address and the header values of this request."""
        text = text.replace(self.url, redact_url(self.url))
        for name, value in self.headers.items():
            if name.lower() not in _SHOWN_HEADERS:
                for secret in (value, value.rpartition(" ")[2]):
                    if len(secret) > 3:
                        text = text.replace(secret, "***")
        return text


_FIXES = {
    401: "check the secret of the source",
    403: "check the secret of the source and what it may read",
    404: "check the address",
    429: "ask less often: raise the cadence of the source",
}


def user_agent() -> str:
    try:
        return f"joulebook/{metadata.version('joulebook')}"
    except metadata.PackageNotFoundError:  # a source tree that was never installed
        return "joulebook/unreleased"


def _retry_after_s(response: httpx.Response) -> float | None:
    """Retry-After as seconds from now, given as a number or a date; None where absent or unreadable."""
    text = response.headers.get("retry-after", "").strip()
    if text.isdecimal():
        return float(text[:9])
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        at = parsedate_to_datetime(text)
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        return max(0.0, (at - datetime.now(UTC)).total_seconds())
    return None
