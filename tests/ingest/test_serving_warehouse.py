"""Scrapes in the warehouse: any order of loading ends in the same windows; a backend is more than its engines' sum."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import polars as pl
import pytest

from ingest.base import Payload
from ingest.kinds import kind
from ingest.pipeline import RunOutcome, refresh
from tests.ingest.serving_samples import RANGE, histogram, matrix, series, sglang, text, vllm
from warehouse.constraints import broken_keys
from warehouse.engine import Warehouse
from warehouse.runs import SourceRow, register_source

START = datetime(2026, 11, 29, 12)


def feed(
    warehouse: Warehouse,
    body: str,
    minute: float = 0,
    *,
    name: str = "vllm-metrics",
    source: str = "gpu-1",
    url: str = "http://gpu-1:8000/metrics",
) -> RunOutcome:
    with warehouse.transaction() as tx:
        register_source(tx, SourceRow(source, name, "t", "http", url, 60, 120, 600))
    payload = Payload(source, name, url, START + timedelta(minutes=minute), body.encode(), 200, "text/plain")
    outcome = refresh(warehouse, kind(name), source, lambda: payload, trigger="manual")
    assert outcome.state in ("OK", "PARTIAL"), outcome.error
    return outcome


def windows(warehouse: Warehouse) -> list[dict[str, Any]]:
    loader = "source_id, run_id, known_from"
    return warehouse.query(
        f"SELECT * EXCLUDE ({loader}) FROM core.serving_window ORDER BY backend_id, engine, model, window_end_at"
    ).to_dicts()


def test_two_scrapes_make_a_window(warehouse: Warehouse) -> None:
    feed(warehouse, text(vllm(100, ttft=[0.05])))
    feed(warehouse, text(vllm(350, ttft=[0.05, 0.2, 0.2, 0.2])), 1)
    first, second = windows(warehouse)
    assert (first["gap_reason"], first["output_tokens"]) == ("first_scrape", None)
    assert (second["gap_reason"], second["output_tokens"], second["successes"]) == (None, 250, 0)
    assert (second["ttft_p50_low_s"], second["ttft_p50_high_s"]) == (0.1, 0.25)
    assert second["window_start_at"] == START


def test_the_same_scrape_again_changes_nothing(warehouse: Warehouse) -> None:
    feed(warehouse, text(vllm(100)))
    feed(warehouse, text(vllm(350)), 1)
    before = warehouse.query("SELECT * FROM core.serving_window ORDER BY ALL")
    again = feed(warehouse, text(vllm(350)), 1)
    assert (again.rows_loaded, again.rows_unchanged, again.notes) == (0, 1, ())
    assert warehouse.query("SELECT * FROM core.serving_window ORDER BY ALL").equals(before)
    assert warehouse.scalar("SELECT count(*) FROM core.backend") == 1


def test_any_order_of_loading_ends_in_the_same_windows(tmp_path: Any) -> None:
    # a reset between 2 and 3; several engines; one scrape comes twice
    levels = [10, 400, 900, 30, 30, 700]
    steps = [(m, text(vllm(v, engine="0"), vllm(2 * v, engine="1"))) for m, v in enumerate(levels)]
    ends = []
    for seed in range(4):
        order = [*steps, steps[2]]
        random.Random(seed).shuffle(order)
        opened = Warehouse.open(tmp_path / f"{seed}.duckdb")
        for minute, body in steps if seed == 0 else order:
            feed(opened, body, minute)
        ends.append(windows(opened))
        assert broken_keys(opened) == []
        opened.close()
    assert all(end == ends[0] for end in ends)
    assert [w["output_tokens"] for w in ends[0] if w["engine"] == "0"] == [None, 390, 500, None, 0, 670]
    assert [w["gap_reason"] for w in ends[0] if w["engine"] == "0"][3] == "counter_reset"


def test_two_sources_of_one_backend_keep_their_own_windows(warehouse: Warehouse) -> None:
    feed(warehouse, text(vllm(100)), 0, source="a")
    feed(warehouse, text(vllm(900)), 1, source="b")
    feed(warehouse, text(vllm(950)), 2, source="a")
    assert [w["output_tokens"] for w in windows(warehouse)] == [None, None, 850]


def test_an_overlapping_answer_of_prometheus_adds_only_what_is_new(warehouse: Warehouse) -> None:
    import json

    about = {"instance": "gpu-1:8000", "engine": "0", "model_name": "m"}
    at = 1_764_417_600

    def answer(*points: tuple[int, int]) -> str:
        return json.dumps(matrix(("vllm:generation_tokens_total", about, [(at + 60 * m, v) for m, v in points])))

    url = "http://prom:9090"
    one = feed(warehouse, answer((0, 10), (1, 30), (2, 70)), name="prometheus-range", source="prom", url=url)
    two = feed(
        warehouse, answer((1, 30), (2, 70), (3, 5), (5, 105)), 1, name="prometheus-range", source="prom", url=url
    )
    assert (one.rows_loaded, two.rows_loaded, two.rows_unchanged) == (3, 2, 2)
    found = windows(warehouse)
    assert [w["output_tokens"] for w in found] == [None, 20, 40, None, 100]
    assert found[-1]["window_end_at"] - found[-1]["window_start_at"] == timedelta(minutes=2)


def test_a_windows_evidence_and_age_stand_in_the_latest_view(warehouse: Warehouse) -> None:
    feed(warehouse, text(vllm(100)))
    feed(warehouse, text(vllm(700)), 1)
    row = warehouse.query("SELECT * FROM mart.serving_at($now)", {"now": START + timedelta(minutes=3)}).row(
        0, named=True
    )
    assert (row["age_s"], row["window_s"], row["output_tokens"], row["output_tokens_per_s"]) == (120.0, 60.0, 600, 10.0)
    assert row["evidence_class"] == "measured"
    earlier = warehouse.query("SELECT * FROM mart.serving_at($now)", {"now": START}).row(0, named=True)
    assert (earlier["age_s"], earlier["gap_reason"], earlier["output_tokens_per_s"]) == (0.0, "first_scrape", None)
    assert (
        warehouse.scalar("SELECT count(*) FROM mart.serving_latest WHERE age_s > 0 OR window_end_at > now()")
        is not None
    )


def backend(warehouse: Warehouse, minute: float = 60) -> dict[str, Any]:
    rows = warehouse.query("SELECT * FROM mart.serving_backend_at($now)", {"now": START + timedelta(minutes=minute)})
    assert rows.height == 1
    return rows.row(0, named=True)


def test_a_backend_adds_up_what_adds_up(warehouse: Warehouse) -> None:
    feed(warehouse, text(vllm(100, engine="0"), vllm(1000, engine="1")))
    feed(warehouse, text(vllm(150, engine="0"), vllm(1400, engine="1")), 1)
    row = backend(warehouse)
    assert (row["engines"], row["running_requests"], row["output_tokens"]) == (2, 6.0, 450)
    assert row["kv_cache_utilization_max"] == 0.25


def test_a_backend_with_an_engine_that_restarted_has_no_sum(warehouse: Warehouse) -> None:
    feed(warehouse, text(vllm(100, engine="0"), vllm(1000, engine="1")))
    feed(warehouse, text(vllm(150, engine="0"), vllm(3, engine="1")), 1)
    row = backend(warehouse)
    assert (row["output_tokens"], row["gap_reasons"], row["running_requests"]) == (None, "counter_reset", 6.0)


def test_an_engine_that_is_gone_is_no_part_of_its_backend(warehouse: Warehouse) -> None:
    feed(warehouse, text(vllm(100, engine="0"), vllm(1000, engine="1")))
    feed(warehouse, text(vllm(150, engine="0")), 1)
    assert (backend(warehouse)["engines"], backend(warehouse)["output_tokens"]) == (1, 50)


def test_a_frontend_counts_for_the_engines_behind_it(warehouse: Warehouse) -> None:
    url, name = "http://s:30000/metrics", "sglang-metrics"
    feed(warehouse, sglang(), name=name, url=url)
    feed(warehouse, sglang().replace(" 800.0\n", " 860.0\n"), 1, name=name, url=url)
    row = backend(warehouse)
    assert (row["engines"], row["running_requests"], row["output_tokens"], row["aborts"]) == (2, 9.0, 60, 0)


@pytest.mark.parametrize("seed", range(5))
def test_a_percentile_of_a_backend_contains_that_of_all_its_requests(warehouse: Warehouse, seed: int) -> None:
    drawn = random.Random(seed)
    bounds = (0.1, 0.5, 1.0, 5.0)
    slow = {
        str(e): [drawn.lognormvariate(drawn.uniform(-3, 2), 1.0) for _ in range(drawn.randint(1, 80))] for e in range(3)
    }

    def scraped(values: dict[str, Sequence[float]]) -> str:
        lines = [
            line
            for engine, v in values.items()
            for line in histogram("vllm:e2e_request_latency_seconds", bounds, v, engine=engine, model_name="m")[1:]
        ]
        return text(lines, [series("vllm:num_requests_running", 0, engine=e, model_name="m") for e in values])

    feed(warehouse, scraped(dict.fromkeys(slow, ())))
    feed(warehouse, scraped({**slow}), 1)
    pooled = sorted(v for values in slow.values() for v in values)
    true = pooled[math.ceil(0.95 * len(pooled) - 1e-9) - 1]
    row = backend(warehouse)
    assert row["e2e_p95_low_s"] < true
    assert row["e2e_p95_high_s"] is None or true <= row["e2e_p95_high_s"]


def test_an_answer_without_new_rows_does_not_touch_windows_of_others(warehouse: Warehouse) -> None:
    import json

    feed(warehouse, text(vllm(100)))
    feed(warehouse, json.dumps(RANGE), 1, name="prometheus-range", source="prom", url="http://prom:9090")
    found = warehouse.query("SELECT source_id, count(*) AS n FROM core.serving_window GROUP BY ALL ORDER BY ALL")
    assert found.equals(pl.DataFrame({"source_id": ["gpu-1", "prom"], "n": [1, 3]}))
