"""LiteLLM spend logs: an estimate, not a bill; whole columns at once, and the same answer row by row."""

from __future__ import annotations

import gzip
import io
import json
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest.base import Parsed
from ingest.billing import litellm_spendlogs, pieces
from ingest.billing.litellm_rows import READS, usage_row
from ingest.billing.repricing import reprice, unpriced
from ingest.catalog.litellm_prices import parse as parse_prices
from ingest.errors import IngestError, PayloadError
from ingest.fields import Row
from ingest.kinds import kind
from ingest.stream import Stream, refresh_stream
from tests.ingest.log_samples import csv_text, json_lines, litellm_entry, litellm_prices, spend_row
from tests.ingest.samples import NOW, counts_add_up, payload, rows
from tests.ingest.test_mutilation import facts_or_error, mutilated
from warehouse.clock import utcnow
from warehouse.engine import Warehouse
from warehouse.tables import frame

FREE = {"zero_spend": "free"}


def parsed(body: Any, **options: str) -> Parsed:
    result = litellm_spendlogs.parse(payload(body, "litellm-spendlogs", options=options))
    assert counts_add_up(result)
    return result


def only(**changes: Any) -> dict[str, Any]:
    (row,) = rows(parsed(json_lines(spend_row(**changes))))
    return row


def test_a_row_becomes_a_request() -> None:
    row = only()
    assert {k: v for k, v in row.items() if v is not None} == {
        "provider": "litellm",
        "account": "88dc28d0f030c55ed4ab77ed8faf0981",
        "usage_key": "chatcmpl-1",
        "grain": "request",
        "workload": "organic",
        "period_start_at": datetime(2026, 8, 6, 14, 30, 0, 250_000),
        "period_end_at": datetime(2026, 8, 6, 14, 31, 30, 250_000),
        "requested_offer": "gpt-4o-mini",
        "served_offer": "openai/gpt-4o-mini",
        "prompt_tokens": 1000,
        "completion_tokens": 50,
        "cached_tokens": 400,
        "requests": 1,
        "attempts": 1,
        "successes": 1,
        "requests_with_energy": 0,
        "list_cost_usd": Decimal("0.00175"),
        "duration_s": 90.0,
        "evidence_class": "modeled",
        "method": "LiteLLM spend log, tokens x its price map",
    }


def test_spend_is_an_estimate_and_never_a_bill() -> None:
    assert only()["billed_cost_usd"] is None


def test_t25_reading_a_stored_response_spends_nothing() -> None:
    # litellm#17814: two reads of 0.0023 each
    body = json_lines(*(spend_row(f"r{i}", call_type="aget_responses", spend=0.0023) for i in range(2)))
    usage = parsed(body).tables["core.usage"]
    assert usage["list_cost_usd"].to_list() == [0, 0]
    assert (
        usage.select(pl.col("requests", "attempts", "successes", "prompt_tokens", "completion_tokens").sum()).row(0)
        == (0,) * 5
    )


@pytest.mark.parametrize("call_type", sorted(READS))
def test_t25_no_other_look_at_a_response_spends_either(call_type: str) -> None:
    assert only(call_type=call_type)["list_cost_usd"] == 0


@pytest.mark.parametrize("call_type", ["acompletion", "aresponses", "aretrieve_batch", "", None])
def test_every_other_call_spends(call_type: Any) -> None:
    assert only(call_type=call_type)["list_cost_usd"] == Decimal("0.00175")


def test_t11_a_spend_of_0_is_unknown_and_the_share_is_told() -> None:
    # litellm#35914: 365 calls, 37.4 M tokens, silently 0 USD
    body = json_lines(
        *(spend_row(f"r{i}", spend=0.0, prompt_tokens=100_000, completion_tokens=2465) for i in range(365))
    )
    usage = parsed(body).tables["core.usage"]
    total = unpriced(usage)
    assert usage["list_cost_usd"].null_count() == 365
    assert total.total_usd is None
    assert total.alert == "unpriced share 100 % of tokens"


def test_t05_a_spend_of_0_is_free_where_a_person_says_so() -> None:
    assert rows(parsed(json_lines(spend_row(spend=0)), **FREE))[0]["list_cost_usd"] == 0


