"""Zone and hour of a replay: the grid intensity that turns its joules into grams."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from policies.replay.errors import ConditionUnknown
from policies.replay.table import Condition, Floats
from warehouse.evidence import EvidenceClass, grams_class
from warehouse.intensity import Basis, Intensity, Signal, intensity_at, reader_of
from warehouse.snapshots import Snapshot

J_PER_KWH = 3.6e6


def grams(energy_j: Floats, intensity_g_per_kwh: float) -> Floats:
    """gCO2e of joules at a grid intensity: J / 3.6e6 x g/kWh."""
    return energy_j / J_PER_KWH * intensity_g_per_kwh


def intensity(
    snap: Snapshot,
    zone: str,
    at: datetime | None = None,
    *,
    signal: Signal | str = Signal.AVERAGE,
    basis: Basis | str = Basis.LIFECYCLE,
    carry_s: float = 0.0,
) -> Intensity:
    """The intensity of `zone` at `at` (default: the snapshot's instant). Raises ConditionUnknown.

    A yearly factor stands in where the hour is not known; its `standing` says so.
    """
    answer = intensity_at(
        reader_of(snap), zone, at or snap.as_of, signal=signal, basis=basis, as_of=snap.as_of, carry_s=carry_s
    )
    if answer.intensity is not None:
        return answer.intensity
    known = snap.sql("SELECT DISTINCT zone FROM core.grid_intensity WHERE known_from <= $as_of ORDER BY zone")["zone"]
    listed = ", ".join(known.head(12)) + (", …" if len(known) > 12 else "")
    fix = f"use a zone and an hour of {listed}" if len(known) else "import grid intensities first"
    raise ConditionUnknown(f"There is no grid intensity for zone {zone}: {answer.reason}.", fix=fix)


def with_carbon(
    snap: Snapshot,
    condition: Condition,
    energy_class: EvidenceClass | None,
    *,
    signal: Signal | str = Signal.AVERAGE,
    basis: Basis | str = Basis.LIFECYCLE,
    carry_s: float = 0.0,
) -> tuple[Condition, Intensity | None]:
    """`condition` with intensity and the class of its grams. An intensity given by hand counts as modeled.

    Raises ConditionUnknown.
    """
    if condition.at is not None and condition.zone is None and condition.intensity_g_per_kwh is None:
        raise ConditionUnknown(f"The hour {condition.at:%Y-%m-%dT%H:%MZ} comes without a zone.", fix="name the zone")
    value, found, cls = condition.intensity_g_per_kwh, None, EvidenceClass.MODELED
    at = condition.at
    if at is not None and at.tzinfo is not None:
        at = at.astimezone(UTC).replace(tzinfo=None)
    if value is None and condition.zone is not None:
        at = at or snap.as_of
        found = intensity(snap, condition.zone, at, signal=signal, basis=basis, carry_s=carry_s)
        value, cls = found.intensity_g_per_kwh, found.evidence_class
    if value is None:
        return condition, None
    if not 0 <= value < float("inf"):
        raise ConditionUnknown(f"The grid intensity is {value:g} g/kWh.", fix="give a number of 0 or more")
    carbon_class = None if energy_class is None else grams_class(energy_class, cls)
    return replace(condition, at=at, intensity_g_per_kwh=value, carbon_class=carbon_class), found
