"""Weighted non-linear least squares on relative residuals, with covariance, bounds that bind, and intervals.

A meter's error is a share of what it reads, so residuals are (fitted - observed) / observed, each weighted by
1 / u where the windows tell their relative uncertainty u. With m windows, p parameters and R the weighted residuals,

    s^2 = R'R / (m - p)        cov = s^2 (J'J)^-1        J = dR / d parameters

A prediction y at x has the variance g' cov g (delta method, g = dy / d parameters); a new window there adds the
residual variance (s u y)^2. Intervals take Student's t with m - p degrees of freedom.
Seber, Wild: Nonlinear Regression (1989), sections 2.1.2 and 5.1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from policies.fleet.errors import CalibrationFailed
from policies.fleet.power.curves import Array, Curve

LEVEL = 0.95
_AT_BOUND = 1e-6
_SINGULAR = 1e12  # condition of the scaled J'J above which its inverse is noise
MAX_EVALUATIONS = 400


@dataclass(frozen=True)
class Fit:
    """Parameters in the order of `curve.names`; `covariance` is singular-free or None where windows cannot tell."""

    curve: Curve
    parameters: Array
    covariance: Array | None  # rows of a parameter at its bound are 0: it was not estimated
    residual_sd: float  # s: relative, per unit of u
    degrees_of_freedom: int
    at_bound: tuple[str, ...]
    residuals: Array  # (observed - fitted) / observed, unweighted

    def value(self, x: Array) -> Array:
        return self.curve.value(self.parameters, x)

    def half_width(self, x: Array, u: float = 1.0) -> Array:
        """Half of the 95 % prediction interval of one new window at `x`; NaN where the fit has no covariance."""
        y = self.value(x)
        if self.covariance is None or self.degrees_of_freedom < 1:
            return np.full(len(y), np.nan)
        g = self.curve.jacobian(self.parameters, x)
        variance = np.einsum("ij,jk,ik->i", g, self.covariance, g) + (self.residual_sd * u * y) ** 2
        out: Array = quantile(self.degrees_of_freedom) * np.sqrt(np.maximum(variance, 0.0))
        return out


def quantile(degrees_of_freedom: int) -> float:
    """Of Student's t, two-sided at LEVEL."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees_of_freedom, 0.5 + LEVEL / 2))


def fit(curve: Curve, x: Array, y: Array, u: Array) -> Fit:
    """Fit `curve` to y (> 0) at `x` with relative weights 1/`u`.

    Raises CalibrationFailed where the search does not converge, or gives no finite answer.
    """
    from scipy.optimize import least_squares  # a second of import, which a page that only shows profiles does without

    w = 1.0 / (y * u)
    lower, upper = np.array(curve.lower), np.array(curve.upper)
    start = np.clip(curve.start(x, y, w), lower, upper)
    inside = np.clip(start, lower + 1e-9 * (1 + np.abs(lower)), np.where(np.isfinite(upper), upper - 1e-9, upper))
    found = least_squares(
        lambda p: w * (curve.value(p, x) - y),
        inside,
        jac=lambda p: w[:, None] * curve.jacobian(p, x),
        bounds=(lower, upper),
        x_scale="jac",
        max_nfev=MAX_EVALUATIONS,
    )
    if found.status <= 0 or not np.isfinite(found.x).all():
        raise CalibrationFailed(
            f"the {curve.form} fit of {curve.quantity} to {len(y)} windows did not converge in "
            f"{MAX_EVALUATIONS} evaluations.",
            fix="take the table form, or windows over more concurrencies",
        )
    bound = _bound(found.x, lower, upper, y)
    free = ~bound
    freedom = len(y) - int(free.sum())
    sd = float(np.sqrt(np.sum(found.fun**2) / freedom)) if freedom > 0 else float("nan")
    return Fit(
        curve=curve,
        parameters=found.x,
        covariance=_covariance(found.jac[:, free], free, sd),
        residual_sd=sd,
        degrees_of_freedom=freedom,
        at_bound=tuple(n for n, b in zip(curve.names, bound, strict=True) if b),
        residuals=(y - curve.value(found.x, x)) / y,
    )


def _bound(p: Array, lower: Array, upper: Array, y: Array) -> NDArray[np.bool_]:
    scale = np.where(np.isfinite(upper), upper - lower, float(np.max(np.abs(y))))
    out: NDArray[np.bool_] = (p - lower <= _AT_BOUND * scale) | (upper - p <= _AT_BOUND * scale)
    return out


def _covariance(jac: Array, free: NDArray[np.bool_], sd: float) -> Array | None:
    """s^2 (J'J)^-1 over the free parameters; None where J'J has no inverse worth the name."""
    if not np.isfinite(sd) or not free.any():
        return None
    length = np.linalg.norm(jac, axis=0)
    if (length == 0).any():
        return None
    _, singular, vt = np.linalg.svd(jac / length, full_matrices=False)
    if singular[-1] <= 0 or (singular[0] / singular[-1]) ** 2 > _SINGULAR:
        return None
    inner = (vt.T / singular**2) @ vt / np.outer(length, length) * sd**2
    out = np.zeros((len(free), len(free)))
    out[np.ix_(free, free)] = inner
    return out
