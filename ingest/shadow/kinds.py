"""The kinds that a shadow lives on."""

from __future__ import annotations

from ingest.kind import DAY_S, MIB, Kind
from ingest.shadow import labels, pairs

KINDS = (
    Kind(
        name="shadow-pairs",
        title="Mirrored and replayed pairs",
        parse=pairs.parse,
        docs="one request answered by incumbent and candidate (CSV, JSON lines, Parquet): success, J, s, USD, g",
        transports=("file",),
        max_bytes=256 * MIB,
        stale_after_s=7 * DAY_S,
        expire_after_s=30 * DAY_S,
    ),
    Kind(
        name="request-labels",
        title="Labels of logged requests",
        parse=labels.parse,
        docs="what a router knew of a billed request (CSV, JSON lines, Parquet): category, tier, session, propensity",
        transports=("file",),
        max_bytes=256 * MIB,
        stale_after_s=7 * DAY_S,
        expire_after_s=30 * DAY_S,
    ),
)
