"""Which queries are held out, and that no text stands in both parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from policies.errors import ParametersInvalid
from policies.replay.errors import QueryLeaked
from policies.replay.load import load_table
from policies.replay.split import split
from tests.replay.load.world import cell, fill, measured, query, reading
from warehouse.engine import Warehouse


def outcomes(warehouse: Warehouse, queries: list[dict[str, Any]]) -> None:
    fill(warehouse, [cell(q["query_id"], a, **measured(1.0)) for q in queries for a in "ab"], queries=queries)


def held_out(warehouse: Warehouse, **options: Any) -> dict[str, bool]:
    with reading(warehouse) as snap:
        table, _ = load_table(snap, "toy", **options)
    return dict(zip(table.queries.ids.tolist(), table.held_out.tolist(), strict=True))


def test_the_split_of_the_source_is_taken_where_it_tells_one(warehouse: Warehouse) -> None:
    outcomes(warehouse, [query("q0", split="train"), query("q1", split="test"), query("q2", split="train")])
    assert held_out(warehouse) == {"q0": False, "q1": True, "q2": False}
    with reading(warehouse) as snap:
        _, notes = load_table(snap, "toy")
        assert notes.split == "the source's own split" and (notes.train, notes.test) == (2, 1)
    fill(warehouse, [cell("q3", a, **measured(1.0)) for a in "ab"])
    with reading(warehouse) as snap:
        assert load_table(snap, "toy")[1].split.startswith("the source's own split for 3 of 4 queries, else 30%")


def test_the_hash_holds_out_the_share_and_moves_no_query_when_rows_are_added(warehouse: Warehouse) -> None:
    outcomes(warehouse, [query(f"q{i}", "sums" if i % 2 else "proofs") for i in range(400)])
    before = held_out(warehouse, split="hash")
    assert 0.23 < sum(before.values()) / 400 < 0.37
    outcomes(warehouse, [query(f"a{i}") for i in range(50)])
    after = held_out(warehouse, split="hash")
    assert before == {q: after[q] for q in before}
    assert held_out(warehouse, split="hash", seed=1) != after
    assert held_out(warehouse, split="hash", benchmarks=["proofs"]).items() <= after.items()
    more = held_out(warehouse, split="hash", test_share=0.5)
    assert all(more[q] for q, test in after.items() if test)  # a larger share only adds


@pytest.mark.parametrize("kind", ["hash", "permutation", "auto"])
def test_equal_texts_stay_together(warehouse: Warehouse, kind: str) -> None:
    outcomes(warehouse, [query(f"q{i}", text=f"text {i % 40}") for i in range(120)])
    found = held_out(warehouse, split=kind)
    assert 0 < sum(found.values()) < 120
    for i in range(40):
        assert len({found[f"q{i + 40 * k}"] for k in range(3)}) == 1


def test_a_text_in_both_parts_is_refused_or_dropped_from_training(warehouse: Warehouse) -> None:
    outcomes(
        warehouse,
        [
            query("q0", text="same", split="train"),
            query("q1", text="same", split="test"),
            query("q2", text="other", split="train"),
            query("q3", split="train"),
            query("q4", split="test"),
        ],
    )
    with reading(warehouse) as snap:
        with pytest.raises(QueryLeaked, match=r"1 training queries of toy .* the first is q0.*leaked=drop"):
            load_table(snap, "toy")
        table, notes = load_table(snap, "toy", leaked="drop")
    assert table.queries.ids.tolist() == ["q1", "q2", "q3", "q4"] and notes.leaked_dropped == 1
    assert (notes.train, notes.test) == (2, 2)


def frame(*benchmarks: str) -> pl.DataFrame:
    n = len(benchmarks)
    return pl.DataFrame(
        {
            "query_id": [f"q{i}" for i in range(n)],
            "benchmark": benchmarks,
            "split": pl.Series([None] * n, dtype=pl.String),
            "text_key": pl.Series([None] * n, dtype=pl.UInt64),
            "draw": [0.5] * n,
        }
    ).sort("query_id")


def test_the_permutation_is_that_of_numpy_over_benchmarks_by_size_and_ids_in_natural_order() -> None:
    queries = frame(*["b"] * 8, *["a"] * 4)  # q0..q11; sorted as text: q0, q1, q10, q11, q2, …
    found = split(queries, kind="permutation", seed=0, test_share=0.3, leaked="refuse", dataset="toy")
    natural = [f"q{i}" for i in range(12)]
    wanted = {natural[i] for i in np.random.default_rng(0).permutation(12)[int(0.7 * 12) :]}
    assert {q for q, test in zip(queries["query_id"], found.held_out, strict=True) if test} == wanted
    assert found.words == "30% held out by a seeded permutation, seed 0"


@pytest.mark.parametrize(
    "options", [{"split": "random"}, {"leaked": "ignore"}, {"test_share": 0.0}, {"test_share": 1.0}]
)
def test_an_impossible_split_is_refused(warehouse: Warehouse, options: dict[str, Any]) -> None:
    outcomes(warehouse, [query("q0"), query("q1")])
    with reading(warehouse) as snap, pytest.raises(ParametersInvalid, match="auto, hash, permutation"):
        load_table(snap, "toy", **options)
