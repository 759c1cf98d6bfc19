"""Carbon intensity of the pools' zones as the simulator takes it: its own input, with version, age and reasons."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from policies.fleet.errors import ScenarioInvalid
from policies.fleet.experiments.scenario import IntensitySpec
from policies.fleet.sim import Intensity
from warehouse.clock import iso, parse_utc
from warehouse.evidence import EvidenceClass, weakest
from warehouse.intensity import intensity_at, reader_of
from warehouse.snapshots import Snapshot

STEP_S = 1800.0  # grids tell half hours or hours
LONGEST_S = 7 * 86_400.0


@dataclass(frozen=True)
class ZoneFigures:
    """`series` is None where no zone has a figure. `rows` say where each came from, `reasons` why one is missing."""

    series: Intensity | None
    evidence_class: EvidenceClass | None = None
    rows: tuple[dict[str, Any], ...] = ()
    reasons: tuple[str, ...] = field(default=())


def zone_figures(
    snap: Snapshot, spec: IntensitySpec | None, zones: list[str], duration_s: float, pools_without: list[str]
) -> ZoneFigures:
    """Figures of these zones over a run of `duration_s`. Raises ScenarioInvalid for wrong times, signal or basis."""
    if spec is None:
        return ZoneFigures(None, reasons=("no intensity was asked for: grams are unknown",))
    reasons = [f"pool {name} has no zone: its grams are unknown" for name in pools_without]
    if spec.g_per_kwh:
        return _declared(spec, zones, reasons)
    try:
        start = parse_utc(str(spec.at), what="at")
    except ValueError as error:
        raise ScenarioInvalid(f"the intensity's `at` is {spec.at!r}.", fix="give ISO 8601 with a zone") from error
    series, rows = {}, []
    for zone in zones:
        times, values, first = _looked_up(snap, spec, zone, start, min(duration_s, LONGEST_S), reasons)
        series[zone] = (np.array(times), np.array(values))
        rows.extend([first] if first else [])
    if not rows:
        return ZoneFigures(None, reasons=tuple(dict.fromkeys(reasons)))
    version = "; ".join(sorted({f"{r['source_id']} as known {r['known_from']}" for r in rows}))
    found = Intensity(series, f"{spec.signal} {spec.basis}, {version}", spec.ttl_s or math.inf)
    return ZoneFigures(found, weakest(r["evidence_class"] for r in rows), tuple(rows), tuple(dict.fromkeys(reasons)))


def _declared(spec: IntensitySpec, zones: list[str], reasons: list[str]) -> ZoneFigures:
    for zone in zones:
        if zone not in spec.g_per_kwh:
            reasons.append(f"no intensity is declared for the zone {zone}")
    told = {z: g for z, g in spec.g_per_kwh.items() if z in zones}
    if not told:
        return ZoneFigures(None, reasons=tuple(reasons))
    series = Intensity({z: (np.zeros(1), np.array([g])) for z, g in told.items()}, spec.version, spec.ttl_s or math.inf)
    rows = tuple(
        {"zone": z, "intensity_g_per_kwh": g, "version": spec.version, "declared": True} for z, g in told.items()
    )
    return ZoneFigures(series, EvidenceClass.MODELED, rows, tuple(reasons))


def _looked_up(
    snap: Snapshot, spec: IntensitySpec, zone: str, start: datetime, duration_s: float, reasons: list[str]
) -> tuple[list[float], list[float], dict[str, Any] | None]:
    """(seconds, gCO2eq/kWh from then on, what the first figure is)."""
    times: list[float] = []
    values: list[float] = []
    first: dict[str, Any] | None = None
    for k in range(int(duration_s // STEP_S) + 1):
        at = start + timedelta(seconds=k * STEP_S)
        try:
            answer = intensity_at(
                reader_of(snap), zone, at, signal=spec.signal, basis=spec.basis, as_of=snap.as_of,
                carry_s=spec.carry_s, fallback=spec.fallback,
            )  # fmt: skip
        except ValueError as error:
            raise ScenarioInvalid(
                f"the intensity cannot be asked for: {error}.", fix="correct signal, basis or carry_s"
            ) from error
        figure = answer.intensity
        if figure is not None and spec.max_age_s is not None and figure.age_s > spec.max_age_s:
            reasons.append(f"the figure of {zone} is {figure.age_s:.0f} s old, more than {spec.max_age_s:g}")
            figure = None
        elif figure is None:
            reasons.append(str(answer.reason))
        elif figure.warning:
            reasons.append(figure.warning)
        value = math.nan if figure is None else figure.intensity_g_per_kwh
        if figure is not None and first is None:
            first = {
                "zone": zone,
                "intensity_g_per_kwh": value,
                "signal": figure.signal.value,
                "basis": figure.basis.value,
                "standing": figure.standing.value,
                "evidence_class": figure.evidence_class.value,
                "source_id": figure.source_id,
                "version": figure.version,
                "known_from": iso(figure.known_from),
                "age_s": figure.age_s,
                "start_at": iso(figure.start_at),
                "end_at": iso(figure.end_at),
            }
        same = values and (values[-1] == value or (math.isnan(values[-1]) and math.isnan(value)))
        if not same:
            times.append(k * STEP_S)
            values.append(value)
    return times, values, first
