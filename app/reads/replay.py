"""What the Pareto page draws of replay runs: data sets, runs and their conditions, points, curves.

A stored report never changes, so the parts of it are read apart and cached by the page: figures for every draw, curves
only where curves are drawn.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from typing import Any

import numpy as np

from app.reads.intervals import wilson
from app.reads.pareto import Point, Unplotted
from app.replay.described import condition_words
from policies.pareto import mixing_hull
from policies.replay.metrics import J_PER_KWH
from policies.replay.table import Condition
from warehouse.engine import Warehouse

Report = dict[str, Any]


@dataclass(frozen=True)
class Metric:
    """A figure of a policy: unit, words, `per` what it is divided by, what its evidence class is, which way is better.

    `span` is its key among the report's intervals, `curve` its column in a drawn curve ('' where there is none).
    """

    unit: str
    words: str
    per: str
    of: str
    better: int = -1
    span: str = ""
    curve: str = ""

    @property
    def title(self) -> str:
        return f"{self.words} per {self.per}" if self.per else self.words


X: dict[str, Metric] = {
    "energy_j_per_query": Metric("J", "Energy", "query", "energy", span="energy_j_per_query", curve="energy_j"),
    "energy_j_per_correct": Metric(
        "J", "Energy", "correct answer", "energy", span="energy_j_per_correct", curve="j_per_correct"
    ),
    "usd_per_query": Metric("USD", "Cost", "query", "cost", curve="usd"),
    "gco2_per_query": Metric("g", "gCO2", "query", "carbon", curve="gco2"),
    "latency_mean_s": Metric("s", "Mean latency", "", "latency", curve="latency_s"),
    "latency_p95_s": Metric("s", "P95 latency", "", "latency"),
}
Y: dict[str, Metric] = {
    "accuracy": Metric("share", "Accuracy", "", "answers", 1, "accuracy", "accuracy"),
    "reward": Metric("1", "Reward", "", "answers", 1),
    "margin_over_hull": Metric("pp", "Accuracy above the hull of the fixed arms", "", "answers", 1),
}


@dataclass(frozen=True)
class Block:
    """One condition of a run."""

    replay_run_id: str
    words: str
    evidence_class: str | None
    hypervolume: float | None


@dataclass(frozen=True)
class Run:
    """A stored run: the same choices under each of its conditions."""

    run_id: str
    dataset: str
    finished_at: datetime
    actor: str
    n_train: int
    n_test: int
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class DataSet:
    """Recorded outcomes that can be replayed. `ran_at`: end of the newest run, None where none is stored."""

    name: str
    arms: int
    own_energy: bool
    ran_at: datetime | None


_DATA_SETS = """
SELECT a.dataset, a.arms, a.joined, r.ran_at
FROM (SELECT dataset, count(*) AS arms, count(energy_model) AS joined FROM core.arm GROUP BY dataset) a
LEFT JOIN (SELECT dataset, max(finished_at) AS ran_at FROM core.replay_run GROUP BY dataset) r USING (dataset)
ORDER BY a.dataset
"""
_RUNS = """
SELECT run_id, dataset, max(finished_at) AS finished_at, any_value(actor) AS actor, any_value(n_train) AS n_train,
       any_value(n_test) AS n_test,
       list(struct_pack(id := replay_run_id, gpu := gpu, batch := batch, zone := zone, at := intensity_at,
            g := intensity_g_per_kwh, cls := evidence_class, hypervolume := hypervolume)
            ORDER BY replay_run_id) AS blocks
