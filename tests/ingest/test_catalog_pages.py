"""Catalogs in pages: all of them or none, on one host, and a listing that stays open removes nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from ingest.base import Payload
from ingest.catalog import pages
from ingest.catalog.aliases import Resolution, resolve
from ingest.catalog.openrouter import parse
from ingest.catalog.rows import origin_of
from ingest.errors import FetchError, PayloadError, PayloadTooLarge, SourceRefused
from ingest.http import NotModified
from ingest.kind import Ask
from ingest.kinds import kind
from ingest.pipeline import refresh
from tests.ingest.samples import NOW, counts_add_up, openrouter_model, payload, rows
from tests.ingest.server import Handler, serving
from warehouse.engine import Warehouse


def page(*ids: str, following: Any = None, **extra: Any) -> Any:
    body = json.dumps({"data": [openrouter_model(i) for i in ids], "links": {"next": following}, **extra}).encode()

    def answer(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.send_header("ETag", '"v1"')
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def refusal(status: int) -> Any:
    def answer(handler: Handler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return answer


def ask(url: str, **changes: Any) -> Ask:
    told = Ask(url, "s", "openrouter", None, {}, None, None, 1 << 20, False, NOW)
    return replace(told, **changes)


def fetched(url: str, **changes: Any) -> Payload:
    got = pages.fetch(ask(url, **changes))
    assert isinstance(got, Payload)
    return got


def test_every_page_is_followed_and_kept_as_it_came() -> None:
    script = [page("a/1", following="/models?offset=1"), page("a/2", following="?offset=2"), page("a/3", total_count=3)]
    with serving(*script) as server:
        got = fetched(server.url)
        assert [r["path"] for r in server.requests] == ["/models", "/models?offset=1", "/models?offset=2"]
    assert got.body.count(pages.SEPARATOR) == 2
    result = parse(got)
    assert [r["offer_id"] for r in rows(result)] == ["a/1", "a/2", "a/3"]
    assert (result.complete, counts_add_up(result)) == (True, True)


def test_one_page_is_conditional_and_several_are_not() -> None:
    with serving(page("a/1")) as server:
        assert fetched(server.url).etag == '"v1"'
    with serving(page("a/1", following="?p=2"), page("a/2")) as server:
        assert fetched(server.url).etag is None


def test_nothing_new_is_told_without_pages() -> None:
    with serving(refusal(304)) as server:
        assert isinstance(pages.fetch(ask(server.url, etag='"v1"')), NotModified)


def test_the_secret_goes_to_every_page_of_the_host_and_to_no_other() -> None:
    with serving(page("a/1", following="?p=2"), page("a/2", following="http://127.0.0.2:9/x")) as server:
        got = fetched(server.url, secret="s3cret")
        assert [r["authorization"] for r in server.requests] == ["Bearer s3cret"] * 2
    result = parse(got)
    assert not result.complete


def test_a_page_that_fails_fails_the_whole_fetch() -> None:
    with serving(page("a/1", following="?p=2"), refusal(403)) as server, pytest.raises(SourceRefused, match="403"):
        pages.fetch(ask(server.url))


def test_pages_that_lead_back_end_and_leave_the_listing_open() -> None:
    with serving(page("a/1", following="?p=2"), page("a/2", following="?p=2")) as server:
        got = fetched(server.url)
        assert len(server.requests) == 2
    result = parse(got)
    assert (len(rows(result)), result.complete) == (2, False)


def test_more_pages_than_allowed_leave_the_listing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MAX_PAGES", 2)
    with serving(page("a/1", following="?p=2"), page("a/2", following="?p=3"), page("a/3")) as server:
        assert not parse(fetched(server.url)).complete


def test_the_limit_of_bytes_holds_over_all_pages() -> None:
    one = len(json.dumps({"data": [openrouter_model("a/1")], "links": {"next": "?p=2"}}))
    with serving(page("a/1", following="?p=2"), page("a/2")) as server, pytest.raises(PayloadTooLarge):
        pages.fetch(ask(server.url, max_bytes=2 * one - 50))
    with serving(page("a/1", following="?p=2"), page("a/2")) as server:
        assert len(fetched(server.url, max_bytes=2 * one).body) <= 2 * one


def test_offline_forbids_the_first_page_already() -> None:
    with pytest.raises(FetchError):
        pages.fetch(ask("http://127.0.0.1:9/models", offline=True))


@pytest.mark.parametrize(
    ("links", "total", "complete"),
    [
        (None, None, True), ({}, None, True), ({"next": None}, 1, True), ({"next": ""}, None, True),
        ({"next": "/more"}, None, False), ({"next": {"href": "/more"}}, None, False), ({"next": 5}, None, False),
        (None, 2, False), (None, "2", True),
    ],
)  # fmt: skip
def test_a_listing_is_complete_unless_it_says_otherwise(links: Any, total: Any, complete: bool) -> None:
    result = parse(payload({"data": [openrouter_model()], "links": links, "total_count": total}))
    assert result.complete == complete
    assert bool(result.notes) != complete


def test_a_model_that_moved_from_page_to_page_leaves_the_listing_open() -> None:
    """A row that came twice hides one that never came."""
    body = pages.SEPARATOR.join(
        json.dumps({"data": [openrouter_model(i)], "total_count": 2}).encode() for i in ("a/1", "a/1")
    )
    result = parse(payload(body))
    assert not result.complete


def test_a_page_that_is_none_refuses_the_listing() -> None:
    body = json.dumps({"data": [openrouter_model()]}).encode() + pages.SEPARATOR + b'{"error": {"message": "late"}}'
    with pytest.raises(PayloadError, match="late"):
        parse(payload(body))


def test_an_open_listing_removes_nothing_and_a_complete_one_does(warehouse: Warehouse) -> None:
    def load(*models: Any, after: int, **extra: Any) -> str:
        body = json.dumps({"data": list(models), **extra}).encode()
        at = NOW + timedelta(hours=after)
        told = Payload("s", "openrouter", "https://openrouter.ai/x", at, body, http_status=200)
        return refresh(warehouse, kind("openrouter"), "s", lambda: told, trigger="manual", accept_shrink=True).state

    one, two = openrouter_model("a/1"), openrouter_model("a/2")
    load(one, two, after=0)
    load(one, after=1, links={"next": "/more"})
    in_force = "SELECT count(*) FROM mart.offer WHERE lifecycle = 'active'"
    assert warehouse.scalar(in_force) == 2
    load(one, after=2)
    assert warehouse.scalar(in_force) == 1


# where a price comes from ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://x/models", "live"),
        ("http://x/models", "live"),
        ("file:///x.json", "cached"),
        ("sample://x", "bundled"),
    ],
)
@pytest.mark.parametrize("name", ["openrouter", "neuralwatt-models", "openai-models", "litellm-prices", "models-dev"])
def test_every_price_says_whether_it_is_live_cached_or_bundled(name: str, url: str, origin: str) -> None:
    from tests.ingest.samples import SOUND

    told = replace(payload(SOUND[name], name), url=url)
    assert origin_of(told) == origin
    assert set(kind(name).parse(told).tables["core.price"]["origin"]) == {origin}


# names that move ---------------------------------------------------------------------------------


def versions(*rows_: tuple[str, str | None, int]) -> Any:
    """Rows of core.offer: (offer, what it stands for, day in May 2026)."""
    import polars as pl

    return pl.DataFrame(
        {
            "provider": ["p"] * len(rows_),
            "offer_id": [r[0] for r in rows_],
            "alias_of": pl.Series([r[1] for r in rows_], dtype=pl.String),
            "valid_from": [datetime(2026, 5, r[2]) for r in rows_],
            "known_from": [datetime(2026, 5, r[2], 1) for r in rows_],
        }
    )


def test_a_moving_name_is_resolved_as_of_a_day_and_says_since_when() -> None:
    offers = versions(("latest", "one-0501", 1), ("latest", "one-0501", 3), ("latest", "one-0507", 7))
    assert resolve(offers, "p", "latest", datetime(2026, 5, 4)) == Resolution(
        ("latest", "one-0501"), datetime(2026, 5, 1)
    )
    assert resolve(offers, "p", "latest", datetime(2026, 5, 9)).target == "one-0507"
    assert resolve(offers, "p", "latest", datetime(2026, 5, 9)).since == datetime(2026, 5, 7)


def test_what_was_not_known_yet_resolves_nothing() -> None:
    offers = versions(("latest", "one-0501", 1), ("latest", "one-0507", 7))
    then = resolve(offers, "p", "latest", datetime(2026, 5, 9), known_at=datetime(2026, 5, 2))
    assert then.target == "one-0501"


def test_names_are_followed_to_the_end_and_circles_are_told() -> None:
    chain = versions(("a", "b", 1), ("b", "c", 2))
    assert resolve(chain, "p", "a", datetime(2026, 5, 9)).names == ("a", "b", "c")
    circle = resolve(versions(("a", "b", 1), ("b", "a", 1)), "p", "a", datetime(2026, 5, 9))
    assert (circle.cycle, circle.target) == (True, None)


def test_an_unknown_name_stands_for_itself() -> None:
    found = resolve(versions(("a", None, 1)), "p", "x", datetime(2026, 5, 9))
    assert (found.target, found.since) == ("x", None)
