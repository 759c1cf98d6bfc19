"""The clockwork: sources on their cadence, the recommendation sweep, missed and skipped runs on record.

APScheduler with a memory store: what ran is in ops.run, not in its job store. UTC everywhere, because
a local zone fires 02:30 twice in autumn. A job that did not start on time is still started (grace
300 s; the default of 1 s drops it silently).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog
from apscheduler.events import EVENT_JOB_MAX_INSTANCES, EVENT_JOB_MISSED, JobEvent
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from app.alerting import look_for_alerts
from app.desk import Desk
from app.errors import AppError
from app.operations import SYSTEM, call
from app.sources import http_sources
from warehouse import runs
from warehouse.errors import WarehouseError
from warehouse.freshness import freshness

_SWEEP_S = 60.0
_OURS = ("sweep", "shadow")  # jobs that fetch nothing
_RETRY_S = 60.0
_STOP_WAIT_S = 3.0
log = structlog.get_logger("joulebook.scheduler")


class Jobs:
    """Owns the scheduler of a serving process."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._running = 0
        self._failures: dict[str, int] = {}  # failures in a row that may pass by themselves, per source
        self._idle = threading.Condition()
        self._scheduler = BackgroundScheduler(
            timezone=UTC,
            executors={"default": ThreadPoolExecutor(4)},
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": 300},
        )
        self._scheduler.add_listener(self._on_not_run, EVENT_JOB_MISSED | EVENT_JOB_MAX_INSTANCES)

    def start(self) -> None:
        """Schedule every enabled source; one that is due, or was never fetched, runs at once."""
        if not self._desk.settings.offline:
            due = self._due_times()
            for source in http_sources(self._desk):
                if source.enabled:
                    self._add(source.source_id, self._refresh, source.cadence_s, due[source.source_id])
        self._add("sweep", self._sweep, _SWEEP_S, datetime.now(UTC) + timedelta(seconds=5))
        self._add("shadow", self._shadow, self._desk.settings.shadow.cadence, datetime.now(UTC) + timedelta(seconds=30))
        self._scheduler.start()

    def _add(self, name: str, job: Callable[[str], None], every_s: float, first: datetime) -> None:
        self._scheduler.add_job(
            self._counted, "interval", seconds=every_s, id=name, name=name, args=[job, name], next_run_time=first
        )

    def _due_times(self) -> dict[str, datetime]:
        """An interval job would first run one interval after start; the last good run says when it is due."""
        now = datetime.now(UTC)
        ages = {r["source_id"]: r for r in freshness(self._desk.warehouse).iter_rows(named=True)}
        due = {}
        for source in http_sources(self._desk):
            age = ages.get(source.source_id, {}).get("age_s")
            due[source.source_id] = now if age is None else now + timedelta(seconds=max(0.0, source.cadence_s - age))
        return due

    def _counted(self, job: Callable[[str], None], name: str) -> None:
        with self._idle:
            self._running += 1
        try:
            job(name)
        finally:
            with self._idle:
                self._running -= 1
                self._idle.notify_all()

    def _refresh(self, source_id: str) -> None:
        try:
            told = call(self._desk, "ingest.run", {"source": source_id}, SYSTEM)
        except AppError as error:
            log.warning("refresh refused", source=source_id, reason=error.message)
            return
        if told["state"] == "FAILED":
            log.warning("refresh failed", source=source_id, error=told["error"], fix=told["fix"])
            if told["transient"]:
                self._retry_sooner(source_id)
            return
        self._failures.pop(source_id, None)
        if not told["not_modified"] and told["rows_loaded"]:
            self._sweep("sweep")

    def _retry_sooner(self, source_id: str) -> None:
        """A failure that may pass by itself is tried again after 1, 2, 4 ... min, never later than its turn."""
        failures = self._failures[source_id] = self._failures.get(source_id, 0) + 1
        job = self._scheduler.get_job(source_id)
        again = datetime.now(UTC) + timedelta(seconds=_RETRY_S * 2 ** min(failures - 1, 10))
        if job is not None and job.next_run_time is not None and again < job.next_run_time:
            job.modify(next_run_time=again)

    def _sweep(self, name: str) -> None:
        """Propose what the newest evidence says, expire what nobody took up, measure outcomes, look for alerts."""
        try:
            call(self._desk, "recommend.refresh", {}, SYSTEM)
        except AppError as error:
            log.warning("recommendation sweep failed", reason=error.message)
        try:
            call(self._desk, "recommend.measure", {}, SYSTEM)
        except AppError as error:
            log.warning("outcomes could not be measured", reason=error.message)
        look_for_alerts(self._desk)

    def _shadow(self, name: str) -> None:
        """Ask the shadowing policies about what was logged since, and judge what waits for its gate."""
        for operation in ("shadow.decide", "recommend.judge"):
            try:
                call(self._desk, operation, {}, SYSTEM)
            except AppError as error:
                log.warning("shadow round failed", operation=operation, reason=error.message)

    def _on_not_run(self, event: JobEvent) -> None:
        if event.job_id in _OURS:
            return
        missed = event.code == EVENT_JOB_MISSED
        source = next((s for s in http_sources(self._desk) if s.source_id == event.job_id), None)
        if source is None:
            return
        try:
            runs.record(
                self._desk.warehouse,
                source_id=source.source_id,
                kind=source.kind.name,
                trigger="schedule",
                state="MISSED" if missed else "SKIPPED",
                error_text="not started in time" if missed else "the run before it had not ended",
            )
        except (WarehouseError, AppError) as error:
            log.warning("a run that was not started could not be recorded", source=source.source_id, reason=str(error))

    def next_runs(self) -> dict[str, Any]:
        """source id -> ISO time of its next run."""
        return {
            job.id: job.next_run_time.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
            for job in self._scheduler.get_jobs()
            if job.next_run_time is not None and job.id not in _OURS
        }

    def stop(self) -> None:
        """No new job starts; running ones get a few seconds, so that SIGTERM never hangs on a slow source."""
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)
        with self._idle:
            self._idle.wait_for(lambda: self._running == 0, timeout=_STOP_WAIT_S)
