"""Tail latency: order-statistic intervals of a quantile, and the paired difference or ratio of two quantiles.

Infinity is the latency of a request that never answered. An SLO is better proved as a proportion
(`policies.proof.rates.over_slo`): exact, and readable.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from policies.kernels import jit
from policies.proof.checked import Floats, Interval, probability, same_length, vector
from policies.proof.errors import ValuesInvalid
from policies.proof.ratios import RESAMPLES, cluster_index, percentile, uniform

Index = npt.NDArray[np.int64]

ASKED_N = 1_000  # requests that a statement about P95 should rest on


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
    from scipy import stats  # half a second: not at every start

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
    groups = np.arange(a.size) if clusters is None or not paired else cluster_index(clusters, a.size)[0]
    one = _resampled(a, groups, q, resamples, seed)
    zero = (
        _resampled(b, groups, q, resamples, seed) if paired else _resampled(b, np.arange(b.size), q, resamples, ~seed)
    )
    with np.errstate(divide="ignore", invalid="ignore"):  # 0/0 and inf - inf bound nothing
        draws = one / zero if relative else one - zero
    return percentile(draws, confidence)


def _resampled(values: Floats, groups: Index, q: float, resamples: int, seed: int) -> Floats:
    """The quantile of each resample of groups (n,), numbered from 0; the same seed and groups draw the same ones."""
    order = np.argsort(values, kind="stable")
    sizes = np.bincount(groups)
    return _quantiles(values[order], groups[order], sizes, q, int(resamples), np.uint64(seed % (1 << 64)))


@jit
def _quantiles(
    values: Floats,
    groups: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
    q: float,
    resamples: int,
    seed: np.uint64,
) -> Floats:
    """values ascending, with their groups: groups are drawn, then the sorted values are walked from the top."""
    state = seed
    out = np.empty(resamples)
    times = np.empty(sizes.size, dtype=np.int64)
    for r in range(resamples):
        times[:] = 0
        total = 0
        for _ in range(sizes.size):
            state, u = uniform(state)
            drawn = min(int(u * sizes.size), sizes.size - 1)
            times[drawn] += 1
            total += sizes[drawn]
        above = total - int(np.ceil(q * total - 1e-9))  # how many values lie beyond the quantile
        i = values.size - 1
        above -= times[groups[i]]
        while above >= 0 and i > 0:
            i -= 1
            above -= times[groups[i]]
        out[r] = values[i]
    return out
