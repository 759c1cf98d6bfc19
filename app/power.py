"""The power sampler of a serving process: its batches become rows, its state becomes a run."""

from __future__ import annotations

import time

import polars as pl
import structlog

from app.desk import Desk
from app.sources import POWER_SOURCE
from ingest.errors import DeviceError
from ingest.power.hostlock import HostLock, OnePerHost
from ingest.power.idle import BASELINES, with_net
from ingest.power.nvml import Nvml
from ingest.power.sampler import PowerSampler
from warehouse import loads, runs
from warehouse.clock import utcnow

log = structlog.get_logger("joulebook.power")

_BASELINES_FOR_S = 60.0  # a baseline measured meanwhile counts from then on


class PowerSink:
    """Stores a batch in one transaction and keeps the run row of this process up to date with it."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._run: runs.RunStart | None = None
        self._rows = 0
        self._baselines: pl.DataFrame | None = None
        self._baselines_at = 0.0

    def __call__(self, samples: pl.DataFrame, observations: pl.DataFrame, devices: pl.DataFrame) -> None:
        warehouse = self._desk.warehouse
        if self._run is None:
            self._run = runs.start(warehouse, source_id=POWER_SOURCE, kind="nvml", trigger="schedule")
        run, known_from = self._run, utcnow()
        total = self._rows + samples.height
        if observations.height:
            observations = with_net(observations, self._known_baselines())
        with warehouse.transaction() as tx:
            for table, frame in (
                ("core.device", devices),
                ("core.power_sample", samples),
                ("core.energy_observation", observations),
            ):
                loads.load(tx, table, frame, source_id=POWER_SOURCE, run_id=run.run_id, known_from=known_from)
            runs.finish(
                tx,
                run,
                state="OK",
                rows_in=total,
                rows_loaded=total,
                rows_unchanged=0,
                rows_quarantined=0,
                data_at=known_from,
            )
        self._rows = total

    def _known_baselines(self) -> pl.DataFrame:
        now = time.monotonic()
        if self._baselines is None or now - self._baselines_at > _BASELINES_FOR_S:
            self._baselines, self._baselines_at = self._desk.warehouse.query(BASELINES), now
        return self._baselines


def start_power(desk: Desk) -> None:
    """Start sampling; where this host cannot, record why in words. A driver that comes later is found later."""
    power = desk.settings.power
    if not power.enabled:
        return
    backend = OnePerHost(Nvml(), HostLock())
    try:
        backend.open()
    except DeviceError as error:
        run = runs.start(desk.warehouse, source_id=POWER_SOURCE, kind="nvml", trigger="schedule")
        with desk.warehouse.transaction() as tx:
            runs.finish(
                tx,
                run,
                state="FAILED",
                error_class=type(error).__name__,
                error_text=error.message,
                error_fix=error.fix or None,
            )
        log.info("no GPU power for now", reason=error.message)
    finally:
        backend.close()
    desk.sampler = PowerSampler(
        backend,
        PowerSink(desk),
        period_s=power.period,
        window_s=power.window,
        flush_s=power.flush,
        replicas=power.replicas,
    )
    desk.sampler.start()
