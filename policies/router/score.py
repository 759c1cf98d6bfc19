"""The score: w_cost * cost + w_eco * eco + w_prof * proficiency[category], each part in 0..1.

Cost and carbon use the same normalised inverse, cheapest / value: the best candidate has 1.0. They stay
two parts, because carbon is energy times the intensity of the serving grid, and the two rank differently.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import polars as pl

from policies.router.parameters import Parameters

# Scores that agree to this many decimals are a tie: below it lies the noise of adding the parts.
SCORE_DECIMALS = 12


@dataclass(frozen=True)
class Interval:
    """A two-sided 95 % confidence interval of a mean, in the unit of the mean."""

    low: float
    high: float


def normalize_inverted(value: pl.Expr, *, neutral: float) -> pl.Expr:
    """cheapest / value over the rows of the frame; `neutral` where unknown.

    A free offer (0) scores 1.0, and every other then 0.0: that is the limit of the same formula.
    """
    cheapest = value.min()
    return pl.when(value.is_null()).then(neutral).when(value <= 0).then(1.0).otherwise(cheapest / value)


def with_score(eligible: pl.DataFrame, parameters: Parameters) -> pl.DataFrame:
    """`eligible` (columns cost, carbon, proficiency: float or NULL) with cost_score, eco_score, prof_score, score."""
    weights, neutral = parameters.weights, parameters.neutral_score
    parts = eligible.with_columns(
        cost_score=normalize_inverted(pl.col("cost"), neutral=neutral),
        eco_score=normalize_inverted(pl.col("carbon"), neutral=neutral),
        prof_score=pl.col("proficiency").fill_null(neutral),
    )
    total = (
        weights.w_cost * pl.col("cost_score")
        + weights.w_eco * pl.col("eco_score")
        + weights.w_prof * pl.col("prof_score")
    )
    return parts.with_columns(score=total.round(SCORE_DECIMALS))


def blend(
    *, leaderboard: float | None, self_eval: float | None, self_eval_n: int | None, parameters: Parameters
) -> float | None:
    """Proficiency of one model in one category, 0..1, or None when unknown.

    From `self_eval_min_n` own evaluations on: leaderboard_share * leaderboard + the rest * self-eval, or the
    self-eval alone where no leaderboard knows the model. Below, and where n is unknown, a self-eval is too
    noisy to count, and the leaderboard stands alone.
    """
    if self_eval is None or self_eval_n is None or self_eval_n < parameters.self_eval_min_n:
        return leaderboard
    if leaderboard is None:
        return self_eval
    return parameters.leaderboard_share * leaderboard + (1.0 - parameters.leaderboard_share) * self_eval


def lognormal_mean_interval(n: int | None, log_mean: float | None, log_sd: float | None) -> Interval | None:
    """95 % interval of the mean of log-normal values, from n, mean and standard deviation of their logarithms.

    exp(m + s^2/2 +- t * sqrt(s^2/n + s^4/(2(n-1)))): the modified Cox method of Olsson, "Confidence
    Intervals for the Mean of a Log-Normal Distribution", Journal of Statistics Education 13(1), 2005.
    None below two values, since one run says nothing about the spread, and where it has no finite end.
    """
    if n is None or n < 2 or log_mean is None or log_sd is None:
        return None
    variance = log_sd * log_sd
    centre = log_mean + variance / 2
    half = t_975(n - 1) * math.sqrt(variance / n + variance * variance / (2 * (n - 1)))
    try:
        return Interval(math.exp(centre - half), math.exp(centre + half))
    except OverflowError:  # so wide that it says nothing
        return None


# 97.5 % quantiles of Student's t for 1 to 30 degrees of freedom.
_T_975 = (
    12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004, 2.262157, 2.228139,
    2.200985, 2.178813, 2.160369, 2.144787, 2.131450, 2.119905, 2.109816, 2.100922, 2.093024, 2.085963,
    2.079614, 2.073873, 2.068658, 2.063899, 2.059539, 2.055529, 2.051831, 2.048407, 2.045230, 2.042272,
)  # fmt: skip


def t_975(degrees: int) -> float:
    """97.5 % quantile of Student's t; beyond the table by its expansion around the normal quantile."""
    if degrees <= len(_T_975):
        return _T_975[degrees - 1]
    z = 1.959963984540054
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    return z + first / degrees + second / degrees**2
