"""Imports run while pages and the API are being read: nothing is locked out, and every reader tells its instant."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from app.desk import Desk, local_operator
from app.operations import call
from tests.console.pages import open_page, words
from warehouse.clock import utcnow

ROUNDS = 6
ASKED = {"category": "debugging", "tier": 1, "required_context_tokens": 8_000}


def catalog(round_: int) -> bytes:
    """A catalog of one more model per round, each a little dearer than in the round before."""
    rows = [
        {
            "id": f"v/m{i}", "canonical_slug": f"v/m{i}", "name": f"M {i}", "context_length": 1000,
            "pricing": {"prompt": f"0.00000100{round_ % 10}", "completion": "0.000002"},
            "top_provider": {"context_length": 1000},
        }
        for i in range(50 + round_)
    ]  # fmt: skip
    return json.dumps({"data": rows}).encode()


def poll(seen: list[Any], done: threading.Event, ask: Callable[[], Any], failed: list[BaseException]) -> None:
    """Ask until it is done, at least once."""
    try:
        while not done.is_set() or not seen:
            seen.append(ask())
    except BaseException as error:  # told by the test, not by the thread
        failed.append(error)


def test_t46_imports_and_two_polling_readers_all_finish_and_each_answer_tells_its_instant(
    sample: Desk, tmp_path: Path
) -> None:
    me = local_operator("cli")
    done, failed = threading.Event(), list[BaseException]()
    ranked: list[dict[str, Any]] = []
    listed: list[dict[str, Any]] = []
    readers = [
        threading.Thread(target=poll, args=(ranked, done, lambda: call(sample, "rank", ASKED, me), failed)),
        threading.Thread(target=poll, args=(listed, done, lambda: call(sample, "recommend.list", {}, me), failed)),
    ]
    for thread in readers:
        thread.start()
    began = utcnow()
    try:
        for i in range(ROUNDS):
            file = tmp_path / f"{i}.json"
            file.write_bytes(catalog(i))
            told = call(sample, "import", {"kind": "openrouter", "path": str(file)}, me)
            assert told["state"] == "OK", told
    finally:
        done.set()
        for thread in readers:
            thread.join(60)
    assert not failed and not any(thread.is_alive() for thread in readers)
    assert sample.warehouse.scalar("SELECT count(DISTINCT offer_id) FROM core.offer WHERE offer_id LIKE 'v/m%'") == (
        50 + ROUNDS - 1
    )
    for seen in (ranked, listed):
        instants = [datetime.fromisoformat(told["as_of"]).replace(tzinfo=None) for told in seen]
        assert instants == sorted(instants), "a reader never sees the past again"
        assert instants[-1] > began


def test_t46_pages_that_are_read_during_an_import_show_their_instant_and_no_traceback(
    sample: Desk, tmp_path: Path
) -> None:
    file, done, failed = tmp_path / "catalog.json", threading.Event(), list[BaseException]()
    told: list[dict[str, Any]] = []

    def load() -> dict[str, Any]:
        file.write_bytes(catalog(len(told)))
        return call(sample, "import", {"kind": "openrouter", "path": str(file)}, local_operator("cli"))

    importing = threading.Thread(target=poll, args=(told, done, load, failed))
    importing.start()
    try:
        pages = [open_page("models") for _ in range(2)]  # two sessions
        for page in (*pages, *(page.run() for page in pages)):
            assert not page.exception
            assert "as of 20" in words(page) and "snapshot `" in words(page)
    finally:
        done.set()
        importing.join(60)
    assert not failed and not importing.is_alive()
    assert {each["state"] for each in told} == {"OK"}
