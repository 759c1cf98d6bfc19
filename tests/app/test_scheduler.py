"""The clockwork: what is due runs at once, nothing is dropped in silence, stopping never hangs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from apscheduler.events import EVENT_JOB_MAX_INSTANCES, EVENT_JOB_MISSED, JobEvent

from app import scheduler as clockwork
from app.desk import Desk, open_desk
from app.scheduler import Jobs
from app.settings import load_settings


def wait_for(condition: Callable[[], bool], timeout_s: float = 10.0) -> bool:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return condition()


@pytest.fixture
def desk(own_home: Path) -> Iterator[Desk]:
    (own_home / "joulebook.toml").write_text(
        "[sources.uk-carbon-forecast]\nenabled = false\n[power]\nenabled = false\n"
    )
    opened = open_desk(load_settings())
    yield opened
    opened.close()


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Operations are noted instead of run, so that the clock alone is tested."""
    seen: list[str] = []

    def fake(desk: Desk, name: str, params: dict[str, Any], actor: object) -> dict[str, Any]:
        seen.append(params.get("source", name))
        return {"state": "OK", "not_modified": True, "rows_loaded": 0, "transient": False}

    monkeypatch.setattr(clockwork, "call", fake)
    return seen


def test_a_source_that_was_never_fetched_runs_at_once(desk: Desk, calls: list[str]) -> None:
    """Trap: an interval job first runs one interval after start."""
    desk.jobs = Jobs(desk)
    desk.jobs.start()
    assert wait_for(lambda: {"openrouter", "uk-carbon"} <= set(calls))
    assert set(desk.jobs.next_runs()) == {"openrouter", "uk-carbon"}


def test_offline_fetches_nothing(own_home: Path, calls: list[str]) -> None:
    (own_home / "joulebook.toml").write_text("offline = true\n")
    desk = open_desk(load_settings())
    desk.jobs = Jobs(desk)
    desk.jobs.start()
    time.sleep(0.3)
    assert desk.jobs.next_runs() == {}
    desk.close()
    assert "openrouter" not in calls


def test_a_fresh_source_waits_for_its_turn(desk: Desk, calls: list[str]) -> None:
    from warehouse import runs

    run = runs.start(desk.warehouse, source_id="openrouter", kind="openrouter", trigger="schedule")
    with desk.warehouse.transaction() as tx:
        runs.finish(tx, run, state="OK")
    desk.jobs = Jobs(desk)
    desk.jobs.start()
    assert wait_for(lambda: "uk-carbon" in calls)
    time.sleep(0.2)
    assert "openrouter" not in calls


def test_a_failure_that_may_pass_is_tried_again_sooner_each_time_later(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = {"state": "FAILED", "error": "no connection", "fix": "", "transient": True}
    monkeypatch.setattr(clockwork, "call", lambda *_: answers)
    jobs = Jobs(desk)
    jobs._scheduler.start(paused=True)
    waits = []
    for _ in range(3):
        jobs._add("openrouter", jobs._refresh, 3600.0, datetime.now(UTC) + timedelta(hours=1))
        jobs._refresh("openrouter")
        job = jobs._scheduler.get_job("openrouter")
        waits.append((job.next_run_time - datetime.now(UTC)).total_seconds())
        jobs._scheduler.remove_job("openrouter")
    assert waits == pytest.approx([60, 120, 240], abs=5)
    answers["transient"] = False  # a wrong address does not mend itself
    jobs._add("openrouter", jobs._refresh, 3600.0, datetime.now(UTC) + timedelta(hours=1))
    jobs._refresh("openrouter")
    assert (jobs._scheduler.get_job("openrouter").next_run_time - datetime.now(UTC)).total_seconds() > 3000
    jobs.stop()


@pytest.mark.parametrize(
    ("code", "state"), [(EVENT_JOB_MISSED, "MISSED"), (EVENT_JOB_MAX_INSTANCES, "SKIPPED")], ids=["missed", "skipped"]
)
def test_a_run_that_was_not_started_is_on_record(desk: Desk, code: int, state: str) -> None:
    """Trap: a missed or skipped run is only a log line in APScheduler."""
    Jobs(desk)._on_not_run(JobEvent(code, "openrouter", "default"))
    row = desk.warehouse.query("SELECT source_id, state, error_text FROM ops.run").row(0)
    assert row[:2] == ("openrouter", state)


def test_late_jobs_are_started_and_times_are_utc(desk: Desk) -> None:
    """Traps: misfire grace of 1 s drops late jobs; local time fires 02:30 twice in autumn."""
    jobs = Jobs(desk)
    defaults = jobs._scheduler._job_defaults
    assert defaults["misfire_grace_time"] == 300
    assert defaults["coalesce"]
    assert defaults["max_instances"] == 1
    assert str(jobs._scheduler.timezone) == "UTC"


def test_stopping_does_not_wait_for_a_hanging_source(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, calls: list[str]
) -> None:
    started, release = threading.Event(), threading.Event()

    def hang(*_: object) -> dict[str, Any]:
        started.set()
        release.wait(20)
        return {"state": "OK", "not_modified": True, "rows_loaded": 0}

    monkeypatch.setattr(clockwork, "call", hang)
    monkeypatch.setattr(clockwork, "_STOP_WAIT_S", 0.3)
    jobs = Jobs(desk)
    jobs.start()
    assert started.wait(5)
    before = time.monotonic()
    jobs.stop()
    waited = time.monotonic() - before
    release.set()
    assert waited < 5


def test_two_refreshes_of_one_source_never_run_at_once(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    from app import operations
    from app.errors import Conflict
    from app.operations import SYSTEM, ingesting

    inside, release = threading.Event(), threading.Event()

    def slow(*_: object, **__: object) -> Any:
        inside.set()
        release.wait(10)
        raise ingesting_error()

    def ingesting_error() -> Exception:
        from ingest.errors import SourceUnreachable

        return SourceUnreachable("cut", source_id="openrouter")

    monkeypatch.setattr(ingesting, "fetch_source", slow)
    first = threading.Thread(target=lambda: operations.call(desk, "ingest.run", {"source": "openrouter"}, SYSTEM))
    first.start()
    assert inside.wait(5)
    with pytest.raises(Conflict, match="being refreshed right now"):
        operations.call(desk, "ingest.run", {"source": "openrouter"}, SYSTEM)
    release.set()
    first.join()
    assert desk.warehouse.scalar("SELECT count(*) FROM ops.run WHERE source_id = 'openrouter'") == 1
