"""Read models: the numbers behind the pages."""

from __future__ import annotations

import csv
import math
from datetime import datetime, timedelta
from decimal import Decimal

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.desk import Desk, local_operator
from app.operations import call
from app.operations.routing import router_parameters
from app.reads import audit, intervals, models, overview, pareto, schema, sources, stamp
from app.reads.intervals import Sums
from policies.router import Request
from tests.console.traffic import MODELED, NOW, usage
from tests.support import shared
from warehouse import loads, runs
from warehouse.clock import utcnow
from warehouse.engine import Warehouse
from warehouse.errors import IncomparableObservations
from warehouse.tables import frame

# intervals ------------------------------------------------------------------------------------------


def sums(energy: list[float], successes: list[float]) -> Sums:
    table = pl.DataFrame({"y": energy, "s": successes})
    cov = table.select(pl.cov("y", "s")).item()
    return Sums(len(energy), sum(energy), sum(successes), table["y"].var(), table["s"].var(), cov)  # type: ignore[arg-type]


def test_joules_per_success_of_the_reference_pairs() -> None:
    """facts/statistics.md section 4.3: R0 = 225.528466, R1 = 193.120219 on pairs400.csv."""
    path = shared("data/stats_reference/pairs400.csv")
    with path.open() as file:
        rows = list(csv.DictReader(file))
    names = rows[0].keys()
    for arm, expected in (("0", 225.528466), ("1", 193.120219)):
        e = next(n for n in names if n.lower().startswith("e") and arm in n)
        s = next(n for n in names if n.lower().startswith("s") and arm in n)
        found = intervals.ratio(sums([float(r[e]) for r in rows], [float(r[s]) for r in rows]))
        assert found is not None
        assert found.value == pytest.approx(expected, abs=1e-6)
        assert found.low is not None
        assert found.high is not None
        assert found.low < found.value < found.high


def test_failures_weigh_in() -> None:
    found = intervals.ratio(sums([100.0, 100.0], [1.0, 0.0]))
    assert found is not None
    assert found.value == 200.0  # the joules of the failure are spent, too


def test_one_row_has_no_interval_and_no_success_no_ratio() -> None:
    one = intervals.ratio(Sums(1, 5.0, 1.0, None, None, None))
    assert one is not None
    assert (one.value, one.low, one.relative) == (5.0, None, None)
    assert intervals.ratio(Sums(3, 5.0, 0.0, 1.0, 0.0, 0.0)) is None


@given(st.integers(0, 500), st.integers(1, 500))
def test_wilson_holds_its_share(k: int, n: int) -> None:
    k = min(k, n)
    span = intervals.wilson(k, n)
    assert span is not None
    assert 0 <= span[0] <= k / n <= span[1] <= 1


def test_the_smallest_sample_with_an_upper_bound_for_p95_is_72() -> None:
    """facts/statistics.md: P95 needs n = 72 for a two-sided 95 % interval."""
    assert intervals.quantile_ranks(71, 0.95) is None
    ranks = intervals.quantile_ranks(72, 0.95)
    assert ranks is not None
    assert ranks[1] == 72


@pytest.mark.parametrize("n", [72, 100, 500])
def test_the_ranks_are_the_tightest_of_the_exact_binomial(n: int) -> None:
    ranks = intervals.quantile_ranks(n, 0.95)
    assert ranks is not None
    low, high = ranks

    def at_most(k: int) -> float:
        return math.fsum(math.comb(n, i) * 0.95**i * 0.05 ** (n - i) for i in range(k + 1))

    assert at_most(low - 1) <= 0.025 < at_most(low)
    assert at_most(high - 2) < 0.975 <= at_most(high - 1)


# overview -------------------------------------------------------------------------------------------


def test_an_empty_warehouse_has_no_overview(warehouse: Warehouse) -> None:
    assert overview.overview(warehouse, 86_400, NOW) is None


def test_classes_are_never_mixed(warehouse: Warehouse) -> None:
    usage(warehouse, [{"energy_j": 100.0}, {"energy_j": 300.0}, MODELED | {"energy_j": 9000.0}])
    told = overview.overview(warehouse, 86_400, NOW)
    assert told is not None
    by_class = {t.evidence_class: t for t in told.classes}
    assert set(by_class) == {"allocated", "modeled"}
    assert by_class["allocated"].energy_j is not None
    assert by_class["allocated"].energy_j.value == 200.0
    assert by_class["modeled"].energy_j is not None
    assert by_class["modeled"].energy_j.value == 9000.0


