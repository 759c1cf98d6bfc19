"""`request-trace`: requests of your own in the shapes that tools write."""

from __future__ import annotations

import io
import json
from datetime import datetime
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.errors import PayloadError
from ingest.traces import tables
from tests.ingest.traces.loading import load, loaded, parse, rows
from warehouse.engine import Warehouse

OWN = "arrival_s,prompt_tokens,output_tokens,session_id,model,category\n0.5,100,20,s1,m,chat\n2.0,50,5,,m,\n"


def test_a_table_of_ones_own() -> None:
    first, second = rows(parse("request-trace", OWN))
    assert (first["arrival_s"], first["session_id"], first["model"], first["category"]) == (0.0, "s1", "m", "chat")
    assert (second["arrival_s"], second["session_id"], second["category"]) == (1.5, None, None)


def test_the_same_requests_as_csv_json_lines_and_parquet() -> None:
    frame = pl.read_csv(io.BytesIO(OWN.encode()))
    lines = frame.write_ndjson()
    packed = io.BytesIO()
    frame.write_parquet(packed)
    expected = rows(parse("request-trace", OWN))
    assert rows(parse("request-trace", lines, "t.jsonl")) == expected
    assert rows(parse("request-trace", packed.getvalue(), "t.parquet")) == expected


def test_the_shape_of_splitwise_tells_seconds() -> None:
    body = "timestamp,num_prefill_tokens,num_decode_tokens\n10.25,300,40\n11.0,20,8\n"
    assert [(r["arrival_s"], r["prompt_tokens"], r["output_tokens"]) for r in rows(parse("request-trace", body))] == [
        (0.0, 300, 40), (0.75, 20, 8),
    ]  # fmt: skip
    other = "request_id,arrival_timestamp,batch_size,prompt_size,token_size\n0,0.0,1,300,40\n1,0.75,1,20,8\n"
    assert rows(parse("request-trace", other)) == rows(parse("request-trace", body))


def test_the_shape_of_the_semantic_router_tells_model_and_category() -> None:
    lines = "".join(
        json.dumps({"timestamp": t, "prompt_tokens": 10, "generated_tokens": 5, "selected_model": m,
                    "complexity": "easy", "category": "math"}) + "\n"
        for t, m in ((0.0, "small"), (0.4, "large"))
    )  # fmt: skip
    found = rows(parse("request-trace", lines, "r.jsonl"))
    assert [(r["arrival_s"], r["model"], r["category"]) for r in found] == [
        (0.0, "small", "math"),
        (0.4, "large", "math"),
    ]


def test_numbers_without_a_unit_are_refused_until_it_is_declared() -> None:
    body = "timestamp,prompt_tokens,output_tokens\n1000,1,1\n2500,1,1\n"
    with pytest.raises(PayloadError, match=r"no unit.*time_unit=s\|ms\|us\|ns"):
        parse("request-trace", body)
    assert rows(parse("request-trace", body, time_unit="ms"))[1]["arrival_s"] == 1.5


def test_a_declared_unit_never_contradicts_the_column() -> None:
    with pytest.raises(PayloadError, match="tells its unit"):
        parse("request-trace", OWN, time_unit="ms")
    body = "arrival_ms,prompt_tokens,output_tokens\n0,1,1\n2500,1,1\n"
    assert rows(parse("request-trace", body))[1]["arrival_s"] == 2.5


def test_numbers_that_count_from_1970_are_times_on_request() -> None:
    body = "timestamp,prompt_tokens,output_tokens\n1700158623.25,1,1\n1700158624.5,1,1\n"
    relative = rows(parse("request-trace", body, time_unit="s"))
    unix = rows(parse("request-trace", body, time_unit="s", clock="unix"))
    assert relative[0]["arrived_at"] is None
    assert unix[0]["arrived_at"] == datetime(2023, 11, 16, 18, 17, 3, 250000)
    assert unix[1]["arrival_s"] == relative[1]["arrival_s"] == 1.25
    parsed = parse("request-trace", body, time_unit="ns", clock="unix")
    assert parsed.rows_quarantined == 2 and "no Unix time of that unit" in parsed.rejects[0].reason


def test_times_need_an_offset_or_a_declared_zone() -> None:
    body = "timestamp,prompt_tokens,output_tokens\n2026-03-29T01:30:00,1,1\n2026-03-29T03:30:00.5,1,1\n"
    parsed = parse("request-trace", body)
    assert [r.reason for r in parsed.rejects] == [
        "timestamp has no offset; declare its zone with the option timezone"
    ] * 2
    berlin = rows(parse("request-trace", body, timezone="Europe/Berlin"))
    assert [r["arrived_at"].hour for r in berlin] == [0, 1]  # the clocks went forward between the two
    assert berlin[1]["arrival_s"] == 3600.5


def test_offsets_are_honoured_and_hours_that_come_twice_are_not_guessed() -> None:
    body = (
        "arrived_at,prompt_tokens,output_tokens\n2026-10-25T00:30:00Z,1,1\n2026-10-25T03:00:00+02:00,1,1\n"
        "2026-10-25T02:30:00,1,1\n2026-10-25T02:30:00-0030,1,1\n"
    )
    parsed = parse("request-trace", body, timezone="Europe/Berlin")
    assert [r["arrival_s"] for r in rows(parsed)] == [0.0, 1800.0, 9000.0]
    assert "does not come once in Europe/Berlin" in parsed.rejects[0].reason


