"""Points of the Pareto page: quality, or a second cost, against joules, dollars or grams; each with interval,
class, age and n. Each axis has the class of its own figures: joules that of the energy, grams the weaker of energy
and grid intensity, and a bill is measured, whatever energy lies behind it.

`reference`: offers on the reference workload of this warehouse; sums over all attempts per success. Published points
and replay runs have modules of their own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from app.reads.intervals import Ratio, Sums, ratio, wilson
from policies.pareto import mixing_hull, non_dominated
from policies.router import Parameters, load
from warehouse.engine import Warehouse
from warehouse.evidence import one_class, strongest_first
from warehouse.snapshots import snapshot

REFERENCE = "reference"
# key -> (column of core.usage, unit, words, SQL of its evidence class). "per": what a point is divided by.
AXES: dict[str, tuple[str, str, str, str]] = {
    "energy_j": ("energy_j", "J", "energy", "evidence_class"),
    "cost_usd": ("billed_cost_usd", "USD", "billed cost", "'measured'"),
    "carbon_g": ("carbon_g", "g", "gCO2e", "carbon_evidence_class"),
}


@dataclass(frozen=True)
class Point:
    """x and y in the units of their axes, per success or per query. None: no interval or unknown n.

    `evidence_class` is that of x, `y_evidence_class` that of y where y is joules, dollars or grams.
    """

    name: str
    x: float
    x_low: float | None
    x_high: float | None
    y: float
    y_low: float | None
    y_high: float | None
    evidence_class: str | None
    n: int | None
    at: datetime
    source: str
    detail: str = ""
    on_front: bool = False
    y_evidence_class: str | None = None
    role: str = ""  # of the replay lab: fixed, policy, bound (sees outcomes: never on the front)
    label: str = ""

    @property
    def weakest_class(self) -> str | None:
        """The class that names the point as a whole; None where no axis tells one."""
        known = [c for c in (self.evidence_class, self.y_evidence_class) if c]
        return strongest_first(known)[-1] if known else None


@dataclass(frozen=True)
class Unplotted:
    """An offer that has no place on the chart, and why."""

    name: str
    reason: str


_REFERENCE = """
SELECT provider, coalesce(served_offer, requested_offer) AS offer_id, class,
       string_agg(DISTINCT source_id, ', ' ORDER BY source_id) AS source_id,
       max(period_end_at) AS newest_at, sum(attempts)::BIGINT AS attempts,
       sum(successes)::BIGINT AS successes, count(*) FILTER (WHERE successes IS NULL) AS untold,
       count(*) FILTER (WHERE ok) AS n, sum(x) FILTER (WHERE ok) AS sum_y, sum(s) FILTER (WHERE ok) AS sum_s,
       var_samp(x) FILTER (WHERE ok) AS var_y, var_samp(s) FILTER (WHERE ok) AS var_s,
       covar_samp(x, s) FILTER (WHERE ok) AS cov
FROM (SELECT *, CAST({column} AS DOUBLE) AS x, CAST(coalesce(successes, requests) AS DOUBLE) AS s,
             {column} IS NOT NULL AS ok, CASE WHEN {column} IS NOT NULL THEN {cls} END AS class
      FROM core.usage WHERE workload = 'seed_reference' AND grain = 'request')
GROUP BY ALL ORDER BY provider, offer_id, class
"""
_Offer = tuple[str, str]  # provider, offer id
_Value = tuple[float, float | None, float | None]


@dataclass(frozen=True)
class _Cost:
    """One offer's figure on an axis, over its runs of one evidence class."""

    evidence_class: str
    ratio: Ratio
    row: dict[str, Any]


def _costs(warehouse: Warehouse, axis: str) -> dict[_Offer, list[_Cost]]:
    """Figures per offer, one per evidence class; an empty list where no run tells it."""
    column, _, _, cls = AXES[axis]
    found: dict[_Offer, list[_Cost]] = {}
    for row in warehouse.query(_REFERENCE.format(column=column, cls=cls)).iter_rows(named=True):
        costs = found.setdefault((row["provider"], row["offer_id"]), [])
        told = ratio(Sums(*(row[k] for k in ("n", "sum_y", "sum_s", "var_y", "var_s", "cov"))))
        if told is not None and row["class"] is not None:
            costs.append(_Cost(row["class"], told, row))
    return found


