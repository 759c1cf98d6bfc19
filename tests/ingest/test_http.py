"""Fetching from a real server that misbehaves in every way a source can."""

from __future__ import annotations

import gzip
import socket
import time
import traceback
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import httpx
import pytest

from ingest.base import Payload
from ingest.errors import (
    FetchError,
    IngestError,
    OfflineMode,
    PayloadError,
    PayloadTooLarge,
    SourceRefused,
    SourceUnreachable,
)
from ingest.http import NotModified, fetch
from ingest.redact import redact_url
from tests.ingest.server import answer, drip, endless, hang_up, serving, silence

BODY = b'{"data": [1, 2, 3]}'
SECRET = "sk-very-secret-0123456789"


def get(url: str, **options: Any) -> Payload | NotModified:
    settings: dict[str, Any] = {"max_bytes": 10_000, "timeout_s": 5.0, "max_wait_s": 0.02, **options}
    return fetch(url, source_id="src", kind="openrouter", **settings)


def payload(url: str, **options: Any) -> Payload:
    got = get(url, **options)
    assert isinstance(got, Payload)
    return got


def refusal(url: str, kind: type[IngestError], **options: Any) -> Any:
    with pytest.raises(kind) as caught:
        get(url, **options)
    assert type(caught.value) is kind
    assert caught.value.source_id == "src"
    assert caught.value.message
    return caught.value


class TestAGoodAnswer:
    def test_is_a_payload_with_all_that_is_known_about_it(self) -> None:
        good = answer(
            body=BODY, ETag='"v1"', Last_Modified="Fri, 15 May 2026 12:00:00 GMT", Content_Type="application/json"
        )
        with serving(good) as server:
            got = payload(server.url)
            assert (got.source_id, got.kind, got.url, got.body, got.http_status) == (
                "src", "openrouter", server.url, BODY, 200,
            )  # fmt: skip
            assert (got.etag, got.last_modified) == ('"v1"', "Fri, 15 May 2026 12:00:00 GMT")
            assert got.content_type == "application/json"
            now = datetime.now(UTC).replace(tzinfo=None)
            assert now - timedelta(seconds=10) < got.fetched_at <= now

    def test_was_asked_for_by_name_and_only_in_gzip(self) -> None:
        with serving(answer()) as server:
            get(server.url, headers={"Authorization": f"Bearer {SECRET}"})
            (request,) = server.requests
            assert request["user-agent"].startswith("joulebook/")
            assert request["accept-encoding"] == "gzip"
            assert request["authorization"] == f"Bearer {SECRET}"
            assert "if-none-match" not in request

    def test_in_gzip_is_unpacked(self) -> None:
        with serving(answer(body=gzip.compress(BODY, mtime=0), Content_Encoding="gzip")) as server:
            assert payload(server.url).body == BODY

    def test_may_be_empty_and_is_judged_by_its_parser(self) -> None:
        with serving(answer(body=b"")) as server:
            assert payload(server.url).body == b""

    def test_a_web_page_is_a_payload_too(self) -> None:
        with serving(answer(body=b"<!doctype html>")) as server:
            assert payload(server.url).body.startswith(b"<!doctype")

    def test_may_be_as_large_as_allowed(self) -> None:
        with serving(answer(body=b"x" * 10_000)) as server:
            assert len(payload(server.url).body) == 10_000

    def test_a_given_client_is_used_and_left_open(self) -> None:
        with serving(answer()) as server, httpx.Client() as client:
            for _ in range(2):
                get(server.url, client=client)
            assert not client.is_closed


class TestConditionalRequests:
    def test_what_did_not_change_is_not_sent_again(self) -> None:
        with serving(answer(304, b"", ETag='"v1"')) as server:
            got = get(server.url, etag='"v1"', last_modified="Fri, 15 May 2026 12:00:00 GMT")
            assert isinstance(got, NotModified)
            assert (got.source_id, got.kind, got.url, got.etag) == ("src", "openrouter", server.url, '"v1"')
            (request,) = server.requests
            assert request["if-none-match"] == '"v1"'
            assert request["if-modified-since"] == "Fri, 15 May 2026 12:00:00 GMT"

    def test_not_modified_without_having_asked_is_refused(self) -> None:
        with serving(answer(304, b"")) as server:
            assert refusal(server.url, SourceRefused).status == 304


