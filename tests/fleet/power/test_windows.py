"""Windows as the warehouse knows them: of observations, of replicas with their engines, of idle boards."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from policies.fleet.power import (
    bindings,
    idle_boards,
    read_windows,
    unbound,
)
from policies.fleet.power.windows import MeasuredWindow
from warehouse.engine import Warehouse
from warehouse.errors import IncomparableObservations
from warehouse.evidence import EvidenceClass, Quality
from warehouse.loads import load
from warehouse.snapshots import snapshot
from warehouse.tables import frame

T0 = datetime(2026, 11, 1, 8)
LATER = datetime(2026, 11, 20)


def store(warehouse: Warehouse, table: str, rows: Sequence[Mapping[str, Any]], known_from: datetime = T0) -> None:
    with warehouse.transaction() as tx:
        load(tx, table, frame(table, rows), source_id="s", run_id="r", known_from=known_from)


def observation(at: int, **changes: Any) -> dict[str, Any]:
    start = T0 + timedelta(minutes=at)
    return {
        "observation_id": f"o{at}",
        "provider": "local",
        "hardware_model": "H100",
        "hardware_count": 4,
        "logical_model": "acme/big-70b",
        "runtime": "vllm",
        "runtime_version": "0.20.0",
        "config_version": "tp4, max_num_seqs 32, chat",
        "window_start_at": start,
        "window_end_at": start + timedelta(seconds=50),
        "concurrency": 8.0,
        "evidence_class": "measured",
        "method": "counter",
        "quality": "HIGH",
        "energy_gross_j": 100_000.0,
        "output_tokens": 50_000,
        "relative_uncertainty": 0.02,
        "workload": "replica",
    } | changes


def read(warehouse: Warehouse, as_of: datetime = LATER, **asked: Any) -> list[MeasuredWindow]:
    with snapshot(warehouse, as_of) as snap:
        return read_windows(snap, **asked)


# observations ---------------------------------------------------------------------------------


def test_power_is_energy_over_duration_and_throughput_tokens_over_duration(warehouse: Warehouse) -> None:
    store(warehouse, "core.energy_observation", [observation(0)])
    (found,) = read(warehouse)
    assert (found.power_w, found.output_tokens_per_s, found.concurrency) == (2000.0, 1000.0, 8.0)
    assert found.observations == ("o0",)
    assert (found.evidence_class, found.quality) == (EvidenceClass.MEASURED, Quality.HIGH)


def test_an_instant_takes_what_the_source_tells(warehouse: Warehouse) -> None:
    told = json.dumps({"power_w": 1800, "output_tokens_per_s": 450, "context_tokens": 900})
    store(warehouse, "core.energy_observation", [observation(0, window_end_at=T0, attributes=told)])
    (found,) = read(warehouse)
    assert (found.power_w, found.output_tokens_per_s, found.context_tokens) == (1800.0, 450.0, 900.0)


def test_the_batch_limit_is_what_a_sweep_varies_and_no_part_of_the_binding(warehouse: Warehouse) -> None:
    rows = [observation(i, config_version=f"tp4 dp1 max_num_seqs {n}, chat") for i, n in enumerate((8, 16))]
    store(warehouse, "core.energy_observation", rows)
    (binding,) = bindings(read(warehouse))
    assert binding.config_version == "tp4 dp1, chat"


def test_what_was_not_known_then_is_not_read(warehouse: Warehouse) -> None:
    store(warehouse, "core.energy_observation", [observation(0)], known_from=datetime(2026, 11, 5))
    assert read(warehouse, as_of=datetime(2026, 11, 4)) == []
    assert len(read(warehouse, as_of=datetime(2026, 11, 6))) == 1


def test_a_gap_is_no_window_and_an_unbound_one_is_counted(warehouse: Warehouse) -> None:
    gap = observation(0, energy_gross_j=None, output_tokens=None, gap_reason="gpu_lost")
    store(warehouse, "core.energy_observation", [gap, observation(1, runtime=None), observation(2, concurrency=None)])
    assert read(warehouse) == []
    with snapshot(warehouse, LATER) as snap:
        assert unbound(snap) == 1


def test_windows_are_asked_for_by_model_hardware_and_provider(warehouse: Warehouse) -> None:
    rows = [observation(0), observation(1, logical_model="b"), observation(2, hardware_model="A100"),
            observation(3, provider="ml.energy")]  # fmt: skip
    store(warehouse, "core.energy_observation", rows)
    asked: list[dict[str, Any]] = [{"model": "b"}, {"hardware": "A100"}, {"provider": "ml.energy"}]
    assert [[w.observations for w in read(warehouse, **a)] for a in asked] == [[("o1",)], [("o2",)], [("o3",)]]


# replicas with their engines ------------------------------------------------------------------


def metered(at_s: int, power_w: float, seconds: int = 10, **changes: Any) -> dict[str, Any]:
    """A window of a replica's meter, without a word about requests."""
    start = T0 + timedelta(seconds=at_s)
    told = observation(
        0,
        observation_id=f"m{at_s}",
        backend_id="replica-a",
        window_start_at=start,
        window_end_at=start + timedelta(seconds=seconds),
        energy_gross_j=power_w * seconds,
        **dict.fromkeys(
            ("logical_model", "runtime", "runtime_version", "config_version", "concurrency", "output_tokens")
        ),
    )
    return told | changes


