"""The fronts of a run: fixed arms and their hull, deployable policies, hypervolume, budget, curves, indices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from policies.pareto import mixing_hull, non_dominated
from policies.replay.bootstrap import REPLICATES
from policies.replay.curves import Curve, Sweep, curve
from policies.replay.frontier import Frontier, frontier
from policies.replay.indices import (
    Reference,
    aiq,
    apgr,
    best_mix_within,
    best_within,
    cpt,
    deferral,
    hypervolume,
    quantile_points,
    recovered_gap,
)
from policies.replay.metrics import Figures
from policies.replay.policy import Threshold
from policies.replay.report_policy import Entry
from policies.replay.table import Floats, OutcomeTable
from warehouse.ids import sha256

DRAWN_POINTS = 200
POINTS = 24  # of a curve that are tested
DIRECTIONS = (1, -1)
RECOVERED = (0.2, 0.5, 0.8)


def points(figures: Sequence[Figures]) -> tuple[Floats, Floats]:
    """(accuracy (P,), J per query (P,)), NaN where not identifiable."""
    right = [np.nan if f.accuracy is None else f.accuracy for f in figures]
    joules = [np.nan if f.energy_j_per_query is None else f.energy_j_per_query for f in figures]
    return np.array(right), np.array(joules)


def fronts(entries: Sequence[Entry], figures: Sequence[Figures], reference: Reference | None) -> dict[str, Any]:
    """Hypervolumes with their reference point, the front of deployable policies, the fixed arms and their hull.

    `reference` is that of the whole table, so that it stays where it is when another part is held out.

    All None or empty where no energy is known. Policies that see outcomes are bounds and never on a front.
    """
    right, joules = points(figures)
    known = np.isfinite(right) & np.isfinite(joules)
    deployable = np.array([e.about.deployable for e in entries], dtype=bool) & known
    fixed = np.array([e.fixed_arm is not None for e in entries], dtype=bool) & known
    told: dict[str, Any] = {
        "hypervolume": None,
        "hypervolume_fixed_arms": None,
        "hypervolume_unit": "accuracy x J/query",
        "reference_point": None,
        "front": [],
        "hull": [],
        "dominated_by": {},
    }
    if not deployable.any() or reference is None:
        return told
    told["reference_point"] = asdict(reference)
    told["hypervolume"] = hypervolume(joules[deployable], right[deployable], reference)
    told["hypervolume_fixed_arms"] = hypervolume(joules[fixed], right[fixed], reference)
    at = np.flatnonzero(deployable)
    on = at[non_dominated(np.column_stack([right[at], joules[at]]), DIRECTIONS)]
    told["front"] = [entries[i].name for i in on[np.argsort(joules[on], kind="stable")]]
    arms = np.flatnonzero(fixed)
    told["hull"] = [
        {"policy": entries[arms[i]].name, "accuracy": float(right[arms[i]]), "energy_j": float(joules[arms[i]])}
        for i in mixing_hull(joules[arms], right[arms])
    ]
    for i in np.flatnonzero(known).tolist():
        no_worse = deployable & (right >= right[i]) & (joules <= joules[i])
        better = (right > right[i]) | (joules < joules[i])
        told["dominated_by"][entries[i].name] = [entries[int(j)].name for j in np.flatnonzero(no_worse & better)]
    return told


def within_budget(
    entries: Sequence[Entry], figures: Sequence[Figures], curves: Mapping[str, Curve], budget_j: float
) -> dict[str, Any]:
    """The most accuracy for at most `budget_j` joules per query: of a fixed arm, of a mixture of them, of a policy
    as it was run, and of every point of every curve. None where nothing is that cheap.

    The point of a curve is chosen on the held-out queries themselves, so its accuracy is on the optimistic side.
    """
    right, joules = points(figures)
    fixed = [i for i, e in enumerate(entries) if e.fixed_arm is not None]
    deployable = [i for i, e in enumerate(entries) if e.about.deployable and e.fixed_arm is None]
    told: dict[str, Any] = {"budget_j": budget_j, "fixed_arm": None, "mixture": None, "policy": None, "curve": None}
    found = best_within(joules[fixed], right[fixed], budget_j)
    if found:
        told["fixed_arm"] = _point(entries[fixed[found.first]].name, found.accuracy, found.energy_j)
    found = best_mix_within(joules[fixed], right[fixed], budget_j)
    if found:
        first, second = (entries[fixed[i]].name for i in (found.first, found.second))
        told["mixture"] = {
            "policies": {first: 1.0} if first == second else {first: 1 - found.share, second: found.share},
            "accuracy": found.accuracy,
            "energy_j": found.energy_j,
        }
    found = best_within(joules[deployable], right[deployable], budget_j)
    if found:
        told["policy"] = _point(entries[deployable[found.first]].name, found.accuracy, found.energy_j)
    allowed = {entries[i].name for i in deployable}
    best = None
    for name, each in curves.items():
        found = best_within(each.energy_j, each.accuracy, budget_j) if name in allowed else None
        if found and (best is None or found.accuracy > best["accuracy"]):
            best = _point(name, found.accuracy, found.energy_j) | {
                "parameter": _finite(each.sweep.parameter[found.first]),
                "kind": each.sweep.kind,
            }
    told["curve"] = best
    return told


def swept(entries: Sequence[Entry], table: OutcomeTable) -> dict[str, Curve]:
    """The exact curve of every policy that has one."""
    return {e.name: curve(table, e.swept) for e in entries if e.swept is not None}


def curve_dict(entry: Entry, each: Curve, arms: tuple[Floats, Floats]) -> dict[str, Any]:
    """A curve thinned for drawing (its ends and the corners of its hull stay), and the indices of the whole of it.

    `arms`: joules and accuracy of the fixed arms, over which AIQ and the deferral area are taken.
    """
    cost, quality = arms
    known = np.isfinite(cost)
    low, high = (float(cost[known].min()), float(cost[known].max())) if known.any() else (None, None)
    parted = deferral(each.energy_j, each.accuracy, cost, quality)
    told: dict[str, Any] = {
        "kind": each.sweep.kind,
        "points": len(each),
        "drawn": _thinned(each),
        "aiq": aiq(each.energy_j, each.accuracy, low, high),
        "aiq_own_range": aiq(each.energy_j, each.accuracy),
        "aiq_fixed_arms": aiq(cost, quality, low, high),
        "aiq_cost_range_j": [low, high],
        "deferral_area": parted.area,
        "deferral_area_half": parted.area_half,
        "qnc": parted.qnc,
    }
    if isinstance(entry.swept, Threshold):
        share, right = each.moved, each.accuracy
        bins = quantile_points(entry.swept.score, share)
        told |= {
            "weak": table_name(entry, "weak"),
            "strong": table_name(entry, "strong"),
            "apgr": apgr(share, right),
            "apgr_10_bins": apgr(share[bins], right[bins]),
            "cpt": {f"{q:g}": cpt(share, right, q) for q in RECOVERED},
        }
        gap = recovered_gap(right, float(right[0]), float(right[-1]))
        told["pgr_largest"] = None if gap is None or np.isnan(gap).all() else float(np.nanmax(gap))
    return told


def table_name(entry: Entry, which: str) -> Any:
    """What the policy says its weak or strong arm is."""
    return entry.about.parameters.get(which, entry.notes.get(which))


def proved(
    entries: Sequence[Entry],
    curves: Mapping[str, Curve],
    table: OutcomeTable,
    span_j: tuple[float, float],
    *,
    seed: int,
    replicates: int = REPLICATES,
) -> dict[str, tuple[Frontier, Frontier]]:
    """Margins of each deployable curve over the hull and over the arms alone, with bands, between `span_j`.

    Several policies are tried, so each band holds at 1 - 0.05/m for m curves: all of them together at 95 %. One policy
    at several operating points has one curve, under the shortest of their names. `span_j` is the range of joules in
    which fixed arms offer a choice; it must come from the training part, and keeps the band from being widened by
    points that nobody would run.
    """
    tried: dict[str, Entry] = {}
    for e in entries:
        if e.name in curves and e.about.deployable and e.fixed_arm is None and e.about.family != "hull":
            key = _curve_key(e)
            if key not in tried or len(e.name) < len(tried[key].name):
                tried[key] = e
    within = {e.name: part for e in tried.values() if (part := _within(curves[e.name], span_j)) is not None}
    confidence = 1 - 0.05 / max(len(within), 1)
    found = {}
    for name, sweep in within.items():
        both = [
            frontier(table, sweep, mixing=m, points=POINTS, seed=seed, replicates=replicates, confidence=confidence)
            for m in (True, False)
        ]
        if both[0] is not None and both[1] is not None:
            found[name] = (both[0], both[1])
    return found


def choice_span(train_accuracy: Floats, train_energy_j: Floats) -> tuple[float, float] | None:
    """From the cheapest fixed arm's joules to those of the most accurate one; None where that is no range."""
    known = np.flatnonzero(np.isfinite(train_accuracy) & np.isfinite(train_energy_j))
    if not known.size:
        return None
    right, joules = train_accuracy[known], train_energy_j[known]
    low, high = float(joules.min()), float(joules[np.lexsort((joules, -right))[0]])
    return (low, high) if high > low else None


