"""What a scenario may name: profiles with their curves, traces, distributions, zones, policies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from policies.fleet.errors import FleetError
from policies.fleet.experiments import DEFAULT_POLICIES, calibrated
from policies.fleet.power import PUBLISHED, STUDIES, Profile, read_calibrations
from policies.fleet.sim import OBLIVIOUS, POLICIES
from policies.fleet.traces import cdfs, traces
from warehouse.snapshots import Snapshot

_POINTS = 33
_CONTEXT = 8192


def profiles(snap: Snapshot) -> list[dict[str, Any]]:
    """Published ones, a context study at each of its contexts, and the newest calibration of each binding."""
    return [_told(name, p) for name, p in _named(snap)]


def _named(snap: Snapshot) -> Iterator[tuple[str, Profile]]:
    yield from PUBLISHED.items()
    for name, study in STUDIES.items():
        for point in study.points:
            yield f"{name}@{point.context_tokens}", study.profile_at(point.context_tokens)
    seen = set()
    for calibration, _ in read_calibrations(snap, quantity="power"):
        if calibration.binding not in seen:
            seen.add(calibration.binding)
            yield f"calibration:{calibration.calibration_id}", calibrated(snap, calibration.calibration_id)


def _told(name: str, profile: Profile) -> dict[str, Any]:
    """`ask_for` is what a pool's `profile` says. `missing` is what a simulation would still need."""
    slots, missing = _slots(profile)
    return {
        "ask_for": name,
        **profile.described(),
        "usd_per_hour": profile.usd_per_hour,
        "slots_at_8k": slots,
        "missing": missing,
        "curve": _curve(profile, slots),
    }


def _slots(profile: Profile) -> tuple[int | None, list[str]]:
    needed = ("W_ms", "H_ms_per_seq", "calibration_ctx", "chunk_tokens", "kv_blocks", "block_tokens", "max_slots")
    missing = [n for n in needed if getattr(profile, n) is None]
    if profile.power.board_idle_loaded_w is None:
        missing.append("idle_loaded_w")
    try:
        return profile.n_slots(_CONTEXT), missing
    except FleetError:
        return None, missing


def _curve(profile: Profile, slots: int | None) -> list[dict[str, Any]]:
    """W of an instance and of a board over its concurrencies, in steps of log2; within the range only."""
    low = profile.power.concurrency_min or 1.0
    high = profile.power.concurrency_max or float(slots or 256)
    n = np.unique(np.clip(np.round(2 ** np.linspace(np.log2(low), np.log2(high), _POINTS), 6), low, high))
    watts = profile.power.power_w(n)
    return [
        {"concurrency": float(c), "power_w": float(w), "board_w": float(w) / profile.hardware_count}
        for c, w in zip(n, watts, strict=True)
    ]


def workloads(snap: Snapshot) -> dict[str, Any]:
    zones = snap.sql(
        "SELECT zone, signal, basis, min(start_at) AS from_at, max(end_at) AS to_at, max(known_from) AS known_from "
        "FROM core.grid_intensity WHERE known_from <= $as_of AND intensity_g_per_kwh IS NOT NULL "
        "GROUP BY zone, signal, basis ORDER BY zone, signal, basis"
    ).to_dicts()
    return {
        "traces": traces(snap),
        "cdfs": cdfs(snap),
        "zones": zones,
        "policies": list(POLICIES),
        "oblivious_policies": list(OBLIVIOUS),
        "default_policies": list(DEFAULT_POLICIES),
    }
