"""Evaluation of tables that do not fit in memory: chunk by chunk, with memory that does not grow with the queries.

Sums are the same as of the whole table, but for the rounding of another order of summation; the P95 of latency
comes from a sketch (relative error at most 0.5 %).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from policies.replay.errors import ReplayError
from policies.replay.latencies import Sketch
from policies.replay.metrics import Figures, Sheet, Tally
from policies.replay.policy import Choices
from policies.replay.reward import Weights
from policies.replay.table import Floats, OutcomeTable
from policies.replay.totals import Totals, matrix_totals

ROWS = 65_536  # queries in a chunk


def evaluate_chunks(
    chunks: Iterable[tuple[OutcomeTable, Sequence[Choices]]],
    *,
    fixed: Sequence[bool] | None = None,
    weights: Weights = Weights(),
) -> list[Figures]:
    """Figures of each policy over all `chunks` of one table; every chunk brings the policies' choices in one order.

    Raises ArmUnknown or ReplayError for choices that do not fit, or chunks that are not of one table.
    """
    tallies: list[Tally] = []
    sheet: Sheet | None = None
    about: tuple[object, ...] = ()
    for table, choices in chunks:
        now = (table.names, table.condition, table.evidence_class, len(choices))
        if sheet is None:
            about, tallies = now, [Tally(len(table.arms), Sketch) for _ in choices]
        elif now != about:
            raise ReplayError(
                f"A chunk of {table.dataset} differs from those before it.",
                fix="give chunks with the same arms, condition, evidence class and policies",
            )
        sheet = Sheet.of(table, weights)
        for tally, each in zip(tallies, choices, strict=True):
            tally.add(sheet, each)
    if sheet is None:
        return []
    return [tally.figures(sheet, fixed=bool(fixed and fixed[i])) for i, tally in enumerate(tallies)]


def total_chunks(chunks: Iterable[tuple[Floats, Floats, Floats, npt.NDArray[np.int32]]]) -> Totals | None:
    """Totals over chunks of (correct, energy_j, latency_s) (n, K) and arms (P, n); None without a chunk."""
    whole: Totals | None = None
    for correct, energy_j, latency_s, arms in chunks:
        part = matrix_totals(correct, energy_j, latency_s, arms)
        whole = part if whole is None else whole + part
    return whole


def split_rows(
    correct: Floats, energy_j: Floats, latency_s: Floats, arms: npt.NDArray[np.int32], rows: int = ROWS
) -> Iterator[tuple[Floats, Floats, Floats, npt.NDArray[np.int32]]]:
    """Matrices (N, K) and arms (P, N), all possibly memory maps, in chunks of `rows` queries."""
    for first in range(0, len(correct), rows):
        at = slice(first, first + rows)
        yield correct[at], energy_j[at], latency_s[at], arms[:, at]
