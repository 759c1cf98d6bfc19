"""The sample's replay data set: what a router can learn from it, and what it must be honest about."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path

import polars as pl
import pytest

from app.desk import local_operator, open_desk
from app.operations import call
from app.settings import load_settings
from ingest.base import Payload
from ingest.kinds import kind
from ingest.pipeline import refresh
from ingest.sample import sample_payloads
from ingest.sample.outcomes import ARMS, BENCHMARKS, DATASET, MISSING, QUERIES_PER_BENCHMARK, outcomes_csv
from warehouse.clock import utcnow
from warehouse.engine import Warehouse

QUERIES = QUERIES_PER_BENCHMARK * len(BENCHMARKS)


@pytest.fixture(scope="module")
def told() -> pl.DataFrame:
    return pl.read_csv(io.StringIO(outcomes_csv()))


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warehouse]:
    warehouse = Warehouse.open(Path(tmp_path_factory.mktemp("sample")) / "w.duckdb")
    (payload,) = [p for p in sample_payloads(utcnow()) if p.kind == "outcomes"]
    outcome = refresh(warehouse, kind("outcomes"), payload.source_id, partial(_itself, payload), trigger="sample")
    assert (outcome.state, outcome.rows_quarantined) == ("OK", 0)
    yield warehouse
    warehouse.close()


def _itself(payload: Payload) -> Payload:
    return payload


def test_it_does_not_hang_on_the_clock() -> None:
    bodies = {
        p.body
        for at in (datetime(2026, 1, 1), datetime(2027, 5, 5))
        for p in sample_payloads(at)
        if p.kind == "outcomes"
    }
    assert len(bodies) == 1


def test_it_has_600_queries_of_3_benchmarks_x_5_arms_and_a_few_missing_cells(loaded: Warehouse) -> None:
    assert (QUERIES, len(ARMS)) == (600, 5)
    assert loaded.scalar("SELECT count(*) FROM core.query WHERE dataset = 'sample'") == QUERIES
    assert loaded.scalar("SELECT count(*) FROM core.outcome") == QUERIES * len(ARMS) - MISSING
    sparse = loaded.query("SELECT arm, count(*) AS n FROM core.outcome GROUP BY arm HAVING n < 600")
    assert sparse.rows() == [("qwen3.6-35b", QUERIES - MISSING)]
    split = loaded.query("SELECT benchmark, split, count(*) AS n FROM core.query GROUP BY ALL ORDER BY ALL")
    assert set(split["n"]) == {140, 60}
    assert split.height == 6


def test_no_joule_of_it_claims_to_be_measured(loaded: Warehouse) -> None:
    rows = loaded.query("SELECT DISTINCT energy_evidence_class, energy_method FROM core.outcome").rows()
    assert rows == [("modeled", "made-up J per output token of the sample")]


def test_no_text_is_told_twice_so_none_is_in_both_splits(told: pl.DataFrame) -> None:
    texts = told.select("query_id", "prompt").unique()
    assert texts["prompt"].n_unique() == texts.height == QUERIES


def test_the_topic_of_a_text_tells_how_hard_it_is(told: pl.DataFrame) -> None:
    first = told.with_columns(topic=pl.col("prompt").str.extract(r"^(\w+ \w+)"))
    by_topic = first.filter(pl.col("arm") == "gemma-4-31b").group_by("topic").agg(pl.col("correct").mean(), pl.len())
    hard = by_topic.filter(pl.col("topic").is_in(["In how", "Write an", "Which treaty"]))
    easy = by_topic.filter(pl.col("topic").is_in(["Write a", "Explain to"]))
    assert hard["correct"].max() < 0.35 < 0.55 < easy["correct"].min()  # type: ignore[operator]


def test_one_arm_is_dominated_and_none_is_best_everywhere(told: pl.DataFrame) -> None:
    arms = {
        name: (accuracy, joules)
        for name, accuracy, joules in told.group_by("arm")
        .agg(pl.col("correct").mean(), pl.col("energy_j").mean())
        .iter_rows()
    }
    accuracy, joules = arms["qwen3.6-35b"]
    assert any(a > accuracy and j < joules for a, j in arms.values())
    best = told.group_by("benchmark", "arm").agg(pl.col("correct").mean()).sort("correct").group_by("benchmark").last()
    assert best["arm"].n_unique() > 1
    cheapest = told.filter(pl.col("correct") == 1).group_by("query_id").agg(pl.col("energy_j").min())
    assert cheapest.height / QUERIES > max(a for a, _ in arms.values()) + 0.1  # there is something to gain by routing


def test_it_comes_with_the_sample_and_goes_with_it() -> None:
    desk = open_desk(load_settings())
    me = local_operator("cli")
    tables = ("core.query", "core.arm", "core.outcome")
    try:
        call(desk, "sample.load", {}, me)
        assert all(desk.warehouse.scalar(f"SELECT count(*) FROM {t} WHERE dataset = '{DATASET}'") for t in tables)
        removed = call(desk, "sample.remove", {}, me)["removed"]
        assert removed["core.query"] == QUERIES
        assert not any(desk.warehouse.scalar(f"SELECT count(*) FROM {t}") for t in tables)
    finally:
        desk.close()