FROM core.replay_run WHERE dataset = $dataset
GROUP BY run_id, dataset ORDER BY finished_at DESC, run_id DESC LIMIT 100
"""


def data_sets(warehouse: Warehouse) -> list[DataSet]:
    """By name. Only the small tables are looked at."""
    rows = warehouse.query(_DATA_SETS).iter_rows()
    return [DataSet(name, arms, not joined, ran_at) for name, arms, joined, ran_at in rows]


def runs(warehouse: Warehouse, dataset: str) -> list[Run]:
    """The newest hundred runs of a data set, newest first."""
    found = []
    for row in warehouse.query(_RUNS, {"dataset": dataset}).iter_rows(named=True):
        blocks = tuple(
            Block(b["id"], condition_words(_condition(b)), b["cls"], b["hypervolume"]) for b in row.pop("blocks")
        )
        found.append(Run(**row, blocks=blocks))
    return found


def _condition(b: Mapping[str, Any]) -> Condition:
    return Condition(gpu=b["gpu"], batch=b["batch"], zone=b["zone"], at=b["at"], intensity_g_per_kwh=b["g"])


_HEAVY = ("curves", "margins", "dominated_by")


def report(warehouse: Warehouse, replay_run_id: str) -> Report:
    """The report of one condition without what only a curve needs; `proved`: where curves beat the hull, in J."""
    whole = _whole(warehouse, replay_run_id)
    slim = {k: v for k, v in whole.items() if k not in _HEAVY}
    return slim | {"proved": {name: spans for name in whole["margins"] if (spans := _proved(whole, name))}}


def _proved(whole: Report, name: str) -> tuple[tuple[float, float], ...]:
    found = whole["margins"].get(name, {}).get("over_hull", {}).get("proved", [])
    return tuple((r["low_j"], r["high_j"]) for r in found)


def _whole(warehouse: Warehouse, replay_run_id: str) -> Report:
    text = warehouse.scalar("SELECT report FROM core.replay_run WHERE replay_run_id = $id", {"id": replay_run_id})
    return dict(json.loads(str(text)))


@dataclass(frozen=True)
class Line:
    """The curve of a policy over its threshold or lambda, as columns; `proved` are ranges (J, J) above the hull."""

    policy: str
    columns: Mapping[str, tuple[float | None, ...]]
    proved: tuple[tuple[float, float], ...]


def curves(warehouse: Warehouse, replay_run_id: str) -> list[Line]:
    """Every distinct curve of a deployable policy; operating points of one policy share theirs, under the first name.

    The hull's own curve is left out: the hull is drawn anyway.
    """
    whole = _whole(warehouse, replay_run_id)
    intensity = (whole["condition"] or {}).get("intensity_g_per_kwh")
    drawn = {p["name"] for p in whole["policies"] if p["deployable"] and p["family"] != "hull"}
    seen: set[tuple[Any, ...]] = set()
    found = []
    for name in sorted(whole["curves"], key=lambda n: (len(n), n)):
        points = whole["curves"][name]["drawn"]
        key = tuple((p["energy_j"], p["accuracy"]) for p in points)
        if name not in drawn or not points or key in seen:
            continue
        seen.add(key)
        found.append(Line(name, _columns(points, intensity), _proved(whole, name)))
    return found


def _columns(points: Sequence[Mapping[str, Any]], intensity: float | None) -> dict[str, tuple[float | None, ...]]:
    joules, right = [p["energy_j"] for p in points], [p["accuracy"] for p in points]
    return {
        "accuracy": tuple(right),
        "energy_j": tuple(joules),
        "j_per_correct": tuple(j / a if a else None for j, a in zip(joules, right, strict=True)),
        "latency_s": tuple(p["latency_s"] for p in points),
        "usd": tuple(p["usd"] for p in points),
        "gco2": tuple(None if intensity is None else j / J_PER_KWH * intensity for j in joules),
    }


def benchmarks(told: Report) -> list[str]:
    """Names of the benchmarks, where there are several to tell apart."""
    names = sorted({b for p in told["policies"] for b in p["by_benchmark"]})
    return names if len(names) > 1 else []


def class_of(told: Report, metric: Metric) -> str | None:
    """The evidence class of a figure; None where its source does not tell one (answers, dollars, recorded seconds)."""
    joined = bool((told.get("load") or {}).get("energy_rates"))
    found = {
        "energy": told["evidence_class"],
        "carbon": told["carbon_evidence_class"],
        "latency": told["evidence_class"] if joined else None,
    }.get(metric.of)
    return None if found is None else str(found)


def points(told: Report, x: str, y: str, benchmark: str, at: datetime) -> tuple[list[Point], list[Unplotted]]:
    """One point per policy, and the policies that have none with the reason. Shares as shares, margins in points."""
    cls, y_cls = class_of(told, X[x]), class_of(told, Y[y])
    found, unplotted = [], []
    for policy in told["policies"]:
        name = policy["name"]
        figures = policy["by_benchmark"].get(benchmark) if benchmark else policy["figures"]
        if figures is None:
            unplotted.append(Unplotted(name, f"no query of {benchmark}"))
            continue
        (x_value, x_low, x_high), (y_value, y_low, y_high) = (
            _value(policy, figures, metrics, key, benchmark) for metrics, key in ((X, x), (Y, y))
        )
        if x_value is None or y_value is None:
            missing = [m.title for m, v in ((X[x], x_value), (Y[y], y_value)) if v is None]
            unplotted.append(Unplotted(name, f"{' and '.join(missing)}: {_why(figures)}"))
            continue
        if x_value <= 0:
            unplotted.append(Unplotted(name, f"{X[x].title} is 0, which has no place on a logarithmic axis"))
            continue
        n, family = figures["n"], policy["family"]
        point = Point(name, x_value, x_low, x_high, y_value, y_low, y_high, cls, n, at, family, y_evidence_class=y_cls)
        found.append(replace(point, role=role(policy), label=label(policy)))
    return found, unplotted


def role(policy: Mapping[str, Any]) -> str:
    """`fixed`, `policy`, or `bound` for one that sees outcomes and cannot be deployed."""
    if not policy["deployable"]:
        return "bound"
    return "fixed" if policy["fixed_arm"] is not None else "policy"


def label(policy: Mapping[str, Any]) -> str:
    """What stands beside the point: a fixed arm by its own name and role."""
    if policy["fixed_arm"] is None:
        return str(policy["name"])
    what = policy["parameters"].get("role")
    return f"{policy['fixed_arm']} · {what}" if what else str(policy["fixed_arm"])


def _value(
    policy: Mapping[str, Any], figures: Mapping[str, Any], metrics: Mapping[str, Metric], key: str, benchmark: str
) -> tuple[float | None, float | None, float | None]:
    """(value, low, high). Of a benchmark alone accuracy has Wilson's interval, other figures have none."""
    if key == "margin_over_hull":
        margin = {} if benchmark else policy["domination"]["margin_over_hull"]
        middle, low, high = (None if margin.get(k) is None else 100 * margin[k] for k in ("estimate", "low", "high"))
        return middle, low, high
    value, n = figures[key], figures["n"]
    if value is None:
        return None, None, None
    if not benchmark:
        low, high = policy["intervals"].get(metrics[key].span, (None, None))
        return value, low, high
    low, high = (wilson(value * n, n) or (None, None)) if key == "accuracy" else (None, None)
    return value, low, high


