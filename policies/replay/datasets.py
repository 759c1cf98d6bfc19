"""Which data sets the replay lab has: recorded outcomes by name, and points that publications report."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from policies.replay.energy_join import configurations, model_key
from policies.replay.sql import sql_text
from warehouse.evidence import EvidenceClass, strongest_first
from warehouse.snapshots import Snapshot

_FIXED = "-fixed-arms"  # published points of fixed arms stand under this name beside their data set


@dataclass(frozen=True)
class DatasetInfo:
    """A data set. `kind` is "outcomes" (queries x arms) or "points" (figures of policies, as published).

    `coverage` is graded cells / (queries x arms), None for points. `evidence_classes` are those of joules that the
    cells tell themselves, strongest first. `joined_arms` name the arms whose tokens and benchmarked model allow a
    join: arm -> benchmarked model. `age_s` is since the newest row was learned.
    """

    name: str
    kind: str
    queries: int
    arms: tuple[str, ...]
    cells: int
    missing_cells: int
    coverage: float | None
    benchmarks: Mapping[str, int]
    splits: Mapping[str, int]
    evidence_classes: tuple[EvidenceClass, ...]
    cells_with_energy: int
    cells_with_tokens: int
    joined_arms: Mapping[str, str]
    queries_with_text: int
    sources: tuple[str, ...]
    newest_at: datetime
    age_s: float

    @property
    def can_join(self) -> bool:
        """Whether calibrated energy can be made for two arms at least."""
        return len(self.joined_arms) >= 2


def datasets(snap: Snapshot) -> list[DatasetInfo]:
    """Every data set that the snapshot knows, by name."""
    queries: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in snap.sql(sql_text("dataset_queries.sql")).iter_rows(named=True):
        queries[row["dataset"]].append(row)
    arms: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in snap.frame(sql_text("dataset_arms.sql")).iter_rows(named=True):
        arms[row["dataset"]].append(row)
    untold = dict(snap.sql(sql_text("dataset_size.sql")).iter_rows())
    benchmarked = {model_key(c.model) for c in configurations(snap)}
    found = [
        _outcomes(name, queries[name], arms[name], untold.get(name, 0), benchmarked, snap.as_of)
        for name in sorted({*queries, *arms})
        if any(row["cells"] for row in arms[name])
    ]
    return sorted([*found, *_points(snap)], key=lambda d: (d.name, d.kind))


def _outcomes(
    name: str,
    queries: list[dict[str, Any]],
    arms: list[dict[str, Any]],
    untold: int,
    benchmarked: set[str],
    as_of: datetime,
) -> DatasetInfo:
    benchmarks: dict[str, int] = defaultdict(int)
    splits: dict[str, int] = defaultdict(int)
    for row in queries:
        benchmarks[row["benchmark"]] += row["queries"]
        if row["split"]:
            splits[row["split"]] += row["queries"]
    n = sum(benchmarks.values()) or untold
    graded = sum(row["graded"] for row in arms)
    newest = max(row["newest_at"] for row in [*queries, *arms] if row["newest_at"] is not None)
    return DatasetInfo(
        name=name,
        kind="outcomes",
        queries=n,
        arms=tuple(row["arm"] for row in arms),
        cells=graded,
        missing_cells=n * len(arms) - graded,
        coverage=graded / (n * len(arms)) if n and arms else None,
        benchmarks=dict(benchmarks) or {"": n},
        splits=dict(splits),
        evidence_classes=tuple(strongest_first(c for row in arms for c in row["classes"] if c)),
        cells_with_energy=sum(row["with_energy"] for row in arms),
        cells_with_tokens=sum(row["with_tokens"] for row in arms),
        joined_arms={
            row["arm"]: row["energy_model"]
            for row in arms
            if row["with_tokens"] and row["energy_model"] and model_key(row["energy_model"]) in benchmarked
        },
        queries_with_text=sum(row["with_text"] for row in queries),
        sources=tuple(sorted({s for row in arms for s in row["sources"]})),
        newest_at=newest,
        age_s=(as_of - newest).total_seconds(),
    )


def _points(snap: Snapshot) -> list[DatasetInfo]:
    rows = {row["dataset"]: row for row in snap.frame(sql_text("dataset_points.sql")).iter_rows(named=True)}
    found = []
    for name, row in rows.items():
        if name.endswith(_FIXED) and name.removesuffix(_FIXED) in rows:
            continue
        fixed = rows.get(name + _FIXED, {})
        newest = max(row["newest_at"], fixed.get("newest_at", row["newest_at"]))
        found.append(
            DatasetInfo(
                name=name,
                kind="points",
                queries=row["n"] or 0,
                arms=tuple(sorted({*row["policies"], *fixed.get("policies", ())})),
                cells=0,
                missing_cells=0,
                coverage=None,
                benchmarks={},
                splits={},
                evidence_classes=tuple(strongest_first([*row["classes"], *fixed.get("classes", ())])),
                cells_with_energy=0,
                cells_with_tokens=0,
                joined_arms={},
                queries_with_text=0,
                sources=tuple(sorted({*row["sources"], *fixed.get("sources", ())})),
                newest_at=newest,
                age_s=(snap.as_of - newest).total_seconds(),
            )
        )
    return found
