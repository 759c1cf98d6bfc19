"""What choices pick from a matrix of outcomes: known value and missing mass per query.

For a policy that mixes, the expectation over its probabilities. A probability row that sums to less than 1
hands back the rest.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from policies.replay.errors import ReplayError
from policies.replay.policy import HAND_BACK, Choices
from policies.replay.table import Bools, Floats, OutcomeTable
from policies.replay.totals import check_arms

Rows = npt.NDArray[np.int64]

_SLACK = 1e-9  # rounding of probabilities that should sum to 1


def check_choices(choices: Choices, queries: int, arms: int) -> Choices:
    """Itself. Raises ArmUnknown for an arm out of range, ReplayError for a wrong shape or probability."""
    if choices.arms is not None:
        check_arms(np.asarray(choices.arms)[None, :], queries, arms)
        return choices
    p = choices.probability
    assert p is not None
    if p.shape != (queries, arms):
        raise ReplayError(f"Probabilities have shape {p.shape}.", fix=f"give ({queries}, {arms}): queries x arms")
    bad = ~(p >= 0).all(axis=1) | (p.sum(axis=1) > 1 + _SLACK)
    if bad.any():
        n = int(np.flatnonzero(bad)[0])
        raise ReplayError(f"Probabilities of query {n} are {p[n].tolist()}.", fix="give shares >= 0 that sum to 1")
    return choices


def parts(matrix: Floats, choices: Choices) -> tuple[Floats, Floats]:
    """Known expected value (N,) and probability of having picked a missing cell (N,); 0 and 0 if handed back."""
    if choices.arms is not None:
        handed = choices.arms == HAND_BACK
        value = matrix[np.arange(len(matrix)), np.where(handed, 0, choices.arms)]
        unknown = np.isnan(value) & ~handed
        value[handed | unknown] = 0.0
        return value, unknown.astype(np.float64)
    p = choices.probability
    assert p is not None
    unknown = np.isnan(matrix)
    return (p * np.where(unknown, 0.0, matrix)).sum(axis=1), (p * unknown).sum(axis=1)


def picked(matrix: Floats, choices: Choices) -> Floats:
    """Expected value per query (N,): NaN where a missing cell may be picked, 0 where the query is handed back."""
    value, missing = parts(matrix, choices)
    value[missing > 0] = np.nan
    return value


def handed_back(choices: Choices) -> Floats:
    """Probability (N,) of handing the query back."""
    if choices.arms is not None:
        return np.asarray(choices.arms == HAND_BACK, dtype=np.float64)
    p = choices.probability
    assert p is not None
    rest = 1.0 - p.sum(axis=1)
    return np.asarray(np.where(np.abs(rest) <= _SLACK, 0.0, rest))


def mass(choices: Choices, rows: Rows, arms: int) -> Floats:
    """Expected number of the queries at `rows` that go to each arm (K,)."""
    if choices.arms is not None:
        return np.bincount(choices.arms[rows] + 1, minlength=arms + 1)[1:].astype(np.float64)
    p = choices.probability
    assert p is not None
    return np.asarray(p[rows].sum(axis=0))


def calls(matrix: Floats, choices: Choices, rows: Rows) -> tuple[Floats, Floats]:
    """Values (C,) of the calls made for the queries at `rows`, as far as known, and their probabilities (C,)."""
    if choices.arms is not None:
        rows = rows[choices.arms[rows] != HAND_BACK]
        values = matrix[rows, choices.arms[rows]]
        values = values[~np.isnan(values)]
        return values, np.ones(len(values))
    p = choices.probability
    assert p is not None
    made = (p[rows] > 0) & ~np.isnan(matrix[rows])
    return matrix[rows][made], p[rows][made]


def known_rows(table: OutcomeTable, *choices: Choices) -> Bools:
    """Queries (N,) of which every cell that any of `choices` may pick has correctness and energy.

    The complete cases of a paired comparison, to be named as such.
    """
    keep = np.ones(len(table), dtype=np.bool_)
    for each in choices:
        keep &= (parts(table.correct, each)[1] == 0) & (parts(table.energy_j, each)[1] == 0)
    return keep
