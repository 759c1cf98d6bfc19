"""Off-policy evaluation: what a policy would have earned, from logs of another one. The weakest outcome evidence.

It needs logged propensities and overlap. A deterministic logging policy says nothing about arms it did not take:
replay them, or explore with at least 1 %. Estimators: IPS (Horvitz and Thompson 1952), SNIPS (Swaminathan and
Joachims 2015), DR (Dudik et al. 2011), switch-DR (Wang et al. 2017); intervals from their influence values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from policies.proof.checked import Floats, Interval, same_length, vector, z_two_sided
from policies.proof.errors import LengthsDiffer, NoData, ValuesInvalid
from policies.proof.evidence import Ready
from policies.proof.intervals import ratio_delta

MIN_ESS = 100.0
MIN_ESS_SHARE = 0.05
EXPLORE = 0.01  # least exploration to ask for
CLIPS = (2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
SWITCH = 10.0  # weight above which switch-DR trusts the model
_SUMS_TO_ONE = 1e-6

Actions = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Logged:
    """n logged choices among K arms.

    action (n,): the arm taken; propensity (n,): its logged probability; target (n, K): the probabilities of the
    policy to evaluate; logging (n, K): all logged probabilities, where recorded (tells overlap exactly).
    Raises ValuesInvalid, LengthsDiffer, NoData.
    """

    action: Actions
    propensity: Floats
    target: Floats
    logging: Floats | None = None

    def __post_init__(self) -> None:
        action = np.asarray(self.action)
        if not action.size:
            raise NoData("no choice is logged.", fix="log choices with their propensities")
        target = _matrix(self.target, "target")
        n, arms = target.shape
        if action.dtype.kind not in "iu" or action.ndim != 1 or action.min() < 0 or action.max() >= arms:
            raise ValuesInvalid(
                f"action holds an arm outside 0..{arms - 1}.", fix="number the arms as target's columns"
            )
        propensity = vector(self.propensity, "propensity")
        same_length(action=action, propensity=propensity, target=target)
        if not ((propensity > 0) & (propensity <= 1)).all():
            raise ValuesInvalid(
                "a propensity is outside (0, 1].", fix="log the probability of the arm taken when it was drawn"
            )
        logging = None if self.logging is None else _matrix(self.logging, "logging")
        if logging is not None:
            if logging.shape != target.shape:
                raise LengthsDiffer(f"logging is {logging.shape}, target {target.shape}.", fix="one column per arm")
            if not np.allclose(logging[np.arange(n), action], propensity, atol=_SUMS_TO_ONE):
                raise ValuesInvalid("logging contradicts propensity.", fix="log both from the same draw")
        checked = {"action": action.astype(np.int64), "propensity": propensity, "target": target, "logging": logging}
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def n(self) -> int:
        return self.action.size

    @property
    def weights(self) -> Floats:
        """Importance weights (n,): target over logged probability of the arm taken."""
        return np.asarray(self.target[np.arange(self.n), self.action] / self.propensity)


@dataclass(frozen=True)
class Overlap:
    """Whether the log can answer at all. ess: (sum w)^2 / sum w^2; unsupported: mean probability that the target
    gives to arms the log never could take (None where only the taken arm's propensity was logged)."""

    identifiable: bool
    why: str
    n: int
    ess: float
    ess_share: float
    max_weight: float
    mean_weight: float
    unsupported: float | None


@dataclass(frozen=True)
class Estimate:
    """Value of the target policy in the unit of the reward, with interval; gain: the same minus the logged policy's."""

    method: str
    value: float
    low: float
    high: float
    gain: float
    gain_low: float
    gain_high: float


@dataclass(frozen=True)
class Evaluation:
    """All estimators; none where the value is not identifiable, and `overlap.why` says why.

    clipping: (cap, method, value) per cap on the weights. sensitive: clipping or the choice of estimator moves the
    value beyond the widest interval, so that no single figure should be told.
    """

    overlap: Overlap
    estimates: tuple[Estimate, ...]
    clipping: tuple[tuple[float, str, float], ...]
    sensitive: bool

    def estimate(self, method: str) -> Estimate | None:
        return next((e for e in self.estimates if e.method == method), None)


def overlap(logged: Logged) -> Overlap:
    """ESS of at least 100 and 5 % of n, support, and no deterministic log of another policy."""
    w = logged.weights
    ess = float(w.sum() ** 2 / (w @ w)) if w.any() else 0.0
    share = ess / logged.n
    mean = float(w.mean())
    unsupported = None
    if logged.logging is not None:
        unsupported = float(np.where(logged.logging > 0, 0.0, logged.target).sum(axis=1).mean())
    why = _why_not(logged, w, ess, share, unsupported)
    return Overlap(not why, why, logged.n, ess, share, float(w.max()), mean, unsupported)


def _why_not(logged: Logged, w: Floats, ess: float, share: float, unsupported: float | None) -> str:
    remedy = f"replay the requests, or explore with at least {EXPLORE:.0%}"
    same = bool(np.allclose(w, 1.0, atol=_SUMS_TO_ONE))
    if (logged.propensity >= 1 - _SUMS_TO_ONE).all() and not same:
        return f"not identifiable: the logging policy was deterministic and took other arms; {remedy}"
    if unsupported is not None and unsupported > _SUMS_TO_ONE:
        return f"not identifiable: the target gives {unsupported:.1%} to arms that the log could not take; {remedy}"
    if ess < MIN_ESS or share < MIN_ESS_SHARE:
        needed = f"{MIN_ESS:.0f} and {MIN_ESS_SHARE:.0%} are needed"
        return f"not identifiable: effective sample size {ess:.0f} of {logged.n} ({share:.1%}), {needed}; {remedy}"
    se = float(w.std(ddof=1)) / math.sqrt(w.size)
    if abs(float(w.mean()) - 1) > 4 * se + _SUMS_TO_ONE:  # weights average to 1 wherever the log could take every arm
        return f"not identifiable: the weights average {w.mean():.3f}, not 1: arms are missing from the log; {remedy}"
    return ""


def evaluate(
    logged: Logged,
    reward: npt.ArrayLike,
    modelled: npt.ArrayLike | None = None,
    *,
    confidence: float = 0.95,
    switch: float = SWITCH,
    clips: Sequence[float] = CLIPS,
) -> Evaluation:
    """IPS and SNIPS, with `modelled` (n, K) also DR and switch-DR, of the target policy; reward (n,) as observed.

    modelled: a model's expected reward of every arm, fitted on *other* rows (`cross_fitted`).
    """
    r = vector(reward, "reward", signed=True)
    same_length(action=logged.action, reward=r)
    q = None if modelled is None else _modelled(modelled, logged)
    z = z_two_sided(confidence)
    found = overlap(logged)
    if not found.identifiable:
        return Evaluation(found, (), (), False)
    w = logged.weights
    estimates = tuple(_estimate(name, *parts, r, z) for name, parts in _influences(logged, w, r, q, switch).items())
    clipping = tuple(
        (float(cap), name, value)
        for cap in clips
        for name, (value, _) in _influences(logged, np.minimum(w, cap), r, q, switch).items()
        if name != "switch-dr"
    )
    return Evaluation(found, estimates, clipping, _sensitive(estimates, clipping, float(w.max())))


def _influences(
    logged: Logged, w: Floats, r: Floats, q: Floats | None, switch: float
) -> dict[str, tuple[float, Floats]]:
    """method -> (value, influence values (n,) around it)."""
    ips = w * r
    out = {"ips": (float(ips.mean()), ips - ips.mean())}
    mean_w = float(w.mean())
    snips = float(ips.sum() / w.sum())
    out["snips"] = (snips, w * (r - snips) / mean_w)
    if q is not None:
        direct = (logged.target * q).sum(axis=1)
        residual = w * (r - q[np.arange(logged.n), logged.action])
        for name, terms in (("dr", direct + residual), ("switch-dr", direct + np.where(w <= switch, residual, 0.0))):
            out[name] = (float(terms.mean()), terms - terms.mean())
    return out


def _estimate(name: str, value: float, influence: Floats, r: Floats, z: float) -> Estimate:
    root = math.sqrt(r.size)
    half = z * float(influence.std(ddof=1)) / root
    gain = value - float(r.mean())
    gain_half = z * float((influence - (r - r.mean())).std(ddof=1)) / root
    return Estimate(name, value, value - half, value + half, gain, gain - gain_half, gain + gain_half)


def _sensitive(estimates: Sequence[Estimate], clipping: Sequence[tuple[float, str, float]], max_weight: float) -> bool:
    """Do reasonable caps (that touch few weights: 10 and above) or estimators leave each other's intervals?"""
    low, high = max(e.low for e in estimates), min(e.high for e in estimates)
    if low > high:
        return True
    widest = {e.method: e for e in estimates}
    return any(
        not widest[name].low <= value <= widest[name].high
        for cap, name, value in clipping
        if 10 <= cap < max_weight and name in widest
    )


def ratio_off_policy(
    logged: Logged, energy: npt.ArrayLike, success: npt.ArrayLike, confidence: float = 0.95
) -> tuple[float | None, Interval, Overlap]:
    """Amount per success of the target over that of the logged policy: self-normalised weights in both totals.

    energy (n,) J (or USD, g) and success (n,) of the logged choices. (None, (0, inf)) where it is not identifiable.
    """
    e, s = vector(energy, "energy"), vector(success, "success")
    same_length(action=logged.action, energy=e, success=s)
    found = overlap(logged)
    w = logged.weights
    if not found.identifiable or not (w @ s and s.sum() and e.sum()):
        return None, (0.0, math.inf), found
    value = float((w @ e / (w @ s)) / (e.sum() / s.sum()))
    return value, ratio_delta(w * e, w * s, e, s, confidence), found


def ready_rate(evaluation: Evaluation, method: str = "snips") -> Ready:
    """The gain of the target over the logged policy, for the gate's `success` or `over_slo`.

    Not identifiable where the log is not, where that estimator was not run, or where clipping decides the value.
    """
    found, n = evaluation.estimate(method), evaluation.overlap.n
    if found is None or evaluation.sensitive:
        unsure = "clipping or the estimator decides the value" if found else f"no {method} estimate"
        why = evaluation.overlap.why or unsure
        return Ready(None, -1.0, 1.0, n, method, "off_policy", identifiable=False, why=why)
    return Ready(found.gain, found.gain_low, found.gain_high, n, method, "off_policy")


def ready_ratio(
    logged: Logged, amounts: npt.ArrayLike, success: npt.ArrayLike, evidence_class: str, confidence: float = 0.95
) -> Ready:
    """`ratio_off_policy` for the gate's `energy`, `usd` or `carbon`; evidence_class: that of the logged amounts."""
    value, (low, high), found = ratio_off_policy(logged, amounts, success, confidence)
    told = value is not None
    why = "" if told else found.why or "a total is 0"
    return Ready(value, low, high, found.n, "self-normalised weights", evidence_class, identifiable=told, why=why)


def cross_fitted(
    action: npt.ArrayLike, reward: npt.ArrayLike, groups: npt.ArrayLike, arms: int, *, folds: int = 5, seed: int = 0
) -> Floats:
    """Expected reward (n, K) per group (category, size band) and arm, each row from the other folds' means.

    Means are shrunk by one pseudo-observation towards the arm's mean, and that towards the mean of all, so that an
    arm without data has a value. A row never informs its own prediction.
    """
    a, r, g = np.asarray(action, dtype=np.int64), vector(reward, "reward", signed=True), np.asarray(groups)
    n = same_length(action=a, reward=r, groups=g)
    names, index = np.unique(g, return_inverse=True)
    fold = np.random.default_rng(seed).permutation(n) % max(min(folds, n), 2)
    out = np.zeros((n, arms))
    for k in range(int(fold.max()) + 1):
        rest, own = fold != k, fold == k
        overall = float(r[rest].mean()) if rest.any() else 0.0
        per_arm = _shrunk_means(a[rest], r[rest], np.full(arms, overall))
        cell = index[rest] * arms + a[rest]
        table = _shrunk_means(cell, r[rest], np.tile(per_arm, len(names))).reshape(len(names), arms)
        out[own] = table[index[own]]
    return out


def _shrunk_means(index: Actions, values: Floats, prior: Floats) -> Floats:
    sums = np.bincount(index, weights=values, minlength=prior.size)
    counts = np.bincount(index, minlength=prior.size)
    return np.asarray((sums + prior) / (counts + 1))


def _matrix(values: Any, name: str) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 2 or not np.isfinite(array).all() or (array < 0).any():
        raise ValuesInvalid(f"{name} is no (n, K) table of probabilities.", fix="give one column per arm")
    if not np.allclose(array.sum(axis=1), 1.0, atol=_SUMS_TO_ONE):
        raise ValuesInvalid(f"a row of {name} does not sum to 1.", fix="give the probability of every arm")
    return array


def _modelled(values: npt.ArrayLike, logged: Logged) -> Floats:
    q = np.asarray(values, dtype=np.float64)
    if q.shape != logged.target.shape:
        raise LengthsDiffer(f"modelled is {q.shape}, target {logged.target.shape}.", fix="give a value for every arm")
    if not np.isfinite(q).all():
        raise ValuesInvalid("modelled holds NaN or infinity.", fix="predict every arm, or leave the model out")
    return q
