"""Alerts of the sources: data that is too old, rows that are suddenly refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

from policies.alerts import words
from policies.alerts.model import AlertKind, Condition, Severity, Thresholds

_BAD_SHARE = 0.5
Row = Mapping[str, Any]


def old(rows: Iterable[Row]) -> list[Condition]:
    """One condition per source that is stale (a warning) or expired (bad)."""
    found = []
    for row in rows:
        expired = row["status"] == "expired"
        limit_s = row["expire_after_s"] if expired else row["stale_after_s"]
        failed = row["last_state"] in ("FAILED", "ABORTED")
        found.append(
            Condition(
                AlertKind.SOURCE_STALE,
                row["source_id"],
                Severity.BAD if expired else Severity.WARNING,
                f"{row['source_id']} is {row['status']}: last refreshed {words.at(row['last_success_at'])}, limit "
                f"{words.span(limit_s)}",
                {
                    "after": row["status"],
                    "limit": words.span(limit_s),
                    "age_s": row["age_s"],
                    "last_success_at": row["last_success_at"],
                    "last_error": row["why"] if failed else None,
                    "fix": (row["last_fix"] if failed else "") or None,
                    "source_id": row["source_id"],
                    "evidence": "freshness",
                },
            )
        )
    return found


def quarantine_growth(rows: Iterable[Row], limits: Thresholds) -> list[Condition]:
    """One condition per source whose newest load had a larger share of rows refused than its loads before.

    Rows come newest first per source; the loads before (at most five) count together, none as a share of 0.
    """
    found = []
    for source, group in groupby(rows, key=lambda r: str(r["source_id"])):
        newest, *before = list(group)
        share = _share([newest])
        base = _share(before)
        if not newest["refused"] or share - base <= limits.quarantine_growth:
            continue
        found.append(
            Condition(
                AlertKind.QUARANTINE_GROWTH,
                source,
                Severity.BAD if share >= _BAD_SHARE else Severity.WARNING,
                f"{source}: {words.percent(share)} of the rows of the newest load went to quarantine, "
                f"{words.percent(base)} before",
                {
                    "before": base,
                    "after": share,
                    "limit": limits.quarantine_growth,
                    "rows_in": newest["rows_in"],
                    "rows_refused": newest["refused"],
                    "most_common_reason": newest["reason"],
                    "loads_before": len(before),
                    "since": newest["started_at"],
                    "source_id": source,
                    "evidence": "counted",
                },
                degree=(share - base) / limits.quarantine_growth if limits.quarantine_growth else None,
            )
        )
    return found


def _share(loads: list[Row]) -> float:
    came = sum(r["rows_in"] for r in loads)
    return min(1.0, sum(r["refused"] for r in loads) / came) if came else 0.0