def test_a_failed_request_costs_nothing_and_is_no_success() -> None:
    row = only(status="failure", spend=0.0, prompt_tokens=0, completion_tokens=0)
    assert (row["successes"], row["requests"], row["list_cost_usd"]) == (0, 1, 0)
    assert (row["prompt_tokens"], row["completion_tokens"]) == (None, None)


def test_a_stream_without_usage_has_unknown_tokens_not_none() -> None:
    # litellm#1806, #6633
    row = only(prompt_tokens=0, completion_tokens=0, spend=0.0)
    assert (row["prompt_tokens"], row["completion_tokens"], row["cached_tokens"]) == (None, None, None)
    assert (row["list_cost_usd"], row["successes"]) == (None, 1)


def test_an_embedding_writes_no_tokens() -> None:
    row = only(call_type="aembedding", completion_tokens=0, metadata={})
    assert (row["prompt_tokens"], row["completion_tokens"], row["cached_tokens"]) == (1000, 0, None)


def test_a_status_that_is_not_told_leaves_success_unknown() -> None:
    assert only(status=None)["successes"] is None


@pytest.mark.parametrize("cache_hit", ["True", "False", "", None, "None", True])
def test_the_text_of_cache_hit_changes_nothing(cache_hit: Any) -> None:
    assert only(cache_hit=cache_hit) == only()


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens_details": {"cached_tokens": 400}},
        {"cache_read_input_tokens": 400},
        {"prompt_tokens_details": {"cached_tokens": 400}, "cache_read_input_tokens": 7},
        {"prompt_tokens_details": None, "cache_read_input_tokens": 400},
    ],
)
def test_cached_tokens_come_from_the_usage_object(usage: Any) -> None:
    assert only(metadata={"usage_object": usage})["cached_tokens"] == 400


@pytest.mark.parametrize("metadata", [None, {}, {"usage_object": None}, {"usage_object": 5}, [1], "x", 5, "{broken"])
def test_metadata_that_tells_no_cache_leaves_it_unknown(metadata: Any) -> None:
    assert only(metadata=metadata)["cached_tokens"] is None


def test_metadata_may_be_json_text() -> None:
    told = json.dumps({"usage_object": {"prompt_tokens_details": {"cached_tokens": 400}}})
    assert only(metadata=told)["cached_tokens"] == 400


class TestKeys:
    def test_one_id_under_two_keys_is_two_requests(self) -> None:
        # litellm#28376: "chatcmpl-213" is shared between users
        usage = parsed(json_lines(spend_row("chatcmpl-213", api_key="a"), spend_row("chatcmpl-213", api_key="b")))
        assert usage.tables["core.usage"].select("account", "usage_key").rows() == [
            ("a", "chatcmpl-213"),
            ("b", "chatcmpl-213"),
        ]

    @pytest.mark.parametrize("api_key", ["", None])
    def test_a_request_without_a_key_has_an_account_that_says_so(self, api_key: Any) -> None:
        assert only(api_key=api_key)["account"] == "no-key"

    @pytest.mark.parametrize(
        ("group", "requested"), [("g", "g"), ("", "openai/gpt-4o-mini"), (None, "openai/gpt-4o-mini")]
    )
    def test_without_a_group_the_model_was_asked_for(self, group: Any, requested: str) -> None:
        assert only(model_group=group)["requested_offer"] == requested