def scraped(minute: int, running: float, tokens: int | None = 60_000, **changes: Any) -> dict[str, Any]:
    """What one engine told about the minute before."""
    end = T0 + timedelta(minutes=minute)
    return {
        "backend_id": "replica-a",
        "engine": "0",
        "model": "acme/big-70b",
        "window_start_at": end - timedelta(minutes=1),
        "window_end_at": end,
        "runtime": "vllm",
        "running_requests": running,
        "prompt_tokens": 180_000,
        "output_tokens": tokens,
        "successes": 120,
        "evidence_class": "measured",
    } | changes


BACKEND = {
    "backend_id": "replica-a",
    "valid_from": T0 - timedelta(days=1),
    "runtime": "vllm",
    "runtime_version": "0.20.0",
    "config_version": "tp4",
}


def replica(warehouse: Warehouse, meters: Sequence[Mapping[str, Any]], scrapes: Sequence[Mapping[str, Any]]) -> None:
    store(warehouse, "core.energy_observation", meters)
    store(warehouse, "core.serving_window", scrapes)


def test_a_replicas_meter_and_its_engines_make_windows_together(warehouse: Warehouse) -> None:
    store(warehouse, "core.backend", [BACKEND])
    powers = [1000.0] * 6 + [1600.0] * 6
    replica(warehouse, [metered(10 * i, p) for i, p in enumerate(powers)], [scraped(1, 8.0), scraped(2, 12.0)])
    (found,) = read(warehouse)
    assert found.start_at == T0 + timedelta(minutes=1), "the first window has no gauge at its start"
    assert (found.power_w, found.concurrency, found.output_tokens_per_s) == (1600.0, 10.0, 1000.0)
    assert found.context_tokens == (180_000 + 60_000) / 120
    assert len(found.observations) == 6
    assert (found.binding.runtime_version, found.binding.config_version) == ("0.20.0", "tp4")
    assert (found.binding.hardware_model, found.binding.hardware_count) == ("H100", 4)


def test_a_metered_window_counts_by_the_part_that_lies_within(warehouse: Warehouse) -> None:
    replica(
        warehouse,
        [metered(50, 1000.0, seconds=40), metered(90, 2000.0, seconds=40)],
        [scraped(1, 8.0), scraped(2, 8.0)],
    )
    (found,) = read(warehouse)
    assert found.power_w == pytest.approx((30 * 1000 + 30 * 2000) / 60)


@pytest.mark.parametrize(
    ("meters", "second"),
    [
        ([metered(60, 1000.0, seconds=50)], scraped(2, 8.0)),  # five sixths of the time
        ([metered(60, 1000.0, seconds=60)], scraped(2, 8.0, None, gap_reason="counter_reset")),
        ([metered(60, 1000.0, seconds=60)], scraped(2, 8.0, window_start_at=T0 + timedelta(seconds=70))),
        ([metered(60, 1000.0, seconds=60, energy_gross_j=None, gap_reason="gpu_lost")], scraped(2, 8.0)),
        ([metered(60, 1000.0, seconds=60, backend_id="replica-b")], scraped(2, 8.0)),
    ],
)
def test_what_is_not_wholly_known_makes_no_window(
    warehouse: Warehouse, meters: list[dict[str, Any]], second: dict[str, Any]
) -> None:
    replica(warehouse, meters, [scraped(1, 8.0), second])
    assert read(warehouse) == []


def test_engines_add_up_and_a_frontend_counts_for_all_of_them(warehouse: Warehouse) -> None:
    engines = [scraped(m, 4.0, 30_000, engine=e) for m in (1, 2) for e in ("0", "1")]
    replica(warehouse, [metered(60, 1000.0, seconds=60)], engines)
    (found,) = read(warehouse)
    assert (found.concurrency, found.output_tokens_per_s) == (8.0, 1000.0)
    store(warehouse, "core.serving_window", [scraped(m, 8.0, 60_000, engine="") for m in (1, 2)])
    (again,) = read(warehouse)
    assert (again.concurrency, again.output_tokens_per_s) == (8.0, 1000.0)


# idle boards ----------------------------------------------------------------------------------


def idle(board: str, state: str, watts: float, minute: int = 0, **changes: Any) -> dict[str, Any]:
    start = T0 + timedelta(minutes=minute)
    return observation(
        0,
        observation_id=f"{board}{state}{minute}",
        device_uuid=board,
        device_state=state,
        window_start_at=start,
        window_end_at=start + timedelta(seconds=30),
        energy_gross_j=watts * 30,
        workload="idle",
        concurrency=None,
        **changes,
    )


def test_idle_empty_and_idle_loaded_are_means_over_the_newest_of_each_board(warehouse: Warehouse) -> None:
    rows = [
        idle("a", "empty", 999.0),
        idle("a", "empty", 60.0, 5),
        idle("b", "empty", 70.0),
        idle("a", "loaded", 110.0),
    ]
    store(warehouse, "core.energy_observation", rows)
    with snapshot(warehouse, LATER) as snap:
        found = idle_boards(snap, "H100")
        assert idle_boards(snap, "A100") == {}
    assert {s: (b.mean_w, b.low_w, b.high_w, b.boards) for s, b in found.items()} == {
        "empty": (65.0, 60.0, 70.0, 2),
        "loaded": (110.0, 110.0, 110.0, 1),
    }


def test_meters_of_different_scope_are_not_averaged(warehouse: Warehouse) -> None:
    rows = [idle("a", "empty", 60.0, meter_scope="gpu"), idle("b", "empty", 170.0, meter_scope="module")]
    store(warehouse, "core.energy_observation", rows)
    with snapshot(warehouse, LATER) as snap, pytest.raises(IncomparableObservations, match="meter_scope"):
        idle_boards(snap, "H100")
