"""A refresh under every fault: the last good data stays and ages, nothing is lost, the outcome is in words."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ingest.base import Payload
from ingest.errors import SourceUnreachable
from ingest.http import NotModified
from ingest.kinds import kind
from ingest.pipeline import RunOutcome, refresh
from warehouse import landing
from warehouse.clock import utcnow
from warehouse.engine import Warehouse
from warehouse.runs import SourceRow, register_source

ROOT = Path(__file__).resolve().parents[2]


def catalog(n: int, **changes: Any) -> list[dict[str, Any]]:
    return [
        {
            "id": f"v/m{i}",
            "canonical_slug": f"v/m{i}",
            "name": f"M {i}",
            "context_length": 1000,
            "pricing": {"prompt": "0.000001", "completion": "0.000002"},
            "top_provider": {"context_length": 1000},
            **changes,
        }
        for i in range(n)
    ]


def body(rows: list[dict[str, Any]]) -> bytes:
    return json.dumps({"data": rows}).encode()


def feed(warehouse: Warehouse, data: bytes | Exception | NotModified, source: str = "openrouter") -> RunOutcome:
    found = kind("openrouter")
    with warehouse.transaction() as tx:
        register_source(tx, SourceRow(source, "openrouter", "t", "http", "http://x", 60, 120, 600))

    def obtain() -> Payload | NotModified:
        if isinstance(data, Exception):
            raise data
        if isinstance(data, NotModified):
            return data
        return Payload(source, "openrouter", "http://x", utcnow(), data, 200)

    return refresh(warehouse, found, source, obtain, trigger="schedule")


def offers(warehouse: Warehouse, lifecycle: str = "active") -> int:
    return int(warehouse.scalar("SELECT count(*) FROM mart.offer WHERE lifecycle = $l", {"l": lifecycle}))


def test_a_good_payload_loads_once(warehouse: Warehouse) -> None:
    first = feed(warehouse, body(catalog(10)))
    assert (first.state, first.rows_in, first.rows_loaded, first.rows_quarantined) == ("OK", 10, 10, 0)
    again = feed(warehouse, body(catalog(10)))
    assert (again.state, again.rows_loaded, again.rows_unchanged) == ("OK", 0, 10)
    assert warehouse.scalar("SELECT count(*) FROM landing.payload") == 1
    assert warehouse.scalar("SELECT count(*) FROM ops.run") == 2


FAULTS: dict[str, bytes | Exception] = {
    "truncated": body(catalog(10))[:-40],
    "not JSON": b"upstream connect error",
    "HTML": b"<!doctype html><html><body>Bad gateway</body></html>",
    "empty body": b"",
    "empty catalog": body([]),
    "cut by half": body(catalog(4)),
    "another shape": b'{"models": []}',
    "a bare number": b"42",
    "NaN literal": b'{"data": [NaN]}',
    "not UTF-8": b"\xff\xfe\x00{",
    "no connection": SourceUnreachable("connection refused", source_id="openrouter"),
    "a defect of ours": RuntimeError("unexpected"),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_a_bad_payload_fails_in_words_and_the_last_good_data_stays(
    warehouse: Warehouse, fault: bytes | Exception
) -> None:
    feed(warehouse, body(catalog(10)))
    success = warehouse.scalar("SELECT last_success_at FROM mart.freshness WHERE source_id = 'openrouter'")
    told = feed(warehouse, fault)
    assert told.state == "FAILED"
    assert told.error is not None
    assert told.error.startswith("openrouter:")
    assert offers(warehouse) == 10
    row = warehouse.query("SELECT * FROM mart.freshness WHERE source_id = 'openrouter'").row(0, named=True)
    assert row["last_success_at"] == success  # a failed refresh makes nothing younger
    assert row["last_state"] == "FAILED"
    if isinstance(fault, bytes) and fault:
        payload_id = warehouse.scalar("SELECT payload_id FROM ops.run WHERE state = 'FAILED'")
        assert landing.read_body(warehouse, payload_id) == fault  # the faulty bytes are kept as evidence


def test_a_catalog_that_shrank_is_taken_when_told_to(warehouse: Warehouse) -> None:
    feed(warehouse, body(catalog(10)))
    found = kind("openrouter")
    small = Payload("openrouter", "openrouter", "http://x", utcnow(), body(catalog(3)), 200)
    told = refresh(warehouse, found, "openrouter", lambda: small, trigger="import", accept_shrink=True)
    assert told.state == "OK"
    assert (offers(warehouse), offers(warehouse, "removed")) == (3, 7)


def test_an_offer_that_left_the_listing_is_removed_and_comes_back(warehouse: Warehouse) -> None:
    feed(warehouse, body(catalog(10)))
    told = feed(warehouse, body(catalog(9)))
    assert "1 offers are no longer listed" in told.notes
    assert (offers(warehouse), offers(warehouse, "removed")) == (9, 1)
    feed(warehouse, body(catalog(10)))
    assert (offers(warehouse), offers(warehouse, "removed")) == (10, 0)
    versions = warehouse.scalar("SELECT count(*) FROM core.offer WHERE offer_id = 'v/m9'")
    assert versions == 3  # listed, gone, listed again: all of it stays readable


def test_one_bad_row_goes_to_quarantine_and_its_siblings_load(warehouse: Warehouse) -> None:
    rows: list[Any] = catalog(5)
    rows[2] = {"name": "no id"}
    rows[3]["pricing"]["prompt"] = "-5"
    told = feed(warehouse, body(rows))
    assert told.state == "PARTIAL"
    assert told.rows_in == 5 == (told.rows_loaded or 0) + (told.rows_unchanged or 0) + (told.rows_quarantined or 0)
    assert offers(warehouse) == 4
    reasons = warehouse.query("SELECT field, reason FROM ops.quarantine ORDER BY row_no")
    assert reasons.height == 2
    before = warehouse.scalar("SELECT count(*) FROM ops.quarantine")
    feed(warehouse, body(rows))
    assert warehouse.scalar("SELECT count(*) FROM ops.quarantine") == before  # the same refusal is kept once


def test_not_modified_counts_as_a_success_without_rows(warehouse: Warehouse) -> None:
    feed(warehouse, body(catalog(10)))
    told = feed(warehouse, NotModified("openrouter", "openrouter", "http://x", utcnow()))
    assert (told.state, told.not_modified, told.rows_in) == ("OK", True, 0)
    assert offers(warehouse) == 10


def test_a_clock_that_runs_backwards_loses_and_reorders_nothing(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    from datetime import timedelta

    feed(warehouse, body(catalog(2)))
    past = utcnow() - timedelta(days=1)
    older = Payload("openrouter", "openrouter", "http://x", past, body(catalog(2, context_length=5)), 200)
    told = refresh(warehouse, kind("openrouter"), "openrouter", lambda: older, trigger="schedule")
    assert told.state == "OK"
    assert warehouse.scalar("SELECT min(context_tokens) FROM mart.offer") == 1000  # the present is not overruled
    assert warehouse.scalar("SELECT count(*) FROM core.offer") == 4  # and the older version is kept


def test_a_crash_in_the_middle_of_a_load_leaves_nothing_half(tmp_path: Path) -> None:
    path = tmp_path / "w.duckdb"
    code = """
        import os, sys, pathlib
        sys.path.insert(0, sys.argv[2])
        from tests.app.test_pipeline import feed, body, catalog
        from warehouse.engine import Warehouse
        from warehouse import runs
        w = Warehouse.open(pathlib.Path(sys.argv[1]))
        feed(w, body(catalog(3)))
        real = runs.finish
        def die(*args, **kwargs):
            os._exit(9)
        runs.finish = die
        feed(w, body(catalog(3, context_length=7)))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code), str(path), str(ROOT)], check=False)
    assert done.returncode == 9
    reopened = Warehouse.open(path)
    assert reopened.scalar("SELECT count(*) FROM core.offer") == 3
    assert reopened.scalar("SELECT count(*) FROM ops.run WHERE state = 'RUNNING'") == 1
    reopened.close()


