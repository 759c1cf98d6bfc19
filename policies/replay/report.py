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
from policies.replay.domination import Verdict, verdicts
from policies.replay.errors import ArmUnknown
from policies.replay.metrics import UNITS, Figures, evaluate
from policies.replay.report_draws import MOST_WORK, Draws, draw
from policies.replay.report_front import (
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
from warehouse.evidence import EvidenceClass

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


def block(
    whole: OutcomeTable, entries: Sequence[Entry], asked: Asked, step: Step = lambda words: None
) -> dict[str, Any]:
    """The report of `entries` on the held-out part of `whole` as plain data (NaN and enums still in it).

    Raises ArmUnknown for an incumbent that is neither policy nor arm, ReplayError for choices that do not fit.
    """
    train, test = whole.train(), whole.test()
    choices = [e.choices for e in entries]
    incumbent = _incumbent(asked.incumbent, entries, whole)
    replicates = affordable(len(test), 2 * (len(entries) + len(whole.arms)), asked.replicates)
    step("figures")
    figures = evaluate(test, choices, fixed=[e.fixed_arm is not None for e in entries], weights=asked.weights)
    step("intervals")
    draws = draw(test, choices, seed=asked.seed, replicates=asked.replicates)
    step("domination")
    judged = verdicts(test, choices, replicates=replicates, seed=asked.seed)
    step("curves")
    curves = swept(entries, test)
    has_energy = bool(np.isfinite(test.energy_j).any())
    bands = proved(entries, curves, test, seed=asked.seed, replicates=replicates) if has_energy else {}
    best = best_fixed(entries, train)
    told: dict[str, Any] = {
        "dataset": whole.dataset,
        "dataset_sha256": whole.sha256,
        "arms": [asdict(arm) for arm in whole.arms],
        "n_train": len(train),
        "n_test": len(test),
        "coverage": test.coverage(),
        "evidence_class": whole.evidence_class,
        "energy_method": whole.energy_method,
        "carbon_evidence_class": whole.condition.carbon_class,
        "condition": asdict(whole.condition),
        "queries": counts(test),
        "reward_weights": weights_dict(asked.weights),
        "replicates": replicates,
        "interval_method": draws.method,
        "best_fixed_arm": None if best is None else entries[best].name,
        "incumbent": None if incumbent is None else entries[incumbent].name,
        **fronts(entries, figures, whole),
        "budget": None,
        "curves": {},
        "margins": {
            name: {"over_hull": frontier_dict(hull), "over_fixed_arms": frontier_dict(arms)}
            for name, (hull, arms) in bands.items()
        },
    }
    if asked.budget_j is not None:
        told["budget"] = within_budget(entries, figures, curves, asked.budget_j)
    fixed = [i for i, e in enumerate(entries) if e.fixed_arm is not None]
    right, joules = points([figures[i] for i in fixed])
    by_name = {e.name: e for e in entries}
    if fixed and has_energy:
        told["curves"] = {name: curve_dict(by_name[name], c, (joules, right)) for name, c in curves.items()}
    told["policies"] = _policies(
        test, train, entries, figures, draws, judged, dominated_by=told["dominated_by"], best=best, incumbent=incumbent
    )
    told["statements"] = statements(told, bands)
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


def best_fixed(entries: Sequence[Entry], train: OutcomeTable) -> int | None:
    """The fixed arm with the best training accuracy, of equals the one of fewest joules: chosen before the test."""
    fixed = [i for i, e in enumerate(entries) if e.fixed_arm is not None]
    if not fixed:
        return None
    right, joules = column_means(train.correct), column_means(train.energy_j)
    arms = [train.arm_index(str(entries[i].fixed_arm)) for i in fixed]
    keys = [(-np.nan_to_num(right[a], nan=-np.inf), np.nan_to_num(joules[a], nan=np.inf)) for a in arms]
    return fixed[min(range(len(fixed)), key=keys.__getitem__)]


def metric_rows(told: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The figures of a block as rows of core.replay_metric (without the run's id)."""
    rows: list[dict[str, Any]] = []
    for policy in told["policies"]:
        rows += _figure_rows(policy["name"], "", policy["figures"], policy["intervals"])
        for benchmark, figures in policy["by_benchmark"].items():
            rows += _figure_rows(policy["name"], benchmark, figures, {})
        rows += _comparison_rows(policy)
    return rows


def _policies(
    test: OutcomeTable,
    train: OutcomeTable,
    entries: Sequence[Entry],
    figures: Sequence[Figures],
    draws: Draws,
    judged: Sequence[Verdict],
    *,
    dominated_by: Mapping[str, list[str]],
    best: int | None,
    incumbent: int | None,
) -> list[dict[str, Any]]:
    train_energy: Floats = column_means(train.energy_j)
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
                "figures": figures_dict(figure, test.names),
                "intervals": intervals(draws, i),
                "by_benchmark": {name: figures_dict(each, test.names) for name, each in figure.by_benchmark.items()},
                "against": {
                    "best_fixed_arm": None if best in (None, i) else against(test, draws, i, int(best or 0), entries),
                    "incumbent": None
                    if incumbent in (None, i)
                    else against(test, draws, i, int(incumbent or 0), entries),
                },
                "domination": _verdict_dict(judged[i]),
                "on_front": not dominated_by.get(entry.name, ["?"]) and entry.about.deployable,
                "dominated_by": dominated_by.get(entry.name, []),
                "router": own_account(entry, figure, saved),
                "energy_predicted": predicted(entry, train_energy, test),
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
    known = [e.name for e in entries]
    raise ArmUnknown(
        f"The incumbent {name!r} is neither an arm of {table.dataset} nor a policy of this run.",
        fix=f"use one of {', '.join(table.names)}, or of {', '.join(known)}",
    )


_CLASSED = {"energy_j_per_query", "energy_j_per_correct", "power_w_per_call", "energy_over_time_w"}


def _figure_rows(
    policy: str, benchmark: str, figures: Mapping[str, Any], found: Mapping[str, list[float | None]]
) -> list[dict[str, Any]]:
    head = {"policy": policy, "benchmark": benchmark, "n": figures["n"]}
    rows = []
    for metric, unit in UNITS.items():
        low, high = found.get(metric, (None, None))
        cls: EvidenceClass | None = figures["evidence_class"] if metric in _CLASSED else None
        if metric == "gco2_per_query":
            cls = figures["carbon_evidence_class"]
        row = {"metric": metric, "unit": unit, "value": figures[metric], "low": low, "high": high}
        rows.append(head | row | {"evidence_class": None if cls is None or figures[metric] is None else cls.value})
    rows += [head | {"metric": f"share:{arm}", "unit": "share", "value": s} for arm, s in figures["mix"].items()]
    return rows


def _comparison_rows(policy: Mapping[str, Any]) -> list[dict[str, Any]]:
    head = {"policy": policy["name"], "benchmark": "", "n": policy["figures"]["n"]}
    cls = policy["figures"]["evidence_class"]
    rows = []
    for comparator, told in policy["against"].items():
        for measure in ("accuracy_difference", "energy_ratio", "energy_per_correct_ratio"):
            if told is None:
                continue
            values = {"value": told[measure]["estimate"], "low": told[measure]["low"], "high": told[measure]["high"]}
            unit = "share" if measure == "accuracy_difference" else "ratio"
            known = cls is not None and unit == "ratio" and values["value"] is not None
            rows.append(
                head
                | {"metric": f"{measure}:{comparator}", "unit": unit}
                | values
                | {"evidence_class": cls.value if known else None}
            )
    margin = policy["domination"]["margin_over_hull"]
    told = {"value": margin["estimate"], "low": margin["low"], "high": margin["high"]}
    rows.append(head | {"metric": "margin_over_hull", "unit": "share"} | told)
    return rows
