"""What a change promises, from the reference runs of both offers: joules, dollars, grams, success.

Every figure carries evidence class, method, n and interval; differences are refused across evidence classes.
Joules, dollars and grams each have a class of their own: grams inherit the weaker of energy and grid intensity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from policies.recommend.figures import Comparison, Ratio, compare, ratio, success_difference
from warehouse.clock import iso
from warehouse.errors import IncomparableObservations
from warehouse.evidence import EvidenceClass, one_class

METRICS: dict[str, str] = {"energy_j": "J", "billed_cost_usd": "USD", "carbon_g": "gCO2eq"}
METHOD = "ratio of totals; 95 % interval by the delta method on its logarithm, independent samples (Welch)"
_METHODS = {
    "energy_j": "reference workload",
    "billed_cost_usd": "billed, not list price",
    "carbon_g": "energy x grid intensity",
}


@dataclass(frozen=True)
class Run:
    """One billed reference request. None is unknown.

    `carbon_evidence_class` is None only where carbon_g is.
    """

    requests: int
    attempts: int
    successes: int | None
    energy_j: float | None
    billed_cost_usd: Decimal | None
    carbon_g: float | None
    evidence_class: str  # of energy_j
    carbon_evidence_class: str | None
    method: str
    source_id: str
    period_end_at: datetime


def promise(old: Sequence[Run], new: Sequence[Run]) -> dict[str, Any]:
    """Figures of both sides and their differences, as plain values.

    `per` is "success" where every run of both sides tells success, else "run": both sides on the same footing.
    """
    per = "success" if old and new and all(r.successes is not None for r in (*old, *new)) else "run"
    metrics = {name: _metric(name, old, new, per) for name in METRICS}
    return {
        "per": per,
        "method": METHOD,
        "metrics": metrics,
        "success": {**(sides := {"from": _success(old), "to": _success(new)}), "difference": _difference(sides)},
    }


def _difference(sides: Mapping[str, Mapping[str, Any]]) -> dict[str, float] | None:
    """Success rate of the candidate minus that of the incumbent, with its 95 % interval; None where unknown."""
    old, new = sides["from"], sides["to"]
    if old["rate"] is None or new["rate"] is None:
        return None
    low, high = success_difference(new["successes"], new["attempts"], old["successes"], old["attempts"])
    return {"value": new["rate"] - old["rate"], "low": low, "high": high}


def _metric(name: str, old: Sequence[Run], new: Sequence[Run], per: str) -> dict[str, Any]:
    sides = {"from": _side(name, old, per), "to": _side(name, new, per)}
    classes = {s["evidence_class"] for s, _ in sides.values()}
    found: Comparison | None = None
    note = next((s["note"] for s, _ in sides.values() if s["note"]), None)
    if note is None and len(classes) > 1:
        note = f"not comparable: {' against '.join(sorted(str(c) for c in classes))}"
    if note is None:
        found = compare(sides["from"][1], sides["to"][1])
    return {
        "unit": f"{METRICS[name]}/{per}",
        "from": sides["from"][0],
        "to": sides["to"][0],
        "difference": found.difference if found else None,
        "interval": list(found.interval) if found and found.interval else None,
        "separable": _separable(found),
        "note": note,
    }


def _separable(found: Comparison | None) -> str:
    if found is None or found.separable is None:
        return "unknown"
    return "separable" if found.separable else "not separable"


def _side(name: str, runs: Sequence[Run], per: str) -> tuple[dict[str, Any], Ratio | None]:
    """One offer's figure; rows without the figure count in neither the total nor the successes."""
    classed = [(r, c) for r in runs if getattr(r, name) is not None and (c := _class_of(name, r)) is not None]
    known = [r for r, _ in classed]
    note, cls = None, None
    try:
        cls = one_class((c for _, c in classed), what=name)
    except IncomparableObservations as mixed:
        note = mixed.message
    if not known:
        note = "no reference run tells it"
    units = [float(r.successes or 0) if per == "success" else float(r.requests) for r in known]
    found = ratio([float(getattr(r, name)) for r in known], units) if note is None else None
    if note is None and found is None:
        note = "no run succeeded"
    told: dict[str, Any] = {
        "value": found.value if found else None,
        "n": len(known),
        "coverage": len(known) / len(runs) if runs else None,
        "interval": list(found.interval) if found and found.interval else None,
        "se_log": found.se_log if found else None,
        "evidence_class": cls.value if cls else None,
        "method": _METHODS[name] if name != "energy_j" or not known else known[0].method,
        "newest_at": iso(max(r.period_end_at for r in known)) if known else None,
        "note": note,
    }
    if name == "billed_cost_usd" and found:
        total = sum((r.billed_cost_usd for r in known if r.billed_cost_usd is not None), Decimal(0))
        told["total_usd"] = format(total, "f")
    return told, found


def _class_of(name: str, run: Run) -> str | None:
    if name == "billed_cost_usd":  # a bill is a document, not a reading: whatever the energy behind it
        return EvidenceClass.MEASURED
    return run.evidence_class if name == "energy_j" else run.carbon_evidence_class


def _success(runs: Sequence[Run]) -> dict[str, Any]:
    known = [r for r in runs if r.successes is not None]
    attempts, successes = sum(r.attempts for r in known), sum(r.successes or 0 for r in known)
    return {
        "successes": successes if known else None,
        "attempts": attempts if known else None,
        "rate": successes / attempts if attempts else None,
    }


def gains(told: Mapping[str, Any]) -> dict[str, float]:
    """Relative gain per metric (positive is better); metrics without a difference are left out."""
    return {name: -metric["difference"] for name, metric in told["metrics"].items() if metric["difference"] is not None}


def primary_metric(told: Mapping[str, Any], min_gain: float) -> str | None:
    """The metric the change is made for: joules where they gain enough, else billed dollars; None: neither."""
    found = gains(told)
    return next((m for m in ("energy_j", "billed_cost_usd") if found.get(m, float("-inf")) >= min_gain), None)