def has_scores(warehouse: Warehouse) -> bool:
    return bool(warehouse.scalar("SELECT count(*) > 0 FROM core.score"))


def reference(
    warehouse: Warehouse, axis: str, other: str, category: str, parameters: Parameters
) -> tuple[list[Point], list[Unplotted]]:
    """Offers on the reference workload. `other`: what y is: `proficiency` in `category`, `success` (rate of the
    runs), or a second one of `AXES`.

    Where a source does not tell success, a run counts as one: the detail of the point says `per run`.
    """
    scores = _proficiency(warehouse, category, parameters) if other == "proficiency" else {}
    second = _costs(warehouse, other) if other in AXES else {}
    points, unplotted = [], []
    for key, costs in _costs(warehouse, axis).items():
        name = key[1]
        if not costs:
            unplotted.append(Unplotted(name, f"no reference run tells its {AXES[axis][2]}"))
        for x in costs:
            ys: list[tuple[_Value, str | None]] | str
            if other in AXES:
                ys = [((c.ratio.value, c.ratio.low, c.ratio.high), c.evidence_class) for c in second[key]]
                ys = ys or f"no reference run tells its {AXES[other][2]}"
            elif other == "proficiency":
                known = name in scores
                ys = [((scores[name], None, None), None)] if known else f"no score in {category} is known"
            else:
                share = _success(x.row)
                ys = share if isinstance(share, str) else [(share, None)]
            if isinstance(ys, str):
                unplotted.append(Unplotted(name, ys))
                continue
            points += [_point(name, x, y, y_class) for y, y_class in ys]
    return points, unplotted


def _point(name: str, x: _Cost, y: _Value, y_class: str | None) -> Point:
    per = "per success" if x.row["untold"] == 0 else "per run (success is not told)"
    return Point(
        name,
        x.ratio.value,
        x.ratio.low,
        x.ratio.high,
        *y,
        x.evidence_class,
        x.ratio.n,
        x.row["newest_at"],
        x.row["source_id"],
        per,
        y_evidence_class=y_class,
    )


def _success(row: dict[str, Any]) -> _Value | str:
    if row["untold"] or not row["attempts"]:
        return "no source tells success"
    span = wilson(row["successes"], row["attempts"]) or (None, None)
    return row["successes"] / row["attempts"], *span


def _proficiency(warehouse: Warehouse, category: str, parameters: Parameters) -> dict[str, float]:
    with snapshot(warehouse) as snap:
        # All evidence counts here: an old point is drawn with its age, not hidden.
        candidates = load(snap, replace(parameters, evidence_max_age=timedelta(days=36_500)))
    rows = candidates.offers.select("offer_id", "base_model").iter_rows()
    scores = {offer: candidates.proficiency_of(offer, base, category) for offer, base in rows}
    return {offer: score for offer, score in scores.items() if score is not None}


@dataclass(frozen=True)
class Front:
    """Points with `on_front` set, and the corners of the hull that random mixing of arms reaches."""

    points: list[Point]
    hull: list[Point]
    evidence_class: str | None  # of the x axis
    y_evidence_class: str | None = None  # of the y axis, where it has one


def front(points: list[Point], better: int = 1) -> Front:
    """Strict dominance: less x, and more y (`better` = 1) or less y (-1). Equal points stay on the front together.

    A bound is never on the front. The hull is that of the fixed arms where there are any, else that of all points.
    Raises IncomparableObservations where an axis would mix evidence classes.
    """
    cls = one_class((p.evidence_class for p in points if p.evidence_class), what="The x axis")
    y_cls = one_class((p.y_evidence_class for p in points if p.y_evidence_class), what="The y axis")
    if not points:
        return Front([], [], None)
    xy = np.array([(p.x, p.y) for p in points])
    able = np.array([p.role != "bound" for p in points])
    keep = np.zeros(len(points), dtype=bool)
    keep[able] = non_dominated(xy[able], (-1, better))
    marked = [replace(p, on_front=bool(on)) for p, on in zip(points, keep, strict=True)]
    fixed = [i for i, p in enumerate(points) if p.role == "fixed"] or np.flatnonzero(able).tolist()
    corners = [marked[fixed[i]] for i in mixing_hull(xy[fixed, 0], better * xy[fixed, 1])] if fixed else []
    return Front(marked, corners, cls, y_cls)
