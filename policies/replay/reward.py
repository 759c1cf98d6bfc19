"""The gated reward of arXiv 2609.23085: right answers earn, less so the dearer the arm; wrong answers cost.

For query i and arm a, with rank k of the arm's energy within the query (1: least) among its K known cells:

    z = (k - 1) / (K - 1)                                              0..1, 0 for a lone known cell
    r = R_correct - l_e z - l_t L - l_p P   if right,   -1   if wrong          (R_correct = 2)

What the paper leaves open is settled here: equal energies share the lowest of their ranks, so the cheapest
arms have z = 0 whatever is tied; and correctness between 0 and 1 is taken as the probability of a right
answer, so the reward is the expected one, which is the paper's where correctness is 0 or 1.
Rewards are comparable among equal weights only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from policies.replay.errors import ReplayError
from policies.replay.table import Floats, OutcomeTable

RIGHT = 2.0
WRONG = -1.0
LAMBDA_SUPERVISED = 0.5  # the paper's weight of energy for labels,
LAMBDA_REINFORCED = 0.4  # and for reinforcement learning


@dataclass(frozen=True)
class Weights:
    """What a right answer pays for: `energy` per unit of rank, `per_s` per second, `per_w` per watt."""

    energy: float = LAMBDA_REINFORCED
    per_s: float = 0.0
    per_w: float = 0.0


def energy_rank(energy_j: npt.ArrayLike) -> Floats:
    """z (N, K), 0 for the least energy of a query to 1 for the most; NaN where energy is unknown."""
    by_arm = np.ascontiguousarray(np.asarray(energy_j, dtype=np.float64).T)
    below = np.zeros(by_arm.shape, np.int16)
    for one in by_arm:
        below += one < by_arm  # NaN is below nothing
    known = np.isfinite(by_arm)
    others = np.maximum(known.sum(axis=0) - 1, 1)
    return np.asarray(np.where(known, below / others, np.nan).T)


def reward(
    correct: npt.ArrayLike,
    energy_j: npt.ArrayLike,
    lam: float,
    *,
    latency_s: npt.ArrayLike | None = None,
    power_w: npt.ArrayLike | None = None,
    per_s: float = 0.0,
    per_w: float = 0.0,
) -> Floats:
    """Expected gated reward (N, K); NaN where correctness, energy, or a weighted latency or power is unknown.

    Raises ReplayError for a weight without its matrix.
    """
    right = np.asarray(correct, dtype=np.float64)
    earned = RIGHT - lam * energy_rank(energy_j)
    for name, weight, given in (("latency_s", per_s, latency_s), ("power_w", per_w, power_w)):
        if weight == 0.0:
            continue
        if given is None:
            raise ReplayError(f"The reward weighs {name} with {weight:g} but got none.", fix=f"pass {name}")
        earned = earned - weight * np.asarray(given, dtype=np.float64)
    return np.asarray(right * earned + (1.0 - right) * WRONG)


def rewards_of(table: OutcomeTable, weights: Weights = Weights()) -> Floats:
    """The reward of every cell of `table` (N, K). Raises ReplayError as `reward` does."""
    return reward(
        table.correct,
        table.energy_j,
        weights.energy,
        latency_s=table.latency_s,
        power_w=table.power_w,
        per_s=weights.per_s,
        per_w=weights.per_w,
    )
