"""Where along its curve a policy lies above what the fixed arms reach: energy ranges, with bands that prove them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from policies.replay.bootstrap import CONFIDENCE, REPLICATES, resample
from policies.replay.curves import Sweep
from policies.replay.domination import complete_rows, hull_at
from policies.replay.picks import picked
from policies.replay.policy import Choices
from policies.replay.table import Bools, Floats, Ints, OutcomeTable

POINTS = 64


@dataclass(frozen=True)
class Range:
    """A run of neighbouring points of the curve: mean J/query from `low_j` to `high_j`, and its largest margin."""

    low_j: float
    high_j: float
    points: int
    largest_margin: float


@dataclass(frozen=True)
class Frontier:
    """Margins of a curve over the fixed arms at T points by rising joules, on `n` complete queries.

    `margin` is accuracy above the comparator at the point's own joules. Two bands: `low`/`high` are pointwise
    percentile intervals; `low_all`/`high_all` hold at all T points together (studentised maximum over the points).
    `ranges` are of the estimate, `proved_pointwise` of the pointwise lower bound, `proved` of the simultaneous one:
    only the last is evidence that somewhere along the curve the policy is better.
    """

    against: str  # "mixing hull" | "fixed arms"
    n: int
    point: Ints  # indices into the sweep
    parameter: Floats
    energy_j: Floats
    accuracy: Floats
    margin: Floats
    low: Floats
    high: Floats
    low_all: Floats
    high_all: Floats
    ranges: tuple[Range, ...]
    proved_pointwise: tuple[Range, ...]
    proved: tuple[Range, ...]
    confidence: float
    replicates: int
    seed: int


def frontier(
    table: OutcomeTable,
    sweep: Sweep,
    *,
    mixing: bool = True,
    points: int = POINTS,
    replicates: int = REPLICATES,
    seed: int = 0,
    confidence: float = CONFIDENCE,
) -> Frontier | None:
    """The curve of `sweep` against the mixing hull of the fixed arms, or with `mixing` off against the arms alone.

    At most `points` points are tested, evenly spaced among those of the curve, both ends included; each is one setting
    an operator can choose, and none is picked by its outcome. In every replicate policy, arms and hull are computed
    anew from the same draw. Below the cheapest arm the comparator is as in `domination`. None without complete queries.
    """
    chosen = np.unique(np.linspace(0, len(sweep) - 1, min(points, len(sweep))).round().astype(np.int64))
    picks = [sweep.choices(int(point)) for point in chosen]
    keep = complete_rows(table)
    if not keep.any():
        return None
    columns = _columns(table, picks)[keep]
    sums, drawn = resample(columns, replicates, seed)
    arms = len(table.arms)
    estimate = columns.mean(axis=0, keepdims=True)
    margin = _margins(estimate, arms, mixing)[0]
    draws = _margins(sums / drawn[:, None], arms, mixing)
    energy, accuracy = estimate[0, 2 * arms + 1 :: 2], estimate[0, 2 * arms :: 2]
    order = np.argsort(energy, kind="stable")
    energy, accuracy, margin, draws = energy[order], accuracy[order], margin[order], draws[:, order]
    tail = (1 - confidence) / 2
    low, high = np.quantile(draws, [tail, 1 - tail], axis=0, method="inverted_cdf")
    width = _simultaneous(draws, margin, confidence)
    return Frontier(
        against="mixing hull" if mixing else "fixed arms",
        n=int(keep.sum()),
        point=chosen[order],
        parameter=sweep.parameter[chosen[order]],
        energy_j=energy,
        accuracy=accuracy,
        margin=margin,
        low=low,
        high=high,
        low_all=margin - width,
        high_all=margin + width,
        ranges=_ranges(margin > 1e-12, energy, margin),
        proved_pointwise=_ranges(low > 1e-12, energy, margin),
        proved=_ranges(margin - width > 1e-12, energy, margin),
        confidence=confidence,
        replicates=replicates,
        seed=seed,
    )


def _columns(table: OutcomeTable, picks: list[Choices]) -> Floats:
    swept = [picked(matrix, each) for each in picks for matrix in (table.correct, table.energy_j)]
    return np.column_stack([table.correct, table.energy_j, *swept])


def _margins(means: Floats, arms: int, mixing: bool) -> Floats:
    """(R, T) accuracy of each point above the comparator."""
    right, joules = means[:, :arms], means[:, arms : 2 * arms]
    found = []
    for at in range(2 * arms, means.shape[1], 2):
        if mixing:
            level = hull_at(joules, right, means[:, at + 1], declining=True)
        else:
            level = np.where(joules <= means[:, at + 1, None] * (1 + 1e-9), right, 0.0).max(axis=1)
        found.append(means[:, at] - level)
    return np.column_stack(found)


def _simultaneous(draws: Floats, margin: Floats, confidence: float) -> Floats:
    """Half widths (T,) of a band that holds at all points: q x se, q the quantile of the largest studentised error."""
    spread = draws.std(axis=0)
    varies = spread > 1e-12  # a point that is a fixed arm has margin 0 in every replicate
    if not varies.any():
        return np.zeros(len(margin))
    largest = (np.abs(draws - margin)[:, varies] / spread[varies]).max(axis=1)
    return np.asarray(np.quantile(largest, confidence, method="inverted_cdf") * spread)


def _ranges(above: Bools, energy: Floats, margin: Floats) -> tuple[Range, ...]:
    edges = np.flatnonzero(np.diff(np.r_[False, above, False].astype(np.int8)))
    return tuple(
        Range(float(energy[a]), float(energy[b - 1]), int(b - a), float(margin[a:b].max()))
        for a, b in zip(edges[::2], edges[1::2], strict=True)
    )
