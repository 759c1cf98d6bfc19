"""Curves that a calibration can fit: value and derivative by parameter, bounds, and where a fit starts.

`x` is (n, 2): concurrency, and the windows' context over the context of the calibration (1 where no context is told).

    power, W of one board
        logistic_log2   board_idle + (board_nominal - board_idle) s,  s = 1 / (1 + exp(-k (log2 b - x0)))
        linear          board_idle + board_per_request b
    throughput, output tokens per second of the instance
        logistic_log2   the same shape (arXiv 2602.05116 fits power, latency and throughput so)
        linear          1000 b / (W + H r b): an iteration of W + H r b ms gives each of b requests one token
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

POWER, THROUGHPUT = "power", "throughput"
QUANTITIES = (POWER, THROUGHPUT)
UNITS = {POWER: "W per board", THROUGHPUT: "output tokens per s per instance"}


@dataclass(frozen=True)
class Curve:
    """One form of one quantity. `names` carry units; `bounds` are physical, not a guess at the answer."""

    quantity: str
    form: str
    names: tuple[str, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    value: Callable[[Array, Array], Array]  # (parameters, x) -> (n,)
    jacobian: Callable[[Array, Array], Array]  # (parameters, x) -> (n, parameters)
    start: Callable[[Array, Array, Array], Array]  # (x, y, weights) -> parameters


def _sigmoid(p: Array, x: Array) -> Array:
    z = np.clip(p[2] * (np.log2(x[:, 0]) - p[3]), -500, 500)
    out: Array = 1.0 / (1.0 + np.exp(-z))
    return out


def _logistic(p: Array, x: Array) -> Array:
    """`p`: low, rise, k, x0. The rise is fitted instead of the upper asymptote, so that it cannot fall below."""
    out: Array = p[0] + p[1] * _sigmoid(p, x)
    return out


def _logistic_jacobian(p: Array, x: Array) -> Array:
    s = _sigmoid(p, x)
    slope = p[1] * s * (1 - s)
    return np.column_stack([np.ones_like(s), s, slope * (np.log2(x[:, 0]) - p[3]), -slope * p[2]])


_STEEP = np.array([0.3, 0.5, 0.75, 1.0, 1.5, 2.5])


def _logistic_start(x: Array, y: Array, w: Array) -> Array:
    """The best of a grid over (k, x0): given these two, the other two are a weighted straight line."""
    octave = np.log2(x[:, 0])
    best, start = np.inf, np.array([float(y.min()), float(np.ptp(y)), 1.0, float(octave.mean())])
    for x0 in np.linspace(octave.min() - 2, octave.max() + 2, 13):
        for k in _STEEP:
            s = 1.0 / (1.0 + np.exp(-k * (octave - x0)))
            low, rise = _line(s, y, w)
            low, rise = max(low, 0.0), max(rise, 1e-6 * float(y.max()))
            loss = float(np.sum((w * (low + rise * s - y)) ** 2))
            if loss < best:
                best, start = loss, np.array([low, rise, k, x0])
    return start


def _line(s: Array, y: Array, w: Array) -> tuple[float, float]:
    """Weighted least squares y = a + b s."""
    v = w * w
    ms, my = float(np.average(s, weights=v)), float(np.average(y, weights=v))
    spread = float(np.sum(v * (s - ms) ** 2))
    slope = float(np.sum(v * (s - ms) * (y - my))) / spread if spread > 0 else 0.0
    return my - slope * ms, slope


def _linear(p: Array, x: Array) -> Array:
    out: Array = p[0] + p[1] * x[:, 0]
    return out


def _linear_jacobian(p: Array, x: Array) -> Array:
    return np.column_stack([np.ones(len(x)), x[:, 0]])


def _linear_start(x: Array, y: Array, w: Array) -> Array:
    low, slope = _line(x[:, 0], y, w)
    return np.array([max(low, 0.0), max(slope, 0.0)])


def _iteration(p: Array, x: Array) -> Array:
    out: Array = 1000.0 * x[:, 0] / (p[0] + p[1] * x[:, 1] * x[:, 0])
    return out


def _iteration_jacobian(p: Array, x: Array) -> Array:
    ms = p[0] + p[1] * x[:, 1] * x[:, 0]
    per_ms = -1000.0 * x[:, 0] / ms**2
    return np.column_stack([per_ms, per_ms * x[:, 1] * x[:, 0]])


def _iteration_start(x: Array, y: Array, w: Array) -> Array:
    ms = 1000.0 * x[:, 0] / y
    base, slope = _line(x[:, 0] * x[:, 1], ms, 1.0 / ms)
    return np.array([max(base, 1e-3 * float(ms.min())), max(slope, 0.0)])


_LOGISTIC_LOW, _LOGISTIC_HIGH = (0.0, 0.0, 0.05, -8.0), (np.inf, np.inf, 10.0, 24.0)
_POWER_LOGISTIC = ("board_idle_w", "board_rise_w", "k", "x0")
_TOKENS_LOGISTIC = ("low_tokens_per_s", "rise_tokens_per_s", "k", "x0")
_NO_BOUND = (np.inf, np.inf)

_LOGISTICS = (_LOGISTIC_LOW, _LOGISTIC_HIGH, _logistic, _logistic_jacobian, _logistic_start)
_LINES = ((0.0, 0.0), _NO_BOUND, _linear, _linear_jacobian, _linear_start)
_ITERATIONS = ((1e-6, 0.0), _NO_BOUND, _iteration, _iteration_jacobian, _iteration_start)

CURVES: Mapping[tuple[str, str], Curve] = {
    (curve.quantity, curve.form): curve
    for curve in (
        Curve(POWER, "logistic_log2", _POWER_LOGISTIC, *_LOGISTICS),
        Curve(POWER, "linear", ("board_idle_w", "board_w_per_request"), *_LINES),
        Curve(THROUGHPUT, "logistic_log2", _TOKENS_LOGISTIC, *_LOGISTICS),
        Curve(THROUGHPUT, "linear", ("W_ms", "H_ms_per_seq"), *_ITERATIONS),
    )
}
TABLE = "table"
FORMS = ("logistic_log2", "linear", TABLE)