def test_a_closed_warehouse_gives_an_outcome_that_says_it_was_not_recorded(tmp_path: Path) -> None:
    found = kind("openrouter")
    warehouse = Warehouse.open(tmp_path / "w.duckdb")
    warehouse.close()
    payload = Payload("openrouter", "openrouter", "http://x", utcnow(), body(catalog(1)))
    obtain: Callable[[], Payload | NotModified] = lambda: payload  # noqa: E731
    told = refresh(warehouse, found, "openrouter", obtain, trigger="schedule")
    assert (told.state, told.recorded) == ("FAILED", False)


def test_a_refused_payload_is_never_confirmed_as_not_modified(warehouse: Warehouse) -> None:
    """Its validator would make the source answer 304, and the last good data would look young again."""
    found = kind("openrouter")

    def sent(rows: int, etag: str) -> RunOutcome:
        payload = Payload("openrouter", "openrouter", "http://x", utcnow(), body(catalog(rows)), 200, etag=etag)
        return refresh(warehouse, found, "openrouter", lambda: payload, trigger="schedule")

    assert landing.latest_validators(warehouse, "openrouter", "openrouter") == (None, None)
    assert sent(10, '"good"').state == "OK"
    assert sent(2, '"halved"').state == "FAILED"
    assert landing.latest_validators(warehouse, "openrouter", "openrouter") == ('"good"', None)
    assert sent(9, '"next"').state == "OK"
    assert landing.latest_validators(warehouse, "openrouter", "openrouter") == ('"next"', None)


