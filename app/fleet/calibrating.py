"""Calibrations: fitted and stored, listed with their windows, and how well they hold out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.desk import Desk
from app.errors import BadRequest, NotFound
from app.fleet import store
from app.operations import Actor
from app.operations.plain import plain
from app.replay.progress import Progress
from policies.fleet.errors import CalibrationTooSmall
from policies.fleet.power import (
    BEST,
    FORMS,
    QUANTITIES,
    Calibration,
    MeasuredWindow,
    calibrate_each,
    calibration_report,
    holdout_table,
    markdown,
    read_calibrations,
    read_windows,
    table_data,
    unbound,
)
from warehouse.clock import utcnow
from warehouse.snapshots import Snapshot, snapshot

if TYPE_CHECKING:
    from app.operations.fleet import CalibrateParams, CalibrationsParams


def calibrate(desk: Desk, actor: Actor, params: CalibrateParams, progress: Progress) -> dict[str, Any]:
    """Every binding among the windows, or why it has no calibration.

    Raises BadRequest for an unknown form, CalibrationTooSmall without windows.
    """
    known = (*FORMS, BEST)
    if params.form not in known:
        raise BadRequest(f"The form is {params.form!r}.", fix=f"give one of {', '.join(known)}")
    progress.step("reading windows")
    with snapshot(desk.warehouse) as snap:
        windows = read_windows(snap, model=params.model, hardware=params.hardware, provider=params.provider)
        left = unbound(snap, model=params.model, hardware=params.hardware)
    if not windows:
        asked_for = {"model": params.model, "hardware": params.hardware, "provider": params.provider}
        only = ", ".join(f"{name} {value!r}" for name, value in asked_for.items() if value)
        raise CalibrationTooSmall(
            "no window with a concurrency and power or throughput was measured"
            + (f" of {only}" if only else "")
            + (f"; {left} windows do not say what they were measured on." if left else "."),
            fix="import mlenergy-v3 or energy windows, meter your replicas (power.replicas), or ask for less",
        )
    now, fitted, failed = utcnow(), [], []
    asked = QUANTITIES if params.quantity == "both" else (params.quantity,)
    for k, quantity in enumerate(asked):
        progress.step(f"fitting {quantity}", k, len(asked))
        for binding, result in calibrate_each(windows, quantity=quantity, form=params.form, fitted_at=now):
            progress.check()
            if isinstance(result, Calibration):
                fitted.append(result)
            else:
                failed.append(
                    {"quantity": quantity, "binding": binding.words, "why": result.message, "fix": result.fix}
                )
    progress.step("storing", len(asked), len(asked))
    new = store.write_calibrations(desk.warehouse, fitted, actor=actor, now=now) if params.keep else []
    return {
        "calibrations": [plain({**calibration_report(c), "new": c.calibration_id in new}) for c in fitted],
        "left_out": failed,
        "unbound_windows": left,
        "windows": len(windows),
        "stored": len(new),
        "as_of": plain(now),
    }


def stored(snap: Snapshot, params: CalibrationsParams) -> dict[str, Any]:
    """A list without curves; one asked for by its id with its windows, residuals and band. Raises NotFound."""
    found = read_calibrations(snap, quantity=params.quantity, model=params.model, hardware=params.hardware)
    if params.id is None:
        rows = [_short(calibration_report(c, version=v)) for c, v in found]
        return {"calibrations": plain(rows), "as_of": plain(snap.as_of)}
    hits = [(c, v) for c, v in found if c.calibration_id.startswith(params.id)]
    if len(hits) != 1:
        what = "More than one calibration begins with" if hits else "No calibration is"
        raise NotFound(f"{what} {params.id!r}.", fix="list them with `joulebook fleet calibrations`")
    calibration, version = hits[0]
    told = calibration_report(calibration, version=version)
    told["points"] = _points(calibration, read_windows(snap, model=calibration.binding.logical_model))
    return {"calibrations": [plain(told)], "as_of": plain(snap.as_of)}


def _short(told: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in told.items() if k not in ("points", "band", "covariance")}


def _points(calibration: Calibration, windows: list[MeasuredWindow]) -> list[dict[str, Any]]:
    """The windows that it was fitted to, as they stand now, with residuals; per instance."""
    used = set(calibration.observations)
    rows = []
    for window in windows:
        observed = window.power_w if calibration.quantity == "power" else window.output_tokens_per_s
        if not set(window.observations) <= used or observed is None or window.concurrency < 1:
            continue
        fitted = float(calibration.predict(window.concurrency, extrapolate=True).value)
        rows.append(
            {
                "observations": list(window.observations),
                "concurrency": window.concurrency,
                "observed": observed,
                "fitted": fitted,
                "residual_relative": (observed - fitted) / observed if observed else None,
                "evidence_class": window.evidence_class.value,
            }
        )
    return rows


def holdout(snap: Snapshot, provider: str | None, model: str | None, hardware: str | None) -> dict[str, Any]:
    """Leave-one-concurrency-out error of joules per token, by model and GPU, as data and as a Markdown table."""
    windows = read_windows(snap, provider=provider, model=model, hardware=hardware)
    if not windows:
        raise CalibrationTooSmall(
            f"no windows of {provider or 'any provider'} are there.",
            fix="import them: joulebook import mlenergy-v3 FILE",
        )
    table = holdout_table(windows)
    told: Any = plain(table_data(table))
    return {"table": told, "markdown": markdown(table), "windows": len(windows), "as_of": plain(snap.as_of)}
