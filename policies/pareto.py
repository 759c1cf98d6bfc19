"""Pareto fronts: non-dominated sets, mixing hulls and hypervolume.

Dominance is strict: a point is dominated when another is at least as good in every objective and better
in one. Equal points do not dominate each other, so ties stay on the front together. Directions are
given per objective: +1 where more is better (accuracy), -1 where less is (joules, dollars, grams).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from policies.errors import FrontInvalid

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

_HULL_ROUNDS = 64


def non_dominated(points: npt.ArrayLike, directions: Sequence[int]) -> Mask:
    """Boolean mask (n,) of the non-dominated rows of `points` (n, d). O(n log n) for d <= 2.

    Raises FrontInvalid for NaN or infinity, or where `directions` do not fit.
    """
    gain = _gains(points, directions)
    if gain.shape[1] == 1:
        return np.asarray(gain[:, 0] == gain[:, 0].max(initial=-np.inf))
    return _front_2d(gain) if gain.shape[1] == 2 else _front_nd(gain)


def hypervolume_2d(points: npt.ArrayLike, directions: Sequence[int], reference: tuple[float, float]) -> float:
    """Exact area that `points` (n, 2) dominate above `reference`, in the product of the two units.

    Points that are not better than the reference in both objectives add nothing.
    """
    gain = _gains(points, directions)
    if gain.shape[1] != 2:
        raise FrontInvalid(f"hypervolume_2d got {gain.shape[1]} objectives.", fix="give points of two objectives")
    origin = _gains([reference], directions)[0]
    gain = gain[(gain > origin).all(axis=1)]
    front = gain[_front_2d(gain)]
    front = np.unique(front, axis=0)  # ascending in the first, so descending in the second objective
    if not front.size:
        return 0.0
    widths = np.diff(front[:, 0], prepend=origin[0])
    return float(np.sum(widths * (front[:, 1] - origin[1])))


def mixing_hull(cost: npt.ArrayLike, quality: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Indices of the upper hull of (cost, quality), by ascending cost: what random mixing of arms reaches.

    Between two neighbours every mean cost is reached by drawing one arm with probability p and the other
    with 1 - p. The hull starts at the cheapest arm, never falls, and its slope only decreases; an arm on
    the line between two others is not a corner.
    """
    points = _finite(np.column_stack([_column(cost, "cost"), _column(quality, "quality")]))
    x, y = points[:, 0], points[:, 1]
    order = np.argsort(x)
    if (x[order][1:] == x[order][:-1]).any():  # the better of two at one cost comes first
        order = np.lexsort((-y, x))
    best = np.maximum.accumulate(y[order])
    # Dearer (or equal) and no better: mixing never needs it.
    order = order[np.r_[True, best[1:] > best[:-1]][: len(order)]]
    # Each round drops all points on or below the line between their neighbours, which no corner ever is. Few rounds
    # suffice for any but adversarial points; the chain finishes those.
    for _ in range(_HULL_ROUNDS):
        keep = ~_below_neighbours(x[order], y[order])
        if keep.all():
            return np.asarray(order, dtype=np.int64)
        order = order[keep]
    return np.asarray(order[_upper_chain(x[order].tolist(), y[order].tolist())], dtype=np.int64)


def hull_quality(hull_cost: npt.ArrayLike, hull_quality: npt.ArrayLike, at_cost: npt.ArrayLike) -> Floats:
    """Quality of the mixing hull at `at_cost`: linear between corners, flat beyond the last, NaN below the first."""
    x, y = _column(hull_cost, "hull_cost"), _column(hull_quality, "hull_quality")
    if x.shape != y.shape or not x.size or (np.diff(x) <= 0).any():
        raise FrontInvalid("the hull is not sorted by ascending cost.", fix="pass the corners of mixing_hull in order")
    return np.interp(np.asarray(at_cost, dtype=np.float64), x, y, left=np.nan)


def _front_2d(gain: Floats) -> Mask:
    """Sort by the first objective; a point stays if its second is above all that are strictly ahead."""
    n = gain.shape[0]
    keep = np.zeros(n, dtype=np.bool_)
    if not n:
        return keep
    order = np.lexsort((-gain[:, 1], -gain[:, 0]))
    first, second = gain[order, 0], gain[order, 1]
    best = np.maximum.accumulate(second)
    new_group = np.r_[True, first[1:] != first[:-1]]
    starts = np.flatnonzero(new_group)
    group = np.cumsum(new_group) - 1
    before = np.r_[-np.inf, best][starts]  # the best second objective among strictly better firsts
    leader = second[starts]  # the best second objective within the group: only its equals stay
    keep[order] = (second == leader[group]) & (second > before[group])
    return keep


def _front_nd(gain: Floats) -> Mask:
    """Sorted by the sum of the objectives, a point can only be dominated by an earlier one."""
    n = gain.shape[0]
    keep = np.zeros(n, dtype=np.bool_)
    order = np.lexsort((*gain.T[::-1], gain.sum(axis=1)))[::-1]
    front = np.empty((0, gain.shape[1]))
    kept: list[int] = []
    for index in order.tolist():
        row = gain[index]
        at_least = (front >= row).all(axis=1)
        if not (at_least & (front > row).any(axis=1)).any():
            kept.append(index)
            front = gain[kept]
    keep[kept] = True
    return keep


def _below_neighbours(x: Floats, y: Floats) -> Mask:
    """(n,): the point lies on or below the line from the one before to the one after it."""
    below = np.zeros(len(x), dtype=np.bool_)
    a, b, c = slice(None, -2), slice(1, -1), slice(2, None)
    below[1:-1] = (x[b] - x[a]) * (y[c] - y[a]) - (y[b] - y[a]) * (x[c] - x[a]) >= 0
    return below


def _upper_chain(x: list[float], y: list[float]) -> list[int]:
    """Andrew's monotone chain over points of ascending x: indices of the corners."""
    hull: list[int] = []
    for c in range(len(x)):
        while len(hull) >= 2:
            a, b = hull[-2], hull[-1]
            if (x[b] - x[a]) * (y[c] - y[a]) - (y[b] - y[a]) * (x[c] - x[a]) < 0:
                break
            hull.pop()
        hull.append(c)
    return hull


def _gains(points: npt.ArrayLike, directions: Sequence[int]) -> Floats:
    array = np.asarray(points, dtype=np.float64)
    if array.size == 0:
        array = array.reshape(0, len(directions))
    if array.ndim != 2 or array.shape[1] != len(directions) or not len(directions):
        raise FrontInvalid(
            f"points have shape {array.shape} for {len(directions)} objectives.", fix="give one column per objective"
        )
    if any(d not in (1, -1) for d in directions):
        raise FrontInvalid(f"directions are {list(directions)}.", fix="use +1 (more is better) or -1 (less is better)")
    return _finite(array) * np.asarray(directions, dtype=np.float64)


def _column(values: npt.ArrayLike, name: str) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise FrontInvalid(f"{name} has {array.ndim} dimensions.", fix="give a flat list of numbers")
    return array


def _finite(array: Floats) -> Floats:
    bad = np.flatnonzero(~np.isfinite(array).all(axis=1))
    if bad.size:
        raise FrontInvalid(
            f"point {int(bad[0])} is {array[bad[0]].tolist()}.", fix="leave points with unknown values out of the front"
        )
    return array
