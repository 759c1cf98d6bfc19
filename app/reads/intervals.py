"""95 % intervals for what pages show, from sums that one SQL pass brings.

Ratio of sums R = sum(Y) / sum(S) by the delta method on log R: psi_i = Y_i/mean(Y) - S_i/mean(S),
se = sd(psi)/sqrt(n), R * exp(+- t * se). Success share: Wilson. P95: order statistics.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from policies.router.score import t_975

_Z = 1.959963984540054


@dataclass(frozen=True)
class Ratio:
    """R with its interval; `n` rows. `low` and `high` are None where no interval can be given (n < 2, R = 0)."""

    value: float
    low: float | None
    high: float | None
    n: int

    @property
    def relative(self) -> float | None:
        """Half the width of the interval over the value."""
        if self.low is None or self.high is None or self.value == 0:
            return None
        return (self.high - self.low) / 2 / abs(self.value)


@dataclass(frozen=True)
class Sums:
    """n, sums, sample variances and covariance of Y and S over the same rows."""

    n: int
    sum_y: float | None
    sum_s: float | None
    var_y: float | None
    var_s: float | None
    cov: float | None


def ratio(sums: Sums) -> Ratio | None:
    """sum(Y)/sum(S), or None where nothing is known or nothing succeeded."""
    if not sums.n or sums.sum_y is None or not sums.sum_s:
        return None
    value = sums.sum_y / sums.sum_s
    mean_y, mean_s = sums.sum_y / sums.n, sums.sum_s / sums.n
    if sums.n < 2 or mean_y <= 0 or sums.var_y is None or sums.var_s is None or sums.cov is None:
        return Ratio(value, None, None, sums.n)
    variance = sums.var_y / mean_y**2 + sums.var_s / mean_s**2 - 2 * sums.cov / (mean_y * mean_s)
    half = t_975(sums.n - 1) * math.sqrt(max(0.0, variance) / sums.n)
    return Ratio(value, value * math.exp(-half), value * math.exp(half), sums.n)


def wilson(successes: float, n: float) -> tuple[float, float] | None:
    """95 % interval of a share (Wilson 1927)."""
    if n <= 0:
        return None
    p = successes / n
    centre = (p + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    half = _Z / (1 + _Z**2 / n) * math.sqrt(p * (1 - p) / n + _Z**2 / (4 * n * n))
    # At p = 0 and p = 1 the end is exact; rounding must not put it beyond.
    return max(0.0, min(centre - half, p)), min(1.0, max(centre + half, p))


def quantile_ranks(n: int, q: float) -> tuple[int, int] | None:
    """1-based ranks whose values bound the q-quantile with 95 %; None where n is too small for an upper bound.

    Exact binomial: P(X_(l) <= quantile < X_(u)) >= 0.95 with X ~ B(n, q); normal approximation above 2,000.
    For P95 the smallest n is 72.
    """
    if n <= 0:
        return None
    if n > 2000:
        centre, half = n * q, _Z * math.sqrt(n * q * (1 - q))
        return max(1, math.floor(centre - half)), min(n, math.ceil(centre + half) + 1)
    cdf, total = [], 0.0
    for k in range(n + 1):
        total += math.exp(
            math.lgamma(n + 1)
            - math.lgamma(k + 1)
            - math.lgamma(n - k + 1)
            + k * math.log(q)
            + (n - k) * math.log1p(-q)
        )
        cdf.append(total)
    low = next(k for k in range(n + 1) if cdf[k] > 0.025)  # P(X < low) <= 0.025
    high = next((k for k in range(n + 1) if cdf[k] >= 0.975), n) + 1
    return (max(1, low), high) if high <= n and low >= 1 else None