def _within(each: Curve, span_j: tuple[float, float]) -> Sweep | None:
    """The points of a sweep whose mean joules lie in the span."""
    inside = np.flatnonzero((each.energy_j >= span_j[0]) & (each.energy_j <= span_j[1]))
    sweep = each.sweep
    return replace(sweep, parameter=sweep.parameter[inside], until=sweep.until[inside]) if inside.size else None


def _curve_key(entry: Entry) -> str:
    swept = entry.swept
    arrays = (swept.score,) if isinstance(swept, Threshold) else (swept.error, swept.energy_j) if swept else ()
    return sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)) + entry.about.family


def frontier_dict(found: Frontier) -> dict[str, Any]:
    columns = ("parameter", "energy_j", "accuracy", "margin", "low", "high", "low_all", "high_all")
    told = {k: v for k, v in asdict(found).items() if k not in columns and k != "point"}
    told["points"] = [{name: _finite(getattr(found, name)[i]) for name in columns} for i in range(len(found.energy_j))]
    return told


def _thinned(each: Curve) -> list[dict[str, float | None]]:
    known = np.flatnonzero(np.isfinite(each.energy_j) & np.isfinite(each.accuracy))
    if not known.size:
        return []
    keep = set(np.linspace(0, known.size - 1, min(DRAWN_POINTS, known.size)).round().astype(int).tolist())
    keep |= set(mixing_hull(each.energy_j[known], each.accuracy[known]).tolist())
    at = known[sorted(keep)]
    return [
        {
            "parameter": _finite(each.sweep.parameter[i]),
            "accuracy": float(each.accuracy[i]),
            "energy_j": float(each.energy_j[i]),
            "latency_s": _finite(each.latency_s[i]),
            "usd": _finite(each.cost_usd[i]),
            "moved": float(each.moved[i]),
        }
        for i in at
    ]


def _point(name: str, accuracy: float, energy_j: float) -> dict[str, Any]:
    return {"policy": name, "accuracy": accuracy, "energy_j": energy_j}


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
