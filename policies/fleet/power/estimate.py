"""One estimate of a quantity by concurrency, in any form, and how well it answers for a concurrency it never saw.

`levels`: windows whose concurrency lies within 10 % of each other are of one level, because telemetry never repeats a
mean exactly. A table has one point per level, and so do the folds of the hold-out: one level at a time is left out,
the form is fitted to the rest, and the left-out windows are predicted. Levels at the two ends can only be
extrapolated to, which the product refuses, so they are a figure of their own (`edge_error`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from policies.fleet.errors import CalibrationFailed
from policies.fleet.power.curves import CURVES, POWER, TABLE, Array
from policies.fleet.power.fit import Fit, fit, quantile

LEVEL_GAP = 1.10


def levels(concurrency: Array) -> NDArray[np.int64]:
    """The level of each window, 0 the lowest."""
    order = np.argsort(concurrency, kind="stable")
    found = np.zeros(len(concurrency), dtype=np.int64)
    level, first = -1, -math.inf
    for i in order:
        if concurrency[i] > first * LEVEL_GAP or level < 0:
            level, first = level + 1, float(concurrency[i])
        found[i] = level
    return found


@dataclass(frozen=True)
class TableFit:
    """Weighted means by level. Power is linear in log2(concurrency) between them; log2(tokens/s) likewise.

    `spread`: root mean square of the relative errors when each inner level is interpolated from its neighbours;
    with the scatter within a level it stands for the error of a prediction between the points.
    """

    quantity: str
    knots: Array
    values: Array
    spread: float
    degrees_of_freedom: int
    residuals: Array = field(default_factory=lambda: np.empty(0))
    at_bound: tuple[str, ...] = ()

    def value(self, x: Array) -> Array:
        return _between(self.quantity, self.knots, self.values, x[:, 0])

    def half_width(self, x: Array, u: float = 1.0) -> Array:
        """Half of the 95 % interval of one new window; NaN where fewer than two levels could be checked."""
        if self.degrees_of_freedom < 1:
            return np.full(len(x), np.nan)
        return quantile(self.degrees_of_freedom) * self.spread * u * self.value(x)


Estimate = Fit | TableFit


def estimate(quantity: str, form: str, x: Array, y: Array, u: Array) -> Estimate:
    """`y` (n,) > 0 by `x` (n, 2: concurrency, context ratio) with relative uncertainties `u` up to a factor.

    Raises CalibrationFailed where fewer levels than parameters are there, or the fit does not converge.
    """
    level = levels(x[:, 0])
    if form == TABLE:
        return _table(quantity, x[:, 0], y, u, level)
    curve = CURVES[quantity, form]
    if level.max() + 1 < len(curve.names):
        raise CalibrationFailed(
            f"{level.max() + 1} levels of concurrency do not determine the {len(curve.names)} parameters of the "
            f"{form} form.",
            fix="measure more concurrencies, or take the table form",
        )
    return fit(curve, x, y, u)


def _table(quantity: str, n: Array, y: Array, u: Array, level: NDArray[np.int64]) -> TableFit:
    count = int(level.max()) + 1
    w = u**-2
    knots = np.array([np.average(n[level == i], weights=w[level == i]) for i in range(count)])
    values = np.array([np.average(y[level == i], weights=w[level == i]) for i in range(count)])
    residuals = (y - values[level]) / y
    within = len(y) - count
    inner = [
        _between(quantity, np.delete(knots, i), np.delete(values, i), knots[i : i + 1])[0] / values[i] - 1
        for i in range(1, count - 1)
    ]
    between = float(np.mean(np.square(inner))) if inner else math.nan
    scatter = float(np.sum(residuals**2)) / within if within > 0 else 0.0
    return TableFit(quantity, knots, values, math.sqrt(between + scatter), len(inner), residuals)


def _between(quantity: str, knots: Array, values: Array, n: Array) -> Array:
    at, by = np.log2(n), np.log2(knots)
    if quantity == POWER:
        return np.interp(at, by, values)
    out: Array = 2 ** np.interp(at, by, np.log2(values))
    return out


@dataclass(frozen=True)
class HeldOut:
    """One window predicted by a fit that saw no window of its level."""

    index: int  # of the window
    predicted: float
    half_width: float  # of the 95 % prediction interval; NaN: there was none
    error_relative: float  # (predicted - observed) / observed
    covered: bool | None
    inner: bool  # between levels that the fit saw


@dataclass(frozen=True)
class HoldOut:
    """Leave-one-concurrency-out. Errors are means of absolute relative errors; None: nothing could be predicted."""

    windows: tuple[HeldOut, ...]
    levels: int
    failed: int  # levels whose fold could not be fitted

    @property
    def error(self) -> float | None:
        return _mean([abs(w.error_relative) for w in self.windows if w.inner])

    @property
    def edge_error(self) -> float | None:
        return _mean([abs(w.error_relative) for w in self.windows if not w.inner])

    @property
    def coverage(self) -> float | None:
        return _mean([float(w.covered) for w in self.windows if w.inner and w.covered is not None])

    @property
    def n(self) -> int:
        """Windows behind `error`."""
        return sum(w.inner for w in self.windows)


def hold_out(quantity: str, form: str, x: Array, y: Array, u: Array) -> HoldOut:
    """Every level left out once. A table says nothing about its ends; the other forms extrapolate there."""
    level = levels(x[:, 0])
    count = int(level.max()) + 1
    found: list[HeldOut] = []
    failed = 0
    for i in range(count):
        out, inner = level == i, 0 < i < count - 1
        if form == TABLE and not inner:
            continue
        try:
            fold = estimate(quantity, form, x[~out], y[~out], u[~out])
        except CalibrationFailed:
            failed += 1
            continue
        predicted, half = fold.value(x[out]), fold.half_width(x[out])
        for at, value, width in zip(np.flatnonzero(out), predicted, half, strict=True):
            covered = None if math.isnan(width) else bool(abs(value - y[at]) <= width)
            found.append(HeldOut(int(at), float(value), float(width), float(value / y[at] - 1), covered, inner))
    return HoldOut(tuple(found), count, failed)


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None
