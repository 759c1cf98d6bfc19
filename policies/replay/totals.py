"""Sums of correct answers, joules and seconds for many policies at once: the fast path of sweeps.

One compiled pass. Blocks of queries are packed so that a cell's three measures share a cache line, and every
policy walks the block while it is in cache; so a pick costs one index and one line instead of three gathers.
Memory beside the inputs is one block.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from policies.kernels import jit
from policies.replay.errors import ArmUnknown, ReplayError
from policies.replay.policy import HAND_BACK
from policies.replay.table import Floats, OutcomeTable

Arms = npt.NDArray[np.int32]

_BLOCK = 256  # queries; 256 x 10 arms x 32 bytes stays in the second-level cache


@dataclass(frozen=True)
class Totals:
    """Sums over `n` queries per policy (P,). NaN where a picked cell lacks that measure.

    `missing` counts picked cells that lack correctness or energy. A query handed back adds to no sum.
    """

    n: int
    correct: Floats
    energy_j: Floats
    latency_s: Floats
    missing: npt.NDArray[np.int64]
    handed_back: npt.NDArray[np.int64]

    def __add__(self, other: Totals) -> Totals:
        return Totals(
            self.n + other.n,
            self.correct + other.correct,
            self.energy_j + other.energy_j,
            self.latency_s + other.latency_s,
            self.missing + other.missing,
            self.handed_back + other.handed_back,
        )

    @property
    def accuracy(self) -> Floats:
        """Correct answers per query (P,)."""
        return _over(self.correct, self.n)

    @property
    def energy_j_per_query(self) -> Floats:
        return _over(self.energy_j, self.n)

    @property
    def latency_s_per_call(self) -> Floats:
        """Mean over the calls that were made (P,)."""
        return _over(self.latency_s, self.n - self.handed_back)


def totals(table: OutcomeTable, arms: npt.ArrayLike) -> Totals:
    """Totals of P policies whose choices are `arms` (P, N). Raises ArmUnknown and ReplayError."""
    return matrix_totals(table.correct, table.energy_j, table.latency_s, arms)


def matrix_totals(correct: Floats, energy_j: Floats, latency_s: Floats, arms: npt.ArrayLike) -> Totals:
    """The same from bare (N, K) matrices, which may be memory maps."""
    picks = check_arms(arms, *correct.shape)
    sums = _sum_picks(_dense(correct), _dense(energy_j), _dense(latency_s), picks)
    handed = (picks == HAND_BACK).sum(axis=1) if picks.size and picks.min() < 0 else np.zeros(len(picks), np.int64)
    return Totals(
        len(correct), sums[:, 0], sums[:, 1], sums[:, 2], sums[:, 3].astype(np.int64), handed.astype(np.int64)
    )


def check_arms(arms: npt.ArrayLike, queries: int, known: int) -> Arms:
    """`arms` as contiguous int32 (P, queries). Raises ReplayError for its shape, ArmUnknown for an index."""
    given = np.asarray(arms)
    if given.ndim != 2 or given.shape[1] != queries or given.dtype.kind not in "iu":
        raise ReplayError(
            f"Choices are {given.dtype} of shape {given.shape} for {queries} queries.",
            fix="give one row of arm indices per policy",
        )
    if given.size and (given.min() < HAND_BACK or given.max() >= known):
        bad = given[(given < HAND_BACK) | (given >= known)][0]
        raise ArmUnknown(
            f"Arm {bad} is chosen of {known} arms.", fix=f"use 0..{known - 1}, or {HAND_BACK} to hand back"
        )
    return np.ascontiguousarray(given, dtype=np.int32)


def _over(sums: Floats, count: int | npt.NDArray[np.int64]) -> Floats:
    counts = np.broadcast_to(np.asarray(count, dtype=np.float64), sums.shape)
    return np.asarray(np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0))


def _dense(matrix: Floats) -> Floats:
    return np.ascontiguousarray(matrix, dtype=np.float64)


@jit
def _sum_picks(correct: Floats, energy_j: Floats, latency_s: Floats, arms: Arms) -> Floats:
    policies, queries = arms.shape
    known = correct.shape[1]
    width = np.int64((known + 1) * 4)
    sums = np.zeros((policies, 4))
    block = np.zeros(_BLOCK * width)  # the cell before arm 0 stays zero: what is handed back adds nothing
    for first in range(0, queries, _BLOCK):
        last = min(queries, first + _BLOCK)
        for n in range(first, last):
            at = (n - first) * width + 4
            for k in range(known):
                c, e = correct[n, k], energy_j[n, k]
                block[at] = c
                block[at + 1] = e
                block[at + 2] = latency_s[n, k]
                block[at + 3] = 1.0 if (np.isnan(c) or np.isnan(e)) else 0.0
                at += 4
        for p in range(policies):
            s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
            for n in range(first, last):
                cell = np.uint64((n - first) * width + 4 * (np.int64(arms[p, n]) + 1))
                s0 += block[cell]
                s1 += block[cell + np.uint64(1)]
                s2 += block[cell + np.uint64(2)]
                s3 += block[cell + np.uint64(3)]
            sums[p, 0] += s0
            sums[p, 1] += s1
            sums[p, 2] += s2
            sums[p, 3] += s3
    return sums
