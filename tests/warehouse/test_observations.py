"""The observation contract: like with like, all attempts in the numerator, the weakest class on the label."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warehouse import loads
from warehouse.clock import utcnow
from warehouse.engine import Warehouse
from warehouse.errors import IncomparableObservations
from warehouse.observations import IDENTITY, energy_per_success, read, require_comparable
from warehouse.tables import frame

T0 = datetime(2026, 1, 1)


def observation(i: int = 0, **changes: Any) -> dict[str, Any]:
    return {
        "observation_id": f"o{i}",
        "provider": "p",
        "offer_id": "m",
        "logical_model": "m",
        "hardware_model": "H100",
        "hardware_count": 8,
        "runtime": "vllm",
        "runtime_version": "0.32",
        "config_version": "c1",
        "window_start_at": T0 + timedelta(seconds=i),
        "window_end_at": T0 + timedelta(seconds=i + 1),
        "evidence_class": "allocated",
        "method": "prorated_multi_gpu_8",
        "quality": "FAIR",
        "energy_gross_j": 100.0,
        "attempts": 1,
        "successes": 1,
        "workload": "organic",
        **changes,
    }


def rows(*listed: dict[str, Any]) -> pl.DataFrame:
    return frame("core.energy_observation", listed)


def test_a_request_without_energy_lowers_coverage_and_enters_neither_sum() -> None:
    """Case T37: 10 requests, 8 with energy (sum 800 J), 7 of those 8 succeeded -> 114.2857 J, coverage 80 %."""
    listed = [observation(i) for i in range(8)]
    listed[3]["successes"] = 0
    listed += [observation(8, energy_gross_j=None), observation(9, energy_gross_j=None)]
    told = energy_per_success(rows(*listed))
    assert told.energy_j_per_success == pytest.approx(114.2857, abs=1e-4)
    assert told.coverage == pytest.approx(0.8)
    assert told.attempts == 10


@pytest.mark.parametrize("column", IDENTITY)
def test_observations_that_differ_are_refused_and_the_difference_named(column: str) -> None:
    other: Any = 4 if column == "hardware_count" else "other"
    with pytest.raises(IncomparableObservations, match=column):
        require_comparable(rows(observation(0), observation(1, **{column: other})))


def test_unknown_is_not_known_to_be_the_same() -> None:
    with pytest.raises(IncomparableObservations, match="unknown"):
        require_comparable(rows(observation(0), observation(1, runtime_version=None)))
    require_comparable(rows(observation(0, runtime_version=None), observation(1, runtime_version=None)))


def test_classes_and_method_classes_are_never_mixed() -> None:
    with pytest.raises(IncomparableObservations, match="allocated, modeled"):
        energy_per_success(rows(observation(0), observation(1, evidence_class="modeled")))
    with pytest.raises(IncomparableObservations, match="method class"):
        energy_per_success(rows(observation(0), observation(1, method="counter")))


def test_without_a_success_there_is_no_figure_and_no_zero() -> None:
    told = energy_per_success(rows(observation(0, successes=0)))
    assert told.energy_j_per_success is None
    assert told.energy_j == 100.0
    assert energy_per_success(rows(observation(0, energy_gross_j=None))).energy_j is None
    with pytest.raises(IncomparableObservations, match="no observation"):
        energy_per_success(rows())


def test_the_lowest_quality_names_the_result() -> None:
    assert energy_per_success(rows(observation(0, quality="HIGH"), observation(1, quality="LOW"))).quality == "LOW"


@given(st.lists(st.tuples(st.floats(0.1, 1e5), st.integers(0, 1)), min_size=1, max_size=40))
def test_the_energy_of_failures_is_never_lost(cells: list[tuple[float, int]]) -> None:
    told = energy_per_success(rows(*(observation(i, energy_gross_j=e, successes=s) for i, (e, s) in enumerate(cells))))
    good = sum(s for _, s in cells)
    total = sum(e for e, _ in cells)
    assert told.energy_j == pytest.approx(total)
    assert (told.energy_j_per_success is None) == (good == 0)
    if good:
        assert told.energy_j_per_success == pytest.approx(total / good)


def test_observations_are_read_back_from_the_warehouse_in_order(warehouse: Warehouse) -> None:
    with warehouse.transaction() as tx:
        loads.load(
            tx,
            "core.energy_observation",
            rows(observation(1), observation(0), observation(2)),
            source_id="s",
            run_id="r",
            known_from=utcnow(),
        )
    found = read(warehouse, ["o2", "o0"])
    assert found["observation_id"].to_list() == ["o0", "o2"]
