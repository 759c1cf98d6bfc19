"""From recorded outcomes to an outcome table: what is missing stays missing, and what is wrong is named."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policies.replay.errors import (
    ArmUnknown,
    CorrectnessInvalid,
    DatasetUnknown,
    DuplicateCell,
    EnergyInvalid,
    MixedEvidence,
)
from policies.replay.load import datasets, iter_tables, load_table
from policies.replay.table import Condition
from tests.replay.load.world import NOW, SMALL, arm, cell, fill, joinable, measured, put, query, reading
from warehouse.engine import Warehouse
from warehouse.evidence import EvidenceClass
from warehouse.tables import frame_schema


def two_arms(warehouse: Warehouse, n: int = 3) -> None:
    """`n` queries; arm a measured at 1, 2, … J, arm b at ten times that."""
    fill(
        warehouse,
        [
            cell(f"q{i}", a, correct=float(i % 2), **measured((i + 1) * j), latency_s=0.5, power_w=7.0)
            for i in range(n)
            for a, j in (("a", 1.0), ("b", 10.0))
        ],
        queries=[query(f"q{i}", "sums" if i % 2 else "proofs", prompt_tokens=20) for i in range(n)],
    )


# cells -----------------------------------------------------------------------------------------------


def test_each_cell_lands_at_its_query_and_arm(warehouse: Warehouse) -> None:
    two_arms(warehouse)
    with reading(warehouse) as snap:
        table, notes = load_table(snap, "toy")
    assert table.queries.ids.tolist() == ["q0", "q1", "q2"] and table.names == ("a", "b")
    assert table.queries.benchmarks.tolist() == ["proofs", "sums", "proofs"]
    np.testing.assert_array_equal(table.energy_j, [[1, 10], [2, 20], [3, 30]])
    np.testing.assert_array_equal(table.correct, [[0, 0], [1, 1], [0, 0]])
    assert (table.latency_s == 0.5).all() and (table.power_w == 7.0).all() and (table.output_tokens == 100).all()
    assert table.evidence_class is EvidenceClass.MEASURED and table.energy_method == "counter"
    assert (notes.queries, notes.cells, notes.missing_cells, notes.coverage) == (3, 6, 0, 1.0)
    assert notes.benchmarks == {"proofs": 2, "sums": 1} and notes.age_s == 0 and notes.sources == ("file",)


def test_a_missing_cell_stays_missing_and_coverage_tells_it(warehouse: Warehouse) -> None:
    two_arms(warehouse)
    fill(warehouse, [cell("q3", "a", **measured(1.0)), cell("q4", "b", correct=None, **measured(1.0))])
    with reading(warehouse) as snap:
        table, notes = load_table(snap, "toy")
    assert table.names == ("a", "b")  # neither arm knows every query, so both stay
    assert np.isnan(table.energy_j[3, 1]) and np.isnan(table.correct[4, 1]) and table.energy_j[4, 1] == 1.0
    assert notes.missing_cells == 3 and notes.coverage == 7 / 10 == table.coverage()


def test_arms_that_miss_queries_are_left_out_where_two_remain(warehouse: Warehouse) -> None:
    two_arms(warehouse)
    fill(warehouse, [cell("q0", "c", **measured(1.0)), cell("q1", "d")], arms=[arm("e")])
    with reading(warehouse) as snap:
        table, notes = load_table(snap, "toy")
        assert table.names == ("a", "b")
        assert notes.arms_left_out == {
            "c": "1 of 3 queries are graded and have energy",
            "d": "0 of 3 queries are graded and have energy",
            "e": "no cell is recorded",
        }
        kept, notes = load_table(snap, "toy", keep_partial=True)
        assert kept.names == ("a", "b", "c", "d") and notes.arms_left_out == {"e": "no cell is recorded"}
        assert np.isnan(kept.energy_j[:, 3]).all()
        asked, _ = load_table(snap, "toy", arms=["c", "a", "c"])
        assert asked.names == ("c", "a")


def test_without_any_energy_the_arms_that_are_graded_everywhere_stay(warehouse: Warehouse) -> None:
    fill(warehouse, [cell(f"q{i}", a, tokens=None) for i in range(3) for a in "ab"] + [cell("q0", "c")])
    with reading(warehouse) as snap:
        table, notes = load_table(snap, "toy")
    assert table.names == ("a", "b") and table.evidence_class is None and table.energy_method == ""
    assert np.isnan(table.energy_j).all() and notes.coverage == 1.0
    assert notes.arms_left_out["c"] == "1 of 3 queries are graded"


def test_queries_that_only_outcomes_name_are_there_without_benchmark(warehouse: Warehouse) -> None:
    two_arms(warehouse)
    fill(warehouse, [cell("zz", a, **measured(1.0)) for a in "ab"])
    with reading(warehouse) as snap:
        table, notes = load_table(snap, "toy")
        assert table.queries.ids.tolist()[-1] == "zz" and notes.benchmarks[""] == 1
        some, _ = load_table(snap, "toy", benchmarks=["sums"])
        assert some.queries.ids.tolist() == ["q1"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=15, deadline=None)
@given(known=st.lists(st.booleans(), min_size=12, max_size=12))
def test_any_pattern_of_missing_cells_is_kept(warehouse: Warehouse, known: list[bool]) -> None:
    with warehouse.transaction() as tx:
        tx.execute("DELETE FROM core.outcome")
    cells = [(f"q{i // 3}", "abc"[i % 3]) for i, there in enumerate(known) if there]
    fill(warehouse, [*(cell(q, a, **measured(1.0)) for q, a in cells), cell("other", "a", **measured(1.0))])
    with reading(warehouse) as snap:
        table, notes = load_table(snap, "toy", keep_partial=True)
    found = {(table.queries.ids[n], table.names[k]) for n, k in np.argwhere(np.isfinite(table.energy_j)).tolist()}
    assert found == {*cells, ("other", "a")}
    assert notes.cells - notes.missing_cells == len(found)


# money -----------------------------------------------------------------------------------------------


def test_dollars_are_those_of_the_cell_else_tokens_at_list_price_else_unknown(warehouse: Warehouse) -> None:
    prices: dict[str, Any] = {"input_price_usd_per_token": 1e-6, "output_price_usd_per_token": 2e-6}
    typed = pl.DataFrame(
        [arm("a", **prices), arm("b", input_price_usd_per_token=1e-6), arm("c", **prices)],
        schema_overrides={"input_price_usd_per_token": pl.Float64, "output_price_usd_per_token": pl.Float64},
    )
    schema = frame_schema("core.arm")
    rows = typed.select((pl.col(n) if n in typed.columns else pl.lit(None)).cast(t).alias(n) for n, t in schema.items())
    put(warehouse, "core.arm", rows.to_dicts())
    from decimal import Decimal

    fill(
        warehouse,
        [
            cell("q0", "a", **measured(1.0), prompt_tokens=30),
            cell("q0", "b", **measured(1.0), prompt_tokens=30),
            cell("q0", "c", **measured(1.0), cost_usd=Decimal("0.5")),
            cell("q1", "a", **measured(1.0)),
            cell("q1", "b", **measured(1.0)),
            cell("q1", "c", **measured(1.0), tokens=None),
        ],
        queries=[query("q0"), query("q1", prompt_tokens=20)],
    )
    with reading(warehouse) as snap:
        table, notes = load_table(snap, "toy")
    np.testing.assert_allclose(table.cost_usd, [[230e-6, np.nan, 0.5], [220e-6, np.nan, np.nan]])
    assert (notes.cost_cells, notes.listed_costs) == (3, 2)
    assert table.arms[0].output_price_usd_per_token == 2e-6


# bad input -------------------------------------------------------------------------------------------


def test_an_unknown_data_set_arm_or_benchmark_lists_what_there_is(warehouse: Warehouse) -> None:
    with reading(warehouse) as snap, pytest.raises(DatasetUnknown, match="import outcomes first"):
        load_table(snap, "toy")
    two_arms(warehouse)
    with reading(warehouse) as snap:
        with pytest.raises(DatasetUnknown, match=r"'nope'.*use one of toy"):
            load_table(snap, "nope")
        with pytest.raises(ArmUnknown, match=r"'z'.*use one of a, b"):
            load_table(snap, "toy", arms=["a", "z"])
        with pytest.raises(DatasetUnknown, match=r"no benchmark 'prose'.*proofs, sums"):
            load_table(snap, "toy", benchmarks=["sums", "prose"])


@pytest.mark.parametrize(
    ("bad", "error", "words"),
    [
        ({"correct": 1.5}, CorrectnessInvalid, "q9 by a is 1.5"),
        ({"correct": -0.1}, CorrectnessInvalid, "q9 by a is -0.1"),
        ({"correct": float("nan")}, CorrectnessInvalid, "by a have a correctness that is no number"),
        (measured(0.0), EnergyInvalid, "q9 by a is 0 J"),
        (measured(-3.0), EnergyInvalid, "q9 by a is -3 J"),
        (measured(float("inf")), EnergyInvalid, "q9 by a is inf J"),
        (measured(float("nan")), EnergyInvalid, "by a have an energy that is no number"),
    ],
)
def test_impossible_values_are_named(
    warehouse: Warehouse, bad: dict[str, Any], error: type[Exception], words: str
) -> None:
    two_arms(warehouse)
    fill(warehouse, [{**cell("q9", "a", **measured(1.0)), **bad}, cell("q9", "b", **measured(1.0))])
    with reading(warehouse) as snap, pytest.raises(error, match=words):
        load_table(snap, "toy")


def test_a_cell_that_comes_twice_is_refused(warehouse: Warehouse) -> None:
    two_arms(warehouse)
    with warehouse.transaction() as tx:  # the load keeps keys apart; a table written otherwise may not
        tx.execute("INSERT INTO core.outcome SELECT * FROM core.outcome WHERE query_id = 'q1' AND arm = 'b'")
    with reading(warehouse) as snap, pytest.raises(DuplicateCell, match=r"1 cells of toy by b come twice.*query q1"):
        load_table(snap, "toy")


def test_joules_of_two_classes_are_refused_until_one_is_chosen(warehouse: Warehouse) -> None:
    two_arms(warehouse)
    fill(warehouse, [cell("q0", "b", **measured(5.0, "modeled", "table"))])
    with reading(warehouse) as snap:
        with pytest.raises(MixedEvidence, match=r"measured: a, b; modeled: b.*choose one of measured, modeled"):
            load_table(snap, "toy")
        alone, _ = load_table(snap, "toy", arms=["a"])
        assert alone.evidence_class is EvidenceClass.MEASURED
        chosen, notes = load_table(snap, "toy", evidence_class=EvidenceClass.MEASURED)
        assert np.isnan(chosen.energy_j[0, 1]) and notes.missing_cells == 1


def test_joules_of_no_class_are_refused(warehouse: Warehouse) -> None:
    fill(warehouse, [cell("q0", a, energy_j=1.0) for a in "ab"])
    with reading(warehouse) as snap, pytest.raises(MixedEvidence, match="untold: a, b"):
        load_table(snap, "toy")


# identity --------------------------------------------------------------------------------------------


def test_the_hash_names_content_and_condition_whatever_the_order_of_loading(warehouse: Warehouse) -> None:
    joinable(warehouse)
    hashes = []
    with reading(warehouse) as snap:
        for condition in (Condition("H100", 64), Condition("H100", 64), Condition("H100", 65), None):
            hashes.append(
                load_table(snap, "toy", condition=condition, batch_mode="interpolate", split="hash")[0].sha256
            )
        hashes.append(
            load_table(snap, "toy", condition=Condition("H100", 64), batch_mode="interpolate", split="hash", seed=5)[
                0
            ].sha256
        )
    fill(warehouse, [cell("q0", "small", correct=0.0)])
    with reading(warehouse) as snap:
        hashes.append(
            load_table(snap, "toy", condition=Condition("H100", 64), batch_mode="interpolate", split="hash")[0].sha256
        )
    assert hashes[0] == hashes[1] and len(set(hashes)) == 5


def test_portions_are_the_whole_table_in_order(warehouse: Warehouse) -> None:
    joinable(warehouse, 7)
    condition = Condition("H100", 64)
    with reading(warehouse) as snap:
        whole, notes = load_table(snap, "toy", condition=condition)
        parts = list(iter_tables(snap, "toy", condition=condition, rows=3))
    assert [len(table) for table, _ in parts] == [3, 3, 1]
    np.testing.assert_array_equal(np.concatenate([t.energy_j for t, _ in parts]), whole.energy_j)
    np.testing.assert_array_equal(np.concatenate([t.held_out for t, _ in parts]), whole.held_out)
    assert [q for t, _ in parts for q in t.queries.ids] == whole.queries.ids.tolist()
    assert parts[-1][0].sha256 == whole.sha256
    last = parts[-1][1]
    assert (last.queries, last.train, last.test, last.coverage) == (7, notes.train, notes.test, 1.0)


def test_what_was_learned_after_the_snapshot_is_not_seen(warehouse: Warehouse) -> None:
    two_arms(warehouse)
    put(warehouse, "core.outcome", [cell("q9", "a", **measured(1.0))], at=NOW + timedelta(hours=1))
    with reading(warehouse) as snap:
        assert len(load_table(snap, "toy")[0]) == 3
    with reading(warehouse, NOW + timedelta(hours=2)) as snap:
        table, notes = load_table(snap, "toy")
        assert len(table) == 4 and notes.age_s == 3600


def test_texts_come_along_unless_they_are_not_wanted(warehouse: Warehouse) -> None:
    joinable(warehouse)
    fill(warehouse, [cell("q9", a) for a in ("small", "large")], queries=[query("q9")])
    with reading(warehouse) as snap:
        table, notes = load_table(snap, "toy")
        assert table.queries.texts is not None
        assert table.queries.texts.tolist() == ["text of q0", "text of q1", "text of q2", "text of q3", None]
        assert notes.without_text == 1
        bare, notes = load_table(snap, "toy", texts=False)
        assert bare.queries.texts is None and notes.without_text is None and bare.sha256 == table.sha256


def test_notes_are_json(warehouse: Warehouse) -> None:
    joinable(warehouse)
    with reading(warehouse) as snap:
        plain = load_table(snap, "toy", condition=Condition("H100", 64))[1].plain()
    assert json.loads(json.dumps(plain, allow_nan=False))["newest_at"] == "2026-11-29T12:00:00Z"


# the list --------------------------------------------------------------------------------------------


def test_data_sets_tell_size_splits_energy_and_whether_joules_can_be_joined(warehouse: Warehouse) -> None:
    joinable(warehouse)
    fill(
        warehouse,
        [cell("q0", "odd", tokens=None, **measured(2.0)), cell("q8", "odd", tokens=None)],
        queries=[query("q8", "proofs", split="test")],
        arms=[arm("odd", "acme/Unmeasured")],
    )
    with reading(warehouse, NOW + timedelta(minutes=1)) as snap:
        (info,) = datasets(snap)
    assert (info.name, info.kind, info.queries, info.arms) == ("toy", "outcomes", 5, ("large", "odd", "small"))
    assert (info.cells, info.missing_cells, info.coverage) == (10, 5, 10 / 15)
    assert info.benchmarks == {"sums": 4, "proofs": 1} and info.splits == {"test": 1}
    assert info.evidence_classes == (EvidenceClass.MEASURED,) and info.cells_with_energy == 1
    assert info.can_join and set(info.joined_arms) == {"large", "small"} and info.joined_arms["small"] == SMALL
    assert (info.queries_with_text, info.age_s) == (4, 60.0)


def test_published_points_are_a_data_set_of_points(warehouse: Warehouse) -> None:
    told: dict[str, Any] = {
        "accuracy": 0.5,
        "energy_j": 9.0,
        "evidence_class": "modeled",
        "method": "m",
        "citation": "c",
    }
    put(
        warehouse,
        "core.published_point",
        [
            {"dataset": "published", "policy": "K-NN", "n": 913, **told},
            {"dataset": "published-fixed-arms", "policy": "always", **told},
        ],
    )
    with reading(warehouse) as snap:
        (info,) = datasets(snap)
    assert (info.name, info.kind, info.queries, info.arms) == ("published", "points", 913, ("K-NN", "always"))
    assert info.coverage is None and info.evidence_classes == (EvidenceClass.MODELED,)
