"""Static grid factors of the sample's serving zones, as a `grid-factors` file."""

from __future__ import annotations

from datetime import datetime

from ingest.sample.completions import ZONES


def factors_csv(now: datetime) -> str:
    """One row per zone, valid for the year of `now`."""
    lines = ["zone,year,basis,signal,intensity_g_per_kwh,source"]
    lines += [f"{zone},{now.year},lifecycle,average,{value},sample" for zone, value in ZONES.items()]
    return "\n".join(lines) + "\n"
