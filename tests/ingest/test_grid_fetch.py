"""Fetching grid sources from a real server: sign-in and its renewal, windows, pages, secrets that stay secret."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.base import Payload
from ingest.errors import FetchError, OfflineMode, PayloadError, PayloadTooLarge, SourceRefused
from ingest.grid import eia, electricity_maps, entsoe, uk_carbon, watttime_login
from ingest.grid.pages import joined, windows
from ingest.http import NotModified
from ingest.kind import Ask
from ingest.kinds import kind
from tests.ingest import grid_samples as made
from tests.ingest.samples import counts_add_up, half_hour
from tests.ingest.server import Answer, Handler, Server, answer, serving

NOW = datetime(2026, 5, 15, 12, 34, 56)
SECRET = "operator:s3cret-pa55word"
KEY = "eia-key-0123456789"
OK = answer(body=json.dumps(made.watttime()).encode())
TOKEN = answer(body=b'{"token": "jwt-one"}')


@pytest.fixture(autouse=True)
def no_known_tokens() -> Iterator[None]:
    watttime_login._tokens.clear()
    yield
    watttime_login._tokens.clear()


def ask(server: Server, name: str, path: str = "", **changes: Any) -> Ask:
    base = f"http://127.0.0.1:{server.server_port}"
    told: dict[str, Any] = {
        "url": base + path,
        "source_id": f"src-{name}",
        "kind": name,
        "secret": None,
        "options": {},
        "etag": None,
        "last_modified": None,
        "max_bytes": 2**20,
        "offline": False,
        "now": NOW,
        **changes,
    }
    return Ask(**told)


def query(request: dict[str, str]) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(request["path"]).query))


def paths(server: Server) -> list[str]:
    return [urlsplit(request["path"]).path for request in server.requests]


def parsed(payload: Any, name: str, **options: str) -> Any:
    assert isinstance(payload, Payload)
    result = kind(name).parse(replace(payload, options=options))
    assert counts_add_up(result)
    return result


class TestWattTime:
    OPTIONS: ClassVar = {"region": "PJM_DC", "hours": "1"}

    def ask(self, server: Server, **changes: Any) -> Ask:
        told: dict[str, Any] = {"secret": SECRET, "options": self.OPTIONS, **changes}
        return ask(server, "watttime", **told)

    def test_signs_in_with_basic_and_reads_with_the_token(self) -> None:
        with serving(TOKEN, OK) as server:
            got = watttime_login.fetch(self.ask(server))
            login, data = server.requests
        assert login["authorization"] == "Basic b3BlcmF0b3I6czNjcmV0LXBhNTV3b3Jk"  # base64 of the secret
        assert data["authorization"] == "Bearer jwt-one"
        assert paths(server) == ["/login", "/v3/historical"]
        assert query(data) == {
            "region": "PJM_DC", "signal_type": "co2_moer", "start": "2026-05-15T11:34Z", "end": "2026-05-15T12:34Z",
        }  # fmt: skip
        assert parsed(got, "watttime", **self.OPTIONS).rows_in == 2

    def test_a_token_is_used_until_shortly_before_its_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        clock = [1000.0]
        monkeypatch.setattr("ingest.grid.watttime_login.time.monotonic", lambda: clock[0])
        with serving(TOKEN, OK, OK, answer(body=b'{"token": "jwt-two"}'), OK) as server:
            watttime_login.fetch(self.ask(server))
            clock[0] += 27 * 60
            watttime_login.fetch(self.ask(server))
            clock[0] += 2 * 60  # 29 minutes old: a minute is too little
            watttime_login.fetch(self.ask(server))
            assert paths(server) == ["/login", "/v3/historical", "/v3/historical", "/login", "/v3/historical"]
            assert server.requests[-1]["authorization"] == "Bearer jwt-two"

    def test_a_token_that_is_refused_is_renewed_once(self) -> None:
        with serving(TOKEN, answer(401), answer(body=b'{"token": "jwt-two"}'), OK) as server:
            watttime_login.fetch(self.ask(server))
            assert [r["authorization"] for r in server.requests[1::2]] == ["Bearer jwt-one", "Bearer jwt-two"]

    def test_and_not_a_second_time(self) -> None:
        with serving(TOKEN, answer(401), TOKEN, answer(401)) as server, pytest.raises(SourceRefused) as caught:
            watttime_login.fetch(self.ask(server))
        assert caught.value.status == 401
        assert paths(server) == ["/login", "/v3/historical"] * 2

    def test_another_refusal_does_not_sign_in_again(self) -> None:
        with serving(TOKEN, answer(403)) as server, pytest.raises(SourceRefused):
            watttime_login.fetch(self.ask(server))
        assert paths(server) == ["/login", "/v3/historical"]

    def test_too_many_requests_wait_as_long_as_asked(self) -> None:
        with serving(TOKEN, answer(429, Retry_After="0"), OK) as server:
            watttime_login.fetch(self.ask(server))
            assert paths(server) == ["/login", "/v3/historical", "/v3/historical"]
        with serving(answer(429, Retry_After="300")) as server, pytest.raises(SourceRefused) as caught:
            watttime_login.fetch(self.ask(server))
        assert (caught.value.retry_after_s, caught.value.transient, len(server.requests)) == (300.0, True, 1)

    def test_other_secrets_have_other_tokens(self) -> None:
        with serving(TOKEN, OK, answer(body=b'{"token": "jwt-two"}'), OK) as server:
            watttime_login.fetch(self.ask(server))
            watttime_login.fetch(self.ask(server, secret="someone:else"))
            assert server.requests[3]["authorization"] == "Bearer jwt-two"

    def test_a_long_history_is_asked_for_in_windows_of_32_days(self) -> None:
        with serving(TOKEN, OK) as server:
            got = watttime_login.fetch(self.ask(server, options={"region": "PJM_DC", "hours": str(24 * 70)}))
            spans = [query(r) for r in server.requests[1:]]
        assert [s["start"][:10] for s in spans] == ["2026-03-06", "2026-04-07", "2026-05-09"]
        assert all(earlier["end"] == later["start"] for earlier, later in pairwise(spans))
        assert parsed(got, "watttime", region="PJM_DC").rejects == ()  # what each window repeats counts once

    def test_a_forecast_is_asked_for_by_its_horizon(self) -> None:
        with serving(TOKEN, OK) as server:
            watttime_login.fetch(self.ask(server, options={"region": "PJM_DC", "series": "forecast", "hours": "500"}))
            assert paths(server)[1] == "/v3/forecast"
            assert query(server.requests[1])["horizon_hours"] == "72"

    @pytest.mark.parametrize("body", [b"", b"[]", b'{"token": ""}', b'{"token": 5}', b'{"token": "a\\nb"}', b"jwt-raw"])
    def test_a_sign_in_without_a_token_is_refused_and_quotes_nothing(self, body: bytes) -> None:
        with serving(answer(body=body)) as server, pytest.raises(PayloadError) as caught:
            watttime_login.fetch(self.ask(server))
        assert "jwt" not in str(caught.value)

    @pytest.mark.parametrize("secret", [None, "", "no-colon-here"])
    def test_a_secret_that_is_no_sign_in_is_refused_before_anything_is_sent(self, secret: str | None) -> None:
        with serving(TOKEN) as server:
            with pytest.raises(FetchError) as caught:
                watttime_login.fetch(self.ask(server, secret=secret))
            assert server.requests == []
        assert "no-colon-here" not in str(caught.value)

    @pytest.mark.parametrize("script", [(answer(401),), (TOKEN, answer(500, Retry_After="99")), (TOKEN, answer(403))])
    def test_no_secret_is_in_an_error(self, script: tuple[Answer, ...]) -> None:
        with serving(*script) as server, pytest.raises(SourceRefused) as caught:
            watttime_login.fetch(self.ask(server))
        assert not [secret for secret in ("s3cret", "b3BlcmF0b3I6", "jwt-one") if secret in str(caught.value)]

    def test_offline_asks_nobody(self) -> None:
        with serving(TOKEN) as server:
            with pytest.raises(OfflineMode):
                watttime_login.fetch(self.ask(server, offline=True))
            assert server.requests == []


class TestElectricityMaps:
    OPTIONS: ClassVar = {"zone": "FI", "basis": "direct", "granularity": "hourly"}

    def test_sends_token_zone_and_basis_and_refuses_the_callers_address(self) -> None:
        with serving(answer(body=json.dumps(made.em_point(emissionFactorType="direct")).encode())) as server:
            address = "/v3/carbon-intensity/latest?zone=SE&shouldUseFallbackCallerLookup=true"
            told = ask(server, "electricitymaps", address, secret="em-token", options=self.OPTIONS)
            got = electricity_maps.fetch(told)
            (request,) = server.requests
        assert request["auth-token"] == "em-token"
        assert query(request) == {
            "zone": "FI", "emissionFactorType": "direct", "temporalGranularity": "hourly",
            "shouldUseFallbackCallerLookup": "false",
        }  # fmt: skip
        assert parsed(got, "electricitymaps", **self.OPTIONS).rows_in == 1

    def test_a_range_is_asked_for_in_windows_of_10_days(self) -> None:
        with serving(answer(body=json.dumps({"zone": "FI", "data": []}).encode())) as server:
            told = ask(server, "electricitymaps", "/v3/carbon-intensity/past-range", secret="em-token",
                       options={**self.OPTIONS, "days": "25"})  # fmt: skip
            electricity_maps.fetch(told)
            spans = [(query(r)["start"], query(r)["end"]) for r in server.requests]
        assert spans == [
            ("2026-04-20T12:00:00Z", "2026-04-30T12:00:00Z"),
            ("2026-04-30T12:00:00Z", "2026-05-10T12:00:00Z"),
            ("2026-05-10T12:00:00Z", "2026-05-15T12:00:00Z"),
        ]

    @pytest.mark.parametrize("changes", [{"secret": None}, {"options": {}}])
    def test_without_token_or_zone_nothing_is_sent(self, changes: dict[str, Any]) -> None:
        with serving(answer()) as server:
            told = {"secret": "em-token", "options": self.OPTIONS, **changes}
            with pytest.raises(FetchError):
                electricity_maps.fetch(ask(server, "electricitymaps", "/latest", **told))
            assert server.requests == []

    def test_what_did_not_change_is_not_sent_again(self) -> None:
        with serving(answer(304)) as server:
            told = ask(server, "electricitymaps", "/latest", secret="em-token", options=self.OPTIONS, etag='"v1"')
            assert isinstance(electricity_maps.fetch(told), NotModified)


class TestUkCarbon:
    def test_without_days_it_is_one_conditional_get(self) -> None:
        with serving(answer(body=json.dumps({"data": [half_hour()]}).encode())) as server:
            got = uk_carbon.fetch(ask(server, "uk-carbon", "/intensity", etag='"v1"'))
            assert (paths(server), server.requests[0]["if-none-match"]) == (["/intensity"], '"v1"')
        assert parsed(got, "uk-carbon").rows_in == 2

    def test_days_are_asked_for_in_windows_of_at_most_14(self) -> None:
        with serving(answer(body=json.dumps({"data": [half_hour()]}).encode())) as server:
            got = uk_carbon.fetch(ask(server, "uk-carbon", "/intensity", options={"days": "30"}))
        assert paths(server) == [
            "/intensity/2026-04-15T12:30Z/2026-04-29T12:30Z",
            "/intensity/2026-04-29T12:30Z/2026-05-13T12:30Z",
            "/intensity/2026-05-13T12:30Z/2026-05-15T12:30Z",
        ]
        told = parsed(got, "uk-carbon")
        assert (told.rows_in, told.rejects) == (2, ())  # three windows told the same half hour

    @pytest.mark.parametrize("days", ["0", "-1", "401", "a week", "1.5", ""])
    def test_days_that_are_no_number_of_days_are_refused(self, days: str) -> None:
        with serving(answer()) as server, pytest.raises(FetchError, match="whole number from 1 to 400"):
            uk_carbon.fetch(ask(server, "uk-carbon", "/intensity", options={"days": days}))

    def test_all_windows_together_have_one_limit(self) -> None:
        with serving(answer(body=json.dumps({"data": [half_hour()] * 5}).encode())) as server:
            with pytest.raises(PayloadTooLarge):
                uk_carbon.fetch(ask(server, "uk-carbon", "/intensity", options={"days": "400"}, max_bytes=2000))
            assert len(server.requests) <= 4

    def test_a_window_that_fails_fails_the_whole(self) -> None:
        good = answer(body=json.dumps({"data": [half_hour()]}).encode())
        with serving(good, answer(400)) as server, pytest.raises(SourceRefused):
            uk_carbon.fetch(ask(server, "uk-carbon", "/intensity", options={"days": "30"}))


def paging(total: int, at_once: int) -> Answer:
    """An EIA answer that gives `at_once` of `total` rows from the asked offset on."""

    def give(handler: Handler) -> None:
        asked = dict(parse_qsl(urlsplit(handler.path).query))
        first = int(asked["offset"])
        hours = [datetime(2026, 5, 1) + timedelta(hours=i) for i in range(total)]
        listed = [made.eia_row("NUC", 100, f"{at:%Y-%m-%dT%H}") for at in hours[first : first + at_once]]
        page = {**made.eia(total=str(total)), "request": {"params": {"api_key": asked["api_key"]}}}
        page["response"]["data"] = listed
        answer(body=json.dumps(page).encode())(handler)

    return give


class TestEia:
    OPTIONS: ClassVar = {"respondent": "PJM", "basis": "lifecycle", "incomplete": "refuse", "hours": "72"}

    def test_reads_page_by_page_until_all_rows_are_there(self) -> None:
        with serving(paging(12, 5)) as server:
            got = eia.fetch(ask(server, "eia-930", "/v2/data/", secret=KEY, options=self.OPTIONS))
        assert [query(r)["offset"] for r in server.requests] == ["0", "5", "10"]
        told = parsed(got, "eia-930", **self.OPTIONS)
        assert (told.rows_in, told.rejects, told.tables["core.grid_intensity"].height) == (12, (), 12)

    def test_asks_for_utc_hours_of_the_respondent(self) -> None:
        with serving(paging(0, 5)) as server:
            eia.fetch(ask(server, "eia-930", "/v2/data/", secret=KEY, options=self.OPTIONS))
            asked = query(server.requests[0])
        assert (asked["frequency"], asked["facets[respondent][]"], asked["data[0]"]) == ("hourly", "PJM", "value")
        assert (asked["start"], asked["end"], asked["length"]) == ("2026-05-12T13", "2026-05-15T13", "5000")

    def test_a_page_without_rows_ends_it(self) -> None:
        with serving(paging(12, 5), paging(5, 5)) as server:
            eia.fetch(ask(server, "eia-930", "/v2/data/", secret=KEY, options=self.OPTIONS))
            assert len(server.requests) == 2

    def test_the_key_is_in_no_address_body_or_error(self) -> None:
        with serving(paging(1, 1)) as server:
            got = eia.fetch(ask(server, "eia-930", "/v2/data/", secret=KEY, options=self.OPTIONS))
            assert query(server.requests[0])["api_key"] == KEY
        assert KEY not in got.url and KEY.encode() not in got.body and b"REDACTED" in got.body
        with serving(answer(403)) as server, pytest.raises(SourceRefused) as caught:
            eia.fetch(ask(server, "eia-930", "/v2/data/", secret=KEY, options=self.OPTIONS))
        assert KEY not in str(caught.value)

    @pytest.mark.parametrize("total", [None, "many", True, -1, "9" * 30])
    def test_an_answer_without_its_total_is_refused(self, total: Any) -> None:
        body = {**made.eia()}
        body["response"]["total"] = total
        with serving(answer(body=json.dumps(body).encode())) as server, pytest.raises(PayloadError, match="no total"):
            eia.fetch(ask(server, "eia-930", "/v2/data/", secret=KEY, options=self.OPTIONS))

    def test_an_error_answer_is_told(self) -> None:
        with serving(answer(body=b'{"error": "invalid facet"}')) as server, pytest.raises(PayloadError, match="facet"):
            eia.fetch(ask(server, "eia-930", "/v2/data/", secret=KEY, options=self.OPTIONS))


class TestEntsoe:
    OPTIONS: ClassVar = {"area": made.FI_EIC, "basis": "lifecycle", "hours": "48"}

    def test_asks_for_realised_generation_and_keeps_the_token_secret(self) -> None:
        with serving(answer(body=made.entsoe().encode())) as server:
            got = entsoe.fetch(ask(server, "entsoe", "/api", secret=KEY, options=self.OPTIONS))
            asked = query(server.requests[0])
        assert asked == {
            "securityToken": KEY, "documentType": "A75", "processType": "A16", "in_Domain": made.FI_EIC,
            "periodStart": "202605131200", "periodEnd": "202605151200",
        }  # fmt: skip
        assert isinstance(got, Payload) and KEY not in got.url
        assert parsed(got, "entsoe", **self.OPTIONS).rows_in == 1

    def test_a_refused_token_is_in_no_error(self) -> None:
        with serving(answer(401)) as server, pytest.raises(SourceRefused) as caught:
            entsoe.fetch(ask(server, "entsoe", "/api", secret=KEY, options=self.OPTIONS))
        assert KEY not in str(caught.value)


@given(st.integers(1, 10_000), st.integers(1, 500))
def test_windows_cover_the_span_without_gap_or_overlap(hours: int, longest: int) -> None:
    start = datetime(2026, 1, 1)
    found = list(windows(start, start + timedelta(hours=hours), timedelta(hours=longest)))
    assert (found[0][0], found[-1][1]) == (start, start + timedelta(hours=hours))
    assert all(earlier[1] == later[0] for earlier, later in pairwise(found))
    assert all(timedelta(0) < end - begin <= timedelta(hours=longest) for begin, end in found)


def test_a_single_page_stays_as_it_came() -> None:
    page = Payload("s", "uk-carbon", "http://x", NOW, b"\xef\xbb\xbf{}", etag='"v1"')
    assert joined([page]) is page
    both = joined([page, page])
    assert (both.body, both.etag) == (b"[{},{}]", None)
