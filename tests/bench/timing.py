"""Timing that survives a noisy machine: runs alternate, and the median of each side is compared."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any


def seconds(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def alternate(subject: Callable[[], Any], floor: Callable[[], Any], repeats: int) -> tuple[float, float]:
    """Median seconds of `subject` and of `floor`, run in turns after one warm-up of each."""
    subject()
    floor()
    pairs = [(seconds(subject), seconds(floor)) for _ in range(repeats)]
    return statistics.median(p[0] for p in pairs), statistics.median(p[1] for p in pairs)


def rounded(figures: dict[str, Any], digits: int = 4) -> dict[str, Any]:
    return {k: round(v, digits) if isinstance(v, float) else v for k, v in figures.items()}
