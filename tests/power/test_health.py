"""What is wrong with the power of a board, as a query; and the energy of a meter shared out, as an operation."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from app.desk import Desk, local_operator, open_desk
from app.errors import AppError
from app.operations import call
from app.sections import PowerSettings
from app.settings import Settings
from warehouse import loads
from warehouse.engine import Warehouse
from warehouse.tables import frame

NOW = datetime(2026, 8, 1, 12)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    found = open_desk(Settings(home=tmp_path, offline=True))
    yield found
    found.close()


@pytest.fixture
def warehouse(desk: Desk) -> Warehouse:
    return desk.warehouse


def put(warehouse: Warehouse, table: str, *rows: dict[str, Any], source: str = "power:nvml") -> None:
    with warehouse.transaction() as tx:
        loads.load(tx, table, frame(table, rows), source_id=source, run_id="r", known_from=NOW)


def device(state: str = "ok", at: datetime = NOW) -> dict[str, Any]:
    return {"device_uuid": "GPU-a", "host": "node-1", "name": "NVIDIA L40S", "state": state, "updated_at": at}


def sample(second: float, **more: Any) -> dict[str, Any]:
    return {
        "device_uuid": "GPU-a", "sampled_at": NOW - timedelta(seconds=600 - second), "power_w": 100.0 + second % 7,
        "energy_counter_j": 100.0 * second, "method": "instant", "epoch": 1, **more,
    }  # fmt: skip


def window(start_s: float, end_s: float, energy_j: float | None = 1000.0, **more: Any) -> dict[str, Any]:
    return {
        "observation_id": f"{start_s}-{more.get('source', '')}", "provider": "local", "device_uuid": "GPU-a",
        "window_start_at": NOW - timedelta(seconds=600 - start_s),
        "window_end_at": NOW - timedelta(seconds=600 - end_s),
        "evidence_class": "measured", "method": "counter", "quality": "HIGH", "energy_gross_j": energy_j,
        "relative_uncertainty": 0.05, "workload": "device", "hardware_count": 1,
        **{k: v for k, v in more.items() if k != "source"},
    }  # fmt: skip


def health(warehouse: Warehouse, at: datetime = NOW) -> dict[str, dict[str, Any]]:
    found = warehouse.query("SELECT * FROM mart.power_health_at($at)", {"at": at}).to_dicts()
    return {row["condition"]: row for row in found}


def test_a_board_that_works_has_no_condition(warehouse: Warehouse) -> None:
    put(warehouse, "core.device", device())
    put(warehouse, "core.power_sample", *(sample(s) for s in range(600)))
    put(warehouse, "core.energy_observation", window(0, 10), window(10, 20))
    assert health(warehouse) == {}


@pytest.mark.parametrize(("state", "condition"), [("lost", "gpu_lost"), ("unsupported", "unsupported")])
def test_a_board_that_is_lost_or_tells_nothing(warehouse: Warehouse, state: str, condition: str) -> None:
    put(warehouse, "core.device", device(state))
    row = health(warehouse)[condition]
    assert (row["device_uuid"], row["host"], row["name"]) == ("GPU-a", "node-1", "NVIDIA L40S")


def test_what_an_old_log_says_is_no_condition_of_now(warehouse: Warehouse) -> None:
    put(warehouse, "core.device", device("lost", NOW - timedelta(days=30)))
    assert health(warehouse) == {}


@pytest.mark.parametrize(
    ("frozen", "detail"),
    [
        ({"sensor_at": NOW - timedelta(seconds=300)}, "its own stamp stands still"),
        ({"energy_counter_j": 5.0}, "its energy counter stands still while it reports power"),
        ({"energy_counter_j": None, "power_w": 71.0}, "every reading is the same number"),
    ],
)
def test_a_sensor_that_repeats_itself_is_frozen(warehouse: Warehouse, frozen: dict[str, Any], detail: str) -> None:
    moving = [sample(s, **({"sensor_at": NOW - timedelta(seconds=600 - s)} if "sensor_at" in frozen else {}))
              for s in range(300)]  # fmt: skip
    put(warehouse, "core.power_sample", *moving, *(sample(s, **frozen) for s in range(300, 600)))
    row = health(warehouse)["sensor_frozen"]
    assert row["detail"] == detail
    assert row["since_at"] == NOW - timedelta(seconds=301)


def test_equal_power_is_no_fault_while_the_counter_moves(warehouse: Warehouse) -> None:
    put(warehouse, "core.power_sample", *(sample(s, power_w=71.0) for s in range(600)))
    assert health(warehouse) == {}


def test_energy_that_cannot_be_and_counters_that_start_anew(warehouse: Warehouse) -> None:
    put(
        warehouse,
        "core.energy_observation",
        window(0, 10, None, gap_reason="implausible", quality="LOW"),
        window(10, 20, None, gap_reason="implausible", quality="LOW"),
        window(20, 30, None, gap_reason="counter_reset", quality="LOW"),
        window(30, 40, 1000.0, quality="LOW"),
    )
    found = health(warehouse)
    assert {c: r["n"] for c, r in found.items()} == {"implausible": 2, "counter_reset": 1, "doubtful": 1}


def test_a_board_that_two_sources_measure_is_said(warehouse: Warehouse) -> None:
    put(warehouse, "core.energy_observation", window(0, 10, source="a"), source="power:nvml")
    put(warehouse, "core.energy_observation", window(4, 14, source="b"), source="dcgm:node-1")
    assert "power:nvml as well" in health(warehouse)["double_count"]["detail"]


def test_the_view_of_now_is_empty_for_the_past(warehouse: Warehouse) -> None:
    put(warehouse, "core.device", device("lost"))
    assert warehouse.query("SELECT * FROM mart.power_health").is_empty()


# settings and attribution -----------------------------------------------------------------------


def test_replicas_are_named_with_their_gpus() -> None:
    told = PowerSettings.model_validate({"replicas": {"r1": ["GPU-a", "GPU-b"], "r2": [2, 3]}})
    assert told.replicas == {"r1": ("GPU-a", "GPU-b"), "r2": (2, 3)}


@pytest.mark.parametrize("replicas", [{"r1": []}, {"r1": [0, 0]}, {"r1": [0], "r2": [0]}])
def test_a_gpu_belongs_to_one_replica_once(replicas: dict[str, list[int]]) -> None:
    with pytest.raises(ValidationError, match="replica"):
        PowerSettings.model_validate({"replicas": replicas})


def usage(key: str, start_s: float, end_s: float, tokens: int) -> dict[str, Any]:
    return {
        "provider": "local", "account": "main", "usage_key": key, "grain": "request", "workload": "organic",
        "period_start_at": NOW - timedelta(seconds=600 - start_s),
        "period_end_at": NOW - timedelta(seconds=600 - end_s),
        "requested_offer": "acme/one", "completion_tokens": tokens, "requests": 1, "attempts": 1, "successes": 1,
        "evidence_class": "modeled", "method": "list price",
    }  # fmt: skip


ASKED = {
    "meter": "r1", "offer": "acme/one", "start": (NOW - timedelta(hours=1)).isoformat() + "Z",
    "end": NOW.isoformat() + "Z",
}  # fmt: skip


def test_the_energy_of_a_replica_is_shared_out_to_the_requests_of_its_model(desk: Desk) -> None:
    replica = {"device_uuid": None, "backend_id": "r1", "workload": "replica", "hardware_count": 2}
    put(desk.warehouse, "core.energy_observation", window(0, 10, 4000.0, **replica), window(0, 10, 2000.0, source="x"))
    put(desk.warehouse, "core.usage", usage("a", 0, 10, 300), usage("b", 0, 10, 100), source="logs")
    told = call(desk, "power.attribute", ASKED, local_operator("cli"))
    assert (told["shared_j"], told["remainder_j"], told["requests"]) == (4000.0, 0.0, 2)
    assert (told["evidence_class"], told["method"]) == ("allocated", "allocated_output_tokens")
    rows = desk.warehouse.query(
        "SELECT usage_key, energy_gross_j, evidence_class FROM core.energy_observation "
        "WHERE method LIKE 'allocated%' AND workload = 'organic' ORDER BY usage_key"
    ).rows()
    assert rows == [("local/main/a", 3000.0, "allocated"), ("local/main/b", 1000.0, "allocated")]
    assert call(desk, "power.attribute", ASKED, local_operator("cli"))["rows_loaded"] == 0  # the same again


def test_a_meter_that_there_is_not_is_named(desk: Desk) -> None:
    with pytest.raises(AppError, match="no energy of 'r1'"):
        call(desk, "power.attribute", ASKED, local_operator("cli"))
