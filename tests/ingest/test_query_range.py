"""Scrapes that a Prometheus kept: instants, gaps, NaN, labels of the collection, and the query itself."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest
import respx

from ingest.base import Parsed, Payload
from ingest.errors import FetchError, OfflineMode, PayloadError, SourceRefused
from ingest.kinds import Ask, kind
from ingest.serving.names import KNOWN
from ingest.serving.query_range import fetch_range, parse, range_url
from tests.ingest.samples import counts_add_up, payload, rows
from tests.ingest.serving_samples import AT, RANGE, matrix

NOW = datetime(2026, 11, 29, 12, 0, 42)
T0 = datetime(2025, 11, 29, 12)
ONE = {"instance": "gpu-1:8000", "job": "vllm", "engine": "0", "model_name": "m"}


def parsed(document: Any, **options: str) -> Parsed:
    found = parse(replace(payload(document, "prometheus-range"), options=options))
    assert counts_add_up(found)
    return found


def tokens(row: dict[str, Any]) -> Any:
    return json.loads(row["counters"])["counters"]["output_tokens"][1]


def test_every_step_of_an_engine_is_a_row() -> None:
    found = parsed(RANGE)
    assert [(r["scraped_at"] - T0, tokens(r), r["running_requests"]) for r in rows(found)] == [
        (timedelta(0), 100, 2.0), (timedelta(minutes=1), 400, 3.0), (timedelta(minutes=2), 1000, 0.0),
    ]  # fmt: skip
    assert {(r["backend_id"], r["engine"], r["model"]) for r in rows(found)} == {("gpu-1:8000", "0", "m")}
    assert found.data_at == T0 + timedelta(minutes=2)
    assert len(rows(found, "core.backend")) == 1


def test_a_gap_is_no_row() -> None:
    found = parsed(matrix(("vllm:generation_tokens_total", ONE, [(AT, 1), (AT + 300, 9)])))
    assert [r["scraped_at"] - T0 for r in rows(found)] == [timedelta(0), timedelta(minutes=5)]


def test_nan_is_unknown_and_a_step_of_nothing_else_is_quarantined() -> None:
    found = parsed(
        matrix(
            ("vllm:generation_tokens_total", ONE, [(AT, "NaN"), (AT + 60, "NaN")]),
            ("vllm:num_requests_running", ONE, [(AT, 2)]),
        )
    )
    assert [(r["running_requests"], r["counters"]) for r in rows(found)] == [(2.0, "{}")]
    assert [r.whole_row for r in found.rejects] == [False, False, True]


def test_instances_are_backends_and_never_added_up() -> None:
    found = parsed(
        matrix(*(("vllm:generation_tokens_total", {**ONE, "instance": i}, [(AT, v)]) for i, v in (("a", 5), ("b", 7))))
    )
    assert [(r["backend_id"], tokens(r)) for r in rows(found)] == [("a", 5), ("b", 7)]


def test_another_label_may_name_the_backend() -> None:
    document = matrix(("vllm:generation_tokens_total", {**ONE, "pod": "llama-7f"}, [(AT, 5)]))
    assert rows(parsed(document, backend_label="pod"))[0]["backend_id"] == "llama-7f"
    assert rows(parsed(document, backend="mine"))[0]["backend_id"] == "mine"
    lacking = parsed(document, backend_label="namespace")
    assert [r.reason for r in lacking.rejects] == ["the series has no label 'namespace' that could name its backend"]


def test_an_engine_that_two_jobs_scrape_is_one_where_they_agree() -> None:
    def twice(a: int, b: int) -> Parsed:
        series = [("vllm:generation_tokens_total", {**ONE, "job": j}, [(AT, v)]) for j, v in (("x", a), ("y", b))]
        return parsed(matrix(*series, ("vllm:num_requests_running", ONE, [(AT, 1)])))

    assert tokens(rows(twice(5, 5))[0]) == 5
    assert rows(twice(5, 6))[0]["counters"] == "{}"
    assert "not added up" in twice(5, 6).rejects[0].reason


def test_names_are_exact() -> None:
    found = parsed(
        matrix(
            ("vllm:num_requests_waiting_by_reason", ONE, [(AT, 41)]),
            ("vllm:num_requests_waiting", ONE, [(AT, 1)]),
        )
    )
    assert [r["waiting_requests"] for r in rows(found)] == [1.0]
    assert found.notes == ("series of 1 other names were left out: vllm:num_requests_waiting_by_reason",)


@pytest.mark.parametrize(
    "point",
    [[AT], [AT, 5], ["x", "5"], [True, "5"], [AT, "five"], [10**15, "5"], [-5, "5"], [12, "5"], "x", None, [AT, None]],
)
def test_a_point_that_is_none_is_refused_and_its_siblings_load(point: Any) -> None:
    document = matrix(("vllm:generation_tokens_total", ONE, [(AT + 60, 9)]))
    document["data"]["result"][0]["values"].insert(0, point)
    found = parsed(document)
    assert [tokens(r) for r in rows(found)] == [9]
    assert [r.whole_row for r in found.rejects] == [False]


@pytest.mark.parametrize(
    "series",
    [None, 5, {}, {"metric": 5}, {"metric": {"a": 1}}, {"metric": {**ONE, "__name__": "vllm:num_requests_running"}}],
)
def test_a_series_that_is_none_is_one_refused_row(series: Any) -> None:
    document = json.loads(json.dumps(RANGE))
    document["data"]["result"].append(series)
    found = parsed(document)
    assert len(rows(found)) == 3
    assert [r.whole_row for r in found.rejects if r.whole_row] in ([True], [])


def test_two_runtimes_on_one_instance_are_told_apart() -> None:
    label = {"instance": "a", "model_name": "m"}
    found = parsed(
        matrix(("vllm:num_requests_running", label, [(AT, 1)]), ("sglang:num_running_reqs", label, [(AT, 2)]))
    )
    assert [r["runtime"] for r in rows(found)] == ["sglang"]
    assert "name backends apart" in found.rejects[0].reason


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"status": "error", "errorType": "bad_data", "error": "parse error"}, "answered with an error: 'parse error'"),
        ({"status": "success", "data": {"resultType": "vector", "result": []}}, "not a matrix"),
        ({"status": "success"}, "has no 'data'"),
        ([], "not an object"),
    ],
)
def test_anything_but_a_matrix_is_refused(document: Any, said: str) -> None:
    with pytest.raises(PayloadError, match=said):
        parsed(document)


def test_warnings_of_the_server_stand_in_the_run() -> None:
    assert parsed({**RANGE, "warnings": ["results may be incomplete"]}).notes == (
        "warnings: results may be incomplete",
    )


class TestQuery:
    def query(self, **options: str) -> dict[str, str]:
        return dict(httpx.URL(range_url("http://prom:9090/", options, NOW)).params)

    def test_it_asks_for_whole_steps_up_to_now(self) -> None:
        asked = self.query(step="30s", lookback="10m")
        end = int((datetime(2026, 11, 29, 12, 0, 30) - datetime(1970, 1, 1)).total_seconds())
        assert (asked["start"], asked["end"], asked["step"]) == (f"{end - 600}.000", f"{end}.000", "30")

    def test_it_asks_for_the_names_that_are_read_and_no_other(self) -> None:
        names = self.query()["query"].removeprefix('{__name__=~"').removesuffix('"}').split("|")
        assert sorted(names) == sorted(KNOWN)
        assert "vllm:num_requests_waiting" in names
        assert not any("by_reason" in n or "*" in n or "." in n for n in names)

    def test_a_path_before_the_api_stays(self) -> None:
        for base in (
            "http://mimir/prometheus",
            "http://mimir/prometheus/",
            "http://mimir/prometheus/api/v1/query_range",
        ):
            assert httpx.URL(range_url(base, {}, NOW)).path == "/prometheus/api/v1/query_range"

    def test_more_matchers_narrow_it(self) -> None:
        assert self.query(match='job="vllm", pod=~"a.*"')["query"].endswith(',job="vllm", pod=~"a.*"}')

    @pytest.mark.parametrize(
        ("options", "field"),
        [
            ({"step": "60"}, "step"),
            ({"step": "0s"}, "step"),
            ({"lookback": "soon"}, "lookback"),
            ({"lookback": "1s"}, "lookback"),
            ({"lookback": "30d", "step": "1s"}, "lookback"),
            ({"match": 'job="a"} or vector(1) or {x="'}, "match"),
            ({"match": "job=vllm"}, "match"),
        ],
    )
    def test_options_that_make_no_query_are_refused_by_name(self, options: dict[str, str], field: str) -> None:
        with pytest.raises(FetchError) as caught:
            range_url("http://prom:9090", options, NOW)
        assert caught.value.field == field


class TestFetch:
    def ask(self, **changes: Any) -> Ask:
        found = kind("prometheus-range")
        told = {
            "url": "http://prom:9090", "source_id": "p", "kind": found.name, "secret": None, "options": {},
            "etag": None, "last_modified": None, "max_bytes": found.max_bytes, "offline": False, "now": NOW, **changes,
        }  # fmt: skip
        return Ask(**told)

    @respx.mock
    def test_it_brings_an_answer_that_parses_and_an_address_without_the_query(self) -> None:
        route = respx.get(url__startswith="http://prom:9090/api/v1/query_range").respond(json=RANGE)
        got = fetch_range(self.ask(secret="s3"))
        assert isinstance(got, Payload)
        assert len(rows(parsed(json.loads(got.body)))) == 3
        assert route.calls[0].request.headers["authorization"] == "Bearer s3"
        assert "query=" not in got.url and "start=" in got.url

    @respx.mock
    def test_a_refusal_names_the_server_and_not_six_kilobytes_of_metrics(self) -> None:
        respx.get(url__startswith="http://prom:9090/").respond(403)
        with pytest.raises(SourceRefused) as caught:
            fetch_range(self.ask())
        assert "http://prom:9090/api/v1/query_range" in str(caught.value)
        assert len(str(caught.value)) < 300

    def test_it_obeys_offline(self) -> None:
        with pytest.raises(OfflineMode):
            fetch_range(self.ask(offline=True))
