"""The parts of a report gathered over portions of a table that need not fit into memory.

Figures are running sums; P95 latency comes from a sketch. Intervals are of the normal limit of the paired bootstrap:
sums and cross products of every policy's answers and joules are all they need, and the closed forms as well. Curves
over every threshold, predicted joules and counts of queries with fewer joules need the rows in memory and are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from policies.replay.bootstrap import CONFIDENCE, REPLICATES, Interval
from policies.replay.domination import Verdict, complete_rows, verdicts_of
from policies.replay.indices import reference_for
from policies.replay.latencies import Sketch
from policies.replay.metrics import Sheet, Tally
from policies.replay.picks import picked
from policies.replay.policy import Choices
from policies.replay.report import Parts, counts
from policies.replay.report_draws import Draws, Pairs, normal_draws
from policies.replay.reward import Weights
from policies.replay.table import Floats, OutcomeTable


@dataclass
class _Moments:
    """Sums and cross products of columns."""

    n: int = 0
    total: Floats = field(default_factory=lambda: np.zeros(0))
    cross: Floats = field(default_factory=lambda: np.zeros((0, 0)))

    def add(self, columns: Floats) -> None:
        if not self.n:
            self.total, self.cross = np.zeros(columns.shape[1]), np.zeros((columns.shape[1],) * 2)
        self.n += len(columns)
        self.total += columns.sum(axis=0)
        self.cross += columns.T @ columns

    def drawn(self, replicates: int, seed: int) -> tuple[Floats, Floats]:
        """(means (M,), draws (R, M))."""
        means = self.total / self.n
        return means, normal_draws(means, self.covariance(), self.n, replicates, seed)

    def covariance(self) -> Floats:
        """Of single rows, divisor n: (M, M)."""
        means = self.total / self.n
        return np.asarray(self.cross / self.n - np.outer(means, means))


class Gatherer:
    """Takes portions of held-out queries with every policy's choices, in one order; then gives the parts."""

    def __init__(self, arms: int, policies: int, weights: Weights, fixed: Sequence[bool]) -> None:
        self.weights, self.fixed = weights, list(fixed)
        self.tallies = [Tally(arms, Sketch) for _ in range(policies)]
        self.moments, self.complete = _Moments(), _Moments()
        self.unknown = np.zeros(2 * policies, dtype=np.bool_)
        self.binary = np.ones(policies, dtype=np.bool_)
        self.queries = {"unanswered": 0, "all_tied": 0, "ungraded": 0}
        self.cells = self.known = 0
        self.sheet: Sheet | None = None
        self.names: tuple[str, ...] = ()

    def add(self, test: OutcomeTable, choices: Sequence[Choices]) -> None:
        """One portion. Raises ArmUnknown or ReplayError for choices that do not fit."""
        if not len(test):
            return
        self.names, self.sheet = test.names, Sheet.of(test, self.weights)
        for tally, each in zip(self.tallies, choices, strict=True):
            tally.add(self.sheet, each)
        right = np.column_stack([picked(test.correct, c) for c in choices])
        joules = np.column_stack([picked(test.energy_j, c) for c in choices])
        columns = np.column_stack([right, joules])
        self.unknown |= np.isnan(columns).any(axis=0)
        self.binary &= ((right == 0) | (right == 1)).all(axis=0)
        self.moments.add(np.nan_to_num(columns))
        keep = complete_rows(test, choices)
        pairs = np.stack([right, joules], axis=2).reshape(len(test), -1)
        whole = np.column_stack([test.correct, test.energy_j, pairs])[keep]
        if len(whole):
            self.complete.add(whole)
        for name, n in counts(test).items():
            self.queries[name] += n
        cells = np.isfinite(test.correct) & np.isfinite(test.energy_j)
        self.cells, self.known = self.cells + cells.size, self.known + int(cells.sum())

    def parts(self, train: Train, seed: int, replicates: int = REPLICATES) -> Parts | None:
        """None where no held-out query came."""
        if self.sheet is None:
            return None
        means, found = self.moments.drawn(replicates, seed)
        means[self.unknown], found[:, self.unknown] = np.nan, np.nan
        p = len(self.tallies)
        method = f"normal limit of the paired bootstrap over queries, {replicates} draws"
        pairs = Pairs(self.moments.total[:p], self.moments.cross[:p, :p], self.binary, self.moments.covariance())
        draws = Draws(means[:p], means[p:], found[:, :p], found[:, p:], self.moments.n, method, pairs)
        figures = [t.figures(self.sheet, fixed=f) for t, f in zip(self.tallies, self.fixed, strict=True)]
        accuracy, energy_j = train.means()
        return Parts(
            figures,
            draws,
            self._verdicts(seed, replicates),
            n_train=train.n,
            coverage=self.known / self.cells if self.cells else float("nan"),
            queries=self.queries,
            train_accuracy=accuracy,
            train_energy_j=energy_j,
            reference=None,
            replicates=replicates,
        )

    def _verdicts(self, seed: int, replicates: int) -> list[Verdict]:
        if not self.complete.n:
            none = Interval(None, None, None, "normal limit", CONFIDENCE)
            return [Verdict(0, None, None, (), False, None, none, none, None, ()) for _ in self.tallies]
        means, draws = self.complete.drawn(replicates, seed)
        return verdicts_of(self.names, means, draws, self.complete.n)


@dataclass
class Train:
    """Means per arm over the training queries of all portions, and over all queries for the reference point."""

    arms: int
    n: int = 0

    def __post_init__(self) -> None:
        self._known = np.zeros((2, self.arms))
        self._sums = np.zeros((2, self.arms))
        self._all_known, self._all_sums = np.zeros(self.arms), np.zeros(self.arms)

    def add(self, portion: OutcomeTable) -> None:
        train = portion.train()
        self.n += len(train)
        for at, matrix in enumerate((train.correct, train.energy_j)):
            self._known[at] += np.isfinite(matrix).sum(axis=0)
            self._sums[at] += np.nansum(matrix, axis=0)
        self._all_known += np.isfinite(portion.energy_j).sum(axis=0)
        self._all_sums += np.nansum(portion.energy_j, axis=0)

    def means(self) -> tuple[Floats, Floats]:
        """(accuracy (K,), J per query (K,)), NaN where nothing is known."""
        with np.errstate(invalid="ignore"):
            found = self._sums / self._known
        return found[0], found[1]

    def with_reference(self, parts: Parts, about: OutcomeTable) -> Parts:
        """`parts` with the reference point of the whole table, by one row that has its means."""
        with np.errstate(invalid="ignore"):
            joules = (self._all_sums / self._all_known)[None, :]
        if not np.isfinite(joules).any():
            return parts
        blank = np.full_like(joules, np.nan)
        row = replace(
            about.take([0]), correct=blank, energy_j=joules, latency_s=blank, cost_usd=blank, power_w=blank,
            output_tokens=blank,
        )  # fmt: skip
        return replace(parts, reference=reference_for(row))