def test_unknown_energy_is_left_out_of_both_sums_and_lowers_coverage(warehouse: Warehouse) -> None:
    usage(warehouse, [{"energy_j": 100.0}, {"energy_j": None, "requests_with_energy": 0}])
    told = overview.overview(warehouse, 86_400, NOW)
    assert told is not None
    assert told.classes[0].energy_j is not None
    assert (told.classes[0].energy_j.value, told.classes[0].energy_j.n, told.classes[0].coverage) == (100.0, 1, 0.5)


def test_reference_runs_are_no_organic_traffic(warehouse: Warehouse) -> None:
    usage(warehouse, [{"workload": "seed_reference"}])
    assert overview.overview(warehouse, 86_400, NOW) is None


def test_old_traffic_is_shown_with_its_own_end_not_as_now(warehouse: Warehouse) -> None:
    newest = NOW - timedelta(days=60)
    usage(warehouse, [{"at": newest}])
    told = overview.overview(warehouse, 86_400, NOW)
    assert told is not None
    assert (told.is_current, told.end_at) == (False, newest)


def test_p95_is_bounded_by_values_that_occurred(warehouse: Warehouse) -> None:
    usage(warehouse, [{"duration_s": float(i)} for i in range(1, 101)])
    told = overview.overview(warehouse, 86_400, NOW)
    assert told is not None
    p95 = told.classes[0].p95_s
    assert p95 is not None
    ranks = intervals.quantile_ranks(100, 0.95)
    assert ranks is not None
    assert (p95[1], p95[2]) == ranks  # the i-th value is i


def test_the_series_adds_up_to_the_traffic(warehouse: Warehouse) -> None:
    usage(warehouse, [{"at": NOW - timedelta(hours=h)} for h in range(1, 24)])
    series = overview.energy_series(warehouse, "allocated", NOW - timedelta(days=1), NOW)
    assert series["n"].sum() == 23
    assert series["value"].to_list() == [100.0] * series.height


def test_a_price_change_names_both_prices(warehouse: Warehouse) -> None:
    def price(usd: str, at: datetime) -> None:
        row = {
            "provider": "p", "offer_id": "m", "component": "prompt", "min_prompt_tokens": 0, "valid_from": at,
            "price_usd_per_unit": Decimal(usd), "unit": "token", "price_kind": "fixed", "origin": "live",
        }  # fmt: skip
        with warehouse.transaction() as tx:
            loads.load(tx, "core.price", frame("core.price", [row]), source_id="t", run_id="r", known_from=at)

    price("0.00000028", NOW - timedelta(days=2))
    price("0.00000014", NOW - timedelta(days=1))
    (change,) = overview.price_changes(warehouse)
    assert change.text == "prompt price $0.28/1M to $0.14/1M (−50 %)"


# pareto ---------------------------------------------------------------------------------------------


def point(name: str, x: float, y: float, cls: str = "modeled") -> pareto.Point:
    return pareto.Point(name, x, None, None, y, None, None, cls, 10, NOW, "s")


def test_a_mixed_axis_is_refused_with_the_reason() -> None:
    with pytest.raises(IncomparableObservations, match="mixes evidence classes measured, modeled"):
        pareto.front([point("a", 1, 1, "measured"), point("b", 2, 2)])


def test_two_costs_have_a_front_towards_less_of_both(sample: Desk) -> None:
    parameters = router_parameters(sample.settings)
    points, unplotted = pareto.reference(sample.warehouse, "energy_j", "carbon_g", "", parameters)
    on = {p.name for p in pareto.front(points, better=-1).points if p.on_front}
    assert on == {"gemma-4-31b"}  # least joules and least grams of the sweep
    assert {(p.evidence_class, p.y_evidence_class, p.weakest_class) for p in points} == {
        ("allocated", "calibrated", "calibrated")
    }
    assert len(points) == 13
    assert unplotted == []


def test_an_offer_without_a_score_is_named_with_the_reason(sample: Desk) -> None:
    points, unplotted = pareto.reference(
        sample.warehouse, "energy_j", "proficiency", "debugging", router_parameters(sample.settings)
    )
    assert points == []
    assert {u.reason for u in unplotted} == {"no score in debugging is known"}


# models ---------------------------------------------------------------------------------------------


def test_the_offer_that_lists_cheaper_and_bills_dearer_is_flagged(sample: Desk) -> None:
    """The reference sweep: deepseek-v4-flash lists below gemma-4-31b ($0.28, $0.42 per 1M) and bills 95 % more."""
    request = Request("coding_general", 1, 8192)
    ranking = models.decision(sample.warehouse, request, router_parameters(sample.settings), None)
    flags = models.inversions(ranking.eligible)["deepseek-v4-flash"]
    worst = next(f for f in flags if f.other == "gemma-4-31b")
    assert worst.bill_ratio == pytest.approx(9.80e-5 / 5.02e-5, rel=1e-3)
    assert worst.list_ratio < 1
    assert all(f.list_ratio < 1 < f.bill_ratio for f in flags)


