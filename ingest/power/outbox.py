"""Rows on their way to the warehouse: a bounded buffer and the thread that empties it into the sink.

The sampler must not wait for a database, so it only appends tuples; frames are built here, once per
flush. A batch that the sink refuses is kept and offered again, unchanged, until it is taken; when the
buffer is full the oldest samples go first and every dropped row is counted.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import polars as pl

from warehouse.tables import frame

log = logging.getLogger(__name__)

# (device_uuid, sampled_at, power_w, energy counter in mJ, method, sensor stamp in us, epoch)
SampleRow = tuple[str, datetime, float | None, int | None, str, int | None, int]
Sink = Callable[[pl.DataFrame, pl.DataFrame, pl.DataFrame], None]
Batch = tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]

_EPOCH = datetime(1970, 1, 1)
MAX_BACKOFF_S = 60.0


def sample_frame(rows: Iterable[SampleRow]) -> pl.DataFrame:
    """`rows` as a frame for core.power_sample."""
    return frame(
        "core.power_sample",
        (
            {
                "device_uuid": uuid,
                "sampled_at": at,
                "power_w": power_w,
                "energy_counter_j": None if counter_mj is None else counter_mj / 1000,
                "method": method,
                "sensor_at": None if sensor_us is None else _EPOCH + timedelta(microseconds=sensor_us),
                "epoch": epoch,
            }
            for uuid, at, power_w, counter_mj, method, sensor_us, epoch in rows
        ),
    )


class Outbox:
    """`put` from the sampling thread; the sink is called from a thread of the outbox, one batch at a time."""

    def __init__(self, sink: Sink, *, flush_s: float = 5.0, max_rows: int = 200_000, batch_rows: int = 20_000) -> None:
        if flush_s <= 0 or max_rows < 1 or batch_rows < 1:
            raise ValueError(
                f"flush_s {flush_s}, max_rows {max_rows}, batch_rows {batch_rows}: each must be greater than 0"
            )
        self._sink = sink
        self._flush_s = flush_s
        self._max_rows = max_rows
        self._batch_rows = batch_rows
        self._lock = threading.Lock()
        self._samples: deque[SampleRow] = deque()
        self._observations: deque[Mapping[str, Any]] = deque()
        self._devices: Sequence[Mapping[str, Any]] = ()
        self._devices_changed = False
        self._pending: Batch | None = None  # built, offered, and not yet taken
        self._pending_rows = 0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.dropped_rows = 0
        self.flushed_rows = 0
        self.cpu_s = 0.0
        self.sink_error = ""

    @property
    def buffered_rows(self) -> int:
        return len(self._samples) + len(self._observations) + self._pending_rows

    def put(self, samples: Sequence[SampleRow], observations: Sequence[Mapping[str, Any]]) -> None:
        """Keep rows for the next flush; the oldest samples make room when the buffer is full."""
        with self._lock:
            self._samples.extend(samples)
            self._observations.extend(observations)
            over = self.buffered_rows - self._max_rows
            for _ in range(over):
                if self._samples:
                    self._samples.popleft()
                elif self._observations:
                    self._observations.popleft()
                else:
                    break
                self.dropped_rows += 1

    def put_devices(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """The present state of all devices; the latest one goes with the next batch."""
        with self._lock:
            self._devices = rows
            self._devices_changed = True

    def start(self) -> None:
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, name="joulebook-power-flush", daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float) -> bool:
        """Flush once more and end; False when the sink did not return in time or refused the rest."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout_s)
            if self._thread.is_alive():
                return False
        return self.buffered_rows == 0

    def _run(self) -> None:
        wait_s = self._flush_s
        while not self._stop.wait(wait_s):
            wait_s = self._flush_s if self._flush() else min(MAX_BACKOFF_S, wait_s * 2)
            self.cpu_s = time.thread_time()
        self._flush()
        self.cpu_s = time.thread_time()

    def _flush(self) -> bool:
        """Offer everything there is, batch by batch, until one is refused."""
        while self._pending is not None or self._load():
            assert self._pending is not None
            try:
                self._sink(*self._pending)
            except Exception as error:  # whatever a sink raises, the rows are kept
                if not self.sink_error:
                    log.warning("power rows were not stored, will try again: %s", error)
                self.sink_error = f"{type(error).__name__}: {error}"
                return False
            with self._lock:
                self.flushed_rows += self._pending_rows
                self._pending, self._pending_rows = None, 0
            self.sink_error = ""
        return True

    def _load(self) -> bool:
        """Move rows of at most one batch into `_pending`; False when there is nothing to send."""
        with self._lock:
            samples = [self._samples.popleft() for _ in range(min(len(self._samples), self._batch_rows))]
            room = min(len(self._observations), self._batch_rows)
            observations = [self._observations.popleft() for _ in range(room)]
            devices = self._devices
            if not samples and not observations and not self._devices_changed:
                return False
            self._devices_changed = False
            self._pending_rows = len(samples) + len(observations)
        self._pending = (
            sample_frame(samples),
            frame("core.energy_observation", observations),
            frame("core.device", devices),
        )
        return True