class TestTransientFaults:
    @pytest.mark.parametrize(
        "fault", [answer(429), answer(500), answer(502), answer(503), hang_up(), answer(length=99)]
    )
    def test_a_second_try_may_succeed(self, fault: Any) -> None:
        with serving(fault, answer(body=BODY)) as server:
            assert payload(server.url).body == BODY
            assert len(server.requests) == 2

    @pytest.mark.parametrize("status", [429, 500, 503])
    def test_three_failures_are_enough(self, status: int) -> None:
        with serving(answer(status)) as server:
            error = refusal(server.url, SourceRefused)
            assert (error.status, error.transient, len(server.requests)) == (status, True, 3)
            assert str(status) in error.message
            assert error.fix

    @pytest.mark.parametrize("status", [400, 401, 403, 404, 410])
    def test_a_refusal_for_good_is_not_tried_again(self, status: int) -> None:
        with serving(answer(status)) as server:
            error = refusal(server.url, SourceRefused)
            assert (error.status, error.transient, len(server.requests)) == (status, False, 1)

    @pytest.mark.parametrize("status", [204, 206])
    def test_an_answer_without_a_whole_body_is_refused(self, status: int) -> None:
        with serving(answer(status, b"")) as server:
            assert refusal(server.url, SourceRefused).status == status

    def test_a_truncated_body_is_never_a_payload(self) -> None:
        with serving(answer(body=BODY, length=len(BODY) + 50)) as server:
            error = refusal(server.url, SourceUnreachable)
            assert "broke off" in error.message
            assert error.transient
            assert len(server.requests) == 3

    def test_truncated_gzip_is_never_a_payload(self) -> None:
        with serving(answer(body=gzip.compress(BODY, mtime=0)[:-9], Content_Encoding="gzip")) as server:
            assert "ended early" in refusal(server.url, SourceUnreachable).message

    def test_a_closed_port_is_named(self) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{taken.getsockname()[1]}/models"
            error = refusal(url, SourceUnreachable)
        assert url in error.message
        assert error.transient

    def test_a_host_that_does_not_exist_is_named(self) -> None:
        assert "joulebook.invalid" in refusal("http://joulebook.invalid/x", SourceUnreachable, attempts=1).message


class TestRetryAfter:
    def test_the_time_that_the_source_asks_for_is_kept(self) -> None:
        with serving(answer(429, Retry_After="1"), answer(body=BODY)) as server:
            started = time.monotonic()
            payload(server.url, max_wait_s=2)
            assert time.monotonic() - started >= 1

    def test_a_date_is_understood(self) -> None:
        at = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
        with serving(answer(503, Retry_After=at)) as server:
            assert 90 < refusal(server.url, SourceRefused).retry_after_s <= 100

    def test_longer_than_we_wait_means_no_second_try(self) -> None:
        with serving(answer(429, Retry_After="3600")) as server:
            error = refusal(server.url, SourceRefused)
            assert (error.retry_after_s, len(server.requests)) == (3600, 1)

    @pytest.mark.parametrize("text", ["soon", "-5", "", "1e9", "NaN"])
    def test_nonsense_is_passed_over(self, text: str) -> None:
        with serving(answer(429, Retry_After=text), answer(body=BODY)) as server:
            assert payload(server.url).body == BODY


class TestTime:
    """An attempt ends at its deadline, whatever the source does."""

    @pytest.mark.parametrize(
        "fault", [silence(), drip(), drip(headers_too=True)], ids=["silence", "slow body", "slow headers"]
    )
    def test_a_slow_source_is_given_up(self, fault: Any) -> None:
        with serving(fault) as server:
            started = time.monotonic()
            error = refusal(server.url, SourceUnreachable, timeout_s=0.5, attempts=1)
            assert time.monotonic() - started < 3
            assert error.transient
            assert "0.5 s" in error.message or "timed out" in error.message

    def test_a_kept_connection_has_the_same_deadline(self) -> None:
        with serving(answer(body=BODY), drip()) as server, httpx.Client() as client:
            payload(server.url, client=client)
            refusal(server.url, SourceUnreachable, client=client, timeout_s=0.5, attempts=1)

    def test_a_fast_source_is_not_touched_by_the_deadline_that_was(self) -> None:
        with serving(silence(), answer(body=BODY)) as server:
            assert payload(server.url, timeout_s=0.5).body == BODY


