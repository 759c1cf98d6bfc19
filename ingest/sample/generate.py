"""Assembles the sample payloads, each in the wire format of its kind."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from ingest.base import Payload
from ingest.sample.catalog import models_document
from ingest.sample.completions import completion
from ingest.sample.grid import factors_csv
from ingest.sample.labels import labels_csv
from ingest.sample.organic import organic_runs
from ingest.sample.outcomes import DATASET, outcomes_csv
from ingest.sample.published import fixed_arms_document, published_document
from ingest.sample.reference import reference_runs
from ingest.sample.trace import TRACE, lengths_json, trace_csv


def sample_payloads(now: datetime) -> list[Payload]:
    """Catalog, grid factors, completions, published points, replay outcomes and a workload, as of `now` (naive UTC).

    The same `now` gives the same bytes; another `now` moves timestamps and nothing else.
    """
    instant = now.replace(microsecond=0)
    runs = sorted([*reference_runs(instant), *organic_runs(instant)], key=lambda r: (r.started_at, r.run_id))
    lines = "".join(_json(completion(run)) + "\n" for run in runs)
    return [
        _payload("catalog", "neuralwatt-models", "application/json", _json(models_document()), instant),
        _payload("grid", "grid-factors", "text/csv", factors_csv(instant), instant),
        _payload("completions", "neuralwatt-completions", "application/x-ndjson", lines, instant),
        _payload("labels", "request-labels", "text/csv", labels_csv(instant), instant),
        _payload("published", "published-points", "application/json", _json(published_document()), instant),
        _payload("published-fixed-arms", "published-points", "application/json", _json(fixed_arms_document()), instant),
        _payload("outcomes", "outcomes", "text/csv", outcomes_csv(), instant, {"dataset": DATASET}),
        _payload("trace", "request-trace", "text/csv", trace_csv(), instant, {"trace": TRACE}),
        _payload("lengths", "length-cdf", "application/json", lengths_json(), instant, {"cdf": TRACE}),
    ]


def _payload(
    name: str, kind: str, content_type: str, body: str, now: datetime, options: dict[str, str] | None = None
) -> Payload:
    return Payload(
        source_id=f"sample:{name}",
        kind=kind,
        url=f"generated://sample/{name}",
        fetched_at=now,
        body=body.encode(),
        content_type=content_type,
        options=options or {},
    )


def _json(document: Any) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
