"""Ridge and logistic regression with an L2 penalty chosen by cross-validation on the training part.

The last column of a design is its constant and is (almost) free of the penalty.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, xlogy

from policies.replay.table import Floats, Ints

STEPS, TOLERANCE = 50, 1e-7
FREE = 1e-3  # penalty of the constant: keeps it finite where every answer is right, or none
FOLDS = 5
Fit = Callable[[Floats, Floats, float, Floats | None], Floats]


def ridge(design: Floats, target: Floats, l2: float, start: Floats | None = None) -> Floats:
    """argmin_w |design w - target|^2 + l2 |w|^2; in closed form, so `start` is not used."""
    gram = design.T @ design + np.diag(_penalty(design.shape[1], l2))
    return np.asarray(np.linalg.solve(gram, design.T @ target))


def logistic(design: Floats, target: Floats, l2: float, start: Floats | None = None) -> Floats:
    """argmin_w of the log loss of `target` 0..1 under expit(design w), + l2/2 |w|^2: Newton with step halving.

    Fractional targets are allowed: the loss is then a cross entropy. `start` are weights to begin with.
    """
    penalty = _penalty(design.shape[1], l2)
    weights = np.zeros(design.shape[1]) if start is None else start
    loss = _loss(design, target, weights, penalty)
    for _ in range(STEPS):
        p = expit(design @ weights)
        gradient = design.T @ (p - target) + penalty * weights
        hessian = (design.T * (p * (1.0 - p))) @ design + np.diag(penalty)
        step = np.linalg.solve(hessian, gradient)
        size = 1.0
        while (new := _loss(design, target, weights - size * step, penalty)) > loss and size > 1e-4:
            size /= 2.0
        if new > loss:
            break
        weights, gained, loss = weights - size * step, loss - new, new
        if gained <= TOLERANCE * max(1.0, abs(loss)):
            break
    return weights


def log_loss(target: Floats, p: Floats) -> float:
    """Mean cross entropy in nats."""
    p = np.clip(p, 1e-12, 1.0 - 1e-12)
    return float(-np.mean(xlogy(target, p) + xlogy(1.0 - target, 1.0 - p)))


@dataclass(frozen=True)
class Chosen:
    """A fit with its penalty, and (N,) linear predictions of each training row by a fit without its fold."""

    weights: Floats
    l2: float
    held_out: Floats


def cross_validated(
    fit: Fit, design: Floats, target: Floats, penalties: Sequence[float], seed: int, *, loss: Callable[..., float]
) -> Chosen:
    """The fit with the penalty of least out-of-fold `loss(target, linear prediction)`; ties to the larger penalty."""
    folds = split(len(design), seed)
    best: tuple[float, float, Floats] | None = None
    starts: list[Floats | None] = [None] * len(folds)  # the fit of the last penalty is close to the next
    for l2 in sorted(penalties, reverse=True):
        linear = np.zeros(len(design))
        for at, fold in enumerate(folds):
            rest = np.ones(len(design), dtype=np.bool_)
            rest[fold] = False
            weights = fit(design[rest], target[rest], l2, starts[at])
            linear[fold], starts[at] = design[fold] @ weights, weights
        if best is None or loss(target, linear) < best[0]:
            best = (loss(target, linear), l2, linear)
    assert best is not None
    return Chosen(fit(design, target, best[1], None), best[1], best[2])


def split(n: int, seed: int) -> list[Ints]:
    """FOLDS shuffled parts of range(n); fewer where n is smaller, and one single row is its own fold."""
    order = np.random.default_rng(seed).permutation(n)
    return [part for part in np.array_split(order, FOLDS) if part.size]


def logistic_loss(target: Floats, linear: Floats) -> float:
    return log_loss(target, expit(linear))


def squared_loss(target: Floats, linear: Floats) -> float:
    return float(np.mean((target - linear) ** 2))


def _loss(design: Floats, target: Floats, weights: Floats, penalty: Floats) -> float:
    linear = design @ weights
    return float(np.sum(np.logaddexp(0.0, linear) - target * linear) + 0.5 * np.sum(penalty * weights**2))


def _penalty(n: int, l2: float) -> Floats:
    penalty = np.full(n, l2, dtype=np.float64)
    penalty[-1] = FREE
    return penalty
