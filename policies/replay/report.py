"""The report of one condition of a replay run: every figure of every policy, fronts, comparisons, and words.

Choices come in as they were made and hashed before outcomes were joined; nothing here changes them. All intervals
are over the same draws of held-out queries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from policies.replay.bootstrap import REPLICATES, Interval
from policies.replay.curves import Curve
from policies.replay.domination import Verdict, verdicts
from policies.replay.errors import ArmUnknown
from policies.replay.frontier import Frontier
from policies.replay.indices import Reference, reference_for
from policies.replay.metrics import Figures, evaluate
from policies.replay.report_draws import MOST_WORK, Draws, draw
from policies.replay.report_front import (
    choice_span,
    curve_dict,
    frontier_dict,
    fronts,
    points,
    proved,
    swept,
    within_budget,
)
from policies.replay.report_policy import (
    Entry,
    against,
    figures_dict,
    intervals,
    own_account,
    predicted,
    weights_dict,
)
from policies.replay.report_words import statements
from policies.replay.reward import Weights
from policies.replay.routers.means import column_means
from policies.replay.routers.oracle import unanswered
from policies.replay.table import Floats, OutcomeTable

FEWEST_REPLICATES = 200
Step = Callable[[str], None]


@dataclass(frozen=True)
class Asked:
    """What the reader wants to see beside the figures."""

    incumbent: str | None = None  # name of a policy of the run, or of an arm
    budget_j: float | None = None
    weights: Weights = field(default_factory=Weights)
    seed: int = 0
    replicates: int = REPLICATES


@dataclass(frozen=True)
class Parts:
    """What a report is put together from; of a whole table, or gathered over its portions.

    `test` is the held-out part where it is in memory: curves, closed-form intervals and predicted joules need it.
    `train_accuracy`, `train_energy_j` (K,): means per arm in the training part, NaN where unknown.
    """

    figures: Sequence[Figures]
    draws: Draws
    verdicts: Sequence[Verdict]
    n_train: int
    coverage: float
    queries: Mapping[str, int]
    train_accuracy: Floats
    train_energy_j: Floats
    reference: Reference | None
    replicates: int
    span_j: tuple[float, float] | None = None
    test: OutcomeTable | None = None
    curves: Mapping[str, Curve] = field(default_factory=dict)
    bands: Mapping[str, tuple[Frontier, Frontier]] = field(default_factory=dict)


def block(
    whole: OutcomeTable, entries: Sequence[Entry], asked: Asked, step: Step = lambda words: None
) -> dict[str, Any]:
    """The report of `entries` on the held-out part of `whole` as plain data (NaN and enums still in it).

    Raises ArmUnknown for an incumbent that is neither policy nor arm, ReplayError for choices that do not fit.
    """
    train, test = whole.train(), whole.test()
    choices = [e.choices for e in entries]
    replicates = affordable(len(test), 2 * (len(entries) + len(whole.arms)), asked.replicates)
    train_accuracy, train_energy_j = column_means(train.correct), column_means(train.energy_j)
    span = choice_span(train_accuracy, train_energy_j)
    step("figures")
    figures = evaluate(test, choices, fixed=[e.fixed_arm is not None for e in entries], weights=asked.weights)
    step("intervals")
    draws = draw(test, choices, seed=asked.seed, replicates=asked.replicates)
    step("domination")
    judged = verdicts(test, choices, replicates=replicates, seed=asked.seed)
    step("curves")
    curves = swept(entries, test)
    parts = Parts(
        figures,
        draws,
        judged,
        n_train=len(train),
        coverage=test.coverage(),
        queries=counts(test),
        train_accuracy=train_accuracy,
        train_energy_j=train_energy_j,
        reference=reference_for(whole) if np.isfinite(whole.energy_j).any() else None,
        replicates=replicates,
        test=test,
        curves=curves,
        span_j=span,
        bands=proved(entries, curves, test, span, seed=asked.seed, replicates=replicates) if span else {},
    )
    return assemble(whole, entries, asked, parts)


def assemble(about: OutcomeTable, entries: Sequence[Entry], asked: Asked, parts: Parts) -> dict[str, Any]:
    """The report from its parts. Of `about` only what does not hang on its rows is read."""
    incumbent = _incumbent(asked.incumbent, entries, about)
    best = best_fixed(entries, about, parts)
    told: dict[str, Any] = {
        "dataset": about.dataset,
        "dataset_sha256": about.sha256,
        "arms": [asdict(arm) for arm in about.arms],
        "n_train": parts.n_train,
        "n_test": parts.draws.n,
        "coverage": parts.coverage,
        "evidence_class": about.evidence_class,
        "energy_method": about.energy_method,
        "carbon_evidence_class": about.condition.carbon_class,
        "condition": asdict(about.condition),
        "queries": dict(parts.queries),
        "reward_weights": weights_dict(asked.weights),
        "replicates": parts.replicates,
        "interval_method": parts.draws.method,
        "best_fixed_arm": None if best is None else entries[best].name,
        "incumbent": None if incumbent is None else entries[incumbent].name,
        **fronts(entries, parts.figures, parts.reference),
        "budget": None,
        "choice_span_j": None if parts.span_j is None else list(parts.span_j),
        "curves": {},
        "margins": {
            name: {"over_hull": frontier_dict(hull), "over_fixed_arms": frontier_dict(arms)}
            for name, (hull, arms) in parts.bands.items()
        },
    }
    if asked.budget_j is not None:
        told["budget"] = within_budget(entries, parts.figures, parts.curves, asked.budget_j)
    fixed = [i for i, e in enumerate(entries) if e.fixed_arm is not None]
    right, joules = points([parts.figures[i] for i in fixed])
    by_name = {e.name: e for e in entries}
    if fixed and parts.reference is not None:
        told["curves"] = {name: curve_dict(by_name[name], c, (joules, right)) for name, c in parts.curves.items()}
    told["policies"] = _policies(about, entries, parts, told["dominated_by"], best, incumbent)
    told["statements"] = statements(told, parts.bands)
    return told


def affordable(n: int, columns: int, replicates: int) -> int:
    """How many replicates are drawn where all of them would take too long; at least FEWEST_REPLICATES."""
    return int(min(replicates, max(FEWEST_REPLICATES, MOST_WORK // max(n * columns, 1))))


def counts(test: OutcomeTable) -> dict[str, int]:
    """Queries that no router can do anything about, counted apart."""
    known = np.isfinite(test.correct)
    lowest = np.where(known, test.correct, np.inf).min(axis=1, initial=np.inf)
    highest = np.where(known, test.correct, -np.inf).max(axis=1, initial=-np.inf)
    return {
        "unanswered": int(unanswered(test).sum()),
        "all_tied": int(((known.sum(axis=1) > 1) & (lowest == highest)).sum()),
        "ungraded": int((~known.any(axis=1)).sum()),
    }


def best_fixed(entries: Sequence[Entry], about: OutcomeTable, parts: Parts) -> int | None:
    """The fixed arm with the best training accuracy, of equals the one of fewest joules: chosen before the test."""
    fixed = [i for i, e in enumerate(entries) if e.fixed_arm is not None]
    if not fixed:
        return None
    right, joules = parts.train_accuracy, parts.train_energy_j
    arms = [about.arm_index(str(entries[i].fixed_arm)) for i in fixed]
    keys = [(-np.nan_to_num(right[a], nan=-np.inf), np.nan_to_num(joules[a], nan=np.inf)) for a in arms]
    return fixed[min(range(len(fixed)), key=keys.__getitem__)]


def _policies(
    about: OutcomeTable,
    entries: Sequence[Entry],
    parts: Parts,
    dominated_by: Mapping[str, list[str]],
    best: int | None,
    incumbent: int | None,
) -> list[dict[str, Any]]:
    figures, draws, test = parts.figures, parts.draws, parts.test
    base = incumbent if incumbent is not None else best
    found = []
    for i, (entry, figure) in enumerate(zip(entries, figures, strict=True)):
        saved = None
        if base is not None and None not in (
            mine := figure.energy_j_per_query,
            theirs := figures[base].energy_j_per_query,
        ):
            saved = theirs - mine  # type: ignore[operator]
        found.append(
            {
                "name": entry.name,
                "family": entry.about.family,
                "deployable": entry.about.deployable,
                "note": entry.about.note,
                "parameters": dict(entry.about.parameters),
                "notes": dict(entry.notes),
                "policy_id": entry.policy_id,
                "choices_sha256": entry.sha256,
                "fixed_arm": entry.fixed_arm,
                "figures": figures_dict(figure, about.names),
                "intervals": intervals(draws, i),
                "by_benchmark": {name: figures_dict(each, about.names) for name, each in figure.by_benchmark.items()},
                "against": {
                    "best_fixed_arm": None if best in (None, i) else against(test, draws, i, int(best or 0), entries),
                    "incumbent": None
                    if incumbent in (None, i)
                    else against(test, draws, i, int(incumbent or 0), entries),
                },
                "domination": _verdict_dict(parts.verdicts[i]),
                "on_front": not dominated_by.get(entry.name, ["?"]) and entry.about.deployable,
                "dominated_by": dominated_by.get(entry.name, []),
                "router": own_account(entry, figure, saved),
                "energy_predicted": None if test is None else predicted(entry, parts.train_energy_j, test),
            }
        )
    return found


def _verdict_dict(verdict: Verdict) -> dict[str, Any]:
    told = asdict(verdict)
    told["margin_over_hull"] = _interval(verdict.margin)
    told["gain_over_best_arm_within"] = _interval(verdict.gain)
    del told["margin"], told["gain"]
    return told


def _interval(found: Interval) -> dict[str, float | None]:
    return {"estimate": found.estimate, "low": found.low, "high": found.high}


def _incumbent(name: str | None, entries: Sequence[Entry], table: OutcomeTable) -> int | None:
    if name is None:
        return None
    for i, entry in enumerate(entries):
        if name in (entry.name, entry.fixed_arm):
            return i
    raise incumbent_unknown(name, [e.name for e in entries], table)


def incumbent_unknown(name: str, policies: Sequence[str], table: OutcomeTable) -> ArmUnknown:
    """The error for an incumbent that is neither an arm nor one of `policies`."""
    return ArmUnknown(
        f"The incumbent {name!r} is neither an arm of {table.dataset} nor a policy of this run.",
        fix=f"use one of {', '.join(table.names)}, or of {', '.join(policies)}",
    )
