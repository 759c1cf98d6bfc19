"""OpenRouter, Langfuse and Helicone: what each calls a cost, a second, a time, and what each leaves out."""

from __future__ import annotations

import io
import json
from datetime import datetime
from decimal import Decimal
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest.base import Parsed
from ingest.errors import FetchError, IngestError, PayloadError, PayloadTooLarge
from ingest.kinds import kind
from tests.ingest.log_samples import (
    csv_text,
    helicone_row,
    json_lines,
    observation,
    openrouter_completion,
    openrouter_day,
    openrouter_generation,
    spend_row,
)
from tests.ingest.samples import NOW, counts_add_up, payload, rows
from tests.ingest.server import Handler, serving
from tests.ingest.test_mutilation import facts_or_error, mutilated


def parsed(name: str, body: Any, **options: str) -> Parsed:
    result = kind(name).parse(payload(body, name, options=options))
    assert counts_add_up(result)
    return result


def only(name: str, body: Any, **options: str) -> dict[str, Any]:
    (row,) = rows(parsed(name, body, **options))
    return row


class TestOpenRouter:
    NAME = "openrouter-usage"

    def test_credits_are_dollars_and_they_are_billed(self) -> None:
        row = only(self.NAME, openrouter_completion())
        assert (row["billed_cost_usd"], row["list_cost_usd"]) == (Decimal("0.95"), None)
        assert (row["prompt_tokens"], row["completion_tokens"], row["cached_tokens"]) == (194, 2, 100)
        assert (row["period_start_at"], row["successes"]) == (datetime(2026, 8, 6, 14, 30), 1)

    def test_what_the_upstream_bills_stands_apart(self) -> None:
        assert only(self.NAME, openrouter_completion())["upstream_cost_usd"] == 19

    def test_a_generation_counts_native_tokens_and_seconds(self) -> None:
        row = only(self.NAME, {"data": openrouter_generation()})
        assert (row["prompt_tokens"], row["completion_tokens"], row["cached_tokens"]) == (100, 25, 30)
        assert (row["billed_cost_usd"], row["upstream_cost_usd"]) == (Decimal("0.0015"), None)
        assert (row["duration_s"], row["period_start_at"]) == (1.25, datetime(2026, 8, 6, 14, 30, 0, 500_000))
        assert row["period_end_at"] == datetime(2026, 8, 6, 14, 30, 1, 750_000)

    def test_a_generation_restates_the_completion_of_the_same_id(self) -> None:
        one, two = (only(self.NAME, b) for b in (openrouter_completion(), {"data": openrouter_generation()}))
        assert all(one[k] == two[k] for k in ("provider", "account", "usage_key", "grain"))

    def test_a_day_of_activity_is_a_utc_day(self) -> None:
        row = only(self.NAME, {"data": [openrouter_day()]})
        assert (row["grain"], row["requests"], row["successes"]) == ("day", 5, None)
        assert (row["period_start_at"], row["period_end_at"]) == (datetime(2026, 8, 6), datetime(2026, 8, 7))
        assert (row["billed_cost_usd"], row["upstream_cost_usd"]) == (Decimal("0.015"), Decimal("0.012"))
        assert (row["requested_offer"], row["served_offer"]) == ("acme/one", "acme/one-20260501")

    def test_endpoints_of_one_day_are_several_rows(self) -> None:
        days = {"data": [openrouter_day(), openrouter_day(endpoint_id="e2"), openrouter_day("2026-08-07")]}
        assert len({r["usage_key"] for r in rows(parsed(self.NAME, days))}) == 3

    def test_a_stream_tells_its_usage_in_the_last_chunk(self) -> None:
        chunk = {**openrouter_completion(), "object": "chat.completion.chunk"}
        chunk.pop("usage")
        chunks = [
            {**chunk, "choices": [{"index": 0, "delta": {"content": "h"}, "finish_reason": None}]},
            {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
            {**chunk, "choices": [], "usage": openrouter_completion()["usage"]},
        ]
        lines = [": OPENROUTER PROCESSING", *("data: " + json.dumps(c) for c in chunks), "data: [DONE]", ""]
        row = only(self.NAME, "\n\n".join(lines))
        assert (row["billed_cost_usd"], row["successes"], row["requests"]) == (Decimal("0.95"), 1, 1)

    def test_a_stream_that_broke_off_failed_and_its_cost_is_unknown(self) -> None:
        chunk = {**openrouter_completion(), "choices": [{"index": 0, "delta": {}, "finish_reason": None}]}
        chunk.pop("usage")
        row = only(self.NAME, "data: " + json.dumps(chunk) + "\n\n")
        assert (row["billed_cost_usd"], row["prompt_tokens"], row["successes"]) == (None, None, 0)

    def test_a_chunk_without_a_time_is_as_old_as_its_file_and_says_so(self) -> None:
        chunk = openrouter_completion(choices=[])
        chunk.pop("created")
        result = parsed(self.NAME, chunk)
        assert rows(result)[0]["period_start_at"] == NOW
        assert result.notes == ("1 completions tell no time; placed at 2026-05-15 12:00Z",)

    @pytest.mark.parametrize(
        ("reason", "success"), [("stop", 1), ("length", 1), ("error", 0), (None, None), ("odd", None)]
    )
    def test_the_finish_reason_tells_success(self, reason: Any, success: int | None) -> None:
        choices = [{"index": 0, "finish_reason": reason}]
        assert only(self.NAME, openrouter_completion(choices=choices))["successes"] == success

    def test_a_cancelled_generation_failed(self) -> None:
        assert only(self.NAME, {"data": openrouter_generation(cancelled=True)})["successes"] == 0

    def test_lines_may_mix_what_is_told(self) -> None:
        body = json_lines(openrouter_completion("a"), {"data": openrouter_generation("b")}, openrouter_completion("c"))
        assert [r["usage_key"] for r in rows(parsed(self.NAME, body))] == ["a", "b", "c"]

    def test_the_account_is_declared(self) -> None:
        assert only(self.NAME, openrouter_completion())["account"] == "default"
        assert only(self.NAME, openrouter_completion(), account="team-a")["account"] == "team-a"

    @pytest.mark.parametrize(
        "row",
        [
            openrouter_completion(id=None), openrouter_completion(model=5), openrouter_completion(created="x"),
            openrouter_completion(created=1_786_026_600_000), openrouter_generation(created_at="x"),
            openrouter_day(date="yesterday"), openrouter_day(requests=-1), 5,
        ],
    )  # fmt: skip
    def test_a_row_that_cannot_be_placed_goes_alone(self, row: Any) -> None:
        result = parsed(self.NAME, {"data": [openrouter_day(), row]})
        assert len(rows(result)) == 1
        assert any(r.whole_row for r in result.rejects)

    @pytest.mark.parametrize(
        ("usage", "field"),
        [({"cost": -1}, "usage.cost"), ({"cost": "0.5"}, None), ({"prompt_tokens": 1.5}, "usage.prompt_tokens"),
         ({"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 6}},
          "usage.prompt_tokens_details.cached_tokens")],
    )  # fmt: skip
    def test_a_field_that_does_not_hold_is_refused_alone(self, usage: Any, field: str | None) -> None:
        result = parsed(self.NAME, openrouter_completion(usage=usage))
        assert [r.field for r in result.rejects if not r.whole_row] == ([field] if field else [])
        assert len(rows(result)) == 1


class TestLangfuse:
    NAME = "langfuse"

    def test_an_observation_becomes_a_request_in_utc_and_seconds(self) -> None:
        row = only(self.NAME, json_lines(observation()))
        assert (row["provider"], row["account"], row["usage_key"]) == ("langfuse", "p1", "obs1")
        assert (row["period_start_at"], row["duration_s"]) == (datetime(2026, 11, 1, 10), 2.5)
        assert (row["list_cost_usd"], row["billed_cost_usd"]) == (Decimal("0.001306"), None)
        assert row["successes"] == 1

    @pytest.mark.parametrize(
        "parts",
        [
            {"input": 200, "input_cached_tokens": 800, "output": 200, "total": 1200},
            {"input": 1000, "input_cached_tokens": 800, "output": 200, "total": 1200},
            {"input": 200, "input_cached_tokens": 800, "output": 150, "output_reasoning_tokens": 50},
        ],
        ids=["disjoint", "nested", "without a total"],
    )
    def test_both_ways_of_counting_cached_tokens_end_in_the_same_figures(self, parts: Any) -> None:
        row = only(self.NAME, json_lines(observation(usage_details=parts)))
        assert (row["prompt_tokens"], row["completion_tokens"], row["cached_tokens"]) == (1000, 200, 800)

    def test_counts_that_contradict_their_total_are_refused(self) -> None:
        result = parsed(self.NAME, json_lines(observation(usage_details={"input": 5, "output": 6, "total": 12})))
        assert rows(result)[0]["prompt_tokens"] is None
        assert [(r.field, r.whole_row) for r in result.rejects] == [("usage_details.total", False)]

    @pytest.mark.parametrize("kind_", ["SPAN", "EVENT", "TOOL", "AGENT"])
    def test_what_calls_no_model_is_left_out_and_told(self, kind_: str) -> None:
        result = parsed(self.NAME, json_lines(observation("a"), observation("b", type=kind_, provided_model_name="")))
        assert (result.rows_in, len(rows(result)), result.rejects) == (1, 1, ())
        assert len(result.notes) == 1

    def test_a_total_of_0_without_details_is_unknown_and_with_them_free(self) -> None:
        assert only(self.NAME, json_lines(observation(total_cost=0, cost_details={})))["list_cost_usd"] is None
        assert only(self.NAME, json_lines(observation(total_cost=0, cost_details={"input": 0})))["list_cost_usd"] == 0

    @pytest.mark.parametrize(
        ("changes", "success"),
        [({}, 1), ({"level": "ERROR"}, 0), ({"level": "WARNING"}, 1), ({"end_time": None, "latency": None}, None)],
    )
    def test_the_level_tells_success_once_the_call_has_ended(self, changes: Any, success: int | None) -> None:
        assert only(self.NAME, json_lines(observation(**changes)))["successes"] == success

    def test_without_an_end_the_latency_counts_in_seconds(self) -> None:
        row = only(self.NAME, json_lines(observation(end_time=None)))
        assert (row["duration_s"], row["period_end_at"]) == (2.5, datetime(2026, 11, 1, 10, 0, 2, 500_000))

    @pytest.mark.parametrize("form", ["csv", "array", "parquet", "parquet maps"])
    def test_every_export_format_says_the_same(self, form: str) -> None:
        made = [observation("a"), observation("b", end_time=None, total_cost=0, cost_details={})]
        expected = rows(parsed(self.NAME, json_lines(*made)))
        if form == "csv":
            body: Any = csv_text(*made)
        elif form == "array":
            body = json.dumps(made)
        else:
            body = parquet(made, maps=form == "parquet maps")
        assert rows(parsed(self.NAME, body)) == expected

    @pytest.mark.parametrize("body", [b"PAR1", b"PAR1" + b"x" * 100 + b"PAR1"])
    def test_broken_parquet_is_refused_whole(self, body: bytes) -> None:
        with pytest.raises(PayloadError, match="Parquet"):
            parsed(self.NAME, body)

    def test_parquet_of_something_else_is_refused_whole(self) -> None:
        out = io.BytesIO()
        pl.DataFrame({"x": [1]}).write_parquet(out)
        with pytest.raises(PayloadError, match="no column id"):
            parsed(self.NAME, out.getvalue())

    @pytest.mark.parametrize(
        ("changes", "field"),
        [({"id": ""}, "id"), ({"provided_model_name": ""}, "provided_model_name"), ({"start_time": "x"}, "start_time"),
         ({"type": None}, "type")],
    )  # fmt: skip
    def test_a_row_that_cannot_be_placed_goes_alone(self, changes: Any, field: str) -> None:
        result = parsed(self.NAME, json_lines(observation("a"), observation(**{"id": "b", **changes})))
        assert [r["usage_key"] for r in rows(result)] == ["a"]
        assert field in {r.field for r in result.rejects if r.whole_row}


def parquet(made: list[dict[str, Any]], *, maps: bool) -> bytes:
    """As the blob export writes it: times as times, maps as objects or as lists of key and value."""
    columns: dict[str, Any] = {name: [r[name] for r in made] for name in made[0]}
    for name in ("start_time", "end_time"):
        columns[name] = [None if v is None else datetime.fromisoformat(v) for v in columns[name]]
    for name in ("usage_details", "cost_details"):
        columns[name] = [
            [{"key": k, "value": float(v)} for k, v in r[name].items()] if maps else json.dumps(r[name]) for r in made
        ]
    out = io.BytesIO()
    pl.DataFrame(columns).write_parquet(out)
    return out.getvalue()


class TestHelicone:
    NAME = "helicone"

    def test_latency_is_milliseconds_and_cost_an_estimate(self) -> None:
        row = only(self.NAME, csv_text(helicone_row()))
        assert (row["duration_s"], row["list_cost_usd"], row["billed_cost_usd"]) == (2.5, Decimal("0.00027"), None)
        assert (row["prompt_tokens"], row["completion_tokens"], row["successes"]) == (1000, 200, 1)
        assert (row["period_start_at"], row["period_end_at"]) == (
            datetime(2026, 11, 1, 10),
            datetime(2026, 11, 1, 10, 0, 2, 500_000),
        )

    def test_an_empty_cost_is_unknown(self) -> None:
        row = only(self.NAME, csv_text(helicone_row(cost="", prompt_tokens="", completion_tokens="")))
        assert (row["list_cost_usd"], row["prompt_tokens"], row["completion_tokens"]) == (None, None, None)

    def test_a_cost_of_0_is_free(self) -> None:
        assert only(self.NAME, csv_text(helicone_row(cost="0")))["list_cost_usd"] == 0

    @pytest.mark.parametrize(
        ("status", "success"),
        [("200", 1), ("204", 1), ("500", 0), ("429", 0), ("-1", 0), ("-3", 0), ("-2", None), ("", None)],
    )
    def test_the_status_tells_success(self, status: str, success: int | None) -> None:
        assert only(self.NAME, csv_text(helicone_row(response_status=status)))["successes"] == success

    def test_a_time_without_an_offset_needs_a_declared_zone(self) -> None:
        body = csv_text(
            helicone_row(request_created_at="2026-11-01 05:00:00", response_created_at="2026-11-01 05:00:02")
        )
        refused = parsed(self.NAME, body)
        assert rows(refused) == []
        assert any("option timezone" in r.reason for r in refused.rejects)
        row = only(self.NAME, body, timezone="America/New_York")
        assert row["period_start_at"] == datetime(2026, 11, 1, 10)

    def test_an_unknown_zone_is_refused_by_name(self) -> None:
        with pytest.raises(PayloadError, match="Mars/Olympus"):
            parsed(self.NAME, csv_text(helicone_row()), timezone="Mars/Olympus")

    def test_json_lines_say_the_same_as_csv(self) -> None:
        made = [helicone_row("a"), helicone_row("b", cost="")]
        assert rows(parsed(self.NAME, json_lines(*made))) == rows(parsed(self.NAME, csv_text(*made)))

    @pytest.mark.parametrize(
        ("changes", "field"),
        [
            ({"response_id": ""}, "response_id"),
            ({"model": ""}, "model"),
            ({"request_created_at": "x"}, "request_created_at"),
        ],
    )
    def test_a_row_that_cannot_be_placed_goes_alone(self, changes: Any, field: str) -> None:
        result = parsed(self.NAME, csv_text(helicone_row("a"), helicone_row(**{"response_id": "b", **changes})))
        assert [r["usage_key"] for r in rows(result)] == ["a"]
        assert field in {r.field for r in result.rejects if r.whole_row}

    @pytest.mark.parametrize(
        ("changes", "field"),
        [({"cost": "-1"}, "cost"), ({"latency": "fast"}, "latency"), ({"response_status": "ok"}, "response_status")],
    )
    def test_a_field_that_does_not_hold_is_refused_alone(self, changes: Any, field: str) -> None:
        result = parsed(self.NAME, csv_text(helicone_row(**changes)))
        assert [(r.field, r.whole_row) for r in result.rejects] == [(field, False)]


_BODIES = {
    "openrouter-usage": [
        json.dumps({"data": openrouter_generation()}),
        json.dumps({"data": [openrouter_day(), openrouter_day()]}),
    ],
    "langfuse": [csv_text(observation("a"), observation("b")), json.dumps([observation("a")])],
    "helicone": [json_lines(helicone_row("a"), helicone_row("b")), json.dumps({"data": [helicone_row()]})],
}


@pytest.mark.parametrize(
    ("name", "number"), [(name, n) for name, bodies in _BODIES.items() for n in range(len(bodies))]
)
@given(data=st.data())
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_damage_to_any_shape_never_escapes(name: str, number: int, data: st.DataObject) -> None:
    answer = facts_or_error(name, data.draw(mutilated(_BODIES[name][number].encode())))
    assert isinstance(answer, IngestError) or counts_add_up(answer)


@given(data=st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_damage_to_parquet_never_escapes(data: st.DataObject) -> None:
    answer = facts_or_error("langfuse", data.draw(mutilated(parquet([observation()], maps=False))))
    assert isinstance(answer, IngestError) or counts_add_up(answer)


# the fetch of LiteLLM's log ----------------------------------------------------------------------


def spend_page(*ids: str, total: int) -> Any:
    body = json.dumps({"data": [spend_row(i) for i in ids], "total_pages": total}).encode()

    def answer(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return answer


class TestLiteLLMFetch:
    def ask(self, url: str, **options: str) -> Any:
        from ingest.kind import Ask

        return Ask(url, "s", "litellm-spendlogs", "s3cret", options, None, None, 1 << 20, False, NOW)

    def test_a_window_is_fetched_page_by_page(self) -> None:
        found = kind("litellm-spendlogs")
        assert found.fetch is not None
        with serving(spend_page("a", "b", total=2), spend_page("c", total=2)) as server:
            got = found.fetch(self.ask(server.url + "?team=x", window_hours="2"))
            asked = [r["path"] for r in server.requests]
        assert asked == [
            "/models?team=x&start_date=2026-05-15+10%3A00%3A00&end_date=2026-05-15+12%3A00%3A00&page=1&page_size=100",
            "/models?team=x&start_date=2026-05-15+10%3A00%3A00&end_date=2026-05-15+12%3A00%3A00&page=2&page_size=100",
        ]
        assert [r["usage_key"] for r in rows(found.parse(got))] == ["a", "b", "c"]  # type: ignore[arg-type]

    def test_more_pages_than_can_be_fetched_fail_whole(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("ingest.billing.litellm_fetch.MAX_PAGES", 2)
        found = kind("litellm-spendlogs")
        assert found.fetch is not None
        with serving(spend_page("a", total=3)) as server, pytest.raises(PayloadTooLarge, match="3 pages"):
            found.fetch(self.ask(server.url))

    @pytest.mark.parametrize("hours", ["0", "-1", "a day", "nan", "1e9"])
    def test_a_window_that_is_none_is_refused_by_name(self, hours: str) -> None:
        found = kind("litellm-spendlogs")
        assert found.fetch is not None
        with pytest.raises(FetchError, match="window_hours"):
            found.fetch(self.ask("http://127.0.0.1:9/", window_hours=hours))