def test_a_load_of_which_every_row_was_refused_has_failed_and_makes_nothing_younger(warehouse: Warehouse) -> None:
    found = kind("neuralwatt-completions")
    with warehouse.transaction() as tx:
        register_source(tx, SourceRow("w", found.name, "t", "http", "http://x", 60, 120, 600))
    nameless = b'{"choices": [], "model": "m"}\n{"choices": [], "model": "m"}\n'
    payload = Payload("w", found.name, "http://x", utcnow(), nameless, 200)
    told = refresh(warehouse, found, "w", lambda: payload, trigger="schedule")
    assert (told.state, told.rows_in, told.rows_loaded, told.rows_quarantined) == ("FAILED", 2, 0, 2)
    assert told.error is not None
    assert "every row was refused (2)" in told.error
    assert warehouse.scalar("SELECT count(*) FROM ops.quarantine") == 2  # the reasons are kept
    row = warehouse.query("SELECT status, last_success_at, why FROM mart.freshness WHERE source_id = 'w'").row(0)
    assert row[:2] == ("never", None)
    assert "every row was refused" in row[2]


def test_sample_rows_do_not_hide_the_real_ones_of_the_same_name_from_the_shrink_rule(warehouse: Warehouse) -> None:
    feed(warehouse, body(catalog(10)))
    feed(warehouse, body(catalog(10, context_length=7)), source="sample:catalog")  # newer, with the same keys
    assert feed(warehouse, body(catalog(3))).state == "FAILED"
    assert "1 offers are no longer listed" in feed(warehouse, body(catalog(9))).notes
    gone = "SELECT source_id FROM core.offer WHERE offer_id = 'v/m9' AND lifecycle = 'removed'"
    assert warehouse.query(gone)["source_id"].to_list() == ["openrouter"]


def test_every_typed_table_is_rebuilt_from_landing(tmp_path: Path) -> None:
    """Catalog changes, a removal, the sample and an import with options: all as it was, and as of when it was known."""
    from ingest.rebuild import rebuild
    from ingest.sample import sample_payloads
    from warehouse.loads import SPECS
    from warehouse.tables import columns

    old, new = Warehouse.open(tmp_path / "old.duckdb"), Warehouse.open(tmp_path / "new.duckdb")
    for rows in (catalog(5), catalog(4), catalog(5, context_length=7)):
        feed(old, body(rows))
    feed(old, b"broken")
    sample = sample_payloads(utcnow())
    for payload in sample:
        refresh(old, kind(payload.kind), payload.source_id, lambda p=payload: p, trigger="sample")
    told = rebuild(old, new)
    assert (told.payloads, told.failed, told.skipped) == (3 + len(sample), [], [])
    compared = 0
    for table in SPECS:
        names = [c.name for c in columns(table) if c.name not in {"run_id", "known_from"}]
        sql = f"SELECT {', '.join(names)} FROM {table} ORDER BY ALL"
        before, after = old.query(sql), new.query(sql)
        assert before.equals(after), table
        compared += before.height > 0
    assert compared >= 5
    old.close()
    new.close()