class TestSize:
    def test_ten_times_too_large_is_refused_before_it_is_read(self) -> None:
        with serving(answer(body=b"x" * 100_000)) as server:
            error = refusal(server.url, PayloadTooLarge)
            assert "100000" in error.message
            assert "10000" in error.message
            assert not error.transient
            assert len(server.requests) == 1

    def test_a_body_without_an_end_is_cut(self) -> None:
        with serving(endless()) as server:
            refusal(server.url, PayloadTooLarge, max_bytes=1_000_000)

    def test_a_bomb_never_grows_beyond_the_cap(self) -> None:
        import tracemalloc

        bomb = gzip.compress(bytes(200_000_000), 6, mtime=0)
        assert len(bomb) < 250_000
        with serving(answer(body=bomb, Content_Encoding="gzip")) as server:
            tracemalloc.start()
            try:
                refusal(server.url, PayloadTooLarge, max_bytes=1_000_000)
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
        assert peak < 20_000_000

    @pytest.mark.parametrize("body", [b"not gzip at all", gzip.compress(b"x" * 500, mtime=0)[:20] + b"garbage" * 9])
    def test_broken_gzip_is_refused(self, body: bytes) -> None:
        with serving(answer(body=body, Content_Encoding="gzip")) as server:
            assert "gzip" in refusal(server.url, PayloadError).message

    def test_a_packing_that_was_not_asked_for_is_refused(self) -> None:
        with serving(answer(Content_Encoding="br")) as server:
            assert "'br'" in refusal(server.url, PayloadError).message


class TestRedirects:
    def test_on_the_same_host_they_are_followed(self) -> None:
        with serving(answer(302, b"", Location="/v2"), answer(body=BODY)) as server:
            got = payload(server.url)
            assert got.body == BODY
            assert got.url == server.url
            assert [r["path"] for r in server.requests] == ["/models", "/v2"]

    def test_more_than_three_are_not(self) -> None:
        with serving(answer(302, b"", Location="/again")) as server:
            assert "more than 3 times" in refusal(server.url, SourceRefused).message
            assert len(server.requests) == 4

    @pytest.mark.parametrize(
        "location",
        ["http://localhost:9/x", "https://example.invalid/x", "http://127.0.0.1:9/", "", "file:///etc/passwd"],
    )
    def test_to_another_place_they_are_refused_with_its_name(self, location: str) -> None:
        with serving(answer(301, b"", Location=location), answer(body=BODY)) as server:
            error = refusal(server.url, SourceRefused, headers={"Authorization": f"Bearer {SECRET}"})
            assert "not followed" in error.message
            assert len(server.requests) == 1


class TestWithoutNetwork:
    def test_offline_forbids_the_call(self) -> None:
        with serving(answer()) as server:
            assert "offline" in refusal(server.url, OfflineMode, offline=True).message
            assert server.requests == []

    @pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://x/y", "models.json", "", "http://[bad/", "http://"])
    def test_other_addresses_are_refused(self, url: str) -> None:
        with pytest.raises(FetchError):
            get(url, attempts=1)


class TestSecrets:
    URL = "http://user:hunter22@127.0.0.1:{port}/models?api_key=" + SECRET + "&q=1#top"

    def test_addresses_are_stored_without_them(self) -> None:
        with serving(answer(body=BODY)) as server:
            got = payload(self.URL.format(port=server.server_port))
            assert got.url == f"http://127.0.0.1:{server.server_port}/models?api_key=REDACTED&q=1"
            assert SECRET in server.requests[0]["path"]

    @pytest.mark.parametrize(
        "fault",
        [answer(401), answer(500), hang_up(), answer(length=99), answer(302, b"", Location=f"http://x.invalid/?token={SECRET}"),
         answer(body=b"x" * 20_000), answer(Content_Encoding="br"), silence()],
    )  # fmt: skip
    def test_no_error_and_no_traceback_tells_them(self, fault: Any) -> None:
        with serving(fault) as server:
            url = self.URL.format(port=server.server_port)
            with pytest.raises(IngestError) as caught:
                get(url, headers={"Authorization": f"Bearer {SECRET}"}, timeout_s=0.4, attempts=1)
        told = str(caught.value) + "".join(traceback.format_exception_only(caught.value))
        assert SECRET not in told
        assert "hunter22" not in told
        assert caught.value.__cause__ is None

    def test_a_secret_with_a_line_break_is_refused_without_quoting_it(self) -> None:
        with serving(answer()) as server:
            error = refusal(server.url, FetchError, headers={"Authorization": f"Bearer {SECRET}\nx"})
            assert SECRET not in "".join(traceback.format_exception(error))
            assert error.field == "secret"

    @pytest.mark.parametrize(
        ("url", "shown"),
        [
            ("https://x.test/a?b=1", "https://x.test/a?b=1"),
            (
                "https://x.test/a?access_token=q&Signature=w&b=1",
                "https://x.test/a?access_token=REDACTED&Signature=REDACTED&b=1",
            ),
            ("https://u:p@x.test/", "https://x.test/"),
            ("http://x.test:port/", "an unreadable address"),
        ],
    )
    def test_redaction(self, url: str, shown: str) -> None:
        assert redact_url(url) == shown
