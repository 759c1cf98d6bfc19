"""Idle baselines: measured on purpose, per state, refused while something computes; net is gross minus idle."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from app.desk import Desk, local_operator, open_desk
from app.errors import AppError
from app.operations import call
from app.settings import Settings
from ingest.errors import DeviceBusy
from ingest.power import idle
from ingest.power.idle import BASELINES, IdleResult, measure_idle, require_some, with_net
from ingest.power.nvml import Nvml
from ingest.power.sensors import DeviceInfo, Occupancy, Reading
from warehouse.tables import frame

START = datetime(2026, 8, 1)


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.ns = 10**12

    def sleep(self, seconds: float) -> None:
        self.ns += round(seconds * 1e9)

    def monotonic(self) -> float:
        return self.ns / 1e9

    def monotonic_ns(self) -> int:
        return self.ns


class Boards:
    """A driver with boards of a given power, whose counters follow the clock."""

    def __init__(self, clock: Clock, **powers_w: float | Callable[[float], float]) -> None:
        self._clock, self._powers = clock, powers_w
        self.asked: dict[str, list[Occupancy]] = {}
        self.opened = 0

    def open(self) -> list[DeviceInfo]:
        self.opened += 1
        return [DeviceInfo(f"GPU-{name}", driver_version="570", sensor_class="avg_1s") for name in self._powers]

    def read(self, device_uuid: str) -> Reading:
        power = self._powers[device_uuid.removeprefix("GPU-")]
        now_s = self._clock.monotonic()
        power_w = power(now_s) if callable(power) else power
        return Reading(round(power_w * now_s * 1000), "", power_w, "instant", "")

    def occupancy(self, device_uuid: str) -> Occupancy:
        answers = self.asked.get(device_uuid, [])
        return answers.pop(0) if len(answers) > 1 else answers[0] if answers else Occupancy(0, 0.0)

    def close(self) -> None:
        self.opened -= 1


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(idle.time, "monotonic", found.monotonic)
    monkeypatch.setattr(idle.time, "monotonic_ns", found.monotonic_ns)
    monkeypatch.setattr(idle, "utcnow", lambda: START + timedelta(microseconds=found.ns // 1000))
    return found


def measure(boards: Boards, clock: Clock, **more: Any) -> list[IdleResult]:
    return measure_idle(boards, sleep=clock.sleep, **{"seconds": 30.0, "cool_down_s": 10.0, **more})


def test_the_idle_power_of_every_board_after_a_cool_down(clock: Clock) -> None:
    boards = Boards(clock, a=52.5, b=71.0)
    begun = clock.monotonic()
    results = measure(boards, clock)
    assert clock.monotonic() - begun == pytest.approx(40.2, abs=0.5)
    assert [(r.device.uuid, r.state) for r in results] == [("GPU-a", "empty"), ("GPU-b", "empty")]
    assert [r.idle_w for r in results] == pytest.approx([52.5, 71.0])
    assert boards.opened == 0
    row = results[0].row()
    assert (row["workload"], row["device_state"], row["method"], row["evidence_class"]) == (
        "idle", "empty", "counter", "measured",
    )  # fmt: skip


def test_a_board_that_holds_a_loaded_model_is_a_baseline_of_its_own(clock: Clock) -> None:
    boards = Boards(clock, a=98.0)
    boards.asked["GPU-a"] = [Occupancy(1, 0.0)]
    (result,) = measure(boards, clock)
    assert (result.state, result.row()["device_state"]) == ("loaded", "loaded")


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (Occupancy(1, 0.5), Occupancy(1, 0.0), "something computes on it (50% utilization)"),
        (Occupancy(1, 0.0), Occupancy(1, 0.9), "something computes on it (90% utilization)"),
        (Occupancy(0, 0.0), Occupancy(1, 0.0), "a process began or ended while it was measured"),
    ],
)
def test_what_was_not_idle_is_no_baseline(clock: Clock, before: Occupancy, after: Occupancy, reason: str) -> None:
    boards = Boards(clock, a=98.0)
    boards.asked["GPU-a"] = [before, after]
    results = measure(boards, clock)
    assert (results[0].window, results[0].reason) == (None, reason)
    with pytest.raises(DeviceBusy, match="GPU-a: "):
        require_some(results)


def test_a_board_that_still_cools_down_is_marked(clock: Clock) -> None:
    (result,) = measure(Boards(clock, a=lambda now_s: 100.0 - (now_s - 1000.0)), clock)
    assert result.window is None or "power was not steady" in result.window.notes


def test_too_short_a_baseline_is_refused(clock: Clock) -> None:
    with pytest.raises(ValueError, match="takes 10 s or more"):
        measure(Boards(clock, a=50.0), clock, seconds=5.0)


def observation(state: str | None, gross_j: float | None = 3000.0, **more: Any) -> pl.DataFrame:
    row = {
        "observation_id": "o", "provider": "local", "device_uuid": "GPU-a", "meter_scope": "gpu", "device_state": state,
        "driver_version": "570", "window_start_at": START, "window_end_at": START + timedelta(seconds=10),
        "evidence_class": "measured", "method": "counter", "quality": "HIGH", "energy_gross_j": gross_j,
        "workload": "device", **more,
    }  # fmt: skip
    return frame("core.energy_observation", [row])


BASELINE = pl.DataFrame(
    {"device_uuid": ["GPU-a"] * 2, "meter_scope": ["gpu"] * 2, "device_state": ["empty", "loaded"],
     "driver_version": ["570"] * 2, "idle_w": [52.5, 98.0]}
)  # fmt: skip


@pytest.mark.parametrize(
    ("state", "gross_j", "net_j"),
    [("loaded", 3000.0, 2020.0), ("empty", 3000.0, 2475.0), (None, 3000.0, None), ("loaded", None, None)],
)
def test_net_is_gross_minus_idle_power_of_the_same_state(
    state: str | None, gross_j: float | None, net_j: float | None
) -> None:
    (row,) = with_net(observation(state, gross_j), BASELINE).to_dicts()
    assert (row["energy_gross_j"], row["energy_net_j"]) == (gross_j, net_j)


def test_a_baseline_of_another_board_driver_or_scope_does_not_count() -> None:
    for more in ({"device_uuid": "GPU-b"}, {"driver_version": "580"}, {"meter_scope": "module"}):
        assert with_net(observation("loaded", **more), BASELINE)["energy_net_j"].to_list() == [None]


def test_net_slightly_below_zero_is_kept_not_clamped() -> None:
    assert with_net(observation("loaded", 970.0), BASELINE)["energy_net_j"].to_list() == [-10.0]


@pytest.fixture
def desk(tmp_path: Path) -> Any:
    found = open_desk(Settings(home=tmp_path, offline=True))
    yield found
    found.close()


def test_the_operation_stores_baselines_and_the_newest_one_counts(
    desk: Desk, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for idle_w in (60.0, 52.5):
        boards = Boards(clock, a=idle_w)
        monkeypatch.setattr("app.operations.power.Nvml", lambda boards=boards: boards)
        monkeypatch.setattr("app.operations.power.measure_idle", lambda b, **o: measure(b, clock))
        told = call(desk, "power.idle", {"seconds": 30}, local_operator("cli"))
        assert told["devices"][0]["idle_w"] == pytest.approx(idle_w)
        assert told["devices"][0]["evidence_class"] == "measured"
    known = desk.warehouse.query(BASELINES)
    assert known["idle_w"].to_list() == pytest.approx([52.5])
    assert desk.warehouse.scalar("SELECT count(*) FROM core.energy_observation WHERE workload = 'idle'") == 2


def test_without_a_driver_the_operation_says_so(desk: Desk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("app.operations.power.Nvml", _NoDriver)
    with pytest.raises(AppError, match="no NVIDIA driver"):
        call(desk, "power.idle", {}, local_operator("cli"))


class _NoDriver(Nvml):
    def open(self) -> tuple[DeviceInfo, ...]:
        from ingest.errors import NoDriver

        raise NoDriver("no NVIDIA driver")
