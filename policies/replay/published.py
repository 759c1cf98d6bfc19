"""The front of a publication: its points as they are told, what dominates what, and what its fixed arms say of it.

Published points are nobody's measurement here (`modeled`), so there is no table of outcomes behind them: no paired
interval, no choices, no curve. A data set NAME may have a companion NAME-fixed-arms: arms that the publication
tells elsewhere. The front is computed without and with them, because a recommendation that leaves out a fixed arm
can recommend something that this arm dominates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import polars as pl

from policies.pareto import mixing_hull, non_dominated
from policies.replay.errors import DatasetUnknown
from policies.replay.indices import PUBLISHED, hypervolume
from policies.replay.report_reward import by_weight
from policies.replay.words import listed
from warehouse.evidence import one_class
from warehouse.ids import content_hash
from warehouse.snapshots import Snapshot

FIXED_ARMS = "-fixed-arms"
DIRECTIONS = (1, -1)  # more accuracy, less energy
LEARNED = ("SFT", "GRPO", "KL-GRPO")


@dataclass(frozen=True)
class Point:
    """One published point; `slices` maps a benchmark to (n, accuracy, J per query), None where untold."""

    policy: str
    accuracy: float
    energy_j: float
    latency_s: float | None
    power_w: float | None
    reward: float | None
    n: int | None
    evidence_class: str
    citation: str
    source_id: str
    slices: Mapping[str, tuple[int | None, float, float | None]] = field(default_factory=dict)

    @property
    def fixed(self) -> bool:
        return self.policy.lower().startswith("always")

    @property
    def learned(self) -> bool:
        return self.policy.startswith(LEARNED)


def published_points(snap: Snapshot, dataset: str) -> list[Point]:
    """The points of one published data set, by policy; [] where there is none."""
    points = snap.sql(
        "SELECT policy, accuracy, energy_j, latency_s, power_w, reward, n, evidence_class, citation, source_id "
        "FROM core.published_point WHERE dataset = $dataset AND known_from <= $as_of ORDER BY policy",
        dataset=dataset,
    )
    slices = snap.sql(
        "SELECT policy, benchmark, n, accuracy, energy_j FROM core.published_slice "
        "WHERE dataset = $dataset AND known_from <= $as_of ORDER BY policy, benchmark",
        dataset=dataset,
    )
    return points_of(points, slices)


def points_of(points: pl.DataFrame, slices: pl.DataFrame) -> list[Point]:
    """Rows of core.published_point and core.published_slice as points."""
    found: dict[str, dict[str, tuple[int | None, float, float | None]]] = {}
    for policy, benchmark, n, accuracy, energy in slices.select(
        "policy", "benchmark", "n", "accuracy", "energy_j"
    ).iter_rows():
        found.setdefault(policy, {})[benchmark] = (n, accuracy, energy)
    names = [name for name in Point.__dataclass_fields__ if name != "slices"]
    return [Point(**row, slices=found.get(row["policy"], {})) for row in points.select(names).iter_rows(named=True)]


def published_report(dataset: str, points: Sequence[Point], fixed_arms: Sequence[Point] = ()) -> dict[str, Any]:
    """The report of a published data set as plain data.

    Raises DatasetUnknown without points, IncomparableObservations where they mix evidence classes.
    """
    if not points:
        raise DatasetUnknown(
            f"No point is published under {dataset!r}.",
            fix="load the sample data, whose points are the data set 'published'",
        )
    cls = one_class((p.evidence_class for p in [*points, *fixed_arms]), what=f"The front of {dataset}")
    alone = _front(points)
    told: dict[str, Any] = {
        "dataset": dataset,
        "kind": "published",
        "evidence_class": cls,
        "dataset_sha256": _digest(points),
        "n": max((p.n or 0 for p in points), default=0) or None,
        "hypervolume": alone["hypervolume"],
        "hypervolume_unit": "accuracy x J/query",
        "reference_point": asdict(PUBLISHED),
        "front": alone["front"],
        "hull": alone["hull"],
        "points": alone["points"],
        "by_benchmark": _by_benchmark([*points, *fixed_arms]),
        "adds_up": [check for p in points if (check := adds_up(p)) is not None],
        "rewards_by_weight": by_weight({p.policy: p.reward for p in points if p.reward is not None}),
        "with_fixed_arms": None,
    }
    if fixed_arms:
        both = _front([*points, *fixed_arms])
        told["with_fixed_arms"] = {
            "added": [p.policy for p in fixed_arms],
            "dataset_sha256": _digest(fixed_arms),
        } | both
    told["statements"] = statements(points, fixed_arms, told)
    return told


def adds_up(point: Point) -> dict[str, Any] | None:
    """Overall accuracy and J per query as the slices give them, weighted by their counts; None where n is untold.

    Accuracy is taken back to whole questions first (14.8 % of 149 is 22 of them), so it is exact where the counts
    are right.
    """
    if not point.slices or any(n is None for n, _, _ in point.slices.values()):
        return None
    counts = np.array([n for n, _, _ in point.slices.values()], dtype=np.float64)
    correct = np.round(counts * np.array([a for _, a, _ in point.slices.values()]))
    energies = [e for _, _, e in point.slices.values()]
    joules = (
        None if any(e is None for e in energies) else float(counts @ np.array(energies, dtype=float) / counts.sum())
    )
    n = int(counts.sum())
    return {
        "policy": point.policy,
        "n": n,
        "covers_all": point.n is None or n == point.n,
        "correct": int(correct.sum()),
        "accuracy": float(correct.sum() / n),
        "accuracy_told": point.accuracy,
        "energy_j": joules,
        "energy_j_told": point.energy_j,
    }


def statements(points: Sequence[Point], fixed_arms: Sequence[Point], report: Mapping[str, Any]) -> list[str]:
    """What the front says, in words."""
    on = set(report["front"])
    ref = report["reference_point"]
    said = [
        f"{len(on)} of {len(points)} points are non-dominated; hypervolume {report['hypervolume']:.4f} "
        f"(accuracy x J/query) against accuracy {ref['accuracy']:g} at {ref['energy_j']:g} J, {ref['version']}.",
    ]
    weights = report["rewards_by_weight"]
    if len(weights) > 1:
        each = "; ".join(f"λe {weight}: {listed(names)}" for weight, names in weights.items())
        said.append(f"Rewards of different weights are different measures and are not compared ({each}).")
    if not fixed_arms:
        return said
    both = report["with_fixed_arms"]
    by = {p["policy"]: p["dominated_by"] for p in both["points"]}
    for arm in fixed_arms:
        beaten = sorted((p for p in points if arm.policy in by[p.policy]), key=lambda p: (-p.accuracy, p.policy))
        learned = [p for p in points if p.learned]
        others = [p.policy for p in beaten if not p.learned]
        lost = [p.policy for p in beaten if p.learned]
        if lost and len(lost) == len(learned):
            others.append(f"every learned policy ({', '.join(lost)})")
            lost = []
        names = [*others, *lost]
        told = f"The fixed arm {arm.policy} ({arm.accuracy:.3f} at {arm.energy_j:g} J, {arm.citation})"
        said.append(f"{told} dominates {listed(names)}." if names else f"{told} dominates no point.")
    said.append(
        f"With {listed([p.policy for p in fixed_arms])} the non-dominated points are {listed(both['front'])}; "
        f"hypervolume {both['hypervolume']:.4f}."
    )
    return said


def _front(points: Sequence[Point]) -> dict[str, Any]:
    at = np.array([(p.accuracy, p.energy_j) for p in points])
    on = non_dominated(at, DIRECTIONS)
    hull = mixing_hull(at[:, 1], at[:, 0])
    order = np.argsort(at[:, 1], kind="stable")
    rows = [_row(points[i], bool(on[i]), _dominators(points, at, int(i))) for i in order]
    return {
        "hypervolume": hypervolume(at[:, 1], at[:, 0], PUBLISHED),
        "front": [row["policy"] for row in rows if row["on_front"]],
        "hull": [points[int(i)].policy for i in hull],
        "points": rows,
    }


def _dominators(points: Sequence[Point], at: Any, i: int) -> list[str]:
    no_worse = (at[:, 0] >= at[i, 0]) & (at[:, 1] <= at[i, 1])
    better = (at[:, 0] > at[i, 0]) | (at[:, 1] < at[i, 1])
    return [points[int(j)].policy for j in np.flatnonzero(no_worse & better)]


def _row(point: Point, on_front: bool, dominated_by: list[str]) -> dict[str, Any]:
    power = None if point.latency_s is None else point.energy_j / point.latency_s
    return {
        "policy": point.policy,
        "accuracy": point.accuracy,
        "energy_j": point.energy_j,
        "energy_j_per_correct": point.energy_j / point.accuracy if point.accuracy else None,
        "latency_s": point.latency_s,
        "power_w_mean_of_calls": point.power_w,
        "power_w_energy_over_time": power,
        "reward": point.reward,
        "n": point.n,
        "fixed_arm": point.fixed,
        "learned": point.learned,
        "on_front": on_front,
        "dominated_by": dominated_by,
        "evidence_class": point.evidence_class,
        "citation": point.citation,
        "source_id": point.source_id,
    }


def _by_benchmark(points: Sequence[Point]) -> list[dict[str, Any]]:
    return [
        {"policy": p.policy, "benchmark": benchmark, "n": n, "accuracy": accuracy, "energy_j": energy}
        for p in points
        for benchmark, (n, accuracy, energy) in p.slices.items()
    ]


def _digest(points: Sequence[Point]) -> str:
    return content_hash(sorted([p.policy, p.accuracy, p.energy_j, p.latency_s, p.power_w, p.n] for p in points))
