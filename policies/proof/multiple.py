"""Many comparisons: the best of K candidates, and drill-downs by category.

Checks that must all pass need no correction (intersection-union test). Choosing the best of K does, and its gain is
flattered by the choice (winner's curse), so that a held-out and a shrunken gain stand beside the plain one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from policies.proof.checked import Floats, Interval, same_length, z_two_sided
from policies.proof.errors import NoData, ValuesInvalid
from policies.proof.intervals import log_ratio, ratio_delta
from policies.proof.rates import pairs

Arm = tuple[npt.ArrayLike, npt.ArrayLike]  # amounts (n,), successes (n,)
_DRAWS = 2_000


def holm(p_values: npt.ArrayLike) -> Floats:
    """Holm's (1979) adjusted p-values, in the order given: familywise error without assumptions on dependence."""
    p = _p_values(p_values)
    order = np.argsort(p, kind="stable")
    steps = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(steps, 1.0)
    return adjusted


@dataclass(frozen=True)
class Warned:
    """A category whose harm stands out at a false discovery rate: a warning, never a verdict."""

    category: str
    p: float
    q: float  # adjusted after Benjamini and Hochberg (1995)
    warned: bool


def drill_down(p_by_category: Mapping[str, float], rate: float = 0.05) -> list[Warned]:
    """Which categories to look at, worst first, at a false discovery rate of `rate` (BH)."""
    if not p_by_category:
        return []
    names = list(p_by_category)
    p = _p_values([p_by_category[name] for name in names])
    from scipy import stats  # half a second: not at every start

    q = stats.false_discovery_control(p, method="bh")
    rows = [Warned(name, float(a), float(b), bool(b <= rate)) for name, a, b in zip(names, p, q, strict=True)]
    return sorted(rows, key=lambda row: (row.q, row.p, row.category))


def p_harm(candidate: npt.ArrayLike, control: npt.ArrayLike) -> float:
    """One-sided exact p-value that the candidate succeeds less often: the sign test on pairs that differ."""
    table = pairs(candidate, control)
    differ = table.b + table.c
    if not differ:
        return 1.0
    from scipy import stats  # half a second: not at every start

    return float(stats.binom.cdf(table.b, differ, 0.5))


@dataclass(frozen=True)
class BestOf:
    """The best of K candidates by its ratio to the control, and how far the claim holds after choosing it.

    p_* test that its ratio is at or above `limit` (one-sided). gain = 1 - ratio: `gain` is that of all pairs and
    flattered; `held_out_gain` is that of pairs that took no part in the choice, `shrunken_gain` pulls the K log
    ratios towards their mean (empirical Bayes).
    """

    name: str
    ratio: float
    k: int
    p_raw: float
    p_holm: float
    p_max_t: float
    gain: float
    held_out_name: str
    held_out_gain: float | None
    held_out_interval: Interval  # of the ratio; (0, inf) where half the pairs cannot tell
    shrunken_gain: float
    p_holm_all: Mapping[str, float]


def best_of(
    candidates: Mapping[str, Arm], control: Arm, *, limit: float = 1.0, confidence: float = 0.95, seed: int = 0
) -> BestOf:
    """Choose the candidate of the least R1/R0 and correct for having chosen. All arms answer the same n requests.

    max-T: the distribution of the largest of the K studentised log ratios under the null by multiplier bootstrap of
    their influence values (Chernozhukov et al. 2013), which keeps their correlation. Held out: half of the pairs,
    drawn by `seed`, choose; the other half measures. Raises NoData where no candidate can be compared.
    """
    found = {name: log_ratio(*arm, *control) for name, arm in candidates.items()}
    known = {name: pair for name, pair in found.items() if pair is not None}
    if not known:
        raise NoData("no candidate can be compared with the control.", fix="give arms with energy and successes")
    names = list(known)
    centre = np.array([known[name][0] for name in names])
    psi = np.column_stack([known[name][1] for name in names])
    se = np.maximum(psi.std(axis=0, ddof=1) / math.sqrt(len(psi)), 1e-300)
    t = (centre - math.log(limit)) / se
    p = np.asarray(ndtr(t), dtype=np.float64)
    # Candidates that cannot be compared were looked at, too: they count in the correction.
    adjusted = holm(np.concatenate([p, np.ones(len(candidates) - len(names))]))[: len(names)]
    best = min(range(len(names)), key=lambda i: (centre[i], names[i]))
    chosen, interval, gain = _held_out(candidates, control, confidence, seed)
    return BestOf(
        name=names[best],
        ratio=math.exp(centre[best]),
        k=len(candidates),
        p_raw=float(p[best]),
        p_holm=float(adjusted[best]),
        p_max_t=_max_t(psi, se, float(t[best]), seed),
        gain=-math.expm1(centre[best]),
        held_out_name=chosen,
        held_out_gain=gain,
        held_out_interval=interval,
        shrunken_gain=-math.expm1(_shrunken(centre, se, best)),
        p_holm_all=dict(zip(names, adjusted.tolist(), strict=True)),
    )