class TestTime:
    @pytest.mark.parametrize(
        "text",
        [
            "2026-08-06T14:30:00.250Z", "2026-08-06T14:30:00.250", "2026-08-06 14:30:00.25",
            "2026-08-06 14:30:00.250+00", "2026-08-06T14:30:00.250000+00:00",
            "2026-08-06T16:30:00.250+02:00", "2026-08-06T09:00:00.250-05:30",
        ],
    )  # fmt: skip
    def test_stamps_are_utc_unless_they_say_otherwise(self, text: str) -> None:
        assert only(startTime=text)["period_start_at"] == datetime(2026, 8, 6, 14, 30, 0, 250_000)

    def test_without_an_end_the_duration_counts(self) -> None:
        row = only(endTime=None)
        assert (row["duration_s"], row["period_end_at"]) == (90.0, datetime(2026, 8, 6, 14, 31, 30, 250_000))

    def test_without_both_the_duration_is_unknown(self) -> None:
        row = only(endTime=None, request_duration_ms=None)
        assert (row["duration_s"], row["period_end_at"]) == (None, row["period_start_at"])

    def test_an_end_before_the_start_is_refused_alone(self) -> None:
        result = parsed(json_lines(spend_row(endTime="2026-08-06T14:29:00Z")))
        assert [(r.field, r.whole_row) for r in result.rejects] == [("endTime", False)]
        assert rows(result)[0]["duration_s"] == 90.0


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"request_id": None}, "request_id"), ({"request_id": " "}, "request_id"), ({"request_id": True}, "request_id"),
        ({"startTime": None}, "startTime"), ({"startTime": "soon"}, "startTime"), ({"startTime": 5}, "startTime"),
        ({"startTime": "1970-01-01T00:00:00Z"}, "startTime"), ({"startTime": "9999-12-31T23:59:59-12:00"}, "startTime"),
        ({"model": None, "model_group": None}, "model"), ({"model": "", "model_group": ""}, "model"),
    ],
)  # fmt: skip
def test_a_row_that_cannot_be_placed_goes_alone(changes: Any, field: str) -> None:
    result = parsed(json_lines(spend_row("a"), spend_row(**{"request_id": "b", **changes}), spend_row("c")))
    assert [r["usage_key"] for r in rows(result)] == ["a", "c"]
    (whole,) = [r for r in result.rejects if r.whole_row]
    assert (whole.field, whole.row_no) == (field, 1)


@pytest.mark.parametrize(
    ("changes", "field", "column"),
    [
        ({"spend": -1}, "spend", "list_cost_usd"), ({"spend": 1e13}, "spend", "list_cost_usd"),
        ({"spend": "much"}, "spend", "list_cost_usd"), ({"spend": [1]}, "spend", "list_cost_usd"),
        ({"prompt_tokens": -5}, "prompt_tokens", "prompt_tokens"),
        ({"prompt_tokens": 1.5}, "prompt_tokens", "prompt_tokens"),
        ({"completion_tokens": "x"}, "completion_tokens", "completion_tokens"),
        ({"completion_tokens": 2**60}, "completion_tokens", "completion_tokens"),
        ({"status": "maybe"}, "status", "successes"),
        ({"metadata": {"usage_object": {"cache_read_input_tokens": 1001}}},
         "metadata.usage_object.cache_read_input_tokens", "cached_tokens"),
    ],
)  # fmt: skip
def test_a_field_that_does_not_hold_is_unknown_and_its_row_loads(changes: Any, field: str, column: str) -> None:
    result = parsed(json_lines(spend_row(**changes)))
    assert rows(result)[0][column] is None
    assert [(r.field, r.whole_row) for r in result.rejects] == [(field, False)]


def test_prompts_and_answers_are_kept_nowhere() -> None:
    row = spend_row(spend=-1, messages=[{"content": "secret question"}], response={"x": "secret answer"})
    result = parsed(json_lines(row))
    assert all("secret" not in (r.raw or "") for r in result.rejects)


