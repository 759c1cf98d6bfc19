"""Traffic compared with traffic at one mix of category and size band: that of the incumbent before the change.

A candidate that happened to get the small or the easy requests looks frugal (Simpson's paradox). The mix is frozen
with the proposal, before any request moves: the share w_h of each stratum h in the incumbent's own requests.

Rates: d = sum_h w_h (p1_h - p0_h), joined from Newcombe's interval per stratum by MOVER (Zou and Donner 2008), as the
gate does. A stratum without a request of one side is never filled in: any rate there is possible, and the interval
holds for all of them. Ratios: R = sum_h w_h mean_h(x) / sum_h w_h mean_h(s), delta method with a spread per stratum;
a stratum without a request leaves R unknown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from policies.recommend.figures import success_difference, wilson_bounds

SMALLEST_SHARE = 0.01  # of the incumbent's requests; a stratum below it would hold up every outcome

Strata = Mapping[str, Mapping[str, Any]]  # `Traffic.strata`


@dataclass(frozen=True)
class Rates:
    """Two rates at the mix and the interval of their difference, after minus before.

    `before` is of the strata that the incumbent tells, `after` of those that both tell; None: there is none.
    """

    before: float | None
    after: float | None
    low: float
    high: float


@dataclass(frozen=True)
class RatioAtMix:
    """`value`: amount per success; `n`: requests. `note`: why it is unknown, or has no `se_log`."""

    value: float | None
    se_log: float | None
    n: int
    note: str | None = None


@dataclass(frozen=True)
class AtMix:
    """Two sides that are compared at `shares`. `covered`: share of the candidate's requests in strata of the mix."""

    after: Strata
    before: Strata
    shares: Mapping[str, float]
    covered: float
    missing: tuple[str, ...]


def at_mix(after: Strata | None, before: Strata | None) -> AtMix | None:
    """Both sides at the mix of `before`; None where either does not tell its strata."""
    if not after or not before:
        return None
    shares = mix(before)
    return AtMix(after, before, shares, coverage(after, shares), tuple(missing(after, shares)))


def mix(before: Strata) -> dict[str, float]:
    """The shares of the strata in the incumbent's requests, together 1; those below SMALLEST_SHARE are left out."""
    total = sum(told["requests"] for told in before.values())
    kept = {name: told["requests"] for name, told in before.items() if told["requests"] >= SMALLEST_SHARE * total}
    whole = sum(kept.values())
    return {name: n / whole for name, n in sorted(kept.items())} if whole else {}


def coverage(after: Strata, shares: Mapping[str, float]) -> float:
    """Share of the requests that lie in strata of the mix, 0..1."""
    total = sum(told["requests"] for told in after.values())
    return sum(told["requests"] for name, told in after.items() if name in shares) / total if total else 0.0


def missing(after: Strata, shares: Mapping[str, float]) -> list[str]:
    """Strata of the mix without a request."""
    return [name for name in shares if not after.get(name, {}).get("requests")]


def rates(after: Strata, before: Strata, shares: Mapping[str, float], hits: str, trials: str, z: float) -> Rates:
    """`hits` of `trials` (`successes` of `attempts_told`, `over_slo` of `latency_n`), at one-sided quantile z."""
    d = below = above = least = most = 0.0
    sides: tuple[list[tuple[float, float]], list[tuple[float, float]]] = ([], [])  # (weight, rate): before, after
    for name, w in shares.items():
        (s1, n1), (s0, n0) = (_count(side.get(name, {}), hits, trials) for side in (after, before))
        if n0:
            sides[0].append((w, s0 / n0))
        if n1 and n0:
            sides[1].append((w, s1 / n1))
            low, high = success_difference(s1, n1, s0, n0, z)
            gap = s1 / n1 - s0 / n0
            d += w * gap
            below, above = below + (w * (gap - low)) ** 2, above + (w * (high - gap)) ** 2
        else:
            lows, highs = zip(_possible(s1, n1, z), _possible(s0, n0, z), strict=True)
            least, most = least + w * (lows[0] - highs[1]), most + w * (highs[0] - lows[1])
    return Rates(_mean(sides[0]), _mean(sides[1]), d - math.sqrt(below) + least, d + math.sqrt(above) + most)


def _mean(weighted: Sequence[tuple[float, float]]) -> float | None:
    return sum(w * rate for w, rate in weighted) / sum(w for w, _ in weighted) if weighted else None


def _count(told: Mapping[str, Any], hits: str, trials: str) -> tuple[int, int]:
    return int(told.get(hits) or 0), int(told.get(trials) or 0)


def _possible(successes: int, attempts: int, z: float) -> tuple[float, float]:
    return wilson_bounds(successes, attempts, z) if attempts else (0.0, 1.0)


def ratio(told: Strata, shares: Mapping[str, float], metric: str) -> RatioAtMix:
    """`metric` per success at the mix, with the standard error of its logarithm."""
    parts = {name: told.get(name, {}).get("metrics", {}).get(metric) for name in shares}
    n = sum(part["n"] for part in parts.values() if part)
    absent = [name for name, part in parts.items() if not part]
    if absent:
        return RatioAtMix(None, None, n, f"no request of {_named(absent)} tells {metric} and success")
    amount = math.fsum(w * parts[h]["sum"] / parts[h]["n"] for h, w in shares.items())
    units = math.fsum(w * parts[h]["units"] / parts[h]["n"] for h, w in shares.items())
    if units <= 0 or amount <= 0:
        return RatioAtMix(None, None, n, "no request succeeded" if units <= 0 else f"{metric} of every request is 0")
    thin = [name for name, part in parts.items() if part["n"] < 2]
    if thin:
        return RatioAtMix(amount / units, None, n, f"one request of {_named(thin)} tells no spread")
    variance = math.fsum(w * w * _variance(parts[h], amount, units) / parts[h]["n"] for h, w in shares.items())
    return RatioAtMix(amount / units, math.sqrt(variance), n)


def _variance(part: Mapping[str, Any], amount: float, units: float) -> float:
    """Of psi = x / amount - s / units within a stratum, from its sums."""
    n, x, s = part["n"], part["sum"], part["units"]
    xx, ss, xs = part["squares"] - x * x / n, part["unit_squares"] - s * s / n, part["products"] - x * s / n
    return float(max(0.0, xx / amount**2 - 2 * xs / (amount * units) + ss / units**2) / (n - 1))


def _named(strata: Sequence[str]) -> str:
    return ", ".join(strata[:3]) + (f" and {len(strata) - 3} more strata" if len(strata) > 3 else "")
