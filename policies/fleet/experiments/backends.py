"""Live backends: what they draw and do now, joules per success, and measured power beside what a model says."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from policies.fleet.errors import FleetError
from policies.fleet.experiments.profiles import calibrated
from policies.fleet.experiments.sql import sql_text
from policies.fleet.power import MeasuredWindow, Profile, against, for_hardware, read_calibrations, read_windows
from warehouse.clock import iso
from warehouse.snapshots import Snapshot

SINCE_S = 3600.0
_SHOWN = 200  # residuals of a backend, newest


def backends(snap: Snapshot, *, since_s: float = SINCE_S) -> list[dict[str, Any]]:
    """One row per backend; joules per success over the last `since_s` seconds. Plain values; unknown is None."""
    tables = {name: _by_backend(snap, f"{name}.sql") for name in ("telemetry", "power")}
    success: dict[str, list[dict[str, Any]]] = {}
    for row in snap.sql(sql_text("success.sql"), since=snap.as_of - timedelta(seconds=since_s)).iter_rows(named=True):
        success.setdefault(row["backend_id"], []).append(row)
    windows = _windows(snap)
    return [
        _row(
            snap,
            row,
            tables["telemetry"].get(row["backend_id"]),
            tables["power"].get(row["backend_id"]),
            success.get(row["backend_id"], []),
            windows.get(row["backend_id"], []),
        )
        for row in snap.sql(sql_text("backends.sql")).iter_rows(named=True)
    ]


def _by_backend(snap: Snapshot, name: str) -> dict[str, dict[str, Any]]:
    return {row["backend_id"]: row for row in snap.sql(sql_text(name)).iter_rows(named=True)}


def _windows(snap: Snapshot) -> dict[str, list[MeasuredWindow]]:
    of = dict(snap.sql(sql_text("observed.sql")).iter_rows())
    found: dict[str, list[MeasuredWindow]] = {}
    for window in read_windows(snap):
        named = {of[o] for o in window.observations if o in of}
        if len(named) == 1:
            found.setdefault(named.pop(), []).append(window)
    return found


def _row(
    snap: Snapshot,
    row: Mapping[str, Any],
    telemetry: Mapping[str, Any] | None,
    power: Mapping[str, Any] | None,
    success: Sequence[Mapping[str, Any]],
    windows: Sequence[MeasuredWindow],
) -> dict[str, Any]:
    profile, why = _profile(snap, row, windows)
    compared = [] if profile is None else against(profile, windows)
    residuals = [c["residual_relative"] for c in compared if c["residual_relative"] is not None]
    running = None if telemetry is None else telemetry["running_requests"]
    return {
        **row,
        "models": [] if telemetry is None else json.loads(telemetry["models"]),
        "telemetry": None
        if telemetry is None
        else _aged({k: telemetry[k] for k in telemetry if k != "models"}, snap.as_of),
        "power": None if power is None else {**_aged(power, snap.as_of), "board_w": _per_board(power)},
        "utilization": running / row["max_concurrency"] if running is not None and row["max_concurrency"] else None,
        "j_per_success": [_joules(told) for told in success],
        "profile": None if profile is None else profile.described(),
        "profile_why": why,
        "residuals": compared[-_SHOWN:],
        "residual_relative_rms": math.sqrt(sum(r * r for r in residuals) / len(residuals)) if residuals else None,
        "residual_relative_mean": sum(residuals) / len(residuals) if residuals else None,
        "residual_windows": len(residuals),
    }


def _aged(told: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    times = {k: iso(v) for k, v in told.items() if isinstance(v, datetime)}
    kept = {k: v for k, v in told.items() if k != "models"}
    return {**kept, **times, "age_s": (now - told["window_end_at"]).total_seconds()}


def _per_board(power: Mapping[str, Any]) -> float | None:
    watts, boards = power["power_w"], power["hardware_count"]
    return watts / boards if watts is not None and boards else None


def _joules(told: Mapping[str, Any]) -> dict[str, Any]:
    """Gross joules of the boards over successes, of one evidence class; without a success there is no quotient."""
    successes = int(told["successes"])
    return {
        "value": told["energy_j"] / successes if successes else None,
        "unit": "J",
        "evidence_class": told["evidence_class"],
        "energy_j": told["energy_j"],
        "successes": successes,
        "output_tokens": None if told["output_tokens"] is None else int(told["output_tokens"]),
        "windows": told["windows"],
        "from_at": iso(told["from_at"]),
        "to_at": iso(told["to_at"]),
        "mean_power_w": told["energy_j"] / told["duration_s"],
    }


def _profile(
    snap: Snapshot, row: Mapping[str, Any], windows: Sequence[MeasuredWindow]
) -> tuple[Profile | None, str | None]:
    """The newest calibration that holds for what was measured here, else the published profile of the GPU."""
    held = {w.binding for w in windows}
    for calibration, _ in read_calibrations(snap, quantity="power"):
        if calibration.binding in held:
            return calibrated(snap, calibration.calibration_id), None
    if row["hardware_model"] is None:
        return None, "nobody said which hardware this backend runs on"
    try:
        return for_hardware(row["hardware_model"]), None
    except FleetError as error:
        return None, error.message
