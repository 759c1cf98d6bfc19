"""One scrape: exact names, one row per engine, and what is unknown stays unknown."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from ingest.base import Parsed
from ingest.errors import PayloadError
from ingest.kinds import kind
from tests.ingest.samples import NOW, counts_add_up, payload, rows
from tests.ingest.serving_samples import TRITON, histogram, series, sglang, tensorrt_llm, text, vllm


def scraped(*parts: Any, name: str = "vllm-metrics", **payload_changes: Any) -> Parsed:
    parsed = kind(name).parse(replace(payload(text(*parts), name), **payload_changes))
    assert counts_add_up(parsed)
    return parsed


def counters(row: dict[str, Any]) -> dict[str, int]:
    return {c: value for c, (_, value) in json.loads(row["counters"])["counters"].items()}


def reasons(parsed: Parsed) -> list[str]:
    return [r.reason for r in parsed.rejects]


def test_an_engine_is_one_row() -> None:
    (row,) = rows(scraped(vllm()))
    assert (row["backend_id"], row["engine"], row["model"]) == ("example.test", "0", "llama-3.3-70b")
    assert (row["runtime"], row["scraped_at"]) == ("vllm", NOW)
    assert (row["running_requests"], row["waiting_requests"], row["kv_cache_utilization"]) == (3.0, 1.0, 0.25)
    assert counters(row) == {
        "prompt_tokens": 8_128_902, "output_tokens": 7_557, "successes": 6, "aborts": 1, "preemptions": 0,
    }  # fmt: skip


def test_buckets_are_kept_whole() -> None:
    (row,) = rows(scraped(vllm(ttft=(0.05, 0.2, 0.2, 0.9))))
    name, bounds, counts = json.loads(row["counters"])["histograms"]["ttft"]
    assert name == "vllm:time_to_first_token_seconds"
    assert bounds == [0.001, 0.1, 0.25, 0.5, 1.0, 2.5]
    assert counts == [0, 1, 3, 3, 4, 4, 4]


def test_names_are_exact_and_never_a_prefix() -> None:
    # by_reason follows num_requests_waiting in the text; a prefix match takes 41 for the queue
    (row,) = rows(scraped(vllm()))
    assert row["waiting_requests"] == 1.0
    with pytest.raises(PayloadError, match="holds no metric of vllm"):
        scraped(series("vllm:num_requests_waiting_by_reason", 41, reason="capacity"))


@pytest.mark.parametrize("name", ["vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"])
def test_the_old_and_the_new_name_of_the_cache_fill_one_column(name: str) -> None:
    assert rows(scraped(vllm(kv_name=name)))[0]["kv_cache_utilization"] == 0.25


def test_of_both_names_the_new_one_counts_and_the_old_one_stands_in() -> None:
    new, old = (series(f"vllm:{n}_cache_usage_perc", v, engine=0) for n, v in (("kv", 0.5), ("gpu", 0.75)))
    assert rows(scraped(old, new))[0]["kv_cache_utilization"] == 0.5
    broken = scraped(old, new.replace("0.5", "NaN"))
    assert rows(broken)[0]["kv_cache_utilization"] == 0.75
    assert reasons(broken) == ["vllm:kv_cache_usage_perc is NaN"]


@pytest.mark.parametrize(
    "name",
    [
        "vllm:inter_token_latency_seconds",
        "vllm:time_per_output_token_seconds",
        "vllm:request_time_per_output_token_seconds",
    ],
)
def test_every_name_of_the_time_per_token_is_read_and_kept_with_it(name: str) -> None:
    (row,) = rows(scraped(histogram(name, (0.01, 0.1), (0.02,), engine="0")))
    assert json.loads(row["counters"])["histograms"]["tpot"][0] == name


def test_several_engines_stay_apart() -> None:
    found = rows(scraped(vllm(100, engine="0"), vllm(250, engine="1")))
    assert [(r["engine"], counters(r)["output_tokens"]) for r in found] == [("0", 100), ("1", 250)]


def test_two_series_of_one_engine_are_not_added_up() -> None:
    twice = [series("vllm:generation_tokens_total", v, engine="0", worker=w) for w, v in (("a", 5), ("b", 7))]
    parsed = scraped(series("vllm:num_requests_running", 1, engine="0"), twice)
    assert "generation_tokens" not in rows(parsed)[0]["counters"]
    assert "told 2 times for one engine, as 5, 7; they are not added up" in reasons(parsed)[0]


def test_one_series_told_twice_alike_is_one() -> None:
    twice = [series("vllm:generation_tokens_total", 5, engine="0")] * 2
    parsed = scraped(twice)
    assert counters(rows(parsed)[0]) == {"output_tokens": 5}
    assert parsed.rejects == ()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (series("vllm:num_requests_running", "NaN", engine=0), "running is NaN"),
        (series("vllm:num_requests_running", "+Inf", engine=0), "running is inf"),
        (series("vllm:num_requests_running", -1, engine=0), "running is -1, negative"),
        (series("vllm:kv_cache_usage_perc", 37.5, engine=0), "above 1; it is a share"),
        (series("vllm:generation_tokens_total", "NaN", engine=0), "is NaN"),
        (series("vllm:generation_tokens_total", 2.5, engine=0), "not a count"),
        (series("vllm:generation_tokens_total", "1e300", engine=0), "not a count"),
        (series("vllm:generation_tokens_total", -5, engine=0), "negative"),
    ],
)
def test_a_value_that_cannot_be_is_unknown_and_its_siblings_load(line: str, said: str) -> None:
    parsed = scraped(line, series("vllm:prompt_tokens_total", 8, engine=0))
    (row,) = rows(parsed)
    assert counters(row) == {"prompt_tokens": 8}
    assert (row["running_requests"], row["kv_cache_utilization"]) == (None, None)
    assert [(r.whole_row, said in r.reason) for r in parsed.rejects] == [(False, True)]


def test_an_engine_of_which_nothing_holds_goes_to_quarantine_alone() -> None:
    parsed = scraped(series("vllm:num_requests_running", "NaN", engine=0), vllm(engine="1"))
    assert [r["engine"] for r in rows(parsed)] == ["1"]
    assert [r.whole_row for r in parsed.rejects] == [False, True]


BUCKET = "vllm:time_to_first_token_seconds_bucket"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([series(BUCKET, 1, le="0.5")], "no bucket le=+Inf"),
        ([series(BUCKET, 3, le="0.5"), series(BUCKET, 2, le="+Inf")], "must be cumulative"),
        ([series(BUCKET, 1, le="x"), series(BUCKET, 2, le="+Inf")], "no number"),
        ([series(BUCKET, 1, le="0.5"), series(BUCKET, 1, le="0.50"), series(BUCKET, 2, le="+Inf")], "twice"),
        ([series(BUCKET, 1), series(BUCKET, 2, le="+Inf")], "no number"),
        (
            [series(BUCKET, 2, le="+Inf"), series("vllm:time_to_first_token_seconds_count", 3)],
            "count that differs",
        ),
    ],
)
def test_a_histogram_that_does_not_hold_is_unknown(lines: list[str], said: str) -> None:
    parsed = scraped(lines, series("vllm:prompt_tokens_total", 8))
    assert "histograms" not in json.loads(rows(parsed)[0]["counters"])
    assert [said in r for r in reasons(parsed)] == [True]


def test_a_reason_that_never_occurred_is_zero_where_others_are_told() -> None:
    (row,) = rows(scraped(series("vllm:request_success_total", 4, finished_reason="stop")))
    assert counters(row) == {"successes": 4, "aborts": 0}
    (other,) = rows(scraped(series("vllm:request_success_total", 4, finished_reason="error")))
    assert counters(other) == {"successes": 0, "aborts": 0}


def test_openmetrics_is_the_same_row() -> None:
    plain = scraped(vllm())
    openly = scraped(vllm(), "# EOF", content_type="application/openmetrics-text; version=1.0.0; charset=utf-8")
    assert plain.tables["core.serving_scrape"].equals(openly.tables["core.serving_scrape"])


def test_the_creation_of_a_counter_is_that_of_its_first_part() -> None:
    parts = [series("vllm:request_success_total", 1, finished_reason=reason) for reason in ("stop", "abort")] + [
        series("vllm:request_success_created", at, finished_reason=r) for r, at in (("stop", 50.5), ("abort", 90))
    ]
    assert json.loads(rows(scraped(parts))[0]["counters"])["created"] == {"vllm:request_success_total": 50.5}


class TestTime:
    def test_a_scrape_is_of_its_fetch(self) -> None:
        assert scraped(vllm()).data_at == NOW

    def test_the_samples_own_time_comes_first(self) -> None:
        at = NOW - timedelta(minutes=3)
        ms = int((at - datetime(1970, 1, 1)).total_seconds() * 1000)
        assert rows(scraped(series("vllm:num_requests_running", 2) + f" {ms}"))[0]["scraped_at"] == at

    def test_a_sample_far_older_than_its_siblings_is_left_out(self) -> None:
        ms = int((NOW - datetime(1970, 1, 1)).total_seconds() * 1000)
        parsed = scraped(
            series("vllm:num_requests_running", 2) + f" {ms}",
            series("vllm:num_requests_waiting", 9) + f" {ms - 400_000}",
        )
        assert rows(parsed)[0]["waiting_requests"] is None
        assert reasons(parsed) == ["vllm:num_requests_waiting is more than 5 min older than its siblings"]

    @pytest.mark.parametrize("ms", [0, 1, 4_000_000_000_000, -5, 999_999_999_999_999_999])
    def test_a_time_that_cannot_be_is_refused(self, ms: int) -> None:
        parsed = scraped(series("vllm:num_requests_running", 2) + f" {ms}", vllm(engine="1"))
        assert "1" in [r["engine"] for r in rows(parsed)]


class TestBackend:
    def test_it_is_host_and_port_of_the_address(self) -> None:
        (row,) = rows(scraped(vllm(), url="http://gpu-1.internal:8000/metrics?token=x"), "core.backend")
        assert (row["backend_id"], row["endpoint"]) == ("gpu-1.internal:8000", "http://gpu-1.internal:8000/metrics")

    def test_it_is_what_a_person_declares(self) -> None:
        assert rows(scraped(vllm(), options={"backend": "pool-a/3"}))[0]["backend_id"] == "pool-a/3"

    def test_a_file_needs_a_name(self) -> None:
        with pytest.raises(PayloadError, match="--option backend=ID"):
            scraped(vllm(), url="file:///tmp/metrics.txt")

    def test_its_cache_is_that_of_all_its_engines(self) -> None:
        parsed = scraped(vllm(engine="0"), vllm(engine="1"))
        (row,) = rows(parsed, "core.backend")
        assert (row["runtime"], row["kv_capacity_tokens"]) == ("vllm", 2 * 16 * 1000)
        assert json.loads(row["attributes"])["engines"] == ["0", "1"]

    def test_a_restart_with_another_number_of_blocks_is_the_same_configuration(self) -> None:
        def version(lines: list[str]) -> Any:
            return rows(scraped(lines), "core.backend")[0]["config_version"]

        blocks = [line.replace('num_gpu_blocks="1000"', 'num_gpu_blocks="999"') for line in vllm()]
        sizes = [line.replace('block_size="16"', 'block_size="32"') for line in vllm()]
        assert version(vllm()) == version(blocks) != version(sizes)

    def test_blocks_that_are_not_known_yet_are_unknown(self) -> None:
        lines = [line.replace('num_gpu_blocks="1000"', 'num_gpu_blocks="None"') for line in vllm()]
        assert rows(scraped(lines), "core.backend")[0]["kv_capacity_tokens"] is None


class TestOtherRuntimes:
    def test_sglang_ranks_repeat_an_engine_and_are_not_added_up(self) -> None:
        parsed = scraped(sglang().rstrip("\n"), name="sglang-metrics")
        front, first, second = rows(parsed)
        assert [r["engine"] for r in (front, first, second)] == ["", "0", "1"]
        assert (first["running_requests"], second["running_requests"]) == (4.0, 5.0)
        assert counters(front) == {"prompt_tokens": 700, "output_tokens": 800, "cached_prompt_tokens": 42, "aborts": 1}
        assert rows(parsed, "core.backend")[0]["kv_capacity_tokens"] == 64 * 11147

    def test_the_lowest_rank_speaks(self) -> None:
        ranks = [series("sglang:num_running_reqs", v, tp_rank=r) for r, v in ((1, 9), (0, 4))]
        assert rows(scraped(ranks, name="sglang-metrics"))[0]["running_requests"] == 4.0

    def test_tensorrt_llm(self) -> None:
        parsed = scraped(tensorrt_llm().rstrip("\n"), name="tensorrt-llm-metrics")
        (row,) = rows(parsed)
        assert (row["model"], row["running_requests"], row["kv_cache_utilization"]) == ("nemotron-nano-3", 5.0, 0.62)
        assert counters(row) == {"output_tokens": 900, "successes": 11, "aborts": 2}
        assert rows(parsed, "core.backend")[0]["kv_capacity_tokens"] == 32 * 500

    def test_triton_tells_requests_by_type(self) -> None:
        parsed = scraped(TRITON.rstrip("\n"), name="tensorrt-llm-metrics")
        (row,) = rows(parsed)
        assert (row["waiting_requests"], row["running_requests"], row["kv_cache_utilization"]) == (3.0, 4.0, 0.6)
        assert (row["engine"], row["model"]) == ("", "tensorrt_llm")
        assert rows(parsed, "core.backend")[0]["max_concurrency"] == 512

    def test_another_runtimes_scrape_is_told_its_kind(self) -> None:
        with pytest.raises(PayloadError, match="import it as sglang-metrics"):
            scraped(sglang().rstrip("\n"))


def test_a_text_that_is_none_is_refused_with_its_line() -> None:
    with pytest.raises(PayloadError, match="line 2: cannot read"):
        scraped("a 1", "vllm:num_requests_running{engine=0} 3")
    with pytest.raises(PayloadError, match="truncated"):
        kind("vllm-metrics").parse(payload(text(vllm())[:-1], "vllm-metrics"))
