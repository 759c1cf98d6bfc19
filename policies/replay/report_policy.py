"""One policy of a run as plain data: figures, intervals, mix, comparisons, own account, joules predicted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from policies.replay.account import break_even, with_router
from policies.replay.analytic import accuracy_difference, energy_per_correct_ratio, of_counts, of_moments
from policies.replay.bootstrap import Interval
from policies.replay.metrics import UNITS, Figures
from policies.replay.picks import picked
from policies.replay.policy import About, Choices, Threshold, Tradeoff
from policies.replay.report_draws import Draws, Pairs, interval, ratio
from policies.replay.reward import Weights
from policies.replay.table import Floats, OutcomeTable
from warehouse.evidence import EvidenceClass


@dataclass(frozen=True)
class Training:
    """What training cost. None: no meter and no declared power."""

    energy_j: float | None = None
    evidence_class: EvidenceClass | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Entry:
    """A policy of a run with its choices on the held-out queries, made and hashed before outcomes were joined."""

    about: About
    choices: Choices
    sha256: str
    policy_id: str
    fixed_arm: str | None = None
    swept: Threshold | Tradeoff | None = None
    routing_s: float | None = None  # per query, measured
    routing_j: float | None = None  # per query, modeled: declared machine power x routing time
    training: Training | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.about.name


INTERVALS = {"accuracy": "share", "energy_j_per_query": "J/query", "energy_j_per_correct": "J/correct answer"}


def figures_dict(figures: Figures, arms: Sequence[str]) -> dict[str, Any]:
    """Figures without the benchmarks', and the mix by arm name (shares above 0)."""
    told = {name: getattr(figures, name) for name in ("n", *UNITS)}
    told["mix"] = {arm: float(share) for arm, share in zip(arms, figures.mix, strict=True) if share > 0}
    told["collapsed"] = figures.collapsed
    told["missing_by"] = {k: v for k, v in figures.missing_by.items() if v}
    told["evidence_class"] = figures.evidence_class
    told["carbon_evidence_class"] = figures.carbon_class
    return told


def intervals(draws: Draws, p: int) -> dict[str, list[float | None]]:
    """95 % intervals of the figures that have one."""
    accuracy, joules = draws.accuracies[:, p], draws.energies_j[:, p]
    each = (accuracy, joules, ratio(joules, accuracy))
    return {name: list(interval(found)) for name, found in zip(INTERVALS, each, strict=True)}


def against(table: OutcomeTable | None, draws: Draws, p: int, q: int, entries: Sequence[Entry]) -> dict[str, Any]:
    """Policy p against comparator q on the same queries: differences by bootstrap, by Tango and by the delta method.

    The closed forms come from the `table`, or from sums over queries where it is not in memory; Tango's needs answers
    that are right or wrong and choices of one arm. How many queries have fewer joules needs the table.
    """
    told: dict[str, Any] = {
        "comparator": entries[q].name,
        "n": draws.n,
        "method": draws.method,
        "accuracy_difference": _with(
            draws.accuracy[p] - draws.accuracy[q], draws.accuracies[:, p] - draws.accuracies[:, q]
        ),
        "energy_ratio": _with(
            _quotient(draws.energy_j[p], draws.energy_j[q]), ratio(draws.energies_j[:, p], draws.energies_j[:, q])
        ),
        "energy_per_correct_ratio": _with(
            _quotient(draws.energy_j[p] * draws.accuracy[q], draws.accuracy[p] * draws.energy_j[q]),
            ratio(draws.energies_j[:, p] * draws.accuracies[:, q], draws.accuracies[:, p] * draws.energies_j[:, q]),
        ),
        "accuracy_difference_tango": None,
        "energy_per_correct_ratio_delta": None,
        "queries": None,
    }
    if table is None:
        return told | ({} if draws.pairs is None else _closed(draws.pairs, draws, p, q))
    one, other = entries[p].choices, entries[q].choices
    right, base = picked(table.correct, one), picked(table.correct, other)
    joules, base_j = picked(table.energy_j, one), picked(table.energy_j, other)
    columns = np.column_stack([right, joules, base, base_j])
    return told | {
        "accuracy_difference_tango": _bounds(accuracy_difference(right, base)),
        "energy_per_correct_ratio_delta": _bounds(energy_per_correct_ratio(columns)),
        "queries": {
            "better": int((right > base).sum()),
            "worse": int((right < base).sum()),
            "fewer_joules": int((joules < base_j).sum()),
        },
    }


