"""From samples to one row per engine and model: which series fill which column, and what must not.

Each engine of a backend keeps its own row. Series are added up only over a label that splits a counter
(`finished_reason`, `cache_source`); two series of one engine that differ in anything else, and in value, are
a conflict, and the figure is unknown. Workers of one engine that repeat its figures (SGLang ranks) are
not added up either: the lowest rank speaks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

from ingest.base import Reject
from ingest.fields import LARGEST_INT, Refused
from ingest.serving.exposition import number
from ingest.serving.names import KNOWN, Metric, Runtime
from warehouse.ids import canonical_json

Engine = tuple[str, str]  # engine, model
_T = TypeVar("_T")


class Slot(NamedTuple):
    """Where a value belongs: the role and column of a metric, and which part or bucket of it."""

    role: str
    column: str
    order: int
    name: str
    part: str


class Value(NamedTuple):
    at_s: float
    ranks: tuple[int, ...]
    value: float


@dataclass(frozen=True)
class Place:
    """What one series is: whose, of which engine, and its slots (none: a part that nothing is made of)."""

    runtime: Runtime
    engine: Engine
    ranks: tuple[int, ...]
    slots: tuple[Slot, ...]


def place(name: str, labels: Mapping[str, str]) -> Place | None:
    """Where the series `name{labels}` belongs; None where its name is not exactly one that is read."""
    known = KNOWN.get(name)
    if known is None:
        return None
    runtime = known.runtime
    engine = labels.get(runtime.engine_label, "") if runtime.engine_label else ""
    model = next((labels[label] for label in runtime.model_labels if labels.get(label)), "")
    ranks = tuple(int(text) if (text := labels.get(r, "0")).isdecimal() and len(text) < 9 else 0 for r in runtime.ranks)
    slots = []
    for use in known.uses:
        metric = use.metric
        part = labels.get("le", "") if use.role == "bucket" else labels.get(metric.part, "") if metric.part else ""
        if use.role in ("counter", "created") or metric.only is None or part in metric.only:
            slots.append(Slot(use.role, use.column, use.order, metric.name, part))
    return Place(runtime, (engine.strip(), model.strip()), ranks, tuple(slots))


@dataclass
class Instant:
    """The values of one backend at one instant, engine by engine."""

    backend_id: str
    cells: dict[tuple[str, Engine], dict[Slot, list[Value]]] = field(default_factory=dict)
    static: dict[str, dict[str, Mapping[str, str]]] = field(default_factory=dict)  # runtime -> engine -> labels

    def put(self, found: Place, value: float, at_s: float | None, labels: Mapping[str, str]) -> None:
        """Take one value of a series."""
        for slot in found.slots:
            if slot.column == "cache_info":
                self.static.setdefault(found.runtime.name, {})[found.engine[0]] = labels
                continue
            cell = self.cells.setdefault((found.runtime.name, found.engine), {})
            cell.setdefault(slot, []).append(Value(at_s or 0.0, found.ranks, value))

    def engines(self) -> list[tuple[str, Engine]]:
        """Runtime and engine of every row of this instant, in order."""
        return sorted(
            (key for key, cell in self.cells.items() if any(s.role != "static" for s in cell)),
            key=lambda key: (key[0], key[1][1], key[1][0]),
        )


def row_of(runtime: Runtime, cell: Mapping[Slot, Sequence[Value]]) -> tuple[dict[str, Any] | None, list[Reject]]:
    """The columns of one engine at one instant, and the fields that were refused.

    None where nothing of it can be used.
    """
    reader = _Cell(cell)
    row: dict[str, Any] = {
        column: reader.gauge(column, metrics, high=1.0 if column == "kv_cache_utilization" else None)
        for column, metrics in runtime.gauges.items()
    }
    counters = {c: reader.counter(c, metrics) for c, metrics in runtime.counters.items()}
    histograms = {c: reader.histogram(c, names) for c, names in runtime.histograms.items()}
    counters = {c: told for c, told in counters.items() if told is not None}
    histograms = {c: told for c, told in histograms.items() if told is not None}
    if not counters and not histograms and all(v is None for v in row.values()):
        return None, reader.rejects
    known = {"counters": counters, "histograms": histograms, "created": reader.created()}
    row["counters"] = canonical_json({k: v for k, v in known.items() if v})
    return row, reader.rejects


class _Cell:
    """Reads columns out of one engine's values; what does not hold is refused and unknown."""

    def __init__(self, cell: Mapping[Slot, Sequence[Value]]) -> None:
        self.cell = cell
        self.rejects: list[Reject] = []
        self.refused: set[tuple[str, str]] = set()

    def gauge(self, column: str, metrics: Iterable[Metric], *, high: float | None) -> float | None:
        for order, metric in enumerate(metrics):
            parts = self._slots("gauge", column, order)
            if not parts:
                continue

            def read(slots: Sequence[Slot] = parts) -> float:
                total = math.fsum(_single(self.cell[s]) for s in slots)
                if high is not None and total > high:
                    raise Refused(f"is {total:g}, above {high:g}; it is a share")
                return total

            found = self._held(metric.name, parts, read)
            if found is not None:
                return found
        return None

    def counter(self, column: str, metrics: Iterable[Metric]) -> tuple[str, int] | None:
        """(metric name, value). A part of a metric that never counted anything is not exposed yet: that is 0."""
        for order, metric in enumerate(metrics):
            slots = self._slots("counter", column, order)
            if not slots:
                continue
            counted = [s for s in slots if metric.only is None or s.part in metric.only]

            def read(slots: Sequence[Slot] = counted) -> int:
                return sum(_count(_single(self.cell[s])) for s in slots)

            found = self._held(metric.name, slots, read)
            if found is not None:
                return metric.name, found
        return None

    def histogram(self, column: str, names: Iterable[str]) -> tuple[str, list[float], list[int]] | None:
        """(metric name, upper bounds without the infinite one, cumulative counts with it)."""
        for order, name in enumerate(names):
            buckets = self._slots("bucket", column, order)
            if not buckets:
                continue

            def read(slots: Sequence[Slot] = buckets, order: int = order) -> tuple[list[float], list[int]]:
                return self._buckets(slots, self._slots("count", column, order))

            found = self._held(f"{name}_bucket", buckets, read)
            if found is not None:
                return name, *found
        return None

    def created(self) -> dict[str, float]:
        """When each metric was created (Unix time): the first of its parts, since parts come up later."""
        found: dict[str, float] = {}
        for slot, values in self.cell.items():
            if slot.role == "created":
                at = min(v.value for v in values)
                if math.isfinite(at) and at > 0:
                    found[slot.name] = min(at, found.get(slot.name, at))
        return found

    def _buckets(self, slots: Sequence[Slot], counts: Sequence[Slot]) -> tuple[list[float], list[int]]:
        told: dict[float, int] = {}
        for slot in slots:
            bound = number(slot.part)
            if bound is None or math.isnan(bound):
                raise Refused(f"has a bucket le={slot.part!r}, which is no number")
            told[bound] = _count(_single(self.cell[slot]))
        bounds = sorted(told)
        cumulative = [told[b] for b in bounds]
        if len(told) != len(slots):
            raise Refused("has a bucket twice")
        if bounds[-1] != math.inf or bounds[0] == -math.inf:
            raise Refused("has no bucket le=+Inf")
        if any(a > b for a, b in pairwise(cumulative)):
            raise Refused("has buckets that decrease; they must be cumulative")
        for slot in counts:
            if _count(_single(self.cell[slot])) != cumulative[-1]:
                raise Refused("has a count that differs from its bucket le=+Inf")
        return bounds[:-1], cumulative

    def _slots(self, role: str, column: str, order: int) -> list[Slot]:
        return sorted(s for s in self.cell if (s.role, s.column, s.order) == (role, column, order))

    def _held(self, name: str, slots: Sequence[Slot], read: Callable[[], _T]) -> _T | None:
        try:
            return read()
        except Refused as refused:
            if (name, str(refused)) not in self.refused:
                self.refused.add((name, str(refused)))
                values = sorted({str(v.value) for s in slots for v in self.cell[s]})
                self.rejects.append(
                    Reject(reason=f"{name} {refused}", field=name, value=", ".join(values)[:200], whole_row=False)
                )
            return None


def _single(values: Sequence[Value]) -> float:
    """The one value of a series: its newest, of the lowest rank. Raises Refused where several differ, and for NaN."""
    newest = max(v.at_s for v in values)
    lowest = min(v.ranks for v in values if v.at_s == newest)
    found = {v.value for v in values if (v.at_s, v.ranks) == (newest, lowest)}
    if any(math.isnan(v) for v in found):
        raise Refused("is NaN")
    if len(found) > 1:
        shown = ", ".join(f"{v:g}" for v in sorted(found))
        raise Refused(f"is told {len(found)} times for one engine, as {shown}; they are not added up")
    value = found.pop()
    if not math.isfinite(value):
        raise Refused(f"is {value:g}")
    if value < 0:
        raise Refused(f"is {value:g}, negative")
    return value


def _count(value: float) -> int:
    if value != int(value) or value > LARGEST_INT:
        raise Refused(f"is {value:g}, not a count")
    return int(value)
