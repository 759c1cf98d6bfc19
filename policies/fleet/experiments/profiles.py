"""The profile that a pool of a scenario names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from policies.fleet.errors import ProfileUnknown, ScenarioInvalid
from policies.fleet.experiments.scenario import PoolSpec
from policies.fleet.power import (
    PUBLISHED,
    Calibration,
    Profile,
    for_hardware,
    idle_boards,
    power_model,
    profile,
    profile_of,
    published,
    read_calibrations,
)
from warehouse.errors import IncomparableObservations
from warehouse.snapshots import Snapshot

CALIBRATION = "calibration:"
DECLARABLE = (
    "W_ms",
    "H_ms_per_seq",
    "calibration_ctx",
    "chunk_tokens",
    "kv_blocks",
    "block_tokens",
    "max_slots",
    "usd_per_hour",
    "relative_uncertainty",
)
_LINEAR = "linear"


def of_pool(snap: Snapshot, pool: PoolSpec) -> Profile:
    """Raises HardwareUnknown, ProfileUnknown, ProfileInvalid, ProfileIncomplete, ScenarioInvalid."""
    return named(snap, pool.profile, pool)


def named(snap: Snapshot, name: str | Mapping[str, Any], pool: PoolSpec) -> Profile:
    """`name` may be that of another deployment in the pool, which shares what the pool declares."""
    if unknown := sorted(set(pool.declared) - set(DECLARABLE)):
        raise ScenarioInvalid(
            f"pool {pool.name} declares {unknown[0]!r}, which is no parameter of capacity or price.",
            fix=f"use {', '.join(DECLARABLE)}",
        )
    found = _found(snap, name, pool)
    if pool.declared:
        told = ", ".join(f"{k} {v}" for k, v in pool.declared.items())
        found = replace(found, **dict(pool.declared), notes=(*found.notes, f"declared for this run: {told}"))
    if pool.idle_loaded_w is not None:
        data = found.power.to_dict() | {"board_idle_loaded_w": pool.idle_loaded_w / found.hardware_count}
        note = f"idle loaded declared for this run: {pool.idle_loaded_w:g} W per instance"
        found = replace(found, power=power_model(data), notes=(*found.notes, note))
    return found


def _found(snap: Snapshot, name: str | Mapping[str, Any], pool: PoolSpec) -> Profile:
    if isinstance(name, Mapping):
        return profile(name)
    if name.startswith(CALIBRATION):
        return calibrated(snap, name.removeprefix(CALIBRATION), pool.throughput)
    if name in PUBLISHED or "@" in name:
        return published(name)
    return for_hardware(name)


def calibrated(snap: Snapshot, calibration_id: str, throughput_id: str | None = None) -> Profile:
    """The profile of a stored calibration of power, by its id or the first eight characters of it or more.

    Throughput is `throughput_id`, else the newest linear one of the same binding, else not known.
    """
    stored = read_calibrations(snap)
    power, version = _one(stored, calibration_id)
    if throughput_id is not None:
        throughput: Calibration | None = _one(stored, throughput_id.removeprefix(CALIBRATION))[0]
    else:
        fitting = [
            c for c, _ in stored if c.quantity == "throughput" and c.form == _LINEAR and c.binding == power.binding
        ]
        throughput = fitting[0] if fitting else None
    return profile_of(
        power,
        throughput,
        name=f"{power.binding.hardware_model} x {power.binding.hardware_count}, {power.binding.logical_model}",
        version=version,
        idle=_idle(snap, power.binding.hardware_model),
    )


def _one(stored: list[tuple[Calibration, int]], asked: str) -> tuple[Calibration, int]:
    hits = [(c, v) for c, v in stored if c.calibration_id.startswith(asked)] if len(asked) >= 8 else []
    if len(hits) != 1:
        what = "more than one calibration begins with" if hits else "no calibration is"
        raise ProfileUnknown(f"{what} {asked!r}.", fix="list them with: joulebook fleet calibrations")
    return hits[0]


def _idle(snap: Snapshot, hardware: str) -> Mapping[str, Any] | None:
    """Idle power of the boards where it was measured by one kind of meter."""
    try:
        return idle_boards(snap, hardware)
    except IncomparableObservations:
        return None
