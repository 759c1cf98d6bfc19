"""`mooncake-trace`: milliseconds, lengths, and sessions from prefix blocks."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from ingest.errors import PayloadError
from tests.ingest.traces.loading import load, parse, rows
from tests.support import shared
from warehouse.engine import Warehouse


def line(at_ms: Any, prompt: Any, output: Any, blocks: Any) -> str:
    return json.dumps({"timestamp": at_ms, "input_length": prompt, "output_length": output, "hash_ids": blocks}) + "\n"


BODY = (
    line(0, 900, 50, [0, 1])
    + line(0, 700, 60, [0, 2])
    + line(1500, 1600, 70, [0, 1, 5, 9])
    + line(3000, 300, 80, [0])
    + line(3000, 1100, 90, [7, 1, 3])
)


def test_requests_that_share_their_first_blocks_are_a_session() -> None:
    found = rows(parse("mooncake-trace", BODY, "m.jsonl"))
    assert [r["arrival_s"] for r in found] == [0.0, 0.0, 1.5, 3.0, 3.0]
    assert [r["session_id"] for r in found] == ["0-1", "0-2", "0-1", None, "7-1"]
    assert [r["output_tokens"] for r in found] == [50, 60, 70, 80, 90]
    assert found[0]["trace"] == "m" and found[0]["arrived_at"] is None


def test_how_many_blocks_make_a_session_is_an_option() -> None:
    one = [r["session_id"] for r in rows(parse("mooncake-trace", BODY, session_blocks="1"))]
    assert one == ["0", "0", "0", "0", "7"]
    three = [r["session_id"] for r in rows(parse("mooncake-trace", BODY, session_blocks="3"))]
    assert three == [None, None, "0-1-5", None, "7-1-3"]


def test_a_packed_file_reads_the_same() -> None:
    assert rows(parse("mooncake-trace", gzip.compress(BODY.encode()))) == rows(parse("mooncake-trace", BODY))


def test_broken_lines_and_lengths_go_alone() -> None:
    body = (
        BODY + "{not json}\n" + "[1]\n" + line(4000, 0, 5, [1]) + '{"timestamp": 4000, "input_length": NaN, '
        '"output_length": 5}\n' + "\n" + line(5000, 10, 20, "no list")
    )
    parsed = parse("mooncake-trace", body)
    assert [r.reason for r in parsed.rejects if r.row_no in (5, 6)] == [
        "the line is not JSON", "the line is a list, not an object",
    ]  # fmt: skip
    assert [r.reason for r in parsed.rejects if r.row_no in (7, 8)] == [
        "input_length is 0: a request without it serves nothing", "input_length is not a finite number",
    ]  # fmt: skip
    assert rows(parsed)[-1]["prompt_tokens"] == 10 and rows(parsed)[-1]["session_id"] is None
    assert parsed.rows_in == 10 == len(rows(parsed)) + parsed.rows_quarantined


def test_an_unsorted_trace_is_refused() -> None:
    with pytest.raises(PayloadError, match="not in order"):
        parse("mooncake-trace", line(10, 1, 1, [0]) + line(9, 1, 1, [0]))


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("", "is empty"),
        ("timestamp,input_length\n0,1\n", "no JSON lines"),
        (b"\x1f\x8b\x08broken", "cannot be read|no JSON"),
    ],
)
def test_what_is_no_trace_is_refused_whole(body: str | bytes, why: str) -> None:
    with pytest.raises(PayloadError, match=why):
        parse("mooncake-trace", body)


def test_the_published_traces_load_whole(warehouse: Warehouse) -> None:
    for name, requests, sessions in (("conversation", 12_031, 7_373), ("synthetic", 3_993, 1_138)):
        path = shared(f"data/mooncake_fast25/{name}_trace.jsonl")
        outcome = load(warehouse, "mooncake-trace", path)
        assert (outcome.state, outcome.rows_loaded, outcome.rows_quarantined) == ("OK", requests, 0)
        found = warehouse.query(
            "SELECT count(DISTINCT session_id) AS n FROM core.request_trace WHERE trace = $t", {"t": f"{name}_trace"}
        )
        assert found.item() == sessions
