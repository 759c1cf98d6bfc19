"""Prometheus `/api/v1/query_range` (a matrix) -> core.serving_scrape: scrapes that somebody else has kept.

A row is one engine of one backend at one step. A label names the backend, `instance` unless the option
`backend_label` says otherwise; the option `backend` puts every series under one id. A step at which a series has no
value (a gap) is no row, so that the next window spans it; NaN is unknown. Labels of the collection itself (`job`,
`pod`) are no part of an engine's identity: two series that differ only in those are one engine told twice, taken
where they agree, unknown where they do not, and never added up.

The fetch asks for exactly the names of ingest/serving/names.py, for whole steps, so that a later, overlapping
answer speaks of the same instants and changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import httpx

from ingest.base import Parsed, Payload, Reject
from ingest.errors import FetchError, IngestError
from ingest.fields import plain_json
from ingest.http import NotModified, fetch
from ingest.kind import Ask, Option
from ingest.read import field_of, read_json, refuse, shape_of
from ingest.redact import redact_url
from ingest.serving.backends import backend_rows
from ingest.serving.exposition import number
from ingest.serving.names import KNOWN, RUNTIMES
from ingest.serving.readings import Instant, Place, place, row_of
from ingest.serving.scrape import LARGEST_LABEL, instant_of
from warehouse.tables import frame

KIND = "prometheus-range"
MOST_STEPS = 11_000  # what Prometheus answers at most per series
OPTIONS = (
    Option("step", "seconds between two instants, such as 60s", default="60s"),
    Option("lookback", "how far back each fetch asks, such as 15m; longer than the cadence, or there are gaps", "15m"),
    Option("backend_label", "the label that names the backend", default="instance"),
    Option("backend", "one id for all series, instead of a label"),
    Option("match", 'more label matchers, such as job="vllm"'),
)
_PATH = "/api/v1/query_range"
_SPAN = re.compile(r"([1-9]\d{0,6})(ms|s|m|h|d)")
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_MATCH = re.compile(
    r"\s*[a-zA-Z_]\w*\s*(?:=~|!~|!=|=)\s*\"(?:[^\"\\]|\\.)*\"\s*(?:,\s*[a-zA-Z_]\w*\s*(?:=~|!~|!=|=)\s*\"(?:[^\"\\]|\\.)*\"\s*)*",
    re.ASCII,
)
_EPOCH = datetime(1970, 1, 1)
_EARLIEST = datetime(2000, 1, 1)
_RAW_LIMIT = 1000


def fetch_range(ask: Ask) -> Payload | NotModified:
    """The last `lookback` of every metric that is read. Raises FetchError for options that make no query."""
    url = range_url(ask.url, ask.options, ask.now)
    shown = _without_query(redact_url(url))
    try:
        got = fetch(
            url,
            source_id=ask.source_id,
            kind=ask.kind,
            headers={"Authorization": f"Bearer {ask.secret}"} if ask.secret else None,
            max_bytes=ask.max_bytes,
            offline=ask.offline,
            timeout_s=30,
        )
    except IngestError as error:  # 6 KB of metric names help nobody who reads it
        error.message = error.message.replace(redact_url(url), shown)
        raise
    return replace(got, url=shown)


def _without_query(url: str) -> str:
    return str(httpx.URL(url).copy_remove_param("query"))


def range_url(base: str, options: Mapping[str, str], now: datetime) -> str:
    """The address of the query; `base` is that of the server, with the path before `/api/v1` where it has one."""
    step, lookback = (
        _span_ms(name, options.get(name) or default) for name, default in (("step", "60s"), ("lookback", "15m"))
    )
    if lookback < step or lookback // step > MOST_STEPS:
        raise FetchError(
            f"a lookback of {lookback / 1000:g} s has {lookback // step} steps of {step / 1000:g} s",
            field="lookback",
            fix=f"choose 1 to {MOST_STEPS} steps",
        )
    end = (now - _EPOCH) // timedelta(milliseconds=1) // step * step
    matchers = [f'__name__=~"{"|".join(sorted(KNOWN))}"']
    told = (options.get("match") or "").strip()
    if told:
        if not _MATCH.fullmatch(told):
            raise FetchError(
                f"the option match is {told!r}", field="match", fix='write label matchers, such as job="vllm"'
            )
        matchers.append(told)
    query = "{" + ",".join(matchers) + "}"
    window = {
        "query": query,
        "start": f"{(end - lookback) / 1000:.3f}",
        "end": f"{end / 1000:.3f}",
        "step": f"{step / 1000:g}",
    }
    try:
        url = httpx.URL(base)
    except httpx.InvalidURL as error:
        raise FetchError(f"{base!r} is no address", field="url", fix="correct the url") from error
    path = url.path.rstrip("/")
    return str(
        url.copy_with(path=path if path.endswith(_PATH) else path + _PATH, params={**dict(url.params), **window})
    )


def _span_ms(name: str, text: str) -> int:
    match = _SPAN.fullmatch(text.strip())
    if match is None:
        raise FetchError(f"the option {name} is {text!r}", field=name, fix="write a whole number with ms, s, m, h or d")
    return int(match[1]) * _UNITS_MS[match[2]]


@dataclass
class _Matrix:
    """The series of an answer, sorted into instants."""

    instants: dict[tuple[str, datetime], Instant] = field(default_factory=dict)
    rejects: list[Reject] = field(default_factory=list)
    refused_rows: int = 0
    unread: set[str] = field(default_factory=set)

    def refuse(self, row_no: int, series: Any, reason: str, *, value: Any = None, whole_row: bool) -> None:
        self.rejects.append(
            Reject(
                reason=reason,
                row_no=row_no,
                field="values" if value is not None else "metric",
                value=None if value is None else plain_json(value)[:200],
                raw=plain_json(series)[:_RAW_LIMIT],
                whole_row=whole_row,
            )
        )
        self.refused_rows += whole_row


def parse(payload: Payload) -> Parsed:
    """Every engine at every step of the answer. Raises PayloadError for an error answer and anything but a matrix."""
    document = read_json(payload)
    data = field_of(payload, document, "data", dict)
    if data.get("resultType") != "matrix":
        refuse(
            payload,
            f"the result is {data.get('resultType')!r}, not a matrix",
            field="data.resultType",
            fix="ask /api/v1/query_range, not /api/v1/query",
        )
    matrix = _Matrix()
    for row_no, series in enumerate(field_of(payload, data, "result", list)):
        _series(matrix, row_no, series, payload.options)
    return _parsed(matrix, _notes(document, matrix))


def _series(matrix: _Matrix, row_no: int, series: Any, options: Mapping[str, str]) -> None:
    metric = series.get("metric") if isinstance(series, dict) else None
    if not isinstance(metric, dict) or not all(isinstance(v, str) for v in metric.values()):
        matrix.refuse(row_no, series, "the series has no metric with text labels", whole_row=True)
        return
    found = place(metric.get("__name__", ""), metric)
    if found is None:
        matrix.unread.add(metric.get("__name__", "without a name"))
        return
    label = options.get("backend_label") or "instance"
    backend = (options.get("backend") or metric.get(label, "")).strip()
    if not backend or any(len(text) > LARGEST_LABEL for text in (backend, *found.engine)):
        matrix.refuse(row_no, metric, f"the series has no label {label!r} that could name its backend", whole_row=True)
        return
    values = series.get("values")
    if not isinstance(values, list):
        matrix.refuse(row_no, metric, f"values are {shape_of(values)}, not a list", whole_row=True)
        return
    for pair in values:
        _value(matrix, row_no, metric, found, backend, pair)


def _value(matrix: _Matrix, row_no: int, metric: Mapping[str, str], found: Place, backend: str, pair: Any) -> None:
    stamp, text = pair if isinstance(pair, list) and len(pair) == 2 else (None, None)
    at = _instant(stamp)
    value = number(text) if isinstance(text, str) else None
    if at is None or value is None:
        matrix.refuse(row_no, metric, 'a point is not [Unix time, "number"]', value=pair, whole_row=False)
        return
    instant = matrix.instants.setdefault((backend, at), Instant(backend))
    instant.put(found, value, None, metric)


def _instant(stamp: Any) -> datetime | None:
    if isinstance(stamp, bool) or not isinstance(stamp, int | Decimal) or not -(10**11) < stamp < 10**11:
        return None
    at = instant_of(float(stamp))
    return at if at is not None and at >= _EARLIEST else None


def _parsed(matrix: _Matrix, notes: Iterator[str]) -> Parsed:
    rows: list[dict[str, Any]] = []
    backends: dict[str, dict[str, Any]] = {}
    rows_in = matrix.refused_rows
    rejects = matrix.rejects
    for (backend, at), instant in sorted(matrix.instants.items()):
        for name, engine in instant.engines():
            about = f"{backend} / {engine[0]} / {engine[1]} at {at:%Y-%m-%dT%H:%M:%SZ}"
            row, refused = row_of(RUNTIMES[name], instant.cells[name, engine])
            rejects += [replace(r, row_no=rows_in, natural_key=about) for r in refused]
            if row is None:
                reason = "nothing of this engine can be used"
                rejects.append(Reject(reason=reason, row_no=rows_in, natural_key=about))
            else:
                key = {"backend_id": backend, "engine": engine[0], "model": engine[1], "scraped_at": at}
                rows.append({**key, "runtime": name, **row})
            rows_in += 1
        # the newest instant describes the backend; one row for each answer, or its history would grow with every step
        backends.update({r["backend_id"]: r for r in backend_rows(instant, at, None)})
    scrapes, repeated = _one_runtime(rows)
    return Parsed(
        primary="core.serving_scrape",
        tables={
            "core.serving_scrape": frame("core.serving_scrape", scrapes),
            "core.backend": frame("core.backend", backends.values()),
        },
        rows_in=rows_in,
        rejects=(*rejects, *repeated),
        data_at=max((r["scraped_at"] for r in scrapes), default=None),
        notes=tuple(notes),
    )


def _one_runtime(rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[Reject]]:
    """Rows without those whose engine two runtimes claim at one instant: the key cannot hold both."""
    kept: dict[tuple[Any, ...], dict[str, Any]] = {}
    rejects: list[Reject] = []
    for row in rows:
        key = tuple(row[k] for k in ("backend_id", "engine", "model", "scraped_at"))
        if kept.setdefault(key, row) is not row:
            reason = f"{row['runtime']} and {kept[key]['runtime']} both tell this engine; name backends apart"
            rejects.append(Reject(reason=reason, natural_key=" / ".join(map(str, key)), field="runtime"))
    return list(kept.values()), rejects


def _notes(document: Mapping[str, Any], matrix: _Matrix) -> Iterator[str]:
    for name in ("warnings", "infos"):
        told = document.get(name)
        if isinstance(told, list):
            yield from (f"{name}: {str(t)[:200]}" for t in told[:5])
    if matrix.unread:
        shown = ", ".join(n[:80] for n in sorted(matrix.unread)[:4])
        yield f"series of {len(matrix.unread)} other names were left out: {shown}"