class TestShapes:
    ROWS = (
        spend_row("a"),
        spend_row("b", spend=0.1 + 0.2, metadata={}),
        spend_row("c", status="failure", endTime=None),
    )

    def expected(self) -> list[dict[str, Any]]:
        return rows(parsed(json_lines(*self.ROWS)))

    @pytest.mark.parametrize(
        "body",
        [
            json.dumps(ROWS), json.dumps(ROWS, indent=2), json.dumps({"data": ROWS, "total": 3, "page": 1}),
            json.dumps({"data": ROWS}, indent=1), json_lines(*ROWS).replace("\n", "\r\n"),
            "\n\n" + json_lines(*ROWS) + "\n",
            json_lines(*ROWS).rstrip(), "\ufeff" + json_lines(*ROWS), json.dumps({"spend_logs": ROWS}),
            json.dumps({"data": ROWS[:2], "total_pages": 2}) + "\n" + json.dumps({"data": ROWS[2:], "total_pages": 2}),
        ],
        ids=["array", "indented array", "answer", "indented answer", "crlf", "empty lines", "no last newline", "bom",
             "other name", "two pages"],
    )  # fmt: skip
    def test_json_in_any_shape_says_the_same(self, body: str) -> None:
        assert rows(parsed(body)) == self.expected()

    @pytest.mark.parametrize(
        "change", [lambda t: t, lambda t: t.replace("\n", "\r\n"), str.rstrip], ids=["lf", "crlf", "cut"]
    )
    def test_csv_says_the_same(self, change: Any) -> None:
        assert rows(parsed(change(csv_text(*self.ROWS)))) == self.expected()

    def test_csv_columns_may_come_in_any_order(self) -> None:
        header = sorted(spend_row())
        assert rows(parsed(csv_text(*self.ROWS, header=header))) == self.expected()

    def test_gzip_is_unpacked(self) -> None:
        parts = (json_lines(*self.ROWS[:1]), json_lines(*self.ROWS[1:]))
        packed = b"".join(gzip.compress(part.encode(), mtime=0) for part in parts)
        assert rows(parsed(packed)) == self.expected()

    def test_quoted_line_breaks_do_not_end_a_record(self) -> None:
        body = csv_text(*({**r, "user": 'two\nlines, "quoted"'} for r in self.ROWS))
        assert rows(parsed(body)) == self.expected()

    @pytest.mark.parametrize(
        ("body", "said"),
        [
            ("", "empty"), ("<html>", "markup"), ("\xff\xfe".encode("latin-1"), "UTF-16"),
            (gzip.compress(b'{"request_id": "a"}\n', mtime=0)[:-12], "gzip"),
            ('{"error": {"message": "no key"}}', "no key"),
            ('{"data": [', "not JSON"), ("[1, 2", "cut off"), ('[{"a": 1} {"a": 2}]', "without a comma"),
            ('[{"a": tru}]', "broken"), ('{"detail": "no"}', "has no data"),
            ("a,b\n1,2\n", "no column request_id"), ("request_id,startTime,spend,spend\n", "twice"),
            (b"[\xff]", "not UTF-8"), ('{"detail":\n"no"}', "has no data"), ('{"error":\n"no access"}', "no access"),
        ],
    )  # fmt: skip
    def test_what_is_no_log_is_refused_whole(self, body: str | bytes, said: str) -> None:
        with pytest.raises(PayloadError, match=said):
            parsed(body)

    def test_a_broken_line_goes_alone(self) -> None:
        lines = json_lines(*self.ROWS).splitlines()
        result = parsed("\n".join([lines[0], '{"request_id": "x", ', lines[1], "[1]", lines[2], "5"]) + "\n")
        assert rows(result) == self.expected()
        assert [(r.row_no, r.whole_row) for r in result.rejects] == [(1, True), (3, True), (5, True)]

    def test_a_record_with_too_many_or_cut_fields_goes_alone(self) -> None:
        body = csv_text(*self.ROWS)
        result = parsed(body + "one,too,short")
        assert rows(result) == self.expected()
        assert [r.row_no for r in result.rejects if r.whole_row] == [3]
        header, first = body.splitlines()[:2]
        result = parsed("\n".join([header, first + ",more", first]) + "\n")
        assert [r["usage_key"] for r in rows(result)] == ["a"]
        assert "fields, the header" in result.rejects[0].reason


def test_many_broken_lines_among_many_sound_ones_cost_only_themselves() -> None:
    lines = [json.dumps(spend_row(f"r{i}")) if i % 97 else "{broken" for i in range(2000)]
    result = parsed("\n".join(lines) + "\n")
    broken = [i for i in range(2000) if not i % 97]
    assert [r.row_no for r in result.rejects] == broken
    assert result.tables["core.usage"].height == 2000 - len(broken)


# the same answer at once and row by row ----------------------------------------------------------

_odd = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3000), st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", " ", "x", "0", "-1", "1e3", "5.0", "true", "{", "[x", "\x00", "success", "failure",
                     "2026-08-06", "2026-08-06T14:30:00Z", "2026-08-06T14:30:00.1234567+00:00", "aget_responses"]),
    st.just([1]), st.just({"a": 1}),
)  # fmt: skip
_row = st.fixed_dictionaries(
    {
        name: st.one_of(st.just(value), st.just(value), _odd)
        for name, value in spend_row().items()
        if name != "metadata"
    },
    optional={"metadata": st.one_of(_odd, st.just(spend_row()["metadata"]))},
)


