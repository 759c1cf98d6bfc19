"""Single numbers for a whole front, each by its exact definition; None where the definition has no value.

All take the cost of a point first (joules per query unless said) and its quality (accuracy) second.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from policies.errors import FrontInvalid
from policies.pareto import hull_quality, hypervolume_2d, mixing_hull
from policies.replay.table import Floats, OutcomeTable


@dataclass(frozen=True)
class Reference:
    """The worst corner of a hypervolume. Values are comparable among equal `version` only."""

    version: str
    accuracy: float
    energy_j: float


PUBLISHED = Reference("2609.23085-1", 0.0, 5200.0)


def reference_for(table: OutcomeTable) -> Reference:
    """Accuracy 0, and 1.02 x the joules per query of the dearest fixed arm, rounded up to two digits.

    Depends on the table and its condition alone, never on the policies that are compared. Means are over known cells.
    Raises FrontInvalid where no energy is known.
    """
    known = np.isfinite(table.energy_j)
    if not known.any():
        raise FrontInvalid(f"{table.dataset} has no energy.", fix="choose a condition that gives joules")
    counts = known.sum(axis=0)
    means = np.where(known, table.energy_j, 0.0).sum(axis=0)[counts > 0] / counts[counts > 0]
    dearest = 1.02 * float(means.max())
    digit = 10.0 ** (math.floor(math.log10(dearest)) - 1)
    corner = math.ceil(dearest / digit - 1e-9) * digit
    return Reference(f"{table.dataset}/dearest-arm-1.02-1/{corner:g}", 0.0, float(f"{corner:.12g}"))


def hypervolume(energy_j: npt.ArrayLike, accuracy: npt.ArrayLike, reference: Reference) -> float:
    """Area (accuracy x J/query) that the known points dominate above `reference`; points with NaN add nothing."""
    x, y = known_points(energy_j, accuracy)
    return hypervolume_2d(np.column_stack([y, x]), (1, -1), (reference.accuracy, reference.energy_j))


def aiq(
    cost: npt.ArrayLike, quality: npt.ArrayLike, low: float | None = None, high: float | None = None
) -> float | None:
    """RouterBench's AIQ as its paper (2403.12031) defines it: mean quality of the non-decreasing convex hull.

        AIQ = 1/(c_max - c_min) x integral from c_min to c_max of hull quality over cost

    c_min and c_max are the least and the largest cost of the points, or `low` and `high`, so that several routers
    share an axis; beyond its last corner a hull is flat. None for one cost only, or below the hull. RouterBench's
    code divides by c_max alone and extends every hull to the largest cost of all routers: its figures differ.
    """
    x, y = known_points(cost, quality)
    if not len(x):
        return None
    low = float(x.min()) if low is None else low
    high = float(x.max()) if high is None else high
    corners = mixing_hull(x, y)
    if high <= low or low < x[corners[0]]:
        return None
    return _mean_between(x[corners], y[corners], low, high)


@dataclass(frozen=True)
class Deferral:
    """`area` and `area_half` are mean qualities; `qnc` a share of the best arm's cost. None: not reached."""

    area: float | None
    area_half: float | None
    qnc: float | None


def deferral(
    cost: npt.ArrayLike, quality: npt.ArrayLike, arm_cost: npt.ArrayLike, arm_quality: npt.ArrayLike
) -> Deferral:
    """UniRoute's (2502.08773) figures of the deferral curve: the swept points by cost, joined by straight lines.

    With c_max the largest and c_min the least cost of a fixed arm:
    - area: 1/(c_max - c_min) x integral of the curve from c_min to c_max, so a mean quality; the curve is flat beyond
      its last point, and 0 before its first, where the router offers nothing.
    - area_half: the same up to half of c_max.
    - QNC, quality-neutral cost: the least cost at which the curve reaches the quality of the most accurate fixed arm
      (of equals, the cheapest), as a share of that arm's cost. None where it never does; the paper then prints 100 %.
    """
    x, y = _by_cost(*known_points(cost, quality))
    arms, accuracies = known_points(arm_cost, arm_quality)
    if not len(x) or not len(arms):
        return Deferral(None, None, None)
    low, high = float(arms.min()), float(arms.max())
    best = float(accuracies.max())
    reach = crossing(x, y, best)
    neutral = None if reach is None else reach / float(arms[accuracies == best].min())
    return Deferral(_area(x, y, low, high), _area(x, y, low, high / 2), neutral)


def recovered_gap(accuracy: npt.ArrayLike, weak: float, strong: float) -> Floats | None:
    """RouteLLM's PGR: (accuracy - weak) / (strong - weak); None where strong is no better than weak."""
    return None if strong <= weak else (np.asarray(accuracy, dtype=np.float64) - weak) / (strong - weak)


