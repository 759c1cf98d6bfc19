"""Figures of policies on an outcome table: accuracy, joules, seconds, dollars, grams, reward, selection.

Rules, so that no figure flatters:
- A sum over picked cells of which one is missing is None; `accuracy_low` and `accuracy_high` bound the accuracy
  by taking all missing answers as wrong, then as right.
- A query handed back is a query without an answer and without a call: it counts in `n`, earns nothing, spends
  nothing, and its reward is that of a wrong answer. Means per call (latency, power) are over the calls that were made.
- `power_w_per_call` is the mean of the calls' own mean powers; `energy_over_time_w` is all joules over all seconds.
  They differ wherever long calls draw other power than short ones, so both are told, each by its name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from policies.replay.latencies import Exact, Latencies
from policies.replay.picks import calls, check_choices, handed_back, mass, parts
from policies.replay.policy import Choices
from policies.replay.reward import WRONG, Weights, rewards_of
from policies.replay.table import Condition, Floats, OutcomeTable
from warehouse.evidence import EvidenceClass

Rows = npt.NDArray[np.int64]

J_PER_KWH = 3.6e6
COLLAPSE_SHARE = 0.99
COLLAPSE_ENTROPY = 0.05  # of ln K
_MEASURES = ("correct", "energy_j", "latency_s", "cost_usd", "power_w", "reward")
# Metric of core.replay_metric -> unit.
UNITS: Mapping[str, str] = {
    "accuracy": "share",
    "accuracy_low": "share",
    "accuracy_high": "share",
    "energy_j_per_query": "J/query",
    "energy_j_per_correct": "J/correct answer",
    "power_w_per_call": "W",
    "energy_over_time_w": "W",
    "latency_mean_s": "s",
    "latency_p95_s": "s",
    "usd_per_query": "USD/query",
    "gco2_per_query": "gCO2/query",
    "reward": "1",
    "missing": "queries",
    "handed_back": "queries",
    "entropy_nats": "nat",
    "entropy_normalised": "share of ln K",
}


@dataclass(frozen=True)
class Figures:
    """What a policy did on `n` queries. None: not identifiable. Counts are expectations where a policy mixes.

    `mix` (K,) are shares of the `n` queries; with handed_back / n they sum to 1. Entropies are of the mix among the
    queries that were routed: in nats, and divided by ln K. `missing` counts picks without correctness or energy,
    `missing_by` all picks without a measure, by measure. Rewards are comparable among equal `weights` only.
    """

    n: int
    accuracy: float | None
    accuracy_low: float | None
    accuracy_high: float | None
    energy_j_per_query: float | None
    energy_j_per_correct: float | None
    power_w_per_call: float | None
    energy_over_time_w: float | None
    latency_mean_s: float | None
    latency_p95_s: float | None
    usd_per_query: float | None
    gco2_per_query: float | None
    reward: float | None
    weights: Weights
    missing: float
    missing_by: Mapping[str, float]
    handed_back: float
    mix: Floats
    entropy_nats: float | None
    entropy_normalised: float | None
    collapsed: bool
    evidence_class: EvidenceClass | None = None
    carbon_class: EvidenceClass | None = None
    by_benchmark: Mapping[str, Figures] = field(default_factory=dict)


def evaluate(
    table: OutcomeTable,
    choices: Sequence[Choices],
    *,
    fixed: Sequence[bool] | None = None,
    weights: Weights = Weights(),
) -> list[Figures]:
    """Figures of each policy's `choices` on `table`, overall and by benchmark, in the order given.

    `fixed` marks the policies that are one arm by design, which no collapse alarm is for.
    Raises ArmUnknown or ReplayError for choices that do not fit the table.
    """
    sheet = Sheet.of(table, weights)
    found = []
    for index, each in enumerate(choices):
        tally = Tally(len(table.arms))
        tally.add(sheet, each)
        found.append(tally.figures(sheet, fixed=bool(fixed and fixed[index])))
    return found


def collapsed(mix: npt.ArrayLike) -> bool:
    """The collapse alarm for a policy that is no fixed arm: it has all but stopped to choose.

    Raised where, among the queries routed, one arm takes at least 99 %, or the entropy is below 5 % of ln K.
    Never for a single arm, nor where nothing was routed.
    """
    shares = _routed(np.asarray(mix, dtype=np.float64))
    if shares is None or len(shares) < 2:
        return False
    return bool(shares.max() >= COLLAPSE_SHARE or entropy(shares) < COLLAPSE_ENTROPY * np.log(len(shares)))


def entropy(mix: npt.ArrayLike) -> float:
    """Shannon entropy in nats of shares (K,) that sum to 1."""
    shares = np.asarray(mix, dtype=np.float64)
    used = shares[shares > 0]
    return float(max(-(used * np.log(used)).sum(), 0.0))


def group_rows(table: OutcomeTable) -> dict[str, Rows]:
    """Rows of each benchmark, by name."""
    names = table.queries.benchmarks.tolist()
    index = {name: code for code, name in enumerate(sorted(set(names)))}
    codes = np.fromiter(map(index.__getitem__, names), np.int64, len(names))
    return {name: np.flatnonzero(codes == code) for name, code in index.items()}


@dataclass(frozen=True)
class Sheet:
    """What every policy's figures on one table (or one chunk of it) are computed from."""

    matrices: tuple[Floats, ...]  # by _MEASURES, each (N, K)
    cells: Floats  # NaN where correctness or energy is unknown
    groups: Mapping[str, Rows]
    condition: Condition
    evidence_class: EvidenceClass | None
    weights: Weights

    @classmethod
    def of(cls, table: OutcomeTable, weights: Weights = Weights()) -> Sheet:
        rewards = rewards_of(table, weights)
        matrices = tuple(rewards if name == "reward" else getattr(table, name) for name in _MEASURES)
        cells = np.where(np.isnan(table.energy_j), np.nan, table.correct)
        return cls(matrices, cells, group_rows(table), table.condition, table.evidence_class, weights)


