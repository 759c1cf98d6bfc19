"""Idle baselines: measured on purpose, kept as observations of their own, and what they make of a gross energy.

A baseline is the energy of a board over one window in which nothing computed. An empty board (no process) and one
that holds a loaded model differ in clocks and memory, so each is a baseline of its own, and the net energy of a
window takes that of its own state. The smallest power ever seen is no baseline: under steady load it is the load.

    net = gross - idle power x duration

Net may come out slightly below 0 on a board that did nothing: that is the noise of two meterings, and is kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from ingest.errors import DeviceBusy, DeviceError
from ingest.power.sensors import DeviceInfo, Occupancy, PowerBackend, Reading
from ingest.power.windows import DeviceWindows, Window
from warehouse.clock import utcnow
from warehouse.evidence import Quality

MIN_SECONDS = 10.0  # over less, a sensor that looks 25 ms of every 100 ms is noise
POLL_S = 0.2
BUSY_UTILIZATION = 0.02  # above this something computes
UNSTEADY = 0.10  # halves of the window further apart than this: still cooling down, or not idle

BASELINES = """
SELECT device_uuid, meter_scope, device_state, driver_version, idle_w
FROM mart.idle_baseline WHERE device_state IS NOT NULL
"""


@dataclass(frozen=True)
class IdleResult:
    """The outcome for one board: a window with energy, or why there is none."""

    device: DeviceInfo
    state: str | None
    window: Window | None
    reason: str = ""

    @property
    def idle_w(self) -> float | None:
        window = self.window
        return None if window is None or window.energy_j is None else window.energy_j / window.duration_s

    def row(self) -> dict[str, Any]:
        """As a row of core.energy_observation."""
        assert self.window is not None
        return {**self.window.row(), "workload": "idle"}


def measure_idle(
    backend: PowerBackend,
    *,
    seconds: float = 30.0,
    cool_down_s: float = 10.0,
    stop: Callable[[], bool] = lambda: False,
    sleep: Callable[[float], None] = time.sleep,
) -> list[IdleResult]:
    """Measure all boards of `backend` at once, after waiting `cool_down_s`; blocks for both together.

    A board on which something computed, before or after, has no baseline: its result says so. Raises
    DeviceError where there is no driver, and ValueError for fewer than 10 seconds.
    """
    if seconds < MIN_SECONDS:
        raise ValueError(f"seconds is {seconds:g}; an idle baseline takes {MIN_SECONDS:g} s or more")
    infos = {info.uuid: info for info in backend.open()}
    try:
        sleep(cool_down_s)
        before = {uuid: backend.occupancy(uuid) for uuid in infos}
        boards = {u: _Measured(DeviceWindows(i, window_s=seconds), before[u]) for u, i in infos.items()}
        deadline = time.monotonic() + seconds + POLL_S
        while time.monotonic() < deadline and not stop():
            for uuid, board in boards.items():
                board.take(backend, uuid)
            sleep(POLL_S)
        return [board.result(backend.occupancy(uuid)) for uuid, board in boards.items()]
    finally:
        backend.close()


class _Measured:
    """One board while its idle power is measured."""

    def __init__(self, windows: DeviceWindows, before: Occupancy) -> None:
        self._device, self._windows, self._before = windows.device, windows, before
        self._found: list[Window] = []
        self._powers: list[float] = []
        self._lost = ""

    def take(self, backend: PowerBackend, uuid: str) -> None:
        if self._lost or self._found:
            return
        before_ns = time.monotonic_ns()
        try:
            reading: Reading = backend.read(uuid)
        except DeviceError as error:
            self._lost = error.message
            return
        self._found += self._windows.add(utcnow(), (before_ns + time.monotonic_ns()) // 2, reading)
        if reading.power_w is not None:
            self._powers.append(reading.power_w)

    def result(self, after: Occupancy) -> IdleResult:
        state = self._before.state if self._before.state == after.state else None
        reason = self._lost or self._why_not(after)
        windows = self._found or self._windows.close()
        if reason or not windows:
            return IdleResult(self._device, state, None, reason or "no reading came back")
        window = replace(windows[0], device_state=state)
        if window.energy_j is None:
            told = f"energy unknown: {window.gap_reason}" + "".join(f"; {note}" for note in window.notes)
            return IdleResult(self._device, state, None, told)
        if self._unsteady():
            window = replace(window, quality=Quality.LOW, notes=(*window.notes, "power was not steady"))
        return IdleResult(self._device, state, window)

    def _why_not(self, after: Occupancy) -> str:
        """Why this was not idle: somebody came or went, or computed."""
        if self._before.processes != after.processes:
            return "a process began or ended while it was measured"
        busy = [o.utilization for o in (self._before, after) if o.utilization is not None]
        if busy and max(busy) > BUSY_UTILIZATION:
            return f"something computes on it ({max(busy):.0%} utilization)"
        return ""

    def _unsteady(self) -> bool:
        half = len(self._powers) // 2
        if half < 2:
            return False
        first, last = (sum(p) / len(p) for p in (self._powers[:half], self._powers[half:]))
        return abs(first - last) / max(first, last) > UNSTEADY


def require_some(results: list[IdleResult]) -> None:
    """Raises DeviceBusy where no board at all gave a baseline, with the reasons."""
    if not any(r.window is not None for r in results):
        reasons = "; ".join(f"{r.device.uuid}: {r.reason}" for r in results) or "there is no GPU"
        raise DeviceBusy(f"no idle baseline was measured: {reasons}", fix="end what computes, then measure again")


def with_net(observations: pl.DataFrame, baselines: pl.DataFrame) -> pl.DataFrame:
    """`observations` (core.energy_observation) with energy_net_j, where a baseline of the same board, scope, state
    and driver is known. `baselines`: the answer of BASELINES."""
    if observations.is_empty() or baselines.is_empty():
        return observations
    key = ["device_uuid", "meter_scope", "device_state", "driver_version"]
    seconds = (pl.col("window_end_at") - pl.col("window_start_at")).dt.total_microseconds() / 1e6
    known = baselines.group_by(key).agg(pl.col("idle_w").last())
    net_j = pl.col("energy_gross_j") - pl.col("idle_w") * seconds
    return (
        observations.join(known, on=key, how="left", maintain_order="left")
        .with_columns(energy_net_j=pl.coalesce("energy_net_j", net_j))
        .select(observations.columns)
    )