def _max_t(psi: Floats, se: Floats, t: float, seed: int) -> float:
    rng = np.random.default_rng(seed)
    scaled = (psi - psi.mean(axis=0)) / (len(psi) * se)
    least = np.empty(_DRAWS)
    step = max(4_000_000 // len(psi), 1)
    for start in range(0, _DRAWS, step):
        rows = min(step, _DRAWS - start)
        least[start : start + rows] = (rng.standard_normal((rows, len(psi))) @ scaled).min(axis=1)
    return float((1 + (least <= t).sum()) / (1 + _DRAWS))


def _held_out(
    candidates: Mapping[str, Arm], control: Arm, confidence: float, seed: int
) -> tuple[str, Interval, float | None]:
    columns = {name: (np.asarray(e), np.asarray(s)) for name, (e, s) in candidates.items()}
    e0, s0 = np.asarray(control[0]), np.asarray(control[1])
    same_length(control=e0, **{name: e for name, (e, _) in columns.items()})
    order = np.random.default_rng(seed).permutation(e0.size)
    choose, measure = order[: e0.size // 2], order[e0.size // 2 :]
    if not choose.size:
        return "", (0.0, math.inf), None

    def centre(name: str, rows: npt.NDArray[np.int64]) -> float:
        e, s = columns[name]
        pair = log_ratio(e[rows], s[rows], e0[rows], s0[rows])
        return math.inf if pair is None else pair[0]

    chosen = min(columns, key=lambda name: (centre(name, choose), name))
    e, s = columns[chosen]
    value = centre(chosen, measure)
    interval = ratio_delta(e[measure], s[measure], e0[measure], s0[measure], confidence)
    return chosen, interval, None if math.isinf(value) else -math.expm1(value)


def _shrunken(centre: Floats, se: Floats, best: int) -> float:
    """DerSimonian and Laird's between-candidate variance, then the posterior mean of the best."""
    if centre.size < 3:  # too few to tell how candidates spread: shrink towards no effect instead
        prior, spread = 0.0, max(float(np.mean(centre**2 - se**2)), 0.0)
    else:
        weights = 1 / se**2
        prior = float(weights @ centre / weights.sum())
        q = float(weights @ (centre - prior) ** 2)
        scale = float(weights.sum() - (weights**2).sum() / weights.sum())
        spread = max((q - (centre.size - 1)) / scale, 0.0)
    keep = spread / (spread + float(se[best]) ** 2)
    return prior + keep * (float(centre[best]) - prior)


def simultaneous(confidence: float, comparisons: int) -> float:
    """The confidence of each of `comparisons` intervals so that all hold at `confidence`: Holm's first step."""
    z_two_sided(confidence)
    if comparisons < 1:
        raise ValuesInvalid(f"comparisons is {comparisons}.", fix="count the candidates looked at, at least 1")
    return 1 - (1 - confidence) / comparisons


def _p_values(values: npt.ArrayLike) -> Floats:
    p = np.asarray(values, dtype=np.float64)
    if p.ndim != 1 or not p.size:
        raise NoData("there is no p-value.", fix="give one per comparison")
    if not ((p >= 0) & (p <= 1)).all():
        raise ValuesInvalid(f"p-values are {p.tolist()}.", fix="give numbers from 0 to 1")
    return p
