"""Ratios of totals beyond the plain delta method: clusters, independent samples, bootstraps, few successes.

The estimand is always R1/R0 with R = sum(amount) / sum(successes) over all attempts; the amount may be joules,
dollars or grams.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from policies.kernels import inline, jit
from policies.proof.checked import Floats, Interval, probability, same_length, t_two_sided, vector
from policies.proof.errors import ValuesInvalid
from policies.proof.intervals import arm_log, exp, fieller_limits, log_ratio

UNBOUNDED: Interval = (0.0, math.inf)
RESAMPLES = 2_000


def cluster_index(clusters: npt.ArrayLike, n: int) -> tuple[npt.NDArray[np.int64], int]:
    """(number of the cluster of each request (n,), how many clusters). Raises LengthsDiffer."""
    labels = np.asarray(clusters)
    same_length(requests=np.empty(n), clusters=labels)
    names, index = np.unique(labels, return_inverse=True)
    return index.astype(np.int64), len(names)


def cluster_sums(values: Floats, index: npt.NDArray[np.int64], count: int) -> Floats:
    """Sums per cluster, (count,)."""
    return np.asarray(np.bincount(index, weights=values, minlength=count), dtype=np.float64)


def ratio_clustered(
    e1: npt.ArrayLike,
    s1: npt.ArrayLike,
    e0: npt.ArrayLike,
    s0: npt.ArrayLike,
    clusters: npt.ArrayLike,
    confidence: float = 0.95,
) -> Interval:
    """`ratio_delta` where requests of one cluster (a tenant, a session) are not independent.

    The influence values are summed per cluster; se^2 = G/(G-1) sum(sums^2) / n^2 with G clusters, Student's t with
    G - 1 degrees of freedom (Liang and Zeger 1986). (0, inf) for one cluster. Raises as `ratio_delta`.
    """
    probability(confidence)
    found = log_ratio(e1, s1, e0, s0)
    index, groups = cluster_index(clusters, len(np.asarray(e1)))
    if found is None or groups < 2:
        return UNBOUNDED
    centre, psi = found
    se = clustered_se(psi, index, groups)
    half = t_two_sided(confidence, groups - 1) * se
    return exp(centre - half), exp(centre + half)


def clustered_se(psi: Floats, index: npt.NDArray[np.int64], groups: int) -> float:
    """Standard error of the mean of `psi` (n,) from its sums per cluster."""
    sums = cluster_sums(psi - psi.mean(), index, groups)
    return math.sqrt(groups / (groups - 1) * float(sums @ sums)) / psi.size


def design_effect(psi: Floats, clusters: npt.ArrayLike) -> float:
    """Variance of the mean of `psi` by clusters over its plain variance, at least 1; n per cluster without spread."""
    index, groups = cluster_index(clusters, psi.size)
    plain = float(psi.var(ddof=1)) / psi.size if psi.size > 1 else 0.0
    if groups < 2:
        return float(psi.size)
    if plain == 0:
        return psi.size / groups
    return min(max(clustered_se(psi, index, groups) ** 2 / plain, 1.0), float(psi.size))


def ratio_independent(
    e1: npt.ArrayLike, s1: npt.ArrayLike, e0: npt.ArrayLike, s0: npt.ArrayLike, confidence: float = 0.95
) -> Interval:
    """R1/R0 of two independent samples, e1, s1 (n1,) and e0, s0 (n0,): delta on the logarithm, Welch's t.

    Degrees of freedom after Welch and Satterthwaite. (0, inf) where either side cannot tell its error.
    """
    probability(confidence)
    (a1, b1), (a0, b0) = _arm(e1, s1, "1"), _arm(e0, s0, "0")
    one, zero = arm_log(a1, b1), arm_log(a0, b0)
    if one is None or zero is None:
        return UNBOUNDED
    (log1, psi1), (log0, psi0) = one, zero
    v1, v0 = (float(psi.var(ddof=1)) / psi.size for psi in (psi1, psi0))
    if v1 + v0 == 0:
        return exp(log1 - log0), exp(log1 - log0)
    df = (v1 + v0) ** 2 / (v1**2 / (psi1.size - 1) + v0**2 / (psi0.size - 1))
    half = t_two_sided(confidence, max(int(df), 1)) * math.sqrt(v1 + v0)
    return exp(log1 - log0 - half), exp(log1 - log0 + half)


def ratio_fieller(
    e1: npt.ArrayLike,
    s1: npt.ArrayLike,
    e0: npt.ArrayLike,
    s0: npt.ArrayLike,
    confidence: float = 0.95,
    *,
    paired: bool = True,
) -> Interval:
    """R1/R0 without the logarithm, for few successes: Fieller's set for (E1 S0) / (E0 S1), means of the four columns.

    The products are linearised, their quotient is not, so that a denominator which may be 0 shows: (low, inf) then.
    paired: the rows of both arms belong to the same requests. (0, inf) for one request or a total of 0.
    """
    probability(confidence)
    (a1, b1), (a0, b0) = _arm(e1, s1, "1"), _arm(e0, s0, "0")
    if paired:
        same_length(e1=a1, e0=a0)
    if min(a1.size, a0.size) < 2 or not (a1.sum() and b1.sum() and a0.sum() and b0.sum()):
        return UNBOUNDED
    # in units of each mean both products are 1, and their influence values are sums of relative columns
    x1, y1, x0, y0 = a1 / a1.mean(), b1 / b1.mean(), a0 / a0.mean(), b0 / b0.mean()
    if paired:
        cov = np.cov(x1 + y0, x0 + y1) / a1.size
    else:
        own, other = np.cov(x1, y1) / a1.size, np.cov(x0, y0) / a0.size
        shared = own[0, 1] + other[0, 1]
        cov = np.array([[own[0, 0] + other[1, 1], shared], [shared, other[0, 0] + own[1, 1]]])
    low, high = fieller_limits(1.0, 1.0, cov, t_two_sided(confidence, min(a1.size, a0.size) - 1) ** 2)
    scale = (a1.mean() / b1.mean()) / (a0.mean() / b0.mean())
    return low * float(scale), high * float(scale)


def _arm(energy: npt.ArrayLike, success: npt.ArrayLike, which: str) -> tuple[Floats, Floats]:
    e, s = vector(energy, f"e{which}"), vector(success, f"s{which}")
    same_length(**{f"e{which}": e, f"s{which}": s})
    return e, s


def ratio_bootstrap(
    e1: npt.ArrayLike,
    s1: npt.ArrayLike,
    e0: npt.ArrayLike,
    s0: npt.ArrayLike,
    confidence: float = 0.95,
    *,
    clusters: npt.ArrayLike | None = None,
    paired: bool = True,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval:
    """Percentile interval of R1/R0 over resampled pairs, or over resampled clusters: the check of the delta method.

    Deterministic for a seed; each arm is resampled by itself where not `paired`. (0, inf) where a resample has no
    success or no energy on a side too often to bound.
    """
    if paired:
        return percentile(ratio_draws(e1, s1, e0, s0, clusters=clusters, resamples=resamples, seed=seed), confidence)
    one, zero = (
        resampled_sums(np.column_stack(_arm(e, s, which)), resamples, seed + step)
        for e, s, which, step in ((e1, s1, "1", 0), (e0, s0, "0", 1 << 32))
    )
    return percentile(quotients(np.hstack([one, zero])), confidence)


def ratio_draws(
    e1: npt.ArrayLike,
    s1: npt.ArrayLike,
    e0: npt.ArrayLike,
    s0: npt.ArrayLike,
    *,
    clusters: npt.ArrayLike | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Floats:
    """R1/R0 of each resample, (resamples,); 0 or inf where a total is 0, NaN where nothing can be said."""
    rows = np.column_stack([vector(e1, "e1"), vector(s1, "s1"), vector(e0, "e0"), vector(s0, "s0")])
    if clusters is not None:
        index, groups = cluster_index(clusters, len(rows))
        rows = np.column_stack([cluster_sums(column, index, groups) for column in rows.T])
    return quotients(resampled_sums(rows, resamples, seed))


def quotients(sums: Floats) -> Floats:
    """R1/R0 of each row of (rows, 4) sums or means of e1, s1, e0, s0; NaN where nothing can be said."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray((sums[:, 0] * sums[:, 3]) / (sums[:, 1] * sums[:, 2]))