def test_a_cell_flips_only_where_the_choice_differs() -> None:
    before = {("a", 1): "x", ("a", 2): "y"}
    assert models.flips(before, {("a", 1): "x", ("a", 2): "z"}) == {("a", 2): ("y", "z")}


# sources, audit, schema, stamp ----------------------------------------------------------------------


def failed_run(warehouse: Warehouse, source: str) -> None:
    run = runs.start(warehouse, source_id=source, kind="openrouter", trigger="manual")
    with warehouse.transaction() as tx:
        runs.finish(tx, run, state="FAILED", error_class="X", error_text="HTTP 500", error_fix="wait")


def register(warehouse: Warehouse, source: str) -> None:
    with warehouse.transaction() as tx:
        runs.register_source(tx, runs.SourceRow(source, "openrouter", "Title", "http", "https://x", 60.0, 120.0, 600.0))


def test_runs_are_kept_in_order_and_only_the_last_twenty(warehouse: Warehouse) -> None:
    register(warehouse, "s")
    for _ in range(sources.RUNS_SHOWN + 3):
        failed_run(warehouse, "s")
    assert sources.histories(warehouse)["s"].states == ["FAILED"] * sources.RUNS_SHOWN


def test_a_failed_source_is_trouble_and_a_host_without_gpu_is_not(desk: Desk) -> None:
    register(desk.warehouse, "s")
    failed_run(desk.warehouse, "s")
    failed_run(desk.warehouse, "power:nvml")
    _, failed = sources.troubles(desk.warehouse)
    assert [s.source_id for s in failed] == ["s"]


def test_the_sample_counts_its_rows_and_is_empty_without_it(sample: Desk) -> None:
    told = sources.sample_rows(sample.warehouse)
    assert told["sample:catalog"] == 19
    assert told["sample:published"] == 13
    call(sample, "sample.remove", {}, local_operator("cli"))
    assert sources.sample_rows(sample.warehouse) == {}


def test_the_trail_is_newest_first_and_filters_by_part_of_the_text(sample: Desk) -> None:
    everything = audit.entries(sample.warehouse)
    assert [e.seq for e in everything] == sorted((e.seq for e in everything), reverse=True)
    only = audit.entries(sample.warehouse, subject="r-0001")
    assert {e.subject for e in only} == {"R-0001"}
    assert audit.entries(sample.warehouse, kinds=["sample.loaded"])[0].subject == "sample"
    assert audit.entries(sample.warehouse, before_seq=2)[0].seq == 1


def test_every_column_with_a_unit_in_its_name_shows_it(warehouse: Warehouse) -> None:
    told = schema.schema(warehouse, ("ops.api_token",))
    assert "ops.api_token" not in told
    units = {c.name: c.unit for columns in told.values() for c in columns}
    assert units["energy_j"] == "J"
    assert units["intensity_g_per_kwh"] == "g/kWh"
    assert units["billed_cost_usd"] == "USD"
    assert units["energy_j_per_success"] == "J per success"
    assert units["sampled_at"] == "UTC"
    assert units["offer_id"] == ""
    meaning = {c.name: c.about for c in told["mart.freshness"]}
    assert meaning["stale_after_s"] == next(c.about for c in told["ops.source"] if c.name == "stale_after_s")


def test_the_stamp_moves_with_every_run_and_every_event(desk: Desk) -> None:
    before = stamp.stamp(desk.warehouse)
    assert stamp.stamp(desk.warehouse) == before
    failed_run(desk.warehouse, "openrouter")
    after_run = stamp.stamp(desk.warehouse)
    call(desk, "sample.load", {}, local_operator("cli"))
    assert len({before, after_run, stamp.stamp(desk.warehouse)}) == 3


def test_freshness_is_told_as_of_an_instant(desk: Desk) -> None:
    register(desk.warehouse, "s")
    run = runs.start(desk.warehouse, source_id="s", kind="openrouter", trigger="manual")
    with desk.warehouse.transaction() as tx:
        runs.finish(tx, run, state="OK", rows_in=1, rows_loaded=1, rows_unchanged=0, rows_quarantined=0)
    later = utcnow() + timedelta(seconds=200)
    row = next(s for s in sources.freshness_rows(desk.warehouse, later) if s.source_id == "s")
    assert row.status == "stale"
    assert row.age_s == pytest.approx(200, abs=5)
