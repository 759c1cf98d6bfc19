"""Typed loads: the same thing twice changes nothing; a correction restates; the past stays readable."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from warehouse import landing, loads, runs
from warehouse.clock import utcnow
from warehouse.engine import Warehouse
from warehouse.errors import IncomparableObservations, SchemaMismatch
from warehouse.evidence import EvidenceClass, grams_class, one_class, strongest_first, weakest
from warehouse.freshness import freshness
from warehouse.loads import Loaded
from warehouse.snapshots import snapshot
from warehouse.tables import frame

T0 = datetime(2026, 1, 1)


def price(usd: str | None, at: datetime = T0, offer: str = "m", kind: str = "fixed") -> dict[str, Any]:
    return {
        "provider": "p",
        "offer_id": offer,
        "component": "prompt",
        "min_prompt_tokens": 0,
        "valid_from": at,
        "price_usd_per_unit": Decimal(usd) if usd is not None else None,
        "unit": "token",
        "price_kind": kind,
        "origin": "live",
    }


def grid(value: float | None, start: datetime = T0) -> dict[str, Any]:
    return {
        "zone": "GB",
        "signal": "average",
        "basis": "direct",
        "start_at": start,
        "end_at": start + timedelta(minutes=30),
        "is_forecast": False,
        "is_estimated": True,
        "intensity_g_per_kwh": value,
        "method": "national average",
        "evidence_class": "calibrated",
    }


def usage(key: str, cost: str, at: datetime = T0) -> dict[str, Any]:
    return {
        "provider": "p",
        "account": "a",
        "usage_key": key,
        "grain": "request",
        "workload": "organic",
        "period_start_at": at,
        "period_end_at": at + timedelta(seconds=1),
        "requested_offer": "m",
        "requests": 1,
        "attempts": 1,
        "billed_cost_usd": Decimal(cost),
        "evidence_class": "allocated",
        "method": "prorated",
    }


def load(
    warehouse: Warehouse, table: str, rows: list[dict[str, Any]], known: datetime | None = None, source: str = "s"
) -> Loaded:
    with warehouse.transaction() as tx:
        return loads.load(tx, table, frame(table, rows), source_id=source, run_id="r", known_from=known or utcnow())


def count(warehouse: Warehouse, table: str) -> int:
    return int(warehouse.scalar(f"SELECT count(*) FROM {table}"))


def test_the_same_price_later_is_no_news(warehouse: Warehouse) -> None:
    assert load(warehouse, "core.price", [price("0.1")]).loaded == 1
    again = load(warehouse, "core.price", [price("0.1", T0 + timedelta(days=1))])
    assert (again.loaded, again.unchanged, count(warehouse, "core.price")) == (0, 1, 1)


def test_a_changed_price_is_a_new_version_and_back_again_is_a_third(warehouse: Warehouse) -> None:
    for day, usd in enumerate(["0.1", "0.2", "0.1"]):
        load(warehouse, "core.price", [price(usd, T0 + timedelta(days=day))])
    assert count(warehouse, "core.price") == 3
    assert warehouse.scalar("SELECT price_usd_per_unit FROM mart.price") == Decimal("0.1")


def test_unknown_free_and_dynamic_are_three_different_things(warehouse: Warehouse) -> None:
    for day, (usd, kind) in enumerate([(None, "unknown"), ("0", "free"), (None, "dynamic")]):
        load(warehouse, "core.price", [price(usd, T0 + timedelta(days=day), kind=kind)])
    assert count(warehouse, "core.price") == 3


def test_a_correction_of_the_past_keeps_both_and_the_past_shows_what_was_known_then(warehouse: Warehouse) -> None:
    """Case T39: intensity restated months later."""
    early, late = T0 + timedelta(hours=1), T0 + timedelta(days=150)
    load(warehouse, "core.grid_intensity", [grid(200.0)], known=early)
    load(warehouse, "core.grid_intensity", [grid(166.0)], known=late)
    assert count(warehouse, "core.grid_intensity") == 2
    text = """SELECT arg_max(intensity_g_per_kwh, known_from) AS v FROM core.grid_intensity
              WHERE known_from <= $as_of"""
    with snapshot(warehouse, early + timedelta(days=1)) as then:
        assert then.sql(text).item() == 200.0
    with snapshot(warehouse, late + timedelta(days=1)) as now:
        assert now.sql(text).item() == 166.0


def test_a_past_restated_in_the_same_load_does_not_swallow_what_came_after_it(warehouse: Warehouse) -> None:
    day1, day2 = T0, T0 + timedelta(days=1)
    load(warehouse, "core.price", [price("0.1", day1)], known=day2)
    load(warehouse, "core.price", [price("0.9", day1), price("0.1", day2)], known=day2 + timedelta(hours=1))
    assert warehouse.scalar("SELECT price_usd_per_unit FROM mart.price") == Decimal("0.1")
    assert count(warehouse, "core.price") == 3


def test_equal_versions_within_one_load_are_one(warehouse: Warehouse) -> None:
    told = load(warehouse, "core.price", [price("0.1", T0 + timedelta(days=d)) for d in range(3)])
    assert (told.loaded, told.unchanged) == (1, 2)


def test_a_late_version_lands_at_its_own_time_and_does_not_rule_the_present(warehouse: Warehouse) -> None:
    load(warehouse, "core.price", [price("0.3", T0 + timedelta(days=10))])
    load(warehouse, "core.price", [price("0.1", T0)])
    assert count(warehouse, "core.price") == 2
    assert warehouse.scalar("SELECT price_usd_per_unit FROM mart.price") == Decimal("0.3")


def test_a_restated_usage_row_replaces_and_an_equal_one_does_not(warehouse: Warehouse) -> None:
    load(warehouse, "core.usage", [usage("a", "1.0"), usage("b", "2.0")])
    told = load(warehouse, "core.usage", [usage("a", "1.0"), usage("b", "2.5"), usage("c", "1.0")])
    assert (told.loaded, told.unchanged, count(warehouse, "core.usage")) == (2, 1, 3)
    assert warehouse.scalar("SELECT sum(billed_cost_usd) FROM core.usage") == Decimal("4.5")


def test_the_same_key_twice_in_one_payload_keeps_the_first_and_hands_back_the_other(warehouse: Warehouse) -> None:
    told = load(warehouse, "core.usage", [usage("a", "1.0"), usage("a", "1.0"), usage("a", "9.0")])
    assert (told.loaded, told.unchanged, told.conflicts.height) == (1, 1, 1)
    assert warehouse.scalar("SELECT billed_cost_usd FROM core.usage") == Decimal("1.0")


def test_sample_and_real_versions_are_compared_apart(warehouse: Warehouse) -> None:
    load(warehouse, "core.price", [price("0.1")], source="sample:catalog")
    assert load(warehouse, "core.price", [price("0.1", T0 + timedelta(days=1))], source="neuralwatt").loaded == 1


def test_a_lone_surrogate_becomes_the_replacement_character(warehouse: Warehouse) -> None:
    """JSON can spell half a character (\\ud800); no text column can hold it."""
    load(warehouse, "core.usage", [{**usage("a", "1"), "requested_offer": "m\ud800x", "zone": None}])
    assert "\ufffd" in warehouse.scalar("SELECT requested_offer FROM core.usage")


def test_a_frame_that_does_not_fit_is_refused_by_name(warehouse: Warehouse) -> None:
    bad = frame("core.price", [price("0.1")]).with_columns(pl.lit(1.0).alias("price_usd_per_unit"))
    with pytest.raises(SchemaMismatch, match="price_usd_per_unit"), warehouse.transaction() as tx:
        loads.load(tx, "core.price", bad, source_id="s", run_id="r", known_from=T0)
    with pytest.raises(SchemaMismatch, match="price_eur"):
        frame("core.price", [{**price("1"), "price_eur": 1}])


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 5), st.sampled_from(["1", "2", None])),
        min_size=1,
        max_size=12,
    )
)
def test_loading_any_batch_twice_changes_nothing_the_second_time(
    warehouse: Warehouse, cells: list[tuple[str, int, str | None]]
) -> None:
    with warehouse.transaction() as tx:
        tx.execute("DELETE FROM core.price")
    rows = [price(usd, T0 + timedelta(days=day), offer, "fixed" if usd else "unknown") for offer, day, usd in cells]
    first = load(warehouse, "core.price", rows, known=T0)
    assert first.loaded + first.unchanged + first.conflicts.height == len(rows)
    before = count(warehouse, "core.price")
    second = load(warehouse, "core.price", rows, known=T0 + timedelta(days=99))
    assert second.loaded + second.unchanged + second.conflicts.height == len(rows)
    third = load(warehouse, "core.price", rows, known=T0 + timedelta(days=99))
    assert third.loaded == 0
    assert count(warehouse, "core.price") - before == second.loaded


def test_the_same_payload_lands_once(warehouse: Warehouse) -> None:
    told = []
    for _ in range(2):
        with warehouse.transaction() as tx:
            told.append(
                landing.land(tx, source_id="s", kind="k", url="file:///x", fetched_at=T0, body=b"{}" * 100, run_id="r")
            )
    assert [t.is_new for t in told] == [True, False]
    assert count(warehouse, "landing.payload") == 1
    assert landing.read_body(warehouse, told[0].payload_id) == b"{}" * 100


def _source(warehouse: Warehouse) -> None:
    with warehouse.transaction() as tx:
        runs.register_source(tx, runs.SourceRow("s", "k", "S", "http", "http://x", 60, 120, 600))


def _run(warehouse: Warehouse, state: str, **values: Any) -> None:
    run = runs.start(warehouse, source_id="s", kind="k", trigger="schedule")
    with warehouse.transaction() as tx:
        runs.finish(tx, run, state=state, **values)


def test_freshness_ages_from_the_last_success_and_a_failure_makes_nothing_younger(warehouse: Warehouse) -> None:
    _source(warehouse)
    assert freshness(warehouse)["status"].to_list() == ["never"]
    _run(warehouse, "OK")
    now = utcnow()
    seen = [freshness(warehouse, now + timedelta(seconds=s)).row(0, named=True) for s in (1, 200, 700)]
    assert [r["status"] for r in seen] == ["fresh", "stale", "expired"]
    _run(warehouse, "FAILED", error_text="s: data: not JSON", error_fix="look")
    row = freshness(warehouse, now + timedelta(seconds=200)).row(0, named=True)
    assert (row["status"], row["last_state"], row["why"]) == ("stale", "FAILED", "s: data: not JSON")


def test_a_run_that_was_cut_off_is_aborted_at_the_next_start(warehouse: Warehouse) -> None:
    runs.start(warehouse, source_id="s", kind="k", trigger="schedule")
    assert runs.abort_orphans(warehouse) == 1
    assert warehouse.scalar("SELECT state FROM ops.run") == "ABORTED"


def test_an_aggregate_inherits_the_weakest_class_and_mixed_classes_are_refused() -> None:
    assert weakest(["measured", "allocated", "measured"]) is EvidenceClass.ALLOCATED
    assert weakest([]) is None
    with pytest.raises(IncomparableObservations, match=r"measured, modeled"):
        one_class(["modeled", "measured"], what="the axis")


@given(st.sampled_from(EvidenceClass), st.sampled_from(EvidenceClass))
def test_grams_are_as_weak_as_the_weaker_of_energy_and_intensity(
    energy: EvidenceClass, intensity: EvidenceClass
) -> None:
    found = grams_class(energy, intensity)
    assert found is weakest([energy, intensity])
    assert strongest_first([energy, found])[-1] is found  # never stronger than the joules


@pytest.mark.parametrize(
    "grams",
    [
        {"carbon_g": 1.0, "carbon_evidence_class": None},
        {"carbon_g": None, "carbon_evidence_class": "calibrated"},
        {"carbon_g": 1.0, "carbon_evidence_class": "measured"},  # the joules are allocated
        {"carbon_g": 1.0, "carbon_evidence_class": "guessed"},
    ],
)
def test_grams_without_a_class_of_their_own_or_with_one_stronger_than_the_joules_do_not_load(
    warehouse: Warehouse, grams: dict[str, Any]
) -> None:
    with pytest.raises(SchemaMismatch, match=r"1 rows for core\.usage tell grams without an evidence class"):
        load(warehouse, "core.usage", [usage("a", "1.0"), {**usage("b", "1.0"), **grams}])
    assert count(warehouse, "core.usage") == 0


def test_the_view_for_people_sums_no_grams_over_several_classes(warehouse: Warehouse) -> None:
    def row(key: str, model: str, grams: float, cls: str) -> dict[str, Any]:
        energy = {"energy_j": 100.0, "successes": 1, "requested_offer": model}
        return {**usage(key, "1.0"), **energy, "carbon_g": grams, "carbon_evidence_class": cls}

    rows = [row("a", "mixed", 1.0, "calibrated"), row("b", "mixed", 5.0, "modeled"), row("c", "one", 3.0, "modeled")]
    load(warehouse, "core.usage", [*rows, {**usage("d", "1.0"), "requested_offer": "none"}])
    names = "offer_id, billed_rows, carbon_g, carbon_g_per_success, carbon_evidence_class"
    assert warehouse.query(f"SELECT {names} FROM mart.model_usage ORDER BY offer_id").rows() == [
        ("mixed", 2, None, None, None),
        ("none", 1, None, None, None),
        ("one", 1, 3.0, 3.0, "modeled"),
    ]
    assert warehouse.query(f"SELECT {names} FROM mart.model_carbon ORDER BY ALL").rows() == [
        ("mixed", 1, 1.0, 1.0, "calibrated"),
        ("mixed", 1, 5.0, 5.0, "modeled"),
        ("one", 1, 3.0, 3.0, "modeled"),
    ]


def test_a_refused_row_with_a_lone_surrogate_is_kept(warehouse: Warehouse) -> None:
    run = runs.start(warehouse, source_id="s", kind="k", trigger="import")
    with warehouse.transaction() as tx:
        assert runs.quarantine(tx, run, None, [{"reason": "no id", "raw": "half \ud800 a character"}]) == 1
    assert "\ufffd" in warehouse.scalar("SELECT raw FROM ops.quarantine")
