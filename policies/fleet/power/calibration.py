"""A profile's power or throughput fitted to measured windows, bound to what was measured, and never asked beyond.

Rules:

    minimum       5 windows of 1 and more requests at once, at 4 or more levels of concurrency (CalibrationTooSmall)
    binding       one model, hardware, number of boards, runtime, configuration, precision and meter, one evidence
                  class and kind of meter (IncomparableObservations names what differs)
    range         the lowest to the highest concurrency of the windows; outside is refused (ExtrapolationRefused) or,
                  on request, marked `extrapolated`
    idle          windows without any request are the idle loaded state, no point of the curve; windows with a mean
                  between 0 and 1 are a mixture of the two and left out
    class         that of the windows or `calibrated`, whichever is weaker
    quality       by rule, see `quality`
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from policies.fleet.errors import (
    CalibrationFailed,
    CalibrationTooSmall,
    ExtrapolationRefused,
    FleetError,
    ProfileInvalid,
    WindowInvalid,
)
from policies.fleet.power.curves import FORMS, POWER, QUANTITIES, Array
from policies.fleet.power.estimate import Estimate, HoldOut, estimate, hold_out, levels
from policies.fleet.power.identity import content_id
from policies.fleet.power.quality import quality_of
from policies.fleet.power.windows import Binding, MeasuredWindow, bindings, require_one_binding
from warehouse.evidence import EvidenceClass, Quality, weakest

MIN_WINDOWS = 5
MIN_LEVELS = 4
BEST = "best"


@dataclass(frozen=True)
class Prediction:
    """Figures of one instance in the shape of the question. `low` and `high`: 95 % of new windows; NaN: not known."""

    concurrency: Array
    value: Array
    low: Array
    high: Array
    extrapolated: np.ndarray[Any, np.dtype[np.bool_]]
    unit: str
    evidence_class: EvidenceClass
    quality: Quality
    calibration_id: str


@dataclass(frozen=True)
class Calibration:
    """A fitted quantity. Power is fitted per board and predicted per instance; throughput is per instance."""

    calibration_id: str
    quantity: str
    form: str
    binding: Binding
    fitted: Estimate
    n: int
    levels: int
    concurrency_min: float
    concurrency_max: float
    context_tokens: float | None  # mean of the windows; None: not told, so the fit holds for their context only
    idle_loaded_w: float | None  # of the instance, mean of the windows without a request
    residual_relative: float
    holdout_error_relative: float | None
    coverage: float | None
    basis: EvidenceClass
    quality: Quality
    why: tuple[str, ...]  # what keeps the quality from being higher
    observations: tuple[str, ...]
    window_start_at: datetime
    window_end_at: datetime
    fitted_at: datetime
    notes: tuple[str, ...] = ()
    points: tuple[dict[str, Any], ...] = ()  # windows with residuals; empty when read back
    held_out: HoldOut | None = None

    @property
    def evidence_class(self) -> EvidenceClass:
        found = weakest([self.basis, EvidenceClass.CALIBRATED])
        assert found is not None  # two inputs
        return found

    @property
    def unit(self) -> str:
        return "W" if self.quantity == POWER else "tokens/s"

    def predict(
        self, concurrency: ArrayLike, *, context_tokens: float | None = None, extrapolate: bool = False
    ) -> Prediction:
        """Power (W) or throughput (tokens/s) of one instance. Raises ExtrapolationRefused, ProfileInvalid."""
        n = np.asarray(concurrency, dtype=np.float64)
        if not np.all(n >= 1):
            raise ProfileInvalid(
                "a concurrency is below 1 or not a number.", fix="give 1 or more; idle is a state of its own"
            )
        outside = (n < self.concurrency_min * (1 - 1e-9)) | (n > self.concurrency_max * (1 + 1e-9))
        if not extrapolate and outside.any():
            raise ExtrapolationRefused(
                f"concurrency {float(n[outside].flat[0]):g} lies outside {self.concurrency_min:g} to "
                f"{self.concurrency_max:g}, which {self.binding.words} was measured at.",
                fix="stay within the range, measure more windows, or ask for a marked extrapolation",
            )
        x = np.column_stack([n.ravel(), np.full(n.size, self._ratio(context_tokens))])
        boards = self.binding.hardware_count if self.quantity == POWER else 1
        value = (boards * self.fitted.value(x)).reshape(n.shape)
        half = (boards * self.fitted.half_width(x)).reshape(n.shape)
        return Prediction(
            concurrency=n,
            value=value,
            low=np.maximum(value - half, 0.0),
            high=value + half,
            extrapolated=outside,
            unit=self.unit,
            evidence_class=self.evidence_class,
            quality=self.quality,
            calibration_id=self.calibration_id,
        )

    def _ratio(self, context_tokens: float | None) -> float:
        if context_tokens is None or context_tokens == self.context_tokens:
            return 1.0
        if self.quantity == POWER or self.form != "linear" or self.context_tokens is None:
            raise ExtrapolationRefused(
                f"this {self.form} calibration of {self.quantity} does not tell how it changes with context.",
                fix="ask without a context, or fit the linear form of throughput to windows that tell theirs",
            )
        return context_tokens / self.context_tokens


def calibrate(
    windows: Sequence[MeasuredWindow],
    *,
    quantity: str,
    form: str,
    fitted_at: datetime,
) -> Calibration:
    """Fit `form` to the windows. Raises CalibrationTooSmall, CalibrationFailed, IncomparableObservations,
    WindowInvalid (one window twice), ProfileInvalid (no such quantity or form).
    """
    _known("quantity", quantity, QUANTITIES)
    _known("form", form, FORMS)
    binding = require_one_binding(windows)
    seen = [i for w in windows for i in w.observations]
    if len(set(seen)) < len(seen):
        raise WindowInvalid("an observation lies in two windows.", fix="give each observation once")
    told = [w for w in windows if _observed(w, quantity) is not None]
    used = sorted((w for w in told if w.concurrency >= 1), key=lambda w: (w.start_at, w.observations))
    n = np.array([w.concurrency for w in used], dtype=np.float64)
    level = levels(n) if used else np.empty(0, dtype=np.int64)
    count = len(set(level.tolist()))
    if len(used) < MIN_WINDOWS or count < MIN_LEVELS:
        raise CalibrationTooSmall(
            f"{len(used)} windows with {quantity} at {count} levels of concurrency ({binding.words}).",
            fix=f"measure {MIN_WINDOWS} windows or more at {MIN_LEVELS} or more concurrencies, 10 % apart",
        )
    x, context = _inputs(used)
    boards = binding.hardware_count if quantity == POWER else 1
    y = np.array([_observed(w, quantity) for w in used], dtype=np.float64) / boards
    u = _uncertainties(used)
    fitted = estimate(quantity, form, x, y, u)
    held = hold_out(quantity, form, x, y, u)
    basis = weakest([w.evidence_class for w in used])
    assert basis is not None  # used is not empty
    residual = float(np.sqrt(np.mean(fitted.residuals**2)))
    quality, why = quality_of(used, count, fitted, held, basis)
    return Calibration(
        calibration_id=content_id(quantity, form, binding, used, fitted),
        quantity=quantity,
        form=form,
        binding=binding,
        fitted=fitted,
        n=len(used),
        levels=count,
        concurrency_min=float(n.min()),
        concurrency_max=float(n.max()),
        context_tokens=context,
        idle_loaded_w=_idle(windows),
        residual_relative=residual,
        holdout_error_relative=held.error,
        coverage=held.coverage,
        basis=basis,
        quality=quality,
        why=why,
        observations=tuple(i for w in used for i in w.observations),
        window_start_at=min(w.start_at for w in used),
        window_end_at=max(w.end_at for w in used),
        fitted_at=fitted_at,
        notes=_notes(windows, told, used, fitted, context),
        points=_points(used, y * boards, fitted, held),
        held_out=held,
    )


def best(windows: Sequence[MeasuredWindow], *, quantity: str, fitted_at: datetime) -> Calibration:
    """The form with the smallest hold-out error among those of the highest quality. Raises as `calibrate`."""
    found: list[Calibration] = []
    failure: CalibrationFailed | None = None
    for form in FORMS:
        try:
            found.append(calibrate(windows, quantity=quantity, form=form, fitted_at=fitted_at))
        except CalibrationFailed as failed:
            failure = failed
    if not found:
        assert failure is not None  # every form failed
        raise failure
    order = list(Quality)
    error = {c.form: math.inf if c.holdout_error_relative is None else c.holdout_error_relative for c in found}
    return min(found, key=lambda c: (order.index(c.quality), error[c.form]))


def calibrate_each(
    windows: Sequence[MeasuredWindow], *, quantity: str, form: str, fitted_at: datetime
) -> list[tuple[Binding, Calibration | FleetError]]:
    """One calibration for each binding among the windows, or why there is none. `form`: one of FORMS, or `best`.

    Windows of one binding that mix evidence classes or meters raise IncomparableObservations.
    """
    _known("form", form, (*FORMS, BEST))
    found: list[tuple[Binding, Calibration | FleetError]] = []
    for binding, members in bindings(windows).items():
        try:
            if form == BEST:
                found.append((binding, best(members, quantity=quantity, fitted_at=fitted_at)))
            else:
                found.append((binding, calibrate(members, quantity=quantity, form=form, fitted_at=fitted_at)))
        except (CalibrationTooSmall, CalibrationFailed) as failed:
            found.append((binding, failed))
    return found


def _known(name: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise ProfileInvalid(f"{name} is {value!r}.", fix=f"give one of {', '.join(allowed)}")


def _observed(window: MeasuredWindow, quantity: str) -> float | None:
    """The window's figure; a throughput of 0 is no point of a relative fit."""
    if quantity == POWER:
        return window.power_w or None
    return window.output_tokens_per_s or None


