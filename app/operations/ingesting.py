"""Refresh a source now, import a file, list the sources."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from app.alerting import look_for_alerts
from app.desk import Desk
from app.errors import BadRequest, Conflict
from app.operations import Actor, NoParams, Params, operation
from app.operations.plain import plain, plain_rows
from app.sources import POWER_SOURCE, declared_options, fetch_source, file_age, file_payload, http_source
from ingest.kinds import KINDS, Kind, kind
from ingest.pipeline import RunOutcome, refresh
from ingest.stream import Progress, Stream, refresh_stream
from warehouse.clock import parse_utc
from warehouse.freshness import freshness
from warehouse.runs import SourceRow, register_source

_busy: set[tuple[int, str]] = set()
_busy_lock = threading.Lock()


@contextmanager
def _alone(desk: Desk, source_id: str) -> Iterator[None]:
    """A source is never refreshed twice at once."""
    mark = (id(desk), source_id)
    with _busy_lock:
        if mark in _busy:
            raise Conflict(f"The source {source_id!r} is being refreshed right now.", fix="wait for that run to end")
        _busy.add(mark)
    try:
        yield
    finally:
        with _busy_lock:
            _busy.discard(mark)


def outcome_dict(desk: Desk, outcome: RunOutcome) -> dict[str, Any]:
    """A run's outcome as plain data; one that could not be stored is kept in memory for the Sources page."""
    told = {**asdict(outcome), "notes": list(outcome.notes)}
    if not outcome.recorded:
        desk.unrecorded = [*desk.unrecorded[-49:], told]
    return told


class RunParams(Params):
    source: str


@operation("ingest.run", scope="operator", params=RunParams)
def run(desk: Desk, actor: Actor, params: RunParams) -> dict[str, Any]:
    """Refresh a source now."""
    if params.source == POWER_SOURCE:
        raise BadRequest(
            "The power sampler runs by itself and is not fetched.", fix="see its state with `joulebook ingest list`"
        )
    source = http_source(desk, params.source)
    trigger = "schedule" if actor.role == "system" else "manual"
    with _alone(desk, source.source_id):
        outcome = refresh(
            desk.warehouse, source.kind, source.source_id, lambda: fetch_source(desk, source), trigger=trigger
        )
    look_for_alerts(desk)
    return outcome_dict(desk, outcome)


class ImportParams(Params):
    kind: str
    path: str
    source: str | None = Field(None, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}$")
    fetched_at: datetime | None = None
    accept_shrink: bool = False
    options: dict[str, str] = Field(default_factory=dict)
    task: str | None = Field(None, max_length=64)
    """A name under which `import.progress` and `import.cancel` speak of this load."""

    @field_validator("fetched_at", mode="before")
    @classmethod
    def _utc(cls, value: Any) -> Any:
        return parse_utc(value, what="fetched_at") if isinstance(value, str) else value

    @field_validator("source")
    @classmethod
    def _not_sample(cls, value: str | None) -> str | None:
        if value is not None and value.startswith("sample:"):
            raise ValueError("the prefix 'sample:' is kept for sample data")
        return value


@operation("import", scope="local", params=ImportParams)
def import_file(desk: Desk, actor: Actor, params: ImportParams) -> dict[str, Any]:
    """Import a file of one of the kinds."""
    found = kind(params.kind)
    if not found.importable:
        raise BadRequest(f"The kind {found.name!r} is not imported from files.", fix=f"use one of {importable()}")
    source_id = params.source or f"file:{found.name}"
    row = SourceRow(
        source_id, found.name, f"{found.title} (file)", "file", None, None, found.stale_after_s, found.expire_after_s
    )

    load = _stream_load if found.stream is not None else _payload_load
    run_it = load(desk, found, source_id, params)
    with _alone(desk, source_id):
        with desk.warehouse.transaction() as tx:
            register_source(tx, row)
        outcome = run_it()
    look_for_alerts(desk)
    return outcome_dict(desk, outcome)


def _payload_load(desk: Desk, found: Kind, source_id: str, params: ImportParams) -> Callable[[], RunOutcome]:
    payload = file_payload(Path(params.path), found, source_id, params.fetched_at, params.options)
    return lambda: refresh(
        desk.warehouse, found, source_id, lambda: payload, trigger="import", accept_shrink=params.accept_shrink
    )


def _stream_load(desk: Desk, found: Kind, source_id: str, params: ImportParams) -> Callable[[], RunOutcome]:
    path = Path(params.path)
    at = file_age(path, params.fetched_at)
    stream = Stream(source_id, found.name, path, at, declared_options(found, params.options))
    progress = Progress(total_bytes=stream.size_bytes)

    def run_it() -> RunOutcome:
        if params.task is not None:
            desk.loads[params.task] = progress
        try:
            return refresh_stream(desk.warehouse, found, stream, trigger="import", progress=progress)
        finally:
            desk.loads.pop(params.task or "", None)

    return run_it


class TaskParams(Params):
    task: str = Field(max_length=64)


@operation("import.progress", scope="local", params=TaskParams)
def import_progress(desk: Desk, actor: Actor, params: TaskParams) -> dict[str, Any]:
    """Say how far a running import is."""
    found = desk.loads.get(params.task)
    return {"running": found is not None, **(asdict(found) if found is not None else {})}


@operation("import.cancel", scope="local", params=TaskParams)
def import_cancel(desk: Desk, actor: Actor, params: TaskParams) -> dict[str, Any]:
    """Cancel a running import; nothing of it is kept."""
    found = desk.loads.get(params.task)
    if found is not None:
        found.cancelled = True
    return {"cancelled": found is not None}


def importable() -> str:
    return ", ".join(sorted(name for name, k in KINDS.items() if k.importable))


@operation("ingest.list", scope="read", params=NoParams)
def list_sources(desk: Desk, actor: Actor, params: NoParams) -> dict[str, Any]:
    """List the sources with their freshness and next run."""
    rows = plain_rows(freshness(desk.warehouse))
    next_runs = desk.jobs.next_runs() if desk.jobs is not None else {}
    for row in rows:
        row["next_run_at"] = next_runs.get(row["source_id"])
        if desk.settings.offline and row["transport"] == "http" and row["last_attempt_at"] is None:
            row["why"] = "offline = true: nothing is fetched"
    power = plain(asdict(desk.sampler.status())) if desk.sampler is not None else None
    return {"sources": rows, "power": power, "unrecorded": desk.unrecorded}
