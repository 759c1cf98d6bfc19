"""Calibrations and profiles as plain JSON: what the command, the API and the Fleet page show."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from policies.fleet.errors import ExtrapolationRefused, ProfileIncomplete
from policies.fleet.power.calibration import Calibration, Prediction
from policies.fleet.power.curves import UNITS
from policies.fleet.power.fit import LEVEL
from policies.fleet.power.identity import parameters
from policies.fleet.power.profiles import Profile
from policies.fleet.power.stored import row
from policies.fleet.power.windows import MeasuredWindow
from warehouse.clock import iso

_BAND = 41  # points of the fitted curve


def calibration_report(calibration: Calibration, *, version: int | None = None) -> dict[str, Any]:
    """Everything about a calibration: binding, parameters, quality with its reasons, residuals and the band."""
    c = calibration
    stored = row(c, actor="")
    held = c.held_out
    return {
        "calibration_id": c.calibration_id,
        "version": version,
        "quantity": c.quantity,
        "form": c.form,
        "binding": asdict(c.binding),
        "binding_words": c.binding.words,
        "parameters": parameters(c.fitted),
        "parameters_unit": UNITS[c.quantity],
        "covariance": stored["covariance"],
        "unit": c.unit,
        "n": c.n,
        "levels": c.levels,
        "concurrency_min": c.concurrency_min,
        "concurrency_max": c.concurrency_max,
        "context_tokens": c.context_tokens,
        "idle_loaded_w": c.idle_loaded_w,
        "residual_relative": c.residual_relative,
        "holdout_error_relative": c.holdout_error_relative,
        "holdout_edge_error_relative": None if held is None else held.edge_error,
        "holdout_windows": None if held is None else held.n,
        "coverage": c.coverage,
        "interval": LEVEL,
        "evidence_class": c.evidence_class.value,
        "basis_evidence_class": c.basis.value,
        "quality": c.quality.value,
        "why": list(c.why),
        "notes": list(c.notes),
        "windows_from": iso(c.window_start_at),
        "windows_to": iso(c.window_end_at),
        "fitted_at": iso(c.fitted_at),
        "points": list(c.points),
        "band": band(c),
    }


def band(calibration: Calibration) -> list[dict[str, Any]]:
    """The fitted curve over its range with the 95 % interval of one new window, in equal steps of log2."""
    low, high = math.log2(calibration.concurrency_min), math.log2(calibration.concurrency_max)
    n = np.clip(2 ** np.linspace(low, high, _BAND), calibration.concurrency_min, calibration.concurrency_max)
    return prediction_rows(calibration.predict(n))


def prediction_rows(found: Prediction) -> list[dict[str, Any]]:
    """A prediction, one row per concurrency; a bound that is not known is None."""
    columns = zip(
        found.concurrency.ravel(),
        found.value.ravel(),
        found.low.ravel(),
        found.high.ravel(),
        found.extrapolated.ravel(),
        strict=True,
    )
    return [
        {
            "concurrency": float(n),
            "value": float(value),
            "low": _known(low),
            "high": _known(high),
            "extrapolated": bool(beyond),
            "unit": found.unit,
            "evidence_class": found.evidence_class.value,
            "quality": found.quality.value,
            "calibration_id": found.calibration_id,
        }
        for n, value, low, high, beyond in columns
    ]


def against(profile: Profile, windows: Sequence[MeasuredWindow]) -> list[dict[str, Any]]:
    """Measured power beside the profile's, per **board**, one row per window with power.

    `differs` names what the window and the profile do not share: a residual beside it is no verdict on the profile.
    `modelled_board_w` is None where the profile refuses the concurrency or does not know the state.
    """
    return [_beside(profile, window) for window in windows if window.power_w is not None]


def _beside(profile: Profile, window: MeasuredWindow) -> dict[str, Any]:
    assert window.power_w is not None  # the caller's filter
    measured = window.power_w / window.binding.hardware_count
    modelled, why = None, None
    try:
        modelled = float(profile.power.power_w(window.concurrency)) / profile.hardware_count
    except (ExtrapolationRefused, ProfileIncomplete) as refused:
        why = refused.message
    names = ("logical_model", "hardware_model", "hardware_count", "runtime", "runtime_version", "config_version")
    return {
        "observations": list(window.observations),
        "binding": window.binding.words,
        "window_end_at": iso(window.end_at),
        "concurrency": window.concurrency,
        "measured_board_w": measured,
        "measured_evidence_class": window.evidence_class.value,
        "modelled_board_w": modelled,
        "modelled_evidence_class": profile.evidence_class.value,
        "residual_relative": None if modelled is None or measured == 0 else (measured - modelled) / measured,
        "differs": [n for n in names if getattr(profile, n) != getattr(window.binding, n)],
        "why": why,
    }


def _known(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
