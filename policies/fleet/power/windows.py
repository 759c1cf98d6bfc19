"""Measured windows as a calibration takes them: power, throughput and concurrency of one instance over a time.

Two sources, one shape. An observation that tells its concurrency is a window by itself (`windows.sql`). A replica's
metered windows and what its engines told over the same time make one together (`replica_windows.sql`).

`max_num_seqs N` is cut from the configuration: it is the very thing that a sweep varies.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any

import polars as pl

from policies.fleet.errors import WindowInvalid
from policies.fleet.power.sql import sql_text
from warehouse.errors import IncomparableObservations
from warehouse.evidence import EvidenceClass, Quality, one_class
from warehouse.observations import method_class
from warehouse.snapshots import Snapshot

_SWEPT = re.compile(r"\s*\bmax_num_seqs \d+")


@dataclass(frozen=True, order=True)
class Binding:
    """What a calibration holds for, and for nothing else. None: not told, which equals only not told."""

    logical_model: str
    hardware_model: str
    hardware_count: int
    runtime: str
    runtime_version: str | None = None
    config_version: str | None = None
    deployable_version: str | None = None
    meter_scope: str | None = None

    @property
    def words(self) -> str:
        """The binding in one line."""
        version = f" {self.runtime_version}" if self.runtime_version else ""
        config = ", ".join(c for c in (self.deployable_version, self.config_version) if c)
        return f"{self.logical_model} on {self.hardware_count} x {self.hardware_model}, {self.runtime}{version}" + (
            f", {config}" if config else ""
        )


@dataclass(frozen=True)
class MeasuredWindow:
    """One window of one instance. `power_w` is of all its boards; None: not metered.

    `context_tokens`: mean prompt and output of a request, where it is told.
    Raises WindowInvalid for figures that no window can have.
    """

    observations: tuple[str, ...]
    binding: Binding
    start_at: datetime
    end_at: datetime
    concurrency: float
    power_w: float | None
    output_tokens_per_s: float | None
    context_tokens: float | None
    relative_uncertainty: float | None
    evidence_class: EvidenceClass
    quality: Quality
    method: str

    def __post_init__(self) -> None:
        least = {"concurrency": 0.0, "power_w": 0.0, "output_tokens_per_s": 0.0, "relative_uncertainty": 0.0}
        for name, low in least.items():
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value >= low):
                raise WindowInvalid(
                    f"{name} of the window {', '.join(self.observations)} is {value}.", fix="leave that window out"
                )


def read_windows(
    snap: Snapshot, *, model: str | None = None, hardware: str | None = None, provider: str | None = None
) -> list[MeasuredWindow]:
    """Windows with power or throughput as of the snapshot, oldest first. Unbound ones are left out: see `unbound`."""
    return [_window(row) for row in _rows(snap, model, hardware, provider) if _bound(row)]


def unbound(snap: Snapshot, *, model: str | None = None, hardware: str | None = None) -> int:
    """Windows that name no model, hardware, number of boards or runtime, so that no calibration can hold for them."""
    return sum(not _bound(row) for row in _rows(snap, model, hardware, None))


def bindings(windows: Sequence[MeasuredWindow]) -> dict[Binding, list[MeasuredWindow]]:
    """Windows by what they hold for, sorted."""
    found: dict[Binding, list[MeasuredWindow]] = {}
    for window in windows:
        found.setdefault(window.binding, []).append(window)
    return {key: found[key] for key in sorted(found, key=lambda b: tuple(map(str, asdict(b).values())))}


def require_one_binding(windows: Sequence[MeasuredWindow]) -> Binding:
    """The binding that all windows share.

    Raises IncomparableObservations that names what differs: binding, evidence class or kind of meter.
    """
    if not windows:
        raise IncomparableObservations("There is no window to fit.", fix="import or measure windows, or ask for others")
    for field in fields(Binding):
        values = dict.fromkeys(getattr(w.binding, field.name) for w in windows)
        if len(values) > 1:
            shown = ", ".join("unknown" if v is None else str(v) for v in list(values)[:4])
            raise IncomparableObservations(
                f"These windows differ in {field.name}: {shown}.", fix=f"choose windows of one {field.name}"
            )
    one_class([w.evidence_class for w in windows], what="this set of windows")
    if len(methods := sorted({method_class(w.method) for w in windows})) > 1:
        raise IncomparableObservations(
            f"These windows differ in method class: {', '.join(methods)}.", fix="choose windows of one kind of meter"
        )
    return windows[0].binding


@dataclass(frozen=True)
class IdleBoard:
    """Idle power of one board, over the boards of that hardware whose idle was measured."""

    state: str  # empty | loaded
    mean_w: float
    low_w: float
    high_w: float
    boards: int
    newest_at: datetime
    observations: tuple[str, ...]
    quality: Quality


def idle_boards(snap: Snapshot, hardware: str) -> dict[str, IdleBoard]:
    """Idle power of a board by state, `empty` and `loaded`; a state that nobody measured is not there.

    Raises IncomparableObservations where the boards' meters cover different things.
    """
    found: dict[str, IdleBoard] = {}
    rows = snap.sql(sql_text("idle.sql"), hardware=hardware)
    if len(scopes := rows["meter_scope"].unique().to_list()) > 1:
        raise IncomparableObservations(
            f"Idle windows of {hardware} differ in meter_scope: {', '.join(map(str, scopes))}.",
            fix="declare the idle power of a board by hand",
        )
    for (state,), group in rows.group_by("device_state", maintain_order=True):
        watts = group["idle_w"].to_list()
        low = (group["quality"] == Quality.LOW.value).any()
        found[str(state)] = IdleBoard(
            state=str(state),
            mean_w=sum(watts) / len(watts),
            low_w=min(watts),
            high_w=max(watts),
            boards=len(watts),
            newest_at=max(group["window_end_at"].to_list()),
            observations=tuple(group["observation_id"].to_list()),
            quality=Quality.LOW if low else Quality.FAIR if (group["quality"] != "HIGH").any() else Quality.HIGH,
        )
    return found


def _rows(snap: Snapshot, model: str | None, hardware: str | None, provider: str | None) -> list[dict[str, Any]]:
    asked = {"model": model, "hardware": hardware, "provider": provider}
    tables = [snap.sql(sql_text(name), **asked) for name in ("windows.sql", "replica_windows.sql")]
    rows = pl.concat(tables, how="vertical_relaxed").rows(named=True)
    return [r for r in rows if r["power_w"] is not None or r["output_tokens_per_s"] is not None]


def _bound(row: dict[str, Any]) -> bool:
    return all(row[name] for name in ("logical_model", "hardware_model", "hardware_count", "runtime"))


def _window(row: dict[str, Any]) -> MeasuredWindow:
    told = {f.name: row[f.name] for f in fields(Binding)}
    if told["config_version"] is not None:
        told["config_version"] = _SWEPT.sub("", told["config_version"]).strip(" ,")
    return MeasuredWindow(
        observations=tuple(json.loads(row["observations"])),
        binding=Binding(**told),
        start_at=row["window_start_at"],
        end_at=row["window_end_at"],
        concurrency=row["concurrency"],
        power_w=row["power_w"],
        output_tokens_per_s=row["output_tokens_per_s"],
        context_tokens=row["context_tokens"],
        relative_uncertainty=row["relative_uncertainty"],
        evidence_class=EvidenceClass(row["evidence_class"]),
        quality=Quality(row["quality"]),
        method=row["method"],
    )
