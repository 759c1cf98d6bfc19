"""Calibrations as rows of core.calibration, and back; profiles that are made of them.

Versions count the fits of one binding, oldest first; a calibration is never changed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from policies.fleet.errors import ProfileInvalid, ProfileUnknown
from policies.fleet.power.calibration import Calibration
from policies.fleet.power.curves import CURVES, POWER, TABLE, THROUGHPUT
from policies.fleet.power.estimate import Estimate, TableFit
from policies.fleet.power.fit import Fit
from policies.fleet.power.identity import parameters
from policies.fleet.power.models import Linear, Logistic, PowerModel, Table
from policies.fleet.power.profiles import Profile
from policies.fleet.power.sql import sql_text
from policies.fleet.power.windows import Binding, IdleBoard
from warehouse.evidence import EvidenceClass, Quality, lowest_quality, weakest
from warehouse.ids import canonical_json
from warehouse.snapshots import Snapshot


def row(calibration: Calibration, *, actor: str) -> dict[str, Any]:
    """A row of core.calibration, without source, run and known_from."""
    c, b = calibration, calibration.binding
    fitted = c.fitted
    cov = None if isinstance(fitted, TableFit) or fitted.covariance is None else fitted.covariance.tolist()
    names = [] if isinstance(fitted, TableFit) else list(fitted.curve.names)
    beyond = {
        "binding": asdict(b),
        "context_tokens": c.context_tokens,
        "idle_loaded_w": c.idle_loaded_w,
        "levels": c.levels,
        "notes": list(c.notes),
        "why": list(c.why),
    }
    return {
        "calibration_id": c.calibration_id,
        "quantity": c.quantity,
        "form": c.form,
        "logical_model": b.logical_model,
        "hardware_model": b.hardware_model,
        "hardware_count": b.hardware_count,
        "runtime": b.runtime,
        "runtime_version": b.runtime_version,
        "config_version": ", ".join(v for v in (b.deployable_version, b.config_version) if v) or None,
        "parameters": canonical_json({**parameters(fitted), **beyond}),
        "covariance": None if cov is None else canonical_json({"names": names, "matrix": cov}),
        "n": c.n,
        "concurrency_min": c.concurrency_min,
        "concurrency_max": c.concurrency_max,
        "residual_relative": c.residual_relative,
        "holdout_error_relative": c.holdout_error_relative,
        "coverage": c.coverage,
        "basis_evidence_class": c.basis.value,
        "quality": c.quality.value,
        "observations": canonical_json(list(c.observations)),
        "fitted_at": c.fitted_at,
        "window_start_at": c.window_start_at,
        "window_end_at": c.window_end_at,
        "actor": actor,
    }


def from_row(stored: Mapping[str, Any]) -> Calibration:
    """The calibration that `row` wrote; residuals and folds are not kept."""
    told = json.loads(stored["parameters"])
    quantity, form = stored["quantity"], stored["form"]
    return Calibration(
        calibration_id=stored["calibration_id"],
        quantity=quantity,
        form=form,
        binding=Binding(**told["binding"]),
        fitted=_fitted(quantity, form, told, stored["covariance"]),
        n=stored["n"],
        levels=told["levels"],
        concurrency_min=stored["concurrency_min"],
        concurrency_max=stored["concurrency_max"],
        context_tokens=told["context_tokens"],
        idle_loaded_w=told["idle_loaded_w"],
        residual_relative=stored["residual_relative"],
        holdout_error_relative=stored["holdout_error_relative"],
        coverage=stored["coverage"],
        basis=EvidenceClass(stored["basis_evidence_class"]),
        quality=Quality(stored["quality"]),
        why=tuple(told["why"]),
        observations=tuple(json.loads(stored["observations"])),
        window_start_at=stored["window_start_at"],
        window_end_at=stored["window_end_at"],
        fitted_at=stored["fitted_at"],
        notes=tuple(told["notes"]),
    )


def _fitted(quantity: str, form: str, told: Mapping[str, Any], covariance: str | None) -> Estimate:
    freedom = int(told["degrees_of_freedom"])
    if form == TABLE:
        values = told["board_w" if quantity == POWER else "output_tokens_per_s"]
        spread = math.nan if told["spread_relative"] is None else told["spread_relative"]
        return TableFit(quantity, np.array(told["concurrency"]), np.array(values), spread, freedom)
    curve = CURVES[quantity, form]
    return Fit(
        curve=curve,
        parameters=np.array([told[name] for name in curve.names]),
        covariance=None if covariance is None else np.array(json.loads(covariance)["matrix"]),
        residual_sd=math.nan if told["residual_sd_relative"] is None else told["residual_sd_relative"],
        degrees_of_freedom=freedom,
        at_bound=tuple(told["at_bound"]),
        residuals=np.empty(0),
    )


def read_calibrations(
    snap: Snapshot, *, quantity: str | None = None, model: str | None = None, hardware: str | None = None
) -> list[tuple[Calibration, int]]:
    """Stored calibrations as of the snapshot with their version number, newest first."""
    asked = {"quantity": quantity, "model": model, "hardware": hardware, "calibration": None}
    found = snap.sql(sql_text("calibrations.sql"), **asked)
    return [(from_row(r), int(r["version_no"])) for r in found.rows(named=True)]


def read_calibration(snap: Snapshot, calibration_id: str) -> tuple[Calibration, int]:
    """One stored calibration and its version number. Raises ProfileUnknown."""
    asked = {"quantity": None, "model": None, "hardware": None, "calibration": calibration_id}
    found = snap.sql(sql_text("calibrations.sql"), **asked).rows(named=True)
    if not found:
        raise ProfileUnknown(
            f"no calibration {calibration_id!r} is stored.", fix="list them with: joulebook fleet calibrations"
        )
    return from_row(found[0]), int(found[0]["version_no"])


def power_model_of(calibration: Calibration, idle: Mapping[str, IdleBoard] | None = None) -> PowerModel:
    """The power form with its range. Idle: of the windows without a request, else of the boards' own measurement.

    Raises ProfileInvalid for a calibration of throughput.
    """
    if calibration.quantity != POWER:
        raise ProfileInvalid("this is a calibration of throughput.", fix="give one of power")
    c, boards, idle = calibration, calibration.binding.hardware_count, idle or {}
    loaded = idle["loaded"].mean_w if "loaded" in idle else None
    if c.idle_loaded_w is not None:
        loaded = c.idle_loaded_w / boards
    common: dict[str, Any] = {
        "hardware_count": boards,
        "board_idle_empty_w": idle["empty"].mean_w if "empty" in idle else None,
        "board_idle_loaded_w": loaded,
    }
    if isinstance(c.fitted, TableFit):
        return Table(**common, concurrency=tuple(c.fitted.knots.tolist()), board_w=tuple(c.fitted.values.tolist()))
    p = c.fitted.parameters.tolist()
    common |= {"concurrency_min": c.concurrency_min, "concurrency_max": c.concurrency_max, "board_idle_w": p[0]}
    if c.form == "linear":
        return Linear(**common, board_w_per_request=p[1])
    return Logistic(**common, board_nominal_w=p[0] + p[1], k=p[2], x0=p[3])


def profile_of(
    power: Calibration,
    throughput: Calibration | None = None,
    *,
    name: str,
    version: int = 1,
    idle: Mapping[str, IdleBoard] | None = None,
    capacity: Mapping[str, float | int | None] | None = None,
) -> Profile:
    """A profile of calibrated power and, where there is one, of the linear form of calibrated throughput.

    `capacity`: what no window tells and an operator declares: chunk_tokens, kv_blocks, block_tokens, max_slots,
    usd_per_hour, calibration_ctx. Raises ProfileInvalid where the two calibrations hold for different things.
    """
    told: dict[str, Any] = {}
    parts = [power]
    if throughput is not None:
        if throughput.quantity != THROUGHPUT or throughput.binding != power.binding:
            raise ProfileInvalid(
                f"the second calibration is of {throughput.quantity} for {throughput.binding.words}, the first for "
                f"{power.binding.words}.",
                fix="give calibrations of power and of throughput with one binding",
            )
        parts.append(throughput)
        if isinstance(throughput.fitted, Fit) and throughput.form == "linear":
            told = dict(zip(("W_ms", "H_ms_per_seq"), throughput.fitted.parameters.tolist(), strict=True))
            if throughput.context_tokens is not None:
                told["calibration_ctx"] = max(1, round(throughput.context_tokens))
    quality, evidence = lowest_quality(c.quality for c in parts), weakest([c.evidence_class for c in parts])
    assert quality is not None
    assert evidence is not None
    errors = [power.residual_relative, power.holdout_error_relative]
    return Profile(
        name=name,
        power=power_model_of(power, idle),
        logical_model=power.binding.logical_model,
        hardware_model=power.binding.hardware_model,
        evidence_class=evidence,
        quality=quality,
        quality_computed=quality,
        provenance=f"{power.n} windows, {power.window_start_at:%Y-%m-%d} to {power.window_end_at:%Y-%m-%d}, "
        f"calibrations {', '.join(c.calibration_id[:12] for c in parts)}",
        version=str(version),
        runtime=power.binding.runtime,
        runtime_version=power.binding.runtime_version,
        config_version=power.binding.config_version,
        calibration_id=power.calibration_id,
        relative_uncertainty=max(e for e in errors if e is not None),
        notes=tuple(dict.fromkeys(n for c in parts for n in (*c.why, *c.notes))),
        **{**told, **{k: v for k, v in (capacity or {}).items() if v is not None}},
    )
