"""The kinds of grid intensity payloads."""

from __future__ import annotations

from ingest.grid import static_factors, uk_carbon
from ingest.kind import DAY_S, HOUR_S, MIB, Kind

KINDS = (
    Kind(
        name="uk-carbon",
        title="Grid carbon, Great Britain",
        parse=uk_carbon.parse,
        docs="api.carbonintensity.org.uk: half-hourly national average, direct factors, actual and forecast",
        transports=("http", "file"),
        max_bytes=4 * MIB,
        default_url="https://api.carbonintensity.org.uk/intensity",
        cadence_s=HOUR_S / 2,
        stale_after_s=2 * HOUR_S,
        expire_after_s=2 * DAY_S,
    ),
    Kind(
        name="grid-factors",
        title="Static grid factors",
        parse=static_factors.parse,
        docs="CSV or JSON list: zone, year, basis, source and one intensity column with its unit in the name",
        transports=("file", "http"),
        max_bytes=16 * MIB,
        stale_after_s=366 * DAY_S,
        expire_after_s=5 * 366 * DAY_S,
    ),
)
