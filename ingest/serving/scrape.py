"""One scrape of a serving runtime (`/metrics`) -> core.serving_scrape and core.backend.

A row is one engine and model. Counters are cumulative: what happened in a window follows from the difference
of two scrapes, see ingest/serving/windows.py. A row is dated by the scrape, or by the samples' own time where
they carry one (a federated text does).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from ingest.base import Parsed, Payload, Reject
from ingest.read import read_text, refuse
from ingest.serving.backends import backend_id, backend_rows, endpoint
from ingest.serving.exposition import Exposition, Malformed, parse
from ingest.serving.names import KNOWN, Runtime
from ingest.serving.readings import Instant, Slot, Value, place, row_of
from warehouse.tables import frame

LARGEST_LABEL = 512
_EPOCH = datetime(1970, 1, 1)
_EARLIEST = datetime(2000, 1, 1)
_CLOCKS = timedelta(minutes=5)  # how far two clocks may be apart, and samples of one scrape


def parser(runtime: Runtime) -> Callable[[Payload], Parsed]:
    """The `parse` of `runtime`'s kind."""

    def parse_scrape(payload: Payload) -> Parsed:
        """Engines of the scrape. Raises PayloadError where it is none of this runtime."""
        exposition = _exposition(payload)
        backend = backend_id(payload.url, payload.options.get("backend"))
        if backend is None:
            refuse(
                payload,
                "a scrape from a file does not tell its backend",
                field="backend",
                fix="add --option backend=ID, one id for each serving endpoint",
            )
        instant = Instant(backend[:LARGEST_LABEL])
        for sample in exposition.samples:
            found = place(sample.name, sample.labels)
            if found is not None and found.runtime is runtime:
                instant.put(found, sample.value, sample.at_s, sample.labels)
        if not instant.engines():
            _refuse_other(payload, runtime, exposition)
        return _rows(payload, runtime, instant)

    return parse_scrape


def _exposition(payload: Payload) -> Exposition:
    told = payload.content_type
    try:
        return parse(read_text(payload), open_metrics=None if told is None else "openmetrics" in told.lower())
    except Malformed as error:
        refuse(payload, f"the payload is no Prometheus text: {error}", fix="scrape it again, whole")


def _refuse_other(payload: Payload, runtime: Runtime, exposition: Exposition) -> None:
    others = sorted({KNOWN[s.name].runtime.kind for s in exposition.samples if s.name in KNOWN})
    seen = sorted({s.name for s in exposition.samples})
    fix = f"import it as {' or '.join(others)}" if others else f"scrape the /metrics of {runtime.name} itself"
    shown = ", ".join(seen[:4]) or "no sample at all"
    refuse(payload, f"the payload holds no metric of {runtime.name}; it has {shown}", field="metrics", fix=fix)


def _rows(payload: Payload, runtime: Runtime, instant: Instant) -> Parsed:
    rows: list[dict[str, Any]] = []
    rejects: list[Reject] = []
    keys = instant.engines()
    for row_no, (name, engine) in enumerate(keys):
        about = f"{instant.backend_id} / {engine[0]} / {engine[1]}"
        cell, stale, at = _of_one_time(instant.cells[name, engine], payload.fetched_at)
        row, refused = row_of(runtime, cell)
        rejects += [replace(r, row_no=row_no, natural_key=about) for r in (*stale, *refused)]
        why = _unusable(row, engine, at, payload.fetched_at)
        if row is None or why is not None:
            rejects.append(Reject(reason=why or "nothing of this engine can be used", row_no=row_no, natural_key=about))
            continue
        key = {"backend_id": instant.backend_id, "engine": engine[0], "model": engine[1], "scraped_at": at}
        rows.append({**key, "runtime": name, **row})
    newest = max((row["scraped_at"] for row in rows), default=None)
    backends = backend_rows(instant, newest, endpoint(payload.url)) if newest is not None else []
    return Parsed(
        primary="core.serving_scrape",
        tables={
            "core.serving_scrape": frame("core.serving_scrape", rows),
            "core.backend": frame("core.backend", backends),
        },
        rows_in=len(keys),
        rejects=tuple(rejects),
        data_at=newest,
    )


def _unusable(row: dict[str, Any] | None, engine: tuple[str, str], at: datetime, fetched_at: datetime) -> str | None:
    if at > fetched_at + _CLOCKS or at < _EARLIEST:
        return f"its samples are of {at:%Y-%m-%dT%H:%M:%SZ}, which is not before the scrape"
    if max(map(len, engine)) > LARGEST_LABEL:
        return f"its engine or model label is longer than {LARGEST_LABEL} characters"
    return None


def _of_one_time(
    cell: dict[Slot, list[Value]], fetched_at: datetime
) -> tuple[dict[Slot, list[Value]], list[Reject], datetime]:
    """The values near the newest of the cell, what was too old for that, and their time."""
    stamps = [v.at_s for values in cell.values() for v in values if v.at_s]
    if not stamps:
        return cell, [], fetched_at
    newest = max(stamps)
    kept: dict[Slot, list[Value]] = {}
    stale: set[str] = set()
    for slot, values in cell.items():
        recent = [v for v in values if not v.at_s or newest - v.at_s <= _CLOCKS.total_seconds()]
        if recent:
            kept[slot] = recent
        else:
            stale.add(slot.name)
    rejects = [
        Reject(reason=f"{n} is more than 5 min older than its siblings", field=n, whole_row=False)
        for n in sorted(stale)
    ]
    return kept, rejects, instant_of(newest) or _EPOCH


def instant_of(unix_s: float) -> datetime | None:
    """A Unix time as naive UTC at the resolution of the warehouse; None where there is no such time."""
    try:
        return _EPOCH + timedelta(microseconds=round(unix_s * 1e6))
    except (OverflowError, ValueError):
        return None