def _closed(pairs: Pairs, draws: Draws, p: int, q: int) -> dict[str, Any]:
    """The closed forms of policy p against q from sums over queries."""
    count = len(pairs.right)
    columns = [p, count + p, q, count + q]
    means = np.array([draws.accuracy[p], draws.energy_j[p], draws.accuracy[q], draws.energy_j[q]])
    spread = pairs.spread[np.ix_(columns, columns)]
    told = {"energy_per_correct_ratio_delta": _bounds(of_moments(means, spread, draws.n))}
    if pairs.binary[p] and pairs.binary[q]:
        b, c = (round(float(pairs.right[i] - pairs.both[p, q])) for i in (p, q))
        told["accuracy_difference_tango"] = _bounds(of_counts(b, c, draws.n))
    return told


def own_account(entry: Entry, figures: Figures, saved_j: float | None) -> dict[str, Any]:
    """The router's own joules and seconds, the figures with them, and when training has paid for itself.

    `saved_j`: joules per query below the comparator, without the router's own.
    """
    told: dict[str, Any] = {
        "latency_s": entry.routing_s,
        "energy_j": entry.routing_j,
        "evidence_class": None if entry.routing_j is None else EvidenceClass.MODELED,
        "with_router": None,
        "training": None,
        "break_even_queries": None,
    }
    if entry.routing_s is not None and (entry.routing_j is not None or figures.energy_j_per_query is None):
        whole = with_router(figures, entry.routing_j, entry.routing_s)
        told["with_router"] = {
            "energy_j_per_query": whole.energy_j_per_query,
            "energy_j_per_correct": whole.energy_j_per_correct,
            "latency_mean_s": whole.latency_mean_s,
            "latency_p95_s": whole.latency_p95_s,
            "gco2_per_query": whole.gco2_per_query,
            "evidence_class": EvidenceClass.MODELED,
        }
    if entry.training is not None:
        own = entry.training
        told["training"] = {"energy_j": own.energy_j, "evidence_class": own.evidence_class, "seconds": own.seconds}
        net = None if saved_j is None or entry.routing_j is None else saved_j - entry.routing_j
        told["break_even_queries"] = break_even(own.energy_j, net)
    return told


def predicted(entry: Entry, train_energy_j: Floats, table: OutcomeTable) -> dict[str, Any] | None:
    """Joules per query at the policy's picks: as it predicts them per query, by each arm's training mean, as they were.

    `train_energy_j` (K,): mean joules per arm in the training part. None where the policy predicts no joules, or mixes.
    """
    if not isinstance(entry.swept, Tradeoff) or entry.choices.arms is None:
        return None
    rows = np.flatnonzero(entry.choices.arms >= 0)
    if not rows.size:
        return None
    arms = entry.choices.arms[rows]
    actual, mine, by_arm = table.energy_j[rows, arms], entry.swept.energy_j[rows, arms], train_energy_j[arms]
    known = np.isfinite(actual) & np.isfinite(mine) & np.isfinite(by_arm)
    if not known.any():
        return None
    actual, mine, by_arm = actual[known], mine[known], by_arm[known]
    return {
        "n": int(known.sum()),
        "actual_j": float(actual.mean()),
        "per_query_j": float(mine.mean()),
        "per_model_j": float(by_arm.mean()),
        "per_query_mean_absolute_error_j": float(np.abs(mine - actual).mean()),
        "per_model_mean_absolute_error_j": float(np.abs(by_arm - actual).mean()),
    }


def weights_dict(weights: Weights) -> dict[str, float]:
    return {"energy": weights.energy, "per_s": weights.per_s, "per_w": weights.per_w}


def _with(estimate: float, found: Floats) -> dict[str, float | None]:
    low, high = interval(found)
    return {"estimate": float(estimate) if np.isfinite(estimate) else None, "low": low, "high": high}


def _quotient(above: float, below: float) -> float:
    return float(above / below) if below else float("nan")


def _bounds(found: Interval) -> list[float | None] | None:
    return None if found.low is None else [found.low, found.high]
