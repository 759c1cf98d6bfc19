"""The power sampler: one thread that reads every GPU of the host on a steady schedule.

Ticks are due at start + k x period on the monotonic clock, so lateness never adds up; a tick whose
whole period has passed is missed and counted, never made up for. A GPU that falls off the bus is
marked lost and the others go on; the NVML session is opened anew with back-off to get it back, and
what any GPU counts afterwards belongs to a new epoch. One sampler per host: several would each count
the whole machine. All devices are read, whatever CUDA_VISIBLE_DEVICES says, each board once (MIG
slices have no power of their own).
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from ingest.errors import DeviceError, NoDriver
from ingest.power.outbox import Outbox, SampleRow, Sink
from ingest.power.replicas import Replica
from ingest.power.sensors import DeviceInfo, PowerBackend, Reading
from ingest.power.verdict import MAX_HOLE_S
from ingest.power.windows import DeviceWindows, Window
from warehouse.clock import utcnow

log = logging.getLogger(__name__)

NO_GPU = "the NVIDIA driver reports no GPU"
_EPOCH_ZERO_S = 1_735_689_600  # 2025-01-01: epochs start at seconds since then, so they grow over restarts too
_CALM_S = 60.0  # no loss for this long: the next one starts with a short back-off again


@dataclass(frozen=True)
class DeviceStatus:
    """One board as the sampler sees it; `state` is ok, lost or unsupported."""

    uuid: str
    name: str | None
    state: str
    counter_supported: bool | None
    power_method: str
    power_w: float | None
    epoch: int
    last_sample_at: datetime | None
    notes: tuple[str, ...]


@dataclass(frozen=True)
class SamplerStatus:
    """`reason` says why nothing, or not everything, is sampled ("no NVIDIA driver"); empty when all is well.

    `cpu_s` is CPU time of the sampling thread, `flush_cpu_s` of the thread that hands batches to the sink.
    """

    running: bool
    reason: str
    devices: tuple[DeviceStatus, ...]
    ticks: int
    missed_ticks: int
    last_sample_at: datetime | None
    buffered_rows: int
    dropped_rows: int
    flushed_rows: int
    cpu_s: float
    flush_cpu_s: float
    sink_error: str
    notes: tuple[str, ...]


def _new_epoch() -> int:
    return max(0, int(time.time()) - _EPOCH_ZERO_S)


class _Board:
    """A device, its open window and its latest reading."""

    def __init__(self, info: DeviceInfo, window_s: float) -> None:
        self.info = info
        self.windows = DeviceWindows(info, window_s, epoch=_new_epoch())
        self.lost = False
        self.power_w: float | None = None
        self.last_at: datetime | None = None

    @property
    def state(self) -> str:
        return "lost" if self.lost else "ok" if self.info.supported else "unsupported"


class PowerSampler:
    """Samples all boards of `backend` every `period_s` and hands frames to `sink` about every `flush_s`.

    `sink(samples, observations, devices)` gets frames for core.power_sample, core.energy_observation and
    core.device without the loader's columns; it may raise, then it is offered the same batch again.
    `replicas`: name -> GPUs that serve one model together, by UUID or NVML index; each has windows of its own.
    """

    def __init__(
        self,
        backend: PowerBackend,
        sink: Sink,
        *,
        period_s: float = 0.2,
        window_s: float = 10.0,
        flush_s: float = 5.0,
        max_buffered_rows: int = 200_000,
        no_driver_retry_s: float = 60.0,
        reopen_backoff_s: float = 1.0,
        reopen_backoff_max_s: float = 300.0,
        host: str | None = None,
        replicas: Mapping[str, Sequence[str | int]] | None = None,
    ) -> None:
        if not 0.01 <= period_s <= MAX_HOLE_S / 2:
            raise ValueError(f"period_s is {period_s}; use 0.01 to {MAX_HOLE_S / 2:g} s (default 0.2)")
        if not window_s >= 1.0:
            raise ValueError(
                f"window_s is {window_s}; use 1 s or more (default 10), an energy counter resolves no less"
            )
        self._backend = backend
        self._period_ns = round(period_s * 1e9)
        self._window_s = window_s
        self._no_driver_retry_s = no_driver_retry_s
        self._first_backoff_s = self._backoff_s = reopen_backoff_s
        self._max_backoff_s = reopen_backoff_max_s
        self._host = host or socket.gethostname()
        self._outbox = Outbox(sink, flush_s=flush_s, max_rows=max_buffered_rows)
        self._devices_every = max(1, round(flush_s / period_s))
        self._boards: dict[str, _Board] = {}
        self._replicas = [Replica(n, tuple(m), window_s, _new_epoch()) for n, m in (replicas or {}).items()]
        self._states: dict[str, str | None] = {}
        self._session = False
        self._open_at_ns = 0
        self._lost_at_ns: int | None = None
        self._lock = threading.Lock()  # guards start and stop
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._reason = "not started"
        self._ticks = self._missed = 0
        self._last_at: datetime | None = None
        self._cpu_s = 0.0
        self._notes: deque[str] = deque(maxlen=20)

    def start(self) -> None:
        """Start sampling in the background; does nothing when it runs already."""
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                return
            self._stop.clear()
            self._open_at_ns, self._backoff_s, self._reason = 0, self._first_backoff_s, "starting"
            self._outbox.start()
            self._thread = threading.Thread(target=self._run, name="joulebook-power", daemon=True)
            self._thread.start()

    def stop(self, timeout_s: float = 1.0) -> bool:
        """End sampling, close the open windows and flush. False when a driver call or the sink did not return
        within `timeout_s` each, or the sink refused the last rows; those stay buffered."""
        with self._lock:
            self._stop.set()
            if self._thread is not None:
                self._thread.join(timeout_s)
            ended = self._thread is None or not self._thread.is_alive()
            if not ended:
                self._reason = "stopping: the driver does not return"
            return self._outbox.stop(timeout_s) and ended

    def status(self) -> SamplerStatus:
        """The present state; cheap, and safe from any thread."""
        boards = list(self._boards.values())
        alive = self._thread is not None and self._thread.is_alive()
        lost = sum(board.lost for board in boards)
        return SamplerStatus(
            running=alive and self._session and lost < len(boards),
            reason=self._reason or (f"{lost} of {len(boards)} GPUs lost" if lost else ""),
            devices=tuple(
                DeviceStatus(
                    board.info.uuid,
                    board.info.name,
                    board.state,
                    board.info.counter_supported,
                    board.info.power_method,
                    board.power_w,
                    board.windows.epoch,
                    board.last_at,
                    board.info.notes,
                )
                for board in boards
            ),
            ticks=self._ticks,
            missed_ticks=self._missed,
            last_sample_at=self._last_at,
            buffered_rows=self._outbox.buffered_rows,
            dropped_rows=self._outbox.dropped_rows,
            flushed_rows=self._outbox.flushed_rows,
            cpu_s=self._cpu_s,
            flush_cpu_s=self._outbox.cpu_s,
            sink_error=self._outbox.sink_error,
            notes=tuple(self._notes),
        )

    def _run(self) -> None:
        try:
            self._loop()
            self._reason = "stopped"
        except Exception as error:  # the console goes on; the status says what happened
            log.exception("the power sampler stopped")
            self._reason = f"the sampler stopped: {type(error).__name__}: {error}"
        finally:
            closed = [window for board in self._boards.values() for window in board.windows.close()]
            closed += [window for replica in self._replicas for window in replica.close()]
            self._hand_over([], closed)
            if self._boards:
                self._put_devices()
            self._backend.close()
            self._session = False
            self._cpu_s = time.thread_time()

    def _loop(self) -> None:
        origin_ns, k = time.monotonic_ns(), 0
        while not self._stop.is_set():
            now_ns = time.monotonic_ns()
            if now_ns >= self._open_at_ns and (not self._session or any(b.lost for b in self._boards.values())):
                anew = not self._session
                self._open()
                if anew:  # opening takes seconds on some hosts and is no missed tick
                    origin_ns, k = time.monotonic_ns(), 0
            if not self._boards:  # nothing to sample: sleep until the next attempt
                self._cpu_s = time.thread_time()
                self._stop.wait(max(0.0, (self._open_at_ns - time.monotonic_ns()) / 1e9))
                continue
            delay_ns = origin_ns + k * self._period_ns - time.monotonic_ns()
            if delay_ns > 0 and self._stop.wait(delay_ns / 1e9):
                return
            self._tick()
            k += 1
            missed = max(0, (time.monotonic_ns() - origin_ns) // self._period_ns - k)
            self._missed += missed
            k += missed
            self._cpu_s = time.thread_time()

    def _tick(self) -> None:
        samples: list[SampleRow] = []
        closed: list[Window] = []
        readings: dict[str, Reading] = {}
        for board in list(self._boards.values()):
            if board.lost:
                closed += board.windows.lost(utcnow(), time.monotonic_ns())
                continue
            before_ns = time.monotonic_ns()
            try:
                reading = self._backend.read(board.info.uuid)
            except DeviceError as error:
                closed += self._lose(board, error)
                continue
            mono_ns = (before_ns + time.monotonic_ns()) // 2
            at = utcnow()
            closed += board.windows.add(at, mono_ns, reading)
            readings[board.info.uuid] = reading
            board.power_w, board.last_at = reading.power_w, at
            samples.append(
                (
                    board.info.uuid,
                    at,
                    reading.power_w,
                    reading.energy_counter_mj,
                    reading.power_method,
                    reading.sensor_at_us,
                    board.windows.epoch,
                )
            )
            self._last_at = at
        for replica in self._replicas:
            closed += replica.add(utcnow(), time.monotonic_ns(), readings)
        self._hand_over(samples, self._with_states(closed))
        self._ticks += 1
        if self._ticks % self._devices_every == 0:
            self._put_devices()

    def _with_states(self, closed: list[Window]) -> list[Window]:
        """Say of each window whether its boards were empty or loaded; unknown where that changed within it."""
        if not closed:
            return closed
        uuids = {w.device_uuid for w in closed} | {u for r in self._replicas for u in r.uuids}
        now = {uuid: self._backend.occupancy(uuid).state for uuid in uuids if uuid in self._boards}
        steady = {uuid: state if self._states.get(uuid, state) == state else None for uuid, state in now.items()}
        self._states |= now
        for replica in self._replicas:
            states = {steady.get(uuid) for uuid in replica.uuids}
            steady[f"replica:{replica.name}"] = states.pop() if len(states) == 1 else None
        return [replace(window, device_state=steady.get(window.device_uuid)) for window in closed]

    def _lose(self, board: _Board, error: DeviceError) -> list[Window]:
        log.warning("GPU power is lost: %s", error)
        self._notes.append(error.message)
        now_ns = time.monotonic_ns()
        if not any(other.lost for other in self._boards.values()):
            since_s = float("inf") if self._lost_at_ns is None else (now_ns - self._lost_at_ns) / 1e9
            if since_s > max(_CALM_S, 2 * self._backoff_s):
                self._backoff_s = self._first_backoff_s
            else:  # a GPU that comes and goes must not make the others re-open all the time
                self._backoff_s = min(self._max_backoff_s, 2 * self._backoff_s)
            self._open_at_ns = now_ns + round(self._backoff_s * 1e9)
        self._lost_at_ns = now_ns
        board.lost, board.power_w = True, None
        if isinstance(error, NoDriver):
            self._session, self._reason = False, error.message
        self._put_devices()
        return board.windows.lost(utcnow(), now_ns)

    def _open(self) -> None:
        """Open the driver session (anew) and match its boards, by UUID, with those known."""
        self._backend.close()
        self._session = False
        try:
            infos = self._backend.open()
        except DeviceError as error:
            self._reason = error.message
            for board in self._boards.values():
                board.lost = True
            log.log(logging.INFO if isinstance(error, NoDriver) else logging.WARNING, "no GPU power: %s", error)
            self._retry_later()
            return
        self._session = True
        found = {info.uuid: info for info in infos}
        for uuid, board in self._boards.items():
            if uuid in found:
                board.info = found[uuid]
                board.windows.rebind(board.info)
            board.lost = uuid not in found
        fresh = {uuid: _Board(info, self._window_s) for uuid, info in found.items() if uuid not in self._boards}
        self._boards = {**self._boards, **fresh}  # replaced, not changed: `status` reads it from other threads
        for replica in self._replicas:
            replica.bind(infos)
            if replica.missing:
                gone = ", ".join(str(m) for m in replica.missing)
                self._notes.append(f"replica {replica.name}: no GPU {gone}, so its energy is unknown")
        self._notes.extend(getattr(self._backend, "unreachable", ()))
        self._reason = "" if self._boards else NO_GPU
        if self._boards:
            self._put_devices()
        else:
            self._session = False
        if not self._session or any(board.lost for board in self._boards.values()):
            self._retry_later()

    def _retry_later(self) -> None:
        """Plan the next `_open`: seldom where there never was a GPU, with growing back-off where one is lost."""
        if self._boards:
            self._backoff_s = min(self._max_backoff_s, 2 * self._backoff_s)
        retry_s = self._backoff_s if self._boards else self._no_driver_retry_s
        self._open_at_ns = time.monotonic_ns() + round(retry_s * 1e9)

    def _hand_over(self, samples: list[SampleRow], closed: list[Window]) -> None:
        for window in closed:
            for note in window.notes:
                self._notes.append(f"{window.device_uuid}: {note}")
        self._outbox.put(samples, [window.row() for window in closed])

    def _put_devices(self) -> None:
        now = utcnow()
        self._outbox.put_devices([self._device_row(board, now) for board in self._boards.values()])

    def _device_row(self, board: _Board, now: datetime) -> dict[str, Any]:
        info = board.info
        return {
            "device_uuid": info.uuid,
            "host": self._host,
            "pci_bus_id": info.pci_bus_id,
            "name": info.name,
            "gpu_arch": info.gpu_arch,
            "driver_version": info.driver_version,
            "power_limit_w": info.power_limit_w,
            "mig_enabled": info.mig_enabled,
            "counter_supported": info.counter_supported,
            "sensor_class": info.sensor_class,
            "power_scope": info.scope,
            "state": board.state,
            "updated_at": now,
        }