def percentile(draws: Floats, confidence: float) -> Interval:
    """The middle `confidence` of `draws`; an undefined draw counts as both 0 and infinity, so nothing is hidden."""
    tail = (1 - probability(confidence)) / 2
    low = np.quantile(np.nan_to_num(draws, nan=0.0, posinf=np.inf), tail, method="inverted_cdf")
    high = np.quantile(np.nan_to_num(draws, nan=np.inf, posinf=np.inf), 1 - tail, method="inverted_cdf")
    return float(low), float(high)


def resampled_sums(rows: Floats, resamples: int, seed: int) -> Floats:
    """Column sums of `resamples` draws with replacement of the rows (n, k): (resamples, k)."""
    if resamples < 1:
        raise ValuesInvalid(f"resamples is {resamples}.", fix="give at least 1, better 2,000")
    return _sums(np.ascontiguousarray(rows, dtype=np.float64), int(resamples), np.uint64(seed % (1 << 64)))


@inline
def uniform(state: np.uint64) -> tuple[np.uint64, float]:
    """(next state, a draw from [0, 1)): SplitMix64 (Steele et al. 2014), the same bits on every machine."""
    state = state + np.uint64(0x9E3779B97F4A7C15)
    x = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x = x ^ (x >> np.uint64(31))
    return state, float(x >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@jit
def _sums(rows: Floats, resamples: int, seed: np.uint64) -> Floats:
    n, k = rows.shape
    state = seed
    out = np.zeros((resamples, k))
    for r in range(resamples):
        for _ in range(n):
            state, u = uniform(state)
            i = min(int(u * n), n - 1)  # u n may round up to n
            for j in range(k):
                out[r, j] += rows[i, j]
    return out
