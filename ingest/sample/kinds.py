"""The kinds that only the sample generator makes."""

from __future__ import annotations

from ingest.kind import DAY_S, MIB, Kind
from ingest.sample import published

KINDS = (
    Kind(
        name="published-points",
        title="Published routing policies",
        parse=published.parse,
        docs="points of a publication (JSON): policy, accuracy, J, s and W per query; never a measurement of ours",
        transports=("generated",),
        max_bytes=1 * MIB,
        stale_after_s=366 * DAY_S,
        expire_after_s=5 * 366 * DAY_S,
    ),
)
