"""Figures at a reference mix beside the delta method: intervals that hold at every look, and the bootstrap.

A post-stratified mean is asymptotically the mean of its influence values, w_k n / n_k (x - mean_k) of a request of
stratum k, so the sequences of `policies.proof.sequences` hold for it with n times its variance in place of theirs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from policies.proof.checked import Floats, Interval, vector
from policies.proof.intervals import exp
from policies.proof.ratios import RESAMPLES, UNBOUNDED, cluster_index, percentile, quotients, resampled_sums
from policies.proof.sequences import FIRST_LOOK_N, half_width
from policies.proof.strata import Split, Standardised, ratio_columns


def difference_sequence_standardised(
    candidate: npt.ArrayLike,
    control: npt.ArrayLike,
    strata: Sequence[str],
    mix: Mapping[str, float],
    planned_n: int,
    confidence: float = 0.95,
    *,
    clusters: npt.ArrayLike | None = None,
) -> Standardised:
    """The interval of a paired difference of rates at the mix, valid whenever it is looked at.

    One discordant pair is added on each side of every stratum in the variance alone. (-1, 1) below `FIRST_LOOK_N`
    pairs within the mix, and where a stratum of it has none. Raises as `difference_standardised`.
    """
    one, zero = vector(candidate, "candidate"), vector(control, "control")
    split = Split.of([one, zero], strata, mix, renormalise=False)
    half_width(1, 0.0, planned_n, confidence)  # refuses a bad plan even before the first look
    if split.stopped or not split.rows:
        return split.told(None, (-1.0, 1.0))
    d = one - zero
    estimate = float(split.weights @ [d[rows].mean() for rows in split.rows])
    if split.n < FIRST_LOOK_N:
        return split.told(estimate, (-1.0, 1.0))
    variance = float(split.weights**2 @ [_variance(d[rows]) / rows.size for rows in split.rows])
    effect = 1.0 if clusters is None else split.design_effect(d, clusters)
    half = float(half_width(split.n, math.sqrt(split.n * variance * effect), planned_n, confidence))
    return split.told(estimate, (max(estimate - half, -1.0), min(estimate + half, 1.0)))


def log_ratio_sequence_standardised(
    e1: npt.ArrayLike,
    s1: npt.ArrayLike,
    e0: npt.ArrayLike,
    s0: npt.ArrayLike,
    strata: Sequence[str],
    mix: Mapping[str, float],
    planned_n: int,
    confidence: float = 0.95,
    *,
    clusters: npt.ArrayLike | None = None,
) -> Standardised:
    """The interval of R1/R0 at the mix, valid whenever it is looked at: the sequence of its influence values.

    (0, inf) below `FIRST_LOOK_N` pairs within the mix, with a stratum of one pair or none, and where the ratio is
    undefined. Raises as `ratio_standardised`.
    """
    columns = ratio_columns(e1, s1, e0, s0)
    split = Split.of(columns, strata, mix, renormalise=False)
    half_width(1, 0.0, planned_n, confidence)
    found = split.log_ratio(columns)
    if found is None:
        return split.told(None, UNBOUNDED)
    centre, (x1, y1, x0, y0) = found
    if split.n < FIRST_LOOK_N or split.thin:
        return split.told(exp(centre), UNBOUNDED)
    variance = split.variance((x1 - y1) - (x0 - y0), clusters)
    half = float(half_width(split.n, math.sqrt(split.n * variance), planned_n, confidence))
    return split.told(exp(centre), (exp(centre - half), exp(centre + half)))


def ratio_bootstrap_standardised(
    e1: npt.ArrayLike,
    s1: npt.ArrayLike,
    e0: npt.ArrayLike,
    s0: npt.ArrayLike,
    strata: Sequence[str],
    mix: Mapping[str, float],
    confidence: float = 0.95,
    *,
    clusters: npt.ArrayLike | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval:
    """Percentile interval of R1/R0 at the mix: the check of `ratio_standardised`.

    Pairs are drawn within their stratum, which keeps its size. Clusters are drawn whole, over all strata, because one
    may lie in several; a draw that leaves a stratum empty tells nothing, and too many of them open both ends. (0, inf)
    with a stratum of one pair or none.
    """
    columns = ratio_columns(e1, s1, e0, s0)
    split = Split.of(columns, strata, mix, renormalise=False)
    if split.log_ratio(columns) is None or split.thin:
        return UNBOUNDED
    values = np.column_stack(columns)
    if clusters is None:
        means = np.zeros((resamples, 4))
        for k, (weight, rows) in enumerate(zip(split.weights, split.rows, strict=True)):
            means += weight / rows.size * resampled_sums(values[rows], resamples, seed + (k << 32))
        return percentile(quotients(means), confidence)
    index, groups = cluster_index(clusters, len(values))
    counted = np.column_stack([values, np.ones(len(values))])
    sums = np.zeros((groups, len(split.rows), 5))
    for k, rows in enumerate(split.rows):
        np.add.at(sums[:, k], index[rows], counted[rows])
    drawn = resampled_sums(sums.reshape(groups, -1), resamples, seed).reshape(resamples, -1, 5)
    with np.errstate(invalid="ignore"):  # an empty stratum: 0 / 0
        means = np.einsum("k,rkm->rm", split.weights, drawn[:, :, :4] / drawn[:, :, 4:])
    return percentile(quotients(means), confidence)


def _variance(d: Floats) -> float:
    """Of the differences of a stratum and one discordant pair on each side."""
    n = d.size + 2
    return (float(d @ d) + 2) / n - (float(d.sum()) / n) ** 2