def rows_of(made: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows as the warehouse's types hold them."""
    return frame("core.usage", made).to_dicts()


@given(st.lists(_row, min_size=1, max_size=6), st.booleans())
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_whole_columns_at_once_say_what_the_rows_say_one_by_one(made: list[dict[str, Any]], free: bool) -> None:
    wanted = litellm_spendlogs.COLUMNS.names
    expected, refused = [], 0
    for number, data in enumerate(json.loads(json.dumps(made), parse_float=Decimal)):
        row = Row(number, {k: v for k, v in data.items() if k in wanted})
        found = usage_row(row, zero_spend_is_free=free)
        refused += len(row.rejects)
        if found is not None:
            expected.append(found)
    result = parsed(json_lines(*made), **(FREE if free else {}))
    assert len(result.rejects) == refused
    shown = ("usage_key", "account", "period_start_at", "list_cost_usd", "prompt_tokens", "successes")
    got, alone = ([repr([r[n] for n in shown]) for r in told] for told in (rows(result), rows_of(expected)))
    assert sorted(got) == sorted(alone)


@given(st.lists(_row, min_size=1, max_size=4))
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_rows_that_pass_at_once_equal_the_rows_read_alone(made: list[dict[str, Any]]) -> None:
    named = [{**data, "request_id": f"r{i}"} for i, data in enumerate(made)]
    alone = {}
    for i, data in enumerate(json.loads(json.dumps(named), parse_float=Decimal)):
        found = usage_row(Row(i, data), zero_spend_is_free=False)
        if found is not None:
            alone[found["usage_key"]] = found
    got = {r["usage_key"]: r for r in rows(parsed(json_lines(*named)))}
    assert got == {r["usage_key"]: r for r in rows_of(list(alone.values()))}


_BODIES = {
    "csv": csv_text(spend_row("a"), spend_row("b", endTime=None)),
    "array": json.dumps([spend_row("a"), spend_row("b")], indent=1),
    "answer": json.dumps({"data": [spend_row("a"), spend_row("b")]}),
    "text metadata": json_lines(spend_row("a", metadata='{"usage_object": {}}')),
}


@pytest.mark.parametrize("shape", _BODIES)
@given(data=st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_damage_to_any_shape_never_escapes(shape: str, data: st.DataObject) -> None:
    body = data.draw(mutilated(_BODIES[shape].encode()))
    answer = facts_or_error("litellm-spendlogs", body)
    if isinstance(answer, IngestError):
        assert answer.source_id == "src-litellm-spendlogs"
    else:
        assert counts_add_up(answer)


@given(
    st.lists(st.sampled_from(["sound", "{broken", "[1]", "", "null"]), min_size=1, max_size=400), st.integers(50, 4000)
)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_size_of_the_pieces_changes_nothing(kinds: list[str], size: int) -> None:
    lines = [json.dumps(spend_row(f"r{i}")) if k == "sound" else k for i, k in enumerate(kinds)]
    body = ("\n".join(lines) + "\n").encode()
    if not body.strip() or not body.lstrip().startswith(b"{"):
        body = json_lines(spend_row("first")).encode() + body
    with pytest.MonkeyPatch.context() as patch:
        whole = parsed(body)
        patch.setattr("ingest.billing.json_pieces.CHUNK_BYTES", size)
        cut = parsed(body)
    assert rows(cut) == rows(whole)
    assert [(r.row_no, r.reason) for r in cut.rejects] == [(r.row_no, r.reason) for r in whole.rejects]


@given(st.integers(1, 60), st.integers(40, 600))
@settings(max_examples=40, deadline=None)
def test_csv_cut_anywhere_says_the_same(n: int, size: int) -> None:
    body = csv_text(*(spend_row(f"r{i}", user='a "quoted"\nname' if i % 3 else "x") for i in range(n)))
    with pytest.MonkeyPatch.context() as patch:
        whole = parsed(body)
        patch.setattr("ingest.billing.csv_pieces.CHUNK_BYTES", size)
        cut = parsed(body)
    assert rows(cut) == rows(whole)
    assert cut.rejects == whole.rejects == ()


def test_a_reader_that_is_left_stops_reading() -> None:
    read: list[int] = []

    def parts() -> Any:
        for i in range(100):
            read.append(i)
            yield parsed(json_lines(spend_row(f"r{i}")))

    for _ in pieces.ahead(parts()):
        break
    assert len(read) <= 4


def test_an_error_while_reading_ahead_comes_out() -> None:
    def parts() -> Any:
        yield parsed(json_lines(spend_row()))
        raise PayloadError("broken in the middle")

    with pytest.raises(PayloadError, match="in the middle"):
        list(pieces.ahead(parts()))


# in the warehouse --------------------------------------------------------------------------------


def load(warehouse: Warehouse, path: Path, body: str) -> Any:
    path.write_text(body)
    about = Stream("s", "litellm-spendlogs", path, utcnow())
    return refresh_stream(warehouse, kind("litellm-spendlogs"), about, trigger="import")


def test_a_log_loads_once_and_a_restated_row_replaces(warehouse: Warehouse, tmp_path: Path) -> None:
    made = [spend_row(f"r{i}") for i in range(300)] + [spend_row("bad", startTime=None)]
    told = load(warehouse, tmp_path / "a", json_lines(*made))
    assert (told.state, told.rows_in, told.rows_loaded, told.rows_quarantined) == ("PARTIAL", 301, 300, 1)
    again = load(warehouse, tmp_path / "b", csv_text(*made))
    assert (again.rows_loaded, again.rows_unchanged, again.rows_quarantined) == (0, 300, 1)
    changed = load(warehouse, tmp_path / "c", json_lines(spend_row("r7", spend=1.5)))
    assert changed.rows_loaded == 1
    assert warehouse.scalar("SELECT list_cost_usd FROM core.usage WHERE usage_key = 'r7'") == Decimal("1.5")
    assert warehouse.scalar("SELECT count(*) FROM core.usage") == 300


# against list prices -----------------------------------------------------------------------------


def prices(**entry: Any) -> pl.DataFrame:
    body = litellm_prices(**{"gemini-2.5-pro": litellm_entry(**entry)})
    return parse_prices(payload(body, "litellm-prices")).tables["core.price"]


def test_t01_list_prices_charge_cached_tokens_once_whatever_the_log_says() -> None:
    # litellm#14849, #6215: logged as 0.7642…, right is 0.184918125
    row = spend_row(
        model="vertex_ai/gemini-2.5-pro",
        model_group="mine",
        spend=0.7642,
        prompt_tokens=262_960,
        completion_tokens=1744,
        metadata={"usage_object": {"prompt_tokens_details": {"cached_tokens": 257_955}}},
    )
    listed = prices(input_cost_per_token=1.25e-6, cache_read_input_token_cost=6.25e-7, output_cost_per_token=1e-5)
    (found,) = reprice(parsed(json_lines(row)).tables["core.usage"], listed).to_dicts()
    assert (found["offer_id"], found["told_usd"]) == ("gemini-2.5-pro", Decimal("0.7642"))
    assert found["repriced_usd"] == Decimal("0.184918125")


def test_t11_a_model_without_a_price_has_no_second_opinion_and_says_why() -> None:
    (found,) = reprice(parsed(json_lines(spend_row())).tables["core.usage"], prices()).to_dicts()
    assert (found["repriced_usd"], found["reason"]) == (None, "no price is known of openai/gpt-4o-mini")
    assert found["tokens"] == 1050


def test_t25_a_read_of_a_response_costs_nothing_by_list_prices_either() -> None:
    body = json_lines(spend_row(call_type="aget_responses"))
    (found,) = reprice(parsed(body).tables["core.usage"], prices()).to_dicts()
    assert found["repriced_usd"] == 0


def test_the_fetched_and_the_streamed_payload_agree() -> None:
    body = json_lines(spend_row("a"), spend_row("b"))
    about = Stream("s", "litellm-spendlogs", Path("x"), NOW)
    (streamed,) = litellm_spendlogs.stream(about, io.BytesIO(body.encode()))
    assert streamed.tables["core.usage"].equals(parsed(body).tables["core.usage"])
