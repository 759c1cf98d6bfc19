"""Exact curves of policies that sweep a threshold or a trade-off lambda: every point that the policy can take.

A sweep is a start (an arm per query) and moves: at a parameter value a query leaves one arm for another. Sorted
once, the moves' cumulative sums are all the metrics at all the values: O(M log M) for M moves, whatever the
number of points. Nothing is sampled from a grid.

Threshold: strong where score >= t. Queries with one score share a threshold; the curve has one point per distinct
score and the all-weak one at t = infinity; the least score is the all-strong point.

Lambda: the arm of least predicted error + lambda x predicted energy, for every lambda >= 0. Each query walks down the
lower hull of its arms' (energy, error), at most K - 1 moves to ever cheaper arms, so the union over the queries has at
most N (K - 1) breakpoints and all are found. At a breakpoint itself the cheaper arm is taken, and among arms of the
same error and energy the first. `points` beyond the first are the policies of [lambda_i, lambda_i+1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from policies.replay.errors import ReplayError
from policies.replay.policy import Choices, Threshold, Tradeoff
from policies.replay.table import Bools, Floats, Ints, OutcomeTable

Arms = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Sweep:
    """Moves in order. `parameter` (T,) of each point; `until` (T,): how many moves have happened at that point."""

    kind: str  # threshold | lambda
    parameter: Floats
    until: Ints
    start: Arms  # (N,)
    query: Ints  # (M,)
    leaves: Arms  # (M,)
    takes: Arms  # (M,)

    def __len__(self) -> int:
        return len(self.parameter)

    def choices(self, point: int) -> Choices:
        """What the policy chooses at `point`."""
        arms = self.start.copy()
        moves = slice(0, int(self.until[point]))
        arms[self.query[moves]] = self.takes[moves]  # later moves of a query come later: the last one stays
        return Choices(arms=arms)

    def means(self, matrix: Floats) -> Floats:
        """Mean per query of `matrix` (N, K) at every point (T,); NaN where a picked cell is missing."""
        rows = np.arange(len(self.start))
        unknown = np.isnan(matrix).any()
        known = np.nan_to_num(matrix) if unknown else matrix
        begin = float(known[rows, self.start].sum())
        sums = _at(self.until, begin, known[self.query, self.takes], known[self.query, self.leaves])
        if unknown:
            gaps = np.isnan(matrix).astype(np.float64)
            begin = float(gaps[rows, self.start].sum())
            missing = _at(self.until, begin, gaps[self.query, self.takes], gaps[self.query, self.leaves])
            sums[missing > 0.5] = np.nan
        return sums / max(len(rows), 1)


@dataclass(frozen=True)
class Curve:
    """Means per query at every point of a sweep (T,), and the share of queries that have moved off the start.

    `moved` is the strong-call share of a threshold. NaN: a picked cell is missing there.
    """

    sweep: Sweep
    accuracy: Floats
    energy_j: Floats
    latency_s: Floats
    cost_usd: Floats
    power_w: Floats
    moved: Floats

    def __len__(self) -> int:
        return len(self.sweep)


def curve(table: OutcomeTable, swept: Threshold | Tradeoff) -> Curve:
    """The exact curve of `swept` on `table`. Raises ReplayError where the two do not fit."""
    sweep = threshold_sweep(swept, table) if isinstance(swept, Threshold) else tradeoff_sweep(swept, table)
    return Curve(
        sweep,
        accuracy=sweep.means(table.correct),
        energy_j=sweep.means(table.energy_j),
        latency_s=sweep.means(table.latency_s),
        cost_usd=sweep.means(table.cost_usd),
        power_w=sweep.means(table.power_w),
        moved=_moved(sweep),
    )


def threshold_sweep(swept: Threshold, table: OutcomeTable) -> Sweep:
    """Moves from weak to strong by falling score. Raises ReplayError for scores that are not one number per query."""
    score = np.asarray(swept.score, dtype=np.float64)
    if score.shape != (len(table),) or np.isnan(score).any():
        raise ReplayError(
            f"Scores have shape {score.shape}, {int(np.isnan(score).sum())} of them NaN.",
            fix=f"give one number for each of {len(table)} queries",
        )
    _check_arm(swept.weak, table)
    _check_arm(swept.strong, table)
    order = np.argsort(-score, kind="stable")
    falling = score[order]
    ends = np.flatnonzero(np.r_[falling[1:] != falling[:-1], True][: len(falling)])  # the last of each tie
    size = len(score)
    return Sweep(
        "threshold",
        np.r_[np.inf, falling[ends]],
        np.r_[0, ends + 1],
        np.full(size, swept.weak, np.int32),
        order,
        np.full(size, swept.weak, np.int32),
        np.full(size, swept.strong, np.int32),
    )


def tradeoff_sweep(swept: Tradeoff, table: OutcomeTable) -> Sweep:
    """Moves to cheaper arms by rising lambda. An arm whose prediction is NaN is not chosen for that query.

    Raises ReplayError for predictions of a wrong shape, or a query without any.
    """
    error = np.array(swept.error, dtype=np.float64)
    energy = np.array(swept.energy_j, dtype=np.float64)
    shape = (len(table), len(table.arms))
    if error.shape != shape or energy.shape != shape:
        raise ReplayError(f"Predictions have shapes {error.shape} and {energy.shape}.", fix=f"give {shape}")
    usable = np.isfinite(error) & np.isfinite(energy)
    if not usable.any(axis=1).all():
        n = int(np.flatnonzero(~usable.any(axis=1))[0])
        raise ReplayError(f"Query {table.queries.ids[n]} has no finite prediction.", fix="predict at least one arm")
    error[~usable] = energy[~usable] = np.inf
    now = _first_least(energy, error == error.min(axis=1, keepdims=True))
    start = now.astype(np.int32)
    rows = np.arange(shape[0])
    since = np.zeros(shape[0])
    moves: list[tuple[Floats, Ints, Ints, Ints]] = []
    for _ in range(shape[1] - 1):
        e0, j0 = error[rows, now, None], energy[rows, now, None]
        with np.errstate(divide="ignore", invalid="ignore"):  # of arms that are dearer, or not usable
            at = np.where(energy[rows] < j0, (error[rows] - e0) / (j0 - energy[rows]), np.inf)
        least = at.min(axis=1)
        going = np.isfinite(least)
        if not going.any():
            break
        # Of arms that cross at once, the cheapest: the others would be left at the same lambda.
        to = _first_least(energy[rows], at == least[:, None])
        since = np.maximum(since, least)[going]  # on a straight piece rounding may step back
        moves.append((since, rows[going], now[going], to[going]))
        rows, now = rows[going], to[going]
    return _sorted_moves(start, moves)


def _sorted_moves(start: Arms, moves: list[tuple[Floats, Ints, Ints, Ints]]) -> Sweep:
    columns = [np.concatenate(part) for part in zip(*moves, strict=True)] if moves else [np.empty(0, int)] * 4
    order = np.argsort(columns[0], kind="stable")  # stable: the moves of one query keep their order
    at, query, leaves, takes = (column[order] for column in columns)
    at = at.astype(np.float64)
    ends = np.flatnonzero(np.r_[at[1:] != at[:-1], True][: len(at)])
    # Two arms of one error are told apart by energy at lambda 0 already: no move happens there.
    return Sweep(
        "lambda",
        np.r_[0.0, at[ends]],
        np.r_[0, ends + 1],
        start,
        query.astype(np.int64),
        leaves.astype(np.int32),
        takes.astype(np.int32),
    )


def _first_least(energy: Floats, allowed: Bools) -> Ints:
    """The first arm of least energy among those allowed (n,)."""
    return np.asarray(np.where(allowed, energy, np.inf).argmin(axis=1))


def _at(until: Ints, start: float, gained: Floats, lost: Floats) -> Floats:
    """start + the first until_i of (gained - lost), for every i."""
    return np.asarray(start + np.r_[0.0, np.cumsum(gained - lost)][until])


def _moved(sweep: Sweep) -> Floats:
    if sweep.kind == "threshold":  # every query moves once
        return sweep.until / max(len(sweep.start), 1)
    first = np.zeros(len(sweep.query))
    first[np.unique(sweep.query, return_index=True)[1]] = 1.0
    return _at(sweep.until, 0.0, first, np.zeros(len(first))) / max(len(sweep.start), 1)


def _check_arm(arm: int, table: OutcomeTable) -> None:
    if not 0 <= arm < len(table.arms):
        raise ReplayError(f"Arm {arm} is none of {len(table.arms)}.", fix=f"use 0..{len(table.arms) - 1}")
