"""Points that publications report, as the Pareto page draws them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime

from app.reads.intervals import wilson
from app.reads.pareto import Point, Unplotted
from app.reads.replay import Metric
from app.replay import publications
from policies.replay.published import FIXED_ARMS
from policies.replay.published import Point as Published
from policies.replay.report_reward import published_weight
from warehouse.clock import utcnow
from warehouse.engine import Warehouse
from warehouse.snapshots import snapshot

X: dict[str, Metric] = {
    "energy_j": Metric("J", "Energy", "query", "energy"),
    "energy_j_per_correct": Metric("J", "Energy", "correct answer", "energy"),
    "latency_s": Metric("s", "Latency", "query", "latency"),
}
Y: dict[str, Metric] = {
    "accuracy": Metric("share", "Accuracy", "", "answers", 1),
    "reward": Metric("1", "Reward", "", "answers", 1),
}


@dataclass(frozen=True)
class Told:
    """A published point; `added` where it comes from the companion of fixed arms that is told elsewhere."""

    point: Published
    added: bool
    at: datetime
    method: str


def names(warehouse: Warehouse) -> list[str]:
    """The published data sets; the paper's is always there, because joulebook ships it."""
    with snapshot(warehouse) as snap:
        return publications.published_names(snap)


def in_warehouse(warehouse: Warehouse) -> bool:
    return bool(warehouse.scalar("SELECT count(*) > 0 FROM core.published_point"))


def points(warehouse: Warehouse, dataset: str) -> list[Told]:
    """The points of a data set, then the arms of its companion."""
    rows = warehouse.query(
        "SELECT dataset, policy, known_from, method FROM core.published_point WHERE dataset IN ($own, $arms)",
        {"own": dataset, "arms": dataset + FIXED_ARMS},
    )
    about = {(d, p): (at, method) for d, p, at, method in rows.iter_rows()}
    with snapshot(warehouse) as snap:
        own, arms = publications.points_and_arms(snap, dataset)
    now = (utcnow(), "shipped with joulebook")
    return [
        Told(p, added, *about.get((name, p.policy), now))
        for added, name, each in ((False, dataset, own), (True, dataset + FIXED_ARMS, arms))
        for p in each
    ]


def benchmarks(told: list[Told]) -> list[str]:
    return sorted({name for t in told for name in t.point.slices})


def weights(told: list[Told]) -> list[str]:
    """Weights of energy in the rewards that are told, as words; that of most points first."""
    found = Counter(_weight(t.point) for t in told if t.point.reward is not None)
    return sorted(found, key=lambda w: (-found[w], w))


def _weight(point: Published) -> str:
    weight = published_weight(point.policy)
    return "unknown" if weight is None else f"{weight:g}"


def plotted(told: list[Told], x: str, y: str, benchmark: str, weight: str) -> tuple[list[Point], list[Unplotted]]:
    """Points on these axes, and those that have no place there with the reason. Rewards only of one `weight`."""
    found, unplotted = [], []
    for t in told:
        p = t.point
        whole = (p.n, p.accuracy, p.energy_j)
        n, accuracy, joules = p.slices.get(benchmark, (None, None, None)) if benchmark else whole
        if y == "reward" and p.reward is not None and _weight(p) != weight:
            unplotted.append(Unplotted(p.policy, f"its reward has λe {_weight(p)}: another measure"))
            continue
        across = {
            "energy_j": joules,
            "energy_j_per_correct": joules / accuracy if joules is not None and accuracy else None,
            "latency_s": None if benchmark else p.latency_s,
        }[x]
        up = p.reward if y == "reward" else accuracy
        missing = [m.title for m, v in ((X[x], across), (Y[y], up)) if v is None]
        if across is None or up is None:
            where = f" for {benchmark}" if benchmark else ""
            unplotted.append(Unplotted(p.policy, f"{' and '.join(missing)} not published{where}"))
            continue
        low, high = (wilson(up * n, n) or (None, None)) if y == "accuracy" and n else (None, None)
        cls, role = p.evidence_class, "fixed" if p.fixed else "policy"
        found.append(Point(p.policy, across, None, None, up, low, high, cls, n, t.at, p.citation, role=role))
    return found, unplotted
