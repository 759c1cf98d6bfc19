"""Tail latency: order-statistic intervals of a quantile, and the paired difference or ratio of two quantiles.

Infinity is the latency of a request that never answered. An SLO is better proved as a proportion
(`policies.proof.rates.over_slo`): exact, and readable.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy import stats

from policies.proof.checked import Floats, Interval, probability, same_length, vector
from policies.proof.errors import ValuesInvalid
from policies.proof.ratios import RESAMPLES, cluster_index, percentile

ASKED_N = 1_000  # requests that a statement about P95 should rest on
_BLOCK = 4_000_000  # resampled values held at once


def quantile(values: npt.ArrayLike, q: float) -> float:
    """The smallest value that a share `q` of `values` does not exceed (an observed one, no interpolation)."""
    return float(np.quantile(vector(values, "values", endless=True), probability(q, "q"), method="inverted_cdf"))


def quantile_interval(values: npt.ArrayLike, q: float = 0.95, confidence: float = 0.95) -> Interval:
    """Distribution-free interval of the `q` quantile of one arm, from its order statistics.

    `scipy.stats.quantile_test` (Conover 1999, section 3.2): the ends are observed values; -inf or inf where n is
    too small for that end to exist (see `minimum_n`).
    """
    array = vector(values, "values", endless=True)
    probability(q, "q")
    found = stats.quantile_test(array, p=q).confidence_interval(probability(confidence))
    low, high = float(found.low), float(found.high)
    return (-math.inf if math.isnan(low) else low), (math.inf if math.isnan(high) else high)


def minimum_n(q: float, confidence: float = 0.95, *, two_sided: bool = False) -> int:
    """The least n at which an upper bound of the `q` quantile exists: q^n <= alpha. P95: 59, two-sided 72; P99: 299."""
    alpha = (1 - probability(confidence)) / (2 if two_sided else 1)
    return math.ceil(math.log(alpha) / math.log(probability(q, "q")) - 1e-9)


def quantile_contrast(
    x1: npt.ArrayLike,
    x0: npt.ArrayLike,
    q: float = 0.95,
    confidence: float = 0.95,
    *,
    relative: bool = False,
    paired: bool = True,
    clusters: npt.ArrayLike | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval:
    """Percentile bootstrap of quantile(x1) - quantile(x0), or of their ratio where `relative`.

    Pairs (or their clusters) are resampled together where `paired`, else each sample by itself. The percentile
    method and not BCa: the acceleration of a quantile is not estimated reliably. Needs `minimum_n(q, two_sided=True)`
    values on each side to mean anything; below it the whole line is given. Raises ValuesInvalid, NoData, LengthsDiffer.
    """
    a, b = vector(x1, "x1", endless=True), vector(x0, "x0", endless=True)
    if paired:
        same_length(x1=a, x0=b)
    if resamples < 1:
        raise ValuesInvalid(f"resamples is {resamples}.", fix="give at least 1, better 2,000")
    if min(a.size, b.size) < minimum_n(q, confidence, two_sided=True):
        return (0.0 if relative else -math.inf), math.inf
    if clusters is not None and paired:
        one, zero = _by_cluster(a, b, q, clusters, resamples, seed)
    else:
        one, zero = _resampled(a, b, q, paired=paired, resamples=resamples, seed=seed)
    with np.errstate(divide="ignore", invalid="ignore"):  # 0/0 and inf - inf bound nothing
        draws = one / zero if relative else one - zero
    return percentile(draws, confidence)


def _resampled(a: Floats, b: Floats, q: float, *, paired: bool, resamples: int, seed: int) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    one, zero = np.empty(resamples), np.empty(resamples)
    step = max(_BLOCK // max(a.size, b.size), 1)
    for start in range(0, resamples, step):
        rows = min(step, resamples - start)
        draw = rng.integers(0, a.size, (rows, a.size))
        other = draw if paired else rng.integers(0, b.size, (rows, b.size))
        one[start : start + rows] = _row_quantile(a[draw], q)
        zero[start : start + rows] = _row_quantile(b[other], q)
    return one, zero


def _by_cluster(
    a: Floats, b: Floats, q: float, clusters: npt.ArrayLike, resamples: int, seed: int
) -> tuple[Floats, Floats]:
    """Whole clusters drawn with replacement: each row counts as often as its cluster."""
    index, groups = cluster_index(clusters, a.size)
    rng = np.random.default_rng(seed)
    out = np.empty((2, resamples))
    orders = [np.argsort(x, kind="stable") for x in (a, b)]
    step = max(_BLOCK // a.size, 1)
    for start in range(0, resamples, step):
        rows = min(step, resamples - start)
        times = rng.multinomial(groups, np.full(groups, 1 / groups), size=rows)[:, index]
        for k, (x, order) in enumerate(zip((a, b), orders, strict=True)):
            passed = np.cumsum(times[:, order], axis=1)
            rank = (passed >= q * passed[:, -1:] - 1e-9).argmax(axis=1)
            out[k, start : start + rows] = x[order][rank]
    return out[0], out[1]


def _row_quantile(rows: Floats, q: float) -> Floats:
    rank = max(math.ceil(q * rows.shape[1] - 1e-9) - 1, 0)
    return np.asarray(np.partition(rows, rank, axis=1)[:, rank])