def apgr(strong_share: npt.ArrayLike, accuracy: npt.ArrayLike) -> float | None:
    """RouteLLM's (2406.18665) APGR over points from all-weak (share 0) to all-strong (share 1), by trapezoid.

        APGR = (AUC - AUC_weak) / (AUC_strong - AUC_weak) = integral of PGR over the share of strong calls

    Random routing scores 0.5. The exact figure takes every threshold; see `quantile_points` for RouteLLM's 10 bins.
    None where strong is no better than weak, a point is unknown, or the ends are not 0 and 1.
    """
    x, y = np.asarray(strong_share, dtype=np.float64), np.asarray(accuracy, dtype=np.float64)
    if not len(x) or np.isnan(y).any() or x[0] != 0 or x[-1] != 1:
        return None
    gap = recovered_gap(y, y[0], y[-1])
    return None if gap is None else float(np.trapezoid(gap, x))


def cpt(strong_share: npt.ArrayLike, accuracy: npt.ArrayLike, recovered: float) -> float | None:
    """RouteLLM's CPT(q): least share of strong calls at which accuracy reaches weak + q (strong - weak).

    Linear between points. For q = 0.2, 0.5, 0.8 the paper's CPT(20 %), CPT(50 %), CPT(80 %).

    None where it is never reached, or strong is no better than weak.
    """
    x, y = np.asarray(strong_share, dtype=np.float64), np.asarray(accuracy, dtype=np.float64)
    if not len(x) or np.isnan(y).any() or y[-1] <= y[0]:
        return None
    return crossing(x, y, float(y[0] + recovered * (y[-1] - y[0])))


def quantile_points(score: npt.ArrayLike, strong_share: npt.ArrayLike, bins: int = 10) -> npt.NDArray[np.int64]:
    """Points of an exact threshold curve that RouteLLM's evaluator would look at, with the all-weak end.

    Its thresholds are the edges of `bins` quantile bins of the scores (linear quantiles); strong where score >= edge.
    """
    scores, share = np.asarray(score, dtype=np.float64), np.asarray(strong_share, dtype=np.float64)
    edges = np.quantile(scores, np.linspace(0, 1, bins + 1))
    strong = (scores[None, :] >= edges[:, None]).mean(axis=1)
    return np.unique(np.r_[0, np.searchsorted(share, strong - 1e-12)])


@dataclass(frozen=True)
class Budgeted:
    """The best within a budget: point `first` with probability 1 - `share`, point `second` with `share`."""

    accuracy: float
    energy_j: float
    first: int
    second: int
    share: float


def best_within(energy_j: npt.ArrayLike, accuracy: npt.ArrayLike, budget_j: float) -> Budgeted | None:
    """Max accuracy of a point with at most `budget_j` per query; of equals the cheapest. None: none is that cheap."""
    x, y = np.asarray(energy_j, dtype=np.float64), np.asarray(accuracy, dtype=np.float64)
    able = np.flatnonzero((x <= budget_j) & np.isfinite(y))
    if not len(able):
        return None
    at = int(able[np.lexsort((x[able], -y[able]))[0]])
    return Budgeted(float(y[at]), float(x[at]), at, at, 0.0)


def best_mix_within(energy_j: npt.ArrayLike, accuracy: npt.ArrayLike, budget_j: float) -> Budgeted | None:
    """Max accuracy with at most `budget_j` joules per query in the mean, over mixtures of the points."""
    x, y = np.asarray(energy_j, dtype=np.float64), np.asarray(accuracy, dtype=np.float64)
    able = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
    if not len(able):
        return None
    corners = able[mixing_hull(x[able], y[able])]
    after = int(np.searchsorted(x[corners], budget_j, side="right"))
    if after == 0:
        return None
    first = int(corners[after - 1])
    if after == len(corners):
        return Budgeted(float(y[first]), float(x[first]), first, first, 0.0)
    second = int(corners[after])
    share = float((budget_j - x[first]) / (x[second] - x[first]))
    return Budgeted(float(y[first] + share * (y[second] - y[first])), float(budget_j), first, second, share)


def crossing(x: Floats, y: Floats, level: float) -> float | None:
    """The first x, along points in order joined by straight lines, at which y reaches `level`."""
    reached = np.flatnonzero(y >= level - 1e-12)
    if not len(reached):
        return None
    at = int(reached[0])
    if at == 0 or y[at] <= level:
        return float(x[at])
    return float(x[at - 1] + (level - y[at - 1]) / (y[at] - y[at - 1]) * (x[at] - x[at - 1]))


def known_points(x: npt.ArrayLike, y: npt.ArrayLike) -> tuple[Floats, Floats]:
    """The points of which both are finite."""
    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    keep = np.isfinite(a) & np.isfinite(b)
    return a[keep], b[keep]


def _by_cost(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Sorted by cost, the best of each cost."""
    order = np.lexsort((-y, x))
    x, y = x[order], y[order]
    first = np.r_[True, x[1:] != x[:-1]][: len(x)]
    return x[first], y[first]


def _area(x: Floats, y: Floats, low: float, high: float) -> float | None:
    if high <= low:
        return None
    start = max(low, float(x[0]))
    if start >= high:
        return 0.0
    return _mean_between(x, y, start, high) * (high - start) / (high - low)


def _mean_between(x: Floats, y: Floats, low: float, high: float) -> float:
    """Mean of the broken line over [low, high], flat beyond its last point."""
    inner = x[(x > low) & (x < high)]
    at = np.r_[low, inner, high]
    return float(np.trapezoid(hull_quality(x, y, at), at) / (high - low))
