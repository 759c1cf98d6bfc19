"""What pairs say about themselves: how much is noise between runs of one request, and whether the order mattered."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from policies.proof.checked import Floats

ALPHA = 0.05
BALANCE = (0.4, 0.6)  # share of pairs in which the control ran first; outside it the order was not random


@dataclass(frozen=True)
class RunNoise:
    """Spread of the log ratio candidate / control: between runs of the same request, and over all requests.

    requests: those with two runs and more; they are the ones that can tell. share: of the variance that is run noise.
    """

    requests: int
    runs: int
    within_sd: float
    total_sd: float
    share: float

    @property
    def words(self) -> str:
        return (
            f"{self.requests} requests were run again: the log ratio of joules varies by {self.within_sd:.3f} between "
            f"runs of one request and by {self.total_sd:.3f} over all ({self.share:.0%} of the variance is run noise)"
        )


def run_noise(ratio: npt.ArrayLike, requests: Sequence[str]) -> RunNoise | None:
    """`ratio` (n,) candidate / control per run, NaN unknown; None where no request was run twice.

    Pooled variance within requests over the variance of all (one-way random effects).
    """
    log = _logs(ratio)
    known = np.isfinite(log)
    values, names = log[known], np.asarray(requests)[known]
    _, index, counts = np.unique(names, return_inverse=True, return_counts=True)
    again = counts >= 2
    if not again.any() or values.size < 3:
        return None
    means = np.bincount(index, weights=values) / counts
    squares = np.bincount(index, weights=(values - means[index]) ** 2)
    within = float(squares[again].sum() / (counts[again] - 1).sum())
    total = float(values.var(ddof=1))
    share = min(within / total, 1.0) if total else 0.0
    return RunNoise(int(again.sum()), int(counts[again].sum()), math.sqrt(within), math.sqrt(total), share)


@dataclass(frozen=True)
class OrderEffect:
    """n pairs of known order; first_share: in which the control ran first. effect: the log ratio of candidate-first
    pairs minus that of control-first ones, with Welch's p. warning: in words, None where nothing stands out."""

    n: int
    first_share: float
    effect: float | None
    p: float | None
    warning: str | None


def order_effect(ratio: npt.ArrayLike, first_arm: Sequence[str | None]) -> OrderEffect | None:
    """`ratio` (n,) candidate / control; None where no pair tells its order."""
    arms = np.asarray([a or "" for a in first_arm])
    log = _logs(ratio)
    known = (arms != "") & np.isfinite(log)
    if not known.any():
        return None
    control, candidate = log[known & (arms == "control")], log[known & (arms == "candidate")]
    n, share = int(known.sum()), control.size / int(known.sum())
    effect = p = None
    if min(control.size, candidate.size) >= 2 and (control.std() or candidate.std()):
        from scipy import stats  # half a second: not at every start

        effect = float(candidate.mean() - control.mean())
        p = float(stats.ttest_ind(candidate, control, equal_var=False).pvalue)
    warnings = []
    if not BALANCE[0] <= share <= BALANCE[1]:
        warnings.append(f"the control ran first in {share:.0%} of {n} pairs: the order was not random")
    if p is not None and p < ALPHA and effect is not None:
        warnings.append(f"whoever ran first matters: a factor of {math.exp(effect):.3f} (p {p:.2g})")
    return OrderEffect(n, share, effect, p, "; ".join(warnings) or None)


def _logs(ratio: npt.ArrayLike) -> Floats:
    values = np.asarray(ratio, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(values > 0, np.log(values), np.nan))
