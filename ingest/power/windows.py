"""Readings of one board -> energy windows: counter first, else integrated power, else NULL with a reason.

Pure: no clock, no device. Durations come from the monotonic clock, so a wall clock that is set back
moves no window below zero length. A counter is never differenced across an epoch: a decrease, a new
driver, a new session or a lost board ends the window, and what lies between is a gap of unknown
energy, not zero. Within an epoch nothing is lost: the counter deltas of its windows, with or without
a trusted energy, add up to the last reading minus the first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import polars as pl

from ingest.power.sensors import DeviceInfo, Reading, implausible_power
from ingest.power.verdict import MIN_COUNTER_S, Poll, integrate, judge
from warehouse.evidence import EvidenceClass, Quality
from warehouse.ids import canonical_json, content_hash
from warehouse.tables import frame, frame_schema

OBSERVATION = "core.energy_observation"
STALE_SENSOR_S = 2.0  # a sensor stamp that stands longer than this repeats an old value
CLOCK_STEP_S = 0.5  # wall and monotonic clock disagree by more: the wall clock was set


class Timed(NamedTuple):
    """A reading of one board with its times: naive UTC for people, monotonic ns for durations."""

    device_uuid: str
    at: datetime
    mono_ns: int
    reading: Reading


@dataclass(frozen=True)
class Window:
    """Energy of one board over [start_at, end_at), or why it is unknown.

    `counter_delta_mj` is what the counter moved, trusted or not; None where it must not be differenced.
    `polled_w` is the mean of the polled power, the cross-check of a counter window. `device_state` and
    `energy_net_j` (gross minus idle) are filled in by who knows them: see ingest/power/idle.py.
    """

    device: DeviceInfo  # as it was in this window: its driver and limit may change at the next session
    start_at: datetime
    end_at: datetime
    duration_s: float
    epoch: int
    method: str
    energy_j: float | None
    gap_reason: str | None
    quality: Quality
    relative_uncertainty: float | None = None
    counter_delta_mj: int | None = None
    polled_w: float | None = None
    notes: tuple[str, ...] = ()
    device_state: str | None = None  # empty | loaded
    energy_net_j: float | None = None

    @property
    def device_uuid(self) -> str:
        return self.device.uuid

    @property
    def observation_id(self) -> str:
        return observation_id(self.device_uuid, self.start_at, self.method)

    def row(self) -> dict[str, Any]:
        """This window as a row of core.energy_observation, without what the loader fills in.

        A replica is no device: its rows carry its name as `backend_id`, so that a sum over devices never
        counts a board a second time.
        """
        device = self.device
        return {
            "observation_id": self.observation_id,
            "provider": "local",
            "backend_id": device.replica,
            "hardware_model": device.name,
            "hardware_count": device.boards,
            "gpu_arch": device.gpu_arch,
            "driver_version": device.driver_version,
            "device_uuid": self.device_uuid if device.replica is None else None,
            "meter_scope": device.scope,
            "device_state": self.device_state,
            "window_start_at": self.start_at,
            "window_end_at": self.end_at,
            "evidence_class": EvidenceClass.MEASURED.value,
            "method": self.method,
            "quality": self.quality.value,
            "energy_gross_j": self.energy_j,
            "energy_net_j": self.energy_net_j,
            "relative_uncertainty": self.relative_uncertainty,
            "gap_reason": self.gap_reason,
            "workload": "device" if device.replica is None else "replica",
        }


def observation_id(key: str, start_at: datetime, method: str) -> str:
    """`content_hash([key, start_at, method])`, without building JSON where the key needs no escapes."""
    if key.isascii() and key.isprintable() and '"' not in key and "\\" not in key:
        return hashlib.sha256(f'["{key}",{canonical_json(start_at)},"{method}"]'.encode()).hexdigest()
    return content_hash([key, start_at, method])


class _Edge(NamedTuple):
    at: datetime
    mono_us: int
    counter_mj: int | None


class OpenWindow(NamedTuple):
    """The window that is open on a board of polled readings: its start, what it has, the last reading in us."""

    start_us: int
    polls: list[Poll]
    last_us: int
    refused: bool  # a reading in it was not believed


def _at(edge: _Edge, mono_us: int) -> datetime:
    return edge.at + timedelta(microseconds=mono_us - edge.mono_us)


@dataclass
class DeviceWindows:
    """The open window of one board. Feed `add` in time order; it hands back the windows that closed.

    `window_s` is the shortest window closed by time (at least 1 s). `epoch` is that of the last reading.
    """

    device: DeviceInfo
    window_s: float = 10.0
    epoch: int = 0
    _anchor: _Edge | None = None  # where wall and monotonic clock were last seen together
    _start: _Edge | None = None
    _last: _Edge | None = None  # everything before this instant is accounted for or in the open window
    _counter_mj: int | None = None  # the last one known in this epoch
    _polls: list[Poll] = field(default_factory=list)
    _break: str = ""
    _next_device: DeviceInfo | None = None
    _lost_until_us: int | None = None
    _implausible: bool = False
    _counter_stood: bool = False
    _stamp: tuple[int, int] | None = None  # the sensor's stamp in us, and mono_us when it first showed

    def __post_init__(self) -> None:
        if not self.window_s >= MIN_COUNTER_S:
            raise ValueError(
                f"window_s is {self.window_s}, shorter than an energy counter can resolve; "
                f"use {MIN_COUNTER_S:g} or more"
            )

    def add(self, at: datetime, mono_ns: int, reading: Reading) -> list[Window]:
        """Take one reading: `at` naive UTC, `mono_ns` from time.monotonic_ns. An instant already seen is ignored."""
        mono_us = mono_ns // 1000
        if self._last is not None and mono_us <= self._last.mono_us:
            return []
        now = _Edge(self._placed(at, mono_us), mono_us, reading.energy_counter_mj)
        closed: list[Window] = []
        if now.counter_mj is not None and self._counter_mj is not None and now.counter_mj < self._counter_mj:
            self._break = self._break or "counter_reset"  # 64 bit of mJ do not wrap: every decrease is a reset
        if self._break:
            closed += self._finish() + self._gap(mono_us)
            self._new_epoch()
        poll = self._believed(reading, mono_us)
        if self._start is None:
            self._begin(now, poll)
        elif poll is not None:
            self._polls.append(poll)
        self._last = now
        if now.counter_mj is not None:
            self._counter_mj = now.counter_mj
        if self._due(now):
            closed += self._finish()
            self._begin(now, poll)
        return closed

    def lost(self, at: datetime, mono_ns: int) -> list[Window]:
        """The board does not answer. Ends its window; while this goes on, a gap row per `window_s`."""
        mono_us = mono_ns // 1000
        closed: list[Window] = []
        if self._last is None:
            self._last = _Edge(self._placed(at, mono_us), mono_us, None)
        if self._lost_until_us is None:
            closed += self._finish()
            self._break = "gpu_lost"
        self._lost_until_us = max(mono_us, self._last.mono_us)
        if self._lost_until_us - self._last.mono_us >= self.window_s * 1e6:
            closed += self._gap(self._lost_until_us)
            self._last = _Edge(_at(self._last, self._lost_until_us), self._lost_until_us, None)
        return closed

    def rebind(self, device: DeviceInfo) -> None:
        """A new session speaks for this board: what it counts is not differenced with what the old one did."""
        if self._last is None:
            self.device = device
        else:  # what is open ends as the old session saw it
            self._next_device = device
            self._break = self._break or "counter_reset"

    def close(self) -> list[Window]:
        """End the open window or gap, as when sampling stops. What follows is a new epoch."""
        closed = self._finish() if self._lost_until_us is None else self._gap(self._lost_until_us)
        self._new_epoch()
        self._last = None
        return closed

    @property
    def only_polled(self) -> bool:
        """Whether nothing but polled power bears on what comes next: no counter, no break, no stamp."""
        start_counter = None if self._start is None else self._start.counter_mj
        return not self._break and self._stamp is None and self._counter_mj is None and start_counter is None

    @property
    def last_us(self) -> int | None:
        """The last reading taken, on the monotonic clock."""
        return None if self._last is None else self._last.mono_us

    @property
    def refused_so_far(self) -> bool:
        """Whether a reading since the last believed one was refused."""
        return self._implausible

    def open_window(self) -> OpenWindow | None:
        """What ingest/power/bulk.py goes on from; only while `only_polled`."""
        if self._start is None or self._last is None:
            return None
        return OpenWindow(self._start.mono_us, list(self._polls), self._last.mono_us, self._implausible)

    def resume(self, at_zero: datetime, opened: OpenWindow) -> None:
        """Go on from `opened`, whose us count from `at_zero` (naive UTC) on the wall clock."""
        zero = _Edge(at_zero, 0, None)
        self._anchor = zero
        self._start = _Edge(_at(zero, opened.start_us), opened.start_us, None)
        self._last = _Edge(_at(zero, opened.last_us), opened.last_us, None)
        self._polls, self._implausible = opened.polls, opened.refused

    def _placed(self, at: datetime, mono_us: int) -> datetime:
        """Wall time on one line with its neighbours; a wall clock that was set starts a new line."""
        if self._anchor is not None:
            expected = _at(self._anchor, mono_us)
            if abs((expected - at).total_seconds()) < CLOCK_STEP_S:
                return expected
        self._anchor = _Edge(at, mono_us, None)
        return at

    def _begin(self, edge: _Edge, poll: Poll | None) -> None:
        self._start = edge
        self._polls = [poll] if poll is not None else []
        self._implausible = self._implausible and poll is None

    def _new_epoch(self) -> None:
        self.epoch += 1
        self.device, self._next_device = self._next_device or self.device, None
        self._start = self._counter_mj = self._lost_until_us = self._stamp = None
        self._break, self._implausible, self._counter_stood = "", False, False
        self._polls = []

    def _due(self, now: _Edge) -> bool:
        """Long enough; a counter that failed to answer just now gets as long again to come back."""
        assert self._start is not None
        age_s = (now.mono_us - self._start.mono_us) / 1e6
        waits = self._start.counter_mj is not None and now.counter_mj is None
        return age_s >= self.window_s * (2 if waits else 1)

    def _believed(self, reading: Reading, mono_us: int) -> Poll | None:
        if reading.power_w is None:
            self._implausible |= reading.power_reason.startswith("implausible")
            return None
        if implausible_power(reading.power_w, self.device.power_limit_w, self.device.boards):
            self._implausible = True
            return None
        if reading.sensor_at_us is not None:
            if self._stamp is None or self._stamp[0] != reading.sensor_at_us:
                self._stamp = (reading.sensor_at_us, mono_us)
            elif mono_us - self._stamp[1] > STALE_SENSOR_S * 1e6:
                self._implausible = True  # success with an old value: the sensor is frozen
                return None
        return Poll(mono_us, reading.power_w, reading.power_method == "instant")

    def _gap(self, until_us: int) -> list[Window]:
        start = self._last
        if start is None or until_us <= start.mono_us:
            return []
        lost = self._break == "gpu_lost"
        return [
            Window(
                self.device,
                start.at,
                _at(start, until_us),
                (until_us - start.mono_us) / 1e6,
                self.epoch,
                method="unavailable" if lost else "counter",
                energy_j=None,
                gap_reason="gpu_lost" if lost else "counter_reset",
                quality=Quality.LOW,
                notes=("the GPU did not answer",) if lost else ("the counter started anew or changed hands",),
            )
        ]

    def _finish(self) -> list[Window]:
        """The window from its start to the last reading; nothing when that is no time at all."""
        start, end = self._start, self._last
        self._start = None
        if start is None or end is None or end.mono_us <= start.mono_us:
            return []
        delta_mj = None
        if start.counter_mj is not None and end.counter_mj is not None:
            delta_mj = end.counter_mj - start.counter_mj
        duration_s = (end.mono_us - start.mono_us) / 1e6
        verdict = judge(
            self.device,
            duration_s,
            delta_mj,
            integrate(self._polls, start.mono_us, end.mono_us),
            counter_stood=self._counter_stood,
            polls_refused=self._implausible,
            polls_seen=bool(self._polls),
        )
        if delta_mj is not None and duration_s >= MIN_COUNTER_S:
            self._counter_stood = delta_mj == 0
        return [
            Window(
                device=self.device,
                start_at=start.at,
                end_at=_at(start, end.mono_us),
                duration_s=duration_s,
                epoch=self.epoch,
                method=verdict.method,
                energy_j=verdict.energy_j,
                gap_reason=verdict.gap_reason,
                quality=verdict.quality,
                relative_uncertainty=verdict.relative_uncertainty,
                counter_delta_mj=delta_mj,
                polled_w=verdict.polled_w,
                notes=verdict.notes,
            )
        ]


def once_per_board(readings: Iterable[Timed]) -> list[Timed]:
    """`readings` in time order, one per board and instant.

    Exporters repeat the power of a whole board on each of its MIG slices; it is one board all the
    same. Of repeats the largest power is kept: the freshest of a board whose slices were read in turn
    cannot be told, and under-reading is the worse error.
    """
    best: dict[tuple[str, int], Timed] = {}
    for timed in readings:
        key = (timed.device_uuid, timed.mono_ns // 1000)
        known = best.get(key)
        if known is None or (timed.reading.power_w or 0.0) > (known.reading.power_w or 0.0):
            best[key] = timed
    return sorted(best.values(), key=lambda timed: timed.mono_ns)


def windows_of(readings: Iterable[Timed], devices: Mapping[str, DeviceInfo], *, window_s: float = 10.0) -> list[Window]:
    """All windows of recorded `readings` of the boards in `devices` (by UUID), the last ones cut at the end."""
    open_windows = {uuid: DeviceWindows(device, window_s) for uuid, device in devices.items()}
    found: list[Window] = []
    for timed in once_per_board(readings):
        found += open_windows[timed.device_uuid].add(timed.at, timed.mono_ns, timed.reading)
    for board in open_windows.values():
        found += board.close()
    return found


def observations(windows: Iterable[Window]) -> pl.DataFrame:
    """`windows` as a frame for core.energy_observation; the same board and window several times is one row."""
    rows = [*{row["observation_id"]: row for row in (window.row() for window in windows)}.values()]
    if not rows:
        return frame(OBSERVATION, [])
    schema = frame_schema(OBSERVATION)
    told = {name: [row[name] for row in rows] for name in rows[0]}
    return filled(pl.DataFrame(told, schema={name: schema[name] for name in told}))


def filled(told: pl.DataFrame) -> pl.DataFrame:
    """`told`, some columns of core.energy_observation, with the others NULL."""
    schema = frame_schema(OBSERVATION)
    rest = [pl.lit(None, dtype).alias(name) for name, dtype in schema.items() if name not in told.columns]
    return told.with_columns(rest).select(list(schema))
