"""`azure-trace`: times with 100 ns, or numbers, of the Azure LLM inference traces."""

from __future__ import annotations

from datetime import datetime

import pytest

from ingest.errors import PayloadError
from tests.ingest.traces.loading import load, loaded, parse, rows
from tests.support import shared
from warehouse.engine import Warehouse

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
BODY = (
    HEADER
    + "2023-11-16 18:17:03.9799600,4808,10\n"
    + "2023-11-16 18:17:04.0319601,3180,8\n"
    + "2023-11-16 18:18:04.0000000,110,27\n"
)


def test_stamps_keep_their_100_nanoseconds() -> None:
    parsed = parse("azure-trace", BODY)
    assert [r["arrival_s"] for r in rows(parsed)] == pytest.approx([0.0, 0.0520001, 60.02004], abs=1e-12)
    assert rows(parsed)[0]["arrived_at"] == datetime(2023, 11, 16, 18, 17, 3, 979960)
    assert [(r["request_no"], r["prompt_tokens"], r["output_tokens"]) for r in rows(parsed)] == [
        (0, 4808, 10), (1, 3180, 8), (2, 110, 27),
    ]  # fmt: skip
    assert parsed.data_at == datetime(2023, 11, 16, 18, 18, 4)
    assert parsed.rejects == ()


def test_times_of_another_zone_become_utc() -> None:
    (row, *_) = rows(parse("azure-trace", BODY, timezone="America/New_York"))
    assert row["arrived_at"] == datetime(2023, 11, 16, 23, 17, 3, 979960)


@pytest.mark.parametrize(
    ("unit", "stamps"), [("s", "0.5,2.0,2.25"), ("ms", "500,2000,2250"), ("ns", "500000000,2000000000,2250000000")]
)
def test_numbers_stand_in_for_times(unit: str, stamps: str) -> None:
    body = HEADER + "".join(f"{s},100,10\n" for s in stamps.split(","))
    found = rows(parse("azure-trace", body, time_unit=unit))
    assert [r["arrival_s"] for r in found] == pytest.approx([0.0, 1.5, 1.75])
    assert found[0]["arrived_at"] is None


def test_large_numbers_keep_what_a_float_would_lose() -> None:
    body = HEADER + "1700158623979960100,1,1\n1700158623979960200,1,1\n"
    assert [r["arrival_s"] for r in rows(parse("azure-trace", body, time_unit="ns"))] == [0.0, 1e-7]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("2023-11-16 18:17:05,0,10", "ContextTokens is 0"),
        ("2023-11-16 18:17:05,NaN,10", "ContextTokens is not a finite number"),
        ("2023-11-16 18:17:05,-4,10", "ContextTokens is negative"),
        ("2023-11-16 18:17:05,4.5,10", "ContextTokens is not a whole number"),
        ("2023-11-16 18:17:05,,10", "ContextTokens is missing"),
        ("2023-11-16 18:17:05,5,inf", "GeneratedTokens is not a finite number"),
        ("2023-11-16 18:17:05,5,0", "GeneratedTokens is 0"),
        ("2023-11-16 18:17:05,5,1000000000000", "GeneratedTokens is above"),
        ("yesterday,5,5", "TIMESTAMP is no time"),
        ("2023-11-31 18:17:05,5,5", "TIMESTAMP is no time"),
        ("1700000000,5,5", "TIMESTAMP is a number, where the trace has times"),
        (",5,5", "TIMESTAMP is missing"),
        ("1823-11-16 18:17:05,5,5", "TIMESTAMP is not between 1970"),
        ("2023-11-16 18:17:05,5", "the row has 2 fields, the header 3"),
    ],
)
def test_a_row_that_is_no_request_goes_alone(row: str, reason: str) -> None:
    parsed = parse("azure-trace", HEADER + "2023-11-16 18:17:04,1,2\n" + row + "\n" + "2023-11-16 18:17:06,3,4\n")
    assert [(r["request_no"], r["prompt_tokens"]) for r in rows(parsed)] == [(0, 1), (1, 3)]
    (reject,) = parsed.rejects
    assert reason in reject.reason
    assert reject.row_no == 1
    assert parsed.rows_in == 3 == len(rows(parsed)) + parsed.rows_quarantined


def test_an_unsorted_trace_is_refused_by_its_row() -> None:
    body = HEADER + "2023-11-16 18:17:05,1,1\n2023-11-16 18:17:03.5,2,2\n"
    with pytest.raises(PayloadError, match=r"row 1 \(2023-11-16 18:17:03.5\) arrives 1.5 s before.*sort=true"):
        parse("azure-trace", body)


def test_an_unsorted_trace_is_sorted_on_request_and_counted(warehouse: Warehouse, tmp_path: object) -> None:
    file = tmp_path / "mixed.csv"  # type: ignore[operator]
    stamps = ["05.0", "03.5", "05.0", "04.0", "09.0"]
    file.write_text(HEADER + "".join(f"2023-11-16 18:17:{s},{n + 1},1\n" for n, s in enumerate(stamps)))
    outcome = load(warehouse, "azure-trace", file, sort="true")
    assert outcome.state == "OK"
    assert "2 requests arrived before the one ahead of them; the trace was sorted" in outcome.notes
    found = loaded(warehouse)
    assert found["arrival_s"].to_list() == [0.0, 0.5, 1.5, 1.5, 5.5]
    assert found["prompt_tokens"].to_list() == [2, 4, 1, 3, 5]  # equal times keep their order
    assert found["request_no"].to_list() == [0, 1, 2, 3, 4]
    again = load(warehouse, "azure-trace", file, sort="true")
    assert (again.state, again.rows_loaded, again.rows_unchanged) == ("OK", 0, 5)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("", "is empty"),
        (HEADER, "has no requests"),
        ("TIMESTAMP,ContextTokens\n2023-11-16 18:17:05,4\n", "'GeneratedTokens' is missing"),
        ("<html>sign in</html>", "markup"),
        ("[1, 2]", "JSON array"),
    ],
)
def test_what_is_no_trace_is_refused_whole(body: str, why: str) -> None:
    with pytest.raises(PayloadError, match=why):
        parse("azure-trace", body)


def test_an_unknown_zone_is_named() -> None:
    with pytest.raises(PayloadError, match="no known time zone"):
        parse("azure-trace", BODY, timezone="Mars/Olympus")


def test_the_published_traces_load_whole(warehouse: Warehouse) -> None:
    for name, requests, tokens in (("code", 8819, 18_059_974), ("conv", 19366, 22_361_870)):
        path = shared(f"data/azure_llm_2023/AzureLLMInferenceTrace_{name}.csv")
        outcome = load(warehouse, "azure-trace", path)
        assert (outcome.state, outcome.rows_loaded, outcome.rows_quarantined) == ("OK", requests, 0)
        found = warehouse.query(
            f"SELECT sum(prompt_tokens) AS tokens, max(arrival_s) AS last, max(arrived_at) AS at "
            f"FROM core.request_trace WHERE trace = 'AzureLLMInferenceTrace_{name}'"
        ).row(0, named=True)
        assert found["tokens"] == tokens
        assert 3_400 < found["last"] < 3_600
        assert found["at"].date() == datetime(2023, 11, 16).date()
