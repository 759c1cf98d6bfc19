"""Latency quantiles: exact from all values, or from a sketch of fixed size where the values do not fit in memory.

A quantile is the smallest latency at or below which the asked share of the calls (or of the probability) lies.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np

from policies.replay.table import Floats

RELATIVE_ERROR = 0.005  # of the sketch
_GAMMA = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR)
_FLOOR_S = 1e-6  # all that is faster counts as this
_BINS = math.ceil(math.log(1e7 / _FLOOR_S, _GAMMA)) + 2


class Latencies(Protocol):
    """Collects latencies (s) with weights."""

    def add(self, values: Floats, weights: Floats) -> None: ...

    def merge(self, other: Any) -> None: ...

    def quantile(self, share: float) -> float | None: ...


class Exact:
    """Keeps every value."""

    def __init__(self) -> None:
        self.values: list[Floats] = []
        self.weights: list[Floats] = []

    def add(self, values: Floats, weights: Floats) -> None:
        self.values.append(values)
        self.weights.append(weights)

    def merge(self, other: Exact) -> None:
        self.values += other.values
        self.weights += other.weights

    def quantile(self, share: float) -> float | None:
        if not sum(map(len, self.values)):
            return None
        values, weights = np.concatenate(self.values), np.concatenate(self.weights)
        if weights.min() == weights.max():
            rank = max(math.ceil(share * len(values) - 1e-9), 1) - 1
            return float(np.partition(values, rank)[rank])
        order = np.argsort(values, kind="stable")
        reached = np.cumsum(weights[order])
        at = np.searchsorted(reached, share * reached[-1] * (1 - 1e-12))
        return float(values[order][min(int(at), len(values) - 1)])


class Sketch:
    """Counts in bins whose edges grow by 1 %: a quantile is off by at most RELATIVE_ERROR of itself."""

    def __init__(self) -> None:
        self.counts = np.zeros(_BINS)

    def add(self, values: Floats, weights: Floats) -> None:
        bins = np.ceil(np.log(np.maximum(values, _FLOOR_S) / _FLOOR_S) / math.log(_GAMMA)).astype(np.int64)
        self.counts += np.bincount(np.clip(bins, 0, _BINS - 1), weights=weights, minlength=_BINS)

    def merge(self, other: Sketch) -> None:
        self.counts += other.counts

    def quantile(self, share: float) -> float | None:
        reached = np.cumsum(self.counts)
        if not reached[-1]:
            return None
        at = int(np.searchsorted(reached, share * reached[-1] * (1 - 1e-12)))
        return float(_FLOOR_S * _GAMMA ** min(at, _BINS - 1) * 2 / (1 + _GAMMA))
