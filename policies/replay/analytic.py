"""Closed-form intervals of a paired comparison, as a check of the bootstrap and for small n.

Accuracy difference: Tango's score interval where every answer is right or wrong; graded answers (shares) have none
here. J per correct answer: the delta interval of the ratio. Both from `policies.proof.intervals`.
"""

from __future__ import annotations

import math

import numpy as np

from policies.proof.checked import z_two_sided
from policies.proof.intervals import ratio_delta, tango
from policies.replay.bootstrap import CONFIDENCE, Interval
from policies.replay.table import Floats


def accuracy_difference(policy: Floats, comparator: Floats, confidence: float = CONFIDENCE) -> Interval:
    """Of correctness (N,) each. None where a cell is missing, an answer is graded, or there is no query."""
    method = "Tango score"
    both = np.column_stack([policy, comparator])
    if not len(both) or not np.isin(both, (0.0, 1.0)).all():
        return Interval(None, None, None, method, confidence)
    return of_counts(int((policy > comparator).sum()), int((policy < comparator).sum()), len(both), confidence)


def of_counts(b: int, c: int, n: int, confidence: float = CONFIDENCE) -> Interval:
    """The same from counts: b queries that only the policy answers right, c that only the comparator does, of n."""
    low, high = tango(b, c, n, confidence)
    return Interval((b - c) / n, low, high, "Tango score", confidence)


def energy_per_correct_ratio(columns: Floats, confidence: float = CONFIDENCE) -> Interval:
    """Of (N, 4) columns: correct and J of the policy, correct and J of the comparator. None where not identifiable."""
    method = "delta"
    unknown = Interval(None, None, None, method, confidence)
    if not len(columns) or np.isnan(columns).any():
        return unknown
    s1, e1, s0, e0 = columns.T
    if not (s1.sum() > 0 and s0.sum() > 0 and e0.sum() > 0):
        return unknown
    low, high = ratio_delta(e1, s1, e0, s0, confidence)
    if not math.isfinite(high):
        return unknown
    return Interval(float((e1.sum() / s1.sum()) / (e0.sum() / s0.sum())), low, high, method, confidence)


def of_moments(means: Floats, spread: Floats, n: int, confidence: float = CONFIDENCE) -> Interval:
    """`energy_per_correct_ratio` from means (4,) per query and the covariance (4, 4) of single queries (divisor n).

    The influence value of a query is linear in its columns, so its variance is a quadratic form of their covariance.
    """
    right, joules, base, base_j = means
    if n < 2 or not np.isfinite(means).all() or min(right, base, joules, base_j) <= 0:
        return Interval(None, None, None, "delta", confidence)
    weights = np.array([-1 / right, 1 / joules, 1 / base, -1 / base_j])
    half = z_two_sided(confidence) * math.sqrt(max(float(weights @ spread @ weights), 0.0) / (n - 1))
    estimate = float((joules / right) / (base_j / base))
    return Interval(estimate, estimate * math.exp(-half), estimate * math.exp(half), "delta", confidence)