def _inputs(used: Sequence[MeasuredWindow]) -> tuple[Array, float | None]:
    """(n, 2) concurrency and context over the mean context; ratios are 1 where a window tells no context."""
    told = [w.context_tokens for w in used]
    known = [c for c in told if c is not None]
    mean = sum(known) / len(known) if len(known) == len(told) else None
    ratio = [1.0 if mean is None or c is None else c / mean for c in told]
    return np.column_stack([[w.concurrency for w in used], ratio]).astype(np.float64), mean


def _uncertainties(used: Sequence[MeasuredWindow]) -> Array:
    """Relative uncertainties up to a common factor, so that their mean square is 1; all equal where one is unknown."""
    told = [w.relative_uncertainty for w in used]
    known = np.array([u for u in told if u], dtype=np.float64)
    if len(known) < len(told):
        return np.ones(len(told))
    out: Array = known / np.sqrt(np.mean(known**2))
    return out


def _idle(windows: Sequence[MeasuredWindow]) -> float | None:
    idle = [w.power_w for w in windows if w.concurrency == 0 and w.power_w is not None]
    return sum(idle) / len(idle) if idle else None


def _notes(
    windows: Sequence[MeasuredWindow],
    told: Sequence[MeasuredWindow],
    used: Sequence[MeasuredWindow],
    fitted: Estimate,
    context: float | None,
) -> tuple[str, ...]:
    idle = sum(w.concurrency == 0 for w in told)
    mixed = len(told) - len(used) - idle
    unknown = len(windows) - len(told)
    return (
        *([f"{idle} windows without a request are the idle loaded state"] if idle else []),
        *([f"{mixed} windows below one request left out: idle and active mixed"] if mixed else []),
        *([f"{unknown} windows do not tell this quantity"] if unknown else []),
        *(f"{name} ends at its bound: the windows do not determine it" for name in fitted.at_bound),
        *(["the windows tell no context, so the fit holds for theirs"] if context is None else []),
    )


def _points(
    used: Sequence[MeasuredWindow], observed: Array, fitted: Estimate, held: HoldOut
) -> tuple[dict[str, Any], ...]:
    """Per window: what was observed and fitted (instance), and what the fold without its level said."""
    folds = {h.index: h for h in held.windows}
    return tuple(
        {
            "observations": list(w.observations),
            "concurrency": w.concurrency,
            "observed": float(o),
            "fitted": float(o * (1 - r)),
            "residual_relative": float(r),
            "held_out_error_relative": folds[i].error_relative if i in folds else None,
            "held_out_covered": folds[i].covered if i in folds else None,
            "held_out_inner": folds[i].inner if i in folds else None,
        }
        for i, (w, o, r) in enumerate(zip(used, observed, fitted.residuals, strict=True))
    )