def _why(figures: Mapping[str, Any]) -> str:
    if figures["missing"]:
        return f"not identifiable, {figures['missing']:g} of the {figures['n']} cells it picks are not recorded"
    return "not recorded"


_MIXES = {"energy_j_per_query", "usd_per_query", "gco2_per_query", "latency_mean_s"}  # means over queries
_STEPS = 25


def mixing_line(points: Sequence[Point], x: str, y: str) -> tuple[list[float], list[float]]:
    """What random mixing of the fixed arms among `points` reaches, as a line. Empty where mixing has no such line.

    Means over queries mix linearly. J per correct answer is a ratio of two of them: mixed in J per query, then divided.
    """
    fixed = [p for p in points if p.role == "fixed"]
    ratio = x == "energy_j_per_correct"
    if len(fixed) < 2 or not ((x in _MIXES and y in ("accuracy", "reward")) or (ratio and y == "accuracy")):
        return [], []
    up = np.array([p.y for p in fixed])
    across = np.array([p.x for p in fixed]) * (up if ratio else 1.0)
    corners = mixing_hull(across, up)
    if len(corners) < 2:
        return [], []
    between = np.unique(np.concatenate([np.geomspace(a, b, _STEPS) for a, b in pairwise(across[corners])]))
    height = np.interp(between, across[corners], up[corners])
    return (between / height if ratio else between).tolist(), height.tolist()


def newest_outcome(warehouse: Warehouse, dataset: str) -> datetime | None:
    """When the newest outcome of a data set was learned: a run before it is stale."""
    found: datetime | None = warehouse.scalar(
        "SELECT max(known_from) FROM core.outcome WHERE dataset = $d", {"d": dataset}
    )
    return found


def gpus(warehouse: Warehouse) -> list[str]:
    """GPUs that a benchmark of joules per token was measured on."""
    rows = warehouse.query(
        "SELECT DISTINCT hardware_model FROM core.energy_observation "
        "WHERE workload = 'benchmark' AND hardware_model IS NOT NULL ORDER BY hardware_model"
    )
    return rows["hardware_model"].to_list()


def zones(warehouse: Warehouse) -> list[str]:
    """Zones with a grid intensity."""
    return warehouse.query("SELECT DISTINCT zone FROM core.grid_intensity ORDER BY zone")["zone"].to_list()