@dataclass
class _Sums:
    """Running sums of one policy over one group of queries."""

    latencies: Latencies
    mass: Floats  # (K,)
    known: Floats  # (measures,)
    missing: Floats  # (measures,)
    n: int = 0
    handed_back: float = 0.0
    cells_missing: float = 0.0

    @classmethod
    def empty(cls, arms: int, latencies: type[Latencies]) -> _Sums:
        return cls(latencies(), np.zeros(arms), np.zeros(len(_MEASURES)), np.zeros(len(_MEASURES)))

    def add(self, other: _Sums) -> None:
        self.latencies.merge(other.latencies)
        self.mass += other.mass
        self.known += other.known
        self.missing += other.missing
        self.n += other.n
        self.handed_back += other.handed_back
        self.cells_missing += other.cells_missing


class Tally:
    """Running sums of one policy, by benchmark; chunks of a table may be added one after another."""

    def __init__(self, arms: int, latencies: type[Latencies] = Exact) -> None:
        self.arms = arms
        self.latencies = latencies
        self.groups: dict[str, _Sums] = {}

    def add(self, sheet: Sheet, choices: Choices) -> None:
        """Add what `choices` did on `sheet`. Raises as `evaluate`."""
        check_choices(choices, len(sheet.cells), self.arms)
        handed = handed_back(choices)
        found = [parts(matrix, choices) for matrix in sheet.matrices]
        found[-1] = (found[-1][0] + WRONG * handed, found[-1][1])
        cells = parts(sheet.cells, choices)[1]
        for name, rows in sheet.groups.items():
            if name not in self.groups:
                self.groups[name] = _Sums.empty(self.arms, self.latencies)
            to = self.groups[name]
            to.n += len(rows)
            to.handed_back += float(handed[rows].sum())
            to.cells_missing += float(cells[rows].sum())
            to.mass += mass(choices, rows, self.arms)
            to.known += [known[rows].sum() for known, _ in found]
            to.missing += [missing[rows].sum() for _, missing in found]
            to.latencies.add(*calls(sheet.matrices[_MEASURES.index("latency_s")], choices, rows))

    def figures(self, sheet: Sheet, *, fixed: bool = False) -> Figures:
        """The figures so far, under the condition and weights of `sheet`."""
        whole = _Sums.empty(self.arms, self.latencies)
        for sums in self.groups.values():
            whole.add(sums)
        by = {name: _figures(sums, sheet, fixed) for name, sums in sorted(self.groups.items())}
        return replace(_figures(whole, sheet, fixed), by_benchmark=by)


def _figures(sums: _Sums, sheet: Sheet, fixed: bool) -> Figures:
    n, missing_by = sums.n, dict(zip(_MEASURES, sums.missing.tolist(), strict=True))
    # No sum where a picked cell is missing: unknown is None, never 0.
    total = {
        name: known if not missing_by[name] else None
        for name, known in zip(_MEASURES, sums.known.tolist(), strict=True)
    }
    right, joules = total["correct"], total["energy_j"]
    made = n - sums.handed_back
    shares = _routed(sums.mass)
    nats = None if shares is None else entropy(shares)
    intensity = sheet.condition.intensity_g_per_kwh
    known_right = float(sums.known[0])
    return Figures(
        n=n,
        accuracy=_ratio(right, n),
        accuracy_low=_ratio(known_right, n),
        accuracy_high=_ratio(known_right + missing_by["correct"], n),
        energy_j_per_query=_ratio(joules, n),
        energy_j_per_correct=_ratio(joules, right),
        power_w_per_call=_ratio(total["power_w"], made),
        energy_over_time_w=_ratio(joules, total["latency_s"]),
        latency_mean_s=_ratio(total["latency_s"], made),
        latency_p95_s=sums.latencies.quantile(0.95) if total["latency_s"] is not None else None,
        usd_per_query=_ratio(total["cost_usd"], n),
        gco2_per_query=None if intensity is None or joules is None else _ratio(joules / J_PER_KWH * intensity, n),
        reward=_ratio(total["reward"], n),
        weights=sheet.weights,
        missing=sums.cells_missing,
        missing_by=missing_by,
        handed_back=sums.handed_back,
        mix=sums.mass / max(n, 1),
        entropy_nats=nats,
        entropy_normalised=None if nats is None or len(sums.mass) < 2 else float(nats / np.log(len(sums.mass))),
        collapsed=not fixed and collapsed(sums.mass),
        evidence_class=sheet.evidence_class,
        carbon_class=sheet.condition.carbon_class,
    )


def _routed(mass: Floats) -> Floats | None:
    """Shares (K,) among the routed queries; None where there are none."""
    whole = mass.sum()
    return mass / whole if whole > 0 else None


def _ratio(above: float | None, below: float | None) -> float | None:
    return above / below if above is not None and below else None