@pytest.mark.parametrize(
    ("header", "why"),
    [
        ("prompt_tokens,output_tokens", "no column tells the arrival"),
        ("arrival_s,output_tokens", "no column tells the prompt's tokens"),
        ("arrival_s,prompt_tokens", "no column tells the output's tokens"),
        ("arrival_s,prompt_tokens,input_tokens,output_tokens", "tell the same"),
    ],
)
def test_columns_that_are_missing_or_told_twice_are_named(header: str, why: str) -> None:
    with pytest.raises(PayloadError, match=why):
        parse("request-trace", f"{header}\n" + ",".join("1" for _ in header.split(",")) + "\n")


def test_a_trace_without_requests_is_refused() -> None:
    with pytest.raises(PayloadError, match="no requests"):
        parse("request-trace", "arrival_s,prompt_tokens,output_tokens\n")


def test_a_name_that_is_too_long_is_left_out_and_its_request_loads() -> None:
    parsed = parse("request-trace", f"arrival_s,prompt_tokens,output_tokens,model\n0,1,1,{'m' * 201}\n")
    (row,) = rows(parsed)
    (reject,) = parsed.rejects
    assert row["model"] is None
    assert not reject.whole_row and "model is longer than 200" in reject.reason


def test_a_trace_takes_the_name_of_its_file_or_the_declared_one() -> None:
    assert rows(parse("request-trace", OWN, "My trace (1).csv.gz"))[0]["trace"] == "My-trace-1"
    assert rows(parse("request-trace", OWN, trace="day-1"))[0]["trace"] == "day-1"
    with pytest.raises(PayloadError, match="is no name"):
        parse("request-trace", OWN, trace="a b")
    with pytest.raises(PayloadError, match="sample data"):
        parse("request-trace", OWN, trace="sample")


def test_a_trace_may_grow_and_never_change(warehouse: Warehouse, tmp_path: Path) -> None:
    file = tmp_path / "day.csv"
    file.write_text(OWN)
    assert load(warehouse, "request-trace", file).rows_loaded == 2
    file.write_text(OWN + "3.0,7,7,,,\n")
    grown = load(warehouse, "request-trace", file)
    assert (grown.state, grown.rows_loaded, grown.rows_unchanged) == ("OK", 1, 2)
    file.write_text(OWN.replace("50,5", "51,5") + "3.0,7,7,,,\n")
    changed = load(warehouse, "request-trace", file)
    assert changed.state == "FAILED" and "1 of its 3 kept rows differ" in str(changed.error)
    assert "--option trace=NAME" in str(changed.fix)
    file.write_text(OWN)
    shorter = load(warehouse, "request-trace", file)
    assert shorter.state == "FAILED" and loaded(warehouse).height == 3
    assert load(warehouse, "request-trace", file, trace="day-2").state == "OK"


def test_rows_that_go_to_quarantine_are_counted_in_the_run(warehouse: Warehouse, tmp_path: Path) -> None:
    file = tmp_path / "day.csv"
    file.write_text(OWN + "2.5,0,7,,,\n3.0,7,nan,,,\n")
    outcome = load(warehouse, "request-trace", file)
    assert (outcome.state, outcome.rows_in, outcome.rows_loaded, outcome.rows_quarantined) == ("PARTIAL", 4, 2, 2)
    told = warehouse.query("SELECT reason, row_no FROM ops.quarantine ORDER BY row_no")
    assert told["row_no"].to_list() == [2, 3]
    file.write_text("arrival_s,prompt_tokens,output_tokens\n0,0,1\n")
    assert load(warehouse, "request-trace", file, trace="none").state == "FAILED"


def test_a_file_of_many_pieces_is_one_trace(
    warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "_BLOCK_BYTES", 1 << 20)
    n = 60_000
    frame = pl.DataFrame({"arrival_s": [k / 50 for k in range(n)]}).with_columns(
        prompt_tokens=pl.int_range(1, n + 1), output_tokens=pl.lit(3)
    )
    for name in ("big.csv", "big.parquet", "big.jsonl"):
        file = tmp_path / name
        {"csv": frame.write_csv, "parquet": frame.write_parquet, "jsonl": frame.write_ndjson}[name[4:]](file)
        assert load(warehouse, "request-trace", file, trace=name).rows_loaded == n
    found = warehouse.query(
        "SELECT trace, max(request_no) AS last, max(arrival_s) AS s, sum(prompt_tokens) AS tokens, "
        "count(*) FILTER (prompt_tokens <> request_no + 1) AS misplaced FROM core.request_trace GROUP BY trace"
    )
    assert found["last"].to_list() == [n - 1] * 3
    assert found["s"].to_list() == [(n - 1) / 50] * 3
    assert found["misplaced"].to_list() == [0] * 3


def test_disorder_is_seen_across_pieces(tmp_path: Path, warehouse: Warehouse) -> None:
    stamps = [*range(30_000), 10]
    file = tmp_path / "big.csv"
    file.write_text("arrival_s,prompt_tokens,output_tokens\n" + "".join(f"{s},1,1\n" for s in stamps))
    outcome = load(warehouse, "request-trace", file)
    assert outcome.state == "FAILED" and "row 30000 (10) arrives 29989 s before" in str(outcome.error)
    assert loaded(warehouse).height == 0


@given(gaps=st.lists(st.integers(0, 10**12), min_size=1, max_size=40), start=st.integers(0, 10**18))
@settings(max_examples=20)
def test_nanoseconds_come_back_as_they_were(gaps: list[int], start: int) -> None:
    stamps = [start]
    for gap in gaps:
        stamps.append(stamps[-1] + gap)
    body = "timestamp,prompt_tokens,output_tokens\n" + "".join(f"{s},1,1\n" for s in stamps)
    found = rows(parse("request-trace", body, time_unit="ns"))
    assert [r["arrival_s"] for r in found] == [(s - start) / 1e9 for s in stamps]
