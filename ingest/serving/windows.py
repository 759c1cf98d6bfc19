"""What an engine did between two scrapes: counter differences and percentile intervals -> core.serving_window.

Counters only grow until their process restarts. A window is unknown (NULL with a `gap_reason`), never negative
and never guessed, where there is no earlier scrape or where anything says restart: a counter or a bucket
that fell, another creation time, other buckets, another runtime. So within one life of a process the differences add
up to its last minus its first count, and across a restart nothing is invented.

A percentile from buckets is an interval. With n observations in the window, the p-th percentile is the
k-th smallest, k = ceil(p n / 100) (the inverse of the empirical distribution). It lies in the first bucket whose
cumulative count reaches k: low < q <= high, because a bucket `le` includes its bound. In the last bucket there is
no upper bound: high is NULL. An interpolated value inside the bucket would be a guess.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

from warehouse.evidence import EvidenceClass

FIRST_SCRAPE = "first_scrape"
COUNTER_RESET = "counter_reset"
COUNTERS = (
    "prompt_tokens",
    "output_tokens",
    "cached_prompt_tokens",
    "successes",
    "aborts",
    "preemptions",
)
PERCENTILES: Mapping[str, tuple[int, ...]] = {"ttft": (50, 95, 99), "tpot": (95,), "e2e": (50, 95, 99), "queue": (95,)}
_GAUGES = ("running_requests", "waiting_requests", "kv_cache_utilization")
_SAME_CREATION_S = 0.001

Histogram = tuple[str, Sequence[float], Sequence[int]]  # metric, finite upper bounds, cumulative counts with +Inf


@dataclass(frozen=True)
class Scrape:
    """One row of core.serving_scrape."""

    backend_id: str
    engine: str
    model: str
    scraped_at: datetime
    runtime: str
    gauges: Mapping[str, float | None]
    counters: Mapping[str, tuple[str, int]]
    histograms: Mapping[str, Histogram]
    created: Mapping[str, float]

    @property
    def key(self) -> tuple[str, str, str]:
        return self.backend_id, self.engine, self.model

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Scrape:
        told = json.loads(row["counters"])
        return cls(
            row["backend_id"],
            row["engine"],
            row["model"],
            row["scraped_at"],
            row["runtime"],
            {g: row[g] for g in _GAUGES},
            {c: (name, value) for c, (name, value) in told.get("counters", {}).items()},
            {c: (name, bounds, counts) for c, (name, bounds, counts) in told.get("histograms", {}).items()},
            told.get("created", {}),
        )


def windows(scrapes: Iterable[Scrape]) -> list[dict[str, Any]]:
    """A window for each scrape, from the one before it of the same engine and model. Order does not matter."""
    found: list[dict[str, Any]] = []
    before: Scrape | None = None
    for now in sorted(scrapes, key=lambda s: (*s.key, s.scraped_at)):
        found.append(window(before if before is not None and before.key == now.key else None, now))
        before = now
    return found


def window(before: Scrape | None, now: Scrape) -> dict[str, Any]:
    """One row of core.serving_window: what happened in [before, now)."""
    row: dict[str, Any] = {
        "backend_id": now.backend_id,
        "engine": now.engine,
        "model": now.model,
        "window_start_at": now.scraped_at if before is None else before.scraped_at,
        "window_end_at": now.scraped_at,
        "runtime": now.runtime,
        **now.gauges,
        "gap_reason": None,
        "evidence_class": EvidenceClass.MEASURED.value,  # the engine counts its own requests
    }
    if before is None:
        return {**row, "gap_reason": FIRST_SCRAPE}
    if restarted(before, now):
        return {**row, "gap_reason": COUNTER_RESET}
    for column in COUNTERS:
        row[column] = _grown(before.counters.get(column), now.counters.get(column))
    for quantity, percents in PERCENTILES.items():
        counts = _observed(before.histograms.get(quantity), now.histograms.get(quantity))
        for percent in percents:
            bounds = None if counts is None else percentile_interval(now.histograms[quantity][1], counts, percent)
            row[f"{quantity}_p{percent}_low_s"], row[f"{quantity}_p{percent}_high_s"] = bounds or (None, None)
    return row


def restarted(before: Scrape, now: Scrape) -> bool:
    """Whether anything says that the process behind `now` is not the one behind `before`."""
    if before.runtime != now.runtime:
        return True
    for name, at in now.created.items():
        if name in before.created and abs(at - before.created[name]) > _SAME_CREATION_S:
            return True
    for column, (name, value) in now.counters.items():
        was = before.counters.get(column)
        if was is not None and was[0] == name and value < was[1]:
            return True
    for column, (name, bounds, counts) in now.histograms.items():
        then = before.histograms.get(column)
        if then is None or then[0] != name:
            continue
        if list(then[1]) != list(bounds) or any(a < 0 for a in per_bucket(then[2], counts)):
            return True
    return False


def per_bucket(before: Sequence[int], now: Sequence[int]) -> list[int]:
    """Observations of each bucket between two cumulative counts; negative where one fell."""
    grown = [b - a for a, b in zip(before, now, strict=True)]
    return [grown[0], *(b - a for a, b in pairwise(grown))]


def percentile_interval(
    bounds: Sequence[float], counts: Sequence[int], percent: int
) -> tuple[float, float | None] | None:
    """(low, high) of a percentile, low < q <= high; high None: no bound; None: no observation.

    bounds: finite upper bounds, s, ascending · counts: observations per bucket, one more than bounds. Latencies
    are not negative, so the first bucket begins at 0 (and a bucket of 0 is [0, 0]).
    """
    total = sum(counts)
    if not total:
        return None
    wanted = -(-percent * total // 100)  # ceil, in whole numbers
    reached = 0
    for at, count in enumerate(counts):
        reached += count
        if reached >= wanted:
            low = max(0.0, bounds[at - 1]) if at else 0.0
            return low, (max(0.0, bounds[at]) if at < len(bounds) else None)
    raise AssertionError("the counts of all buckets reach their own total")


def _grown(before: tuple[str, int] | None, now: tuple[str, int] | None) -> int | None:
    """Unknown where either side is, and where the column is told by another metric than before."""
    if before is None or now is None or before[0] != now[0]:
        return None
    return now[1] - before[1]


def _observed(before: Histogram | None, now: Histogram | None) -> list[int] | None:
    if before is None or now is None or before[0] != now[0]:
        return None
    return per_bucket(before[2], now[2])
