"""What an uncertain power model does to a difference and to a ranking: tornado, flip probability, Sobol, break-even."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

Floats = NDArray[np.float64]
DRAWS = 100_000
SOBOL_N = 1024  # base sample, a power of 2
_LEAST_FACTOR = 0.0  # power is not negative


@dataclass(frozen=True)
class Difference:
    """first minus second = sum of `weight` (1 + e) + s; e normal with `sd` each, s normal with `seed_sd`.

    weight (k,) are J per success, `names` and `sd` as long; `seed_sd` is the standard error over seeds.
    """

    names: tuple[str, ...]
    weight: Floats
    sd: Floats
    seed_sd: float = 0.0

    @property
    def value(self) -> float:
        return float(self.weight.sum())

    @property
    def spread(self) -> float:
        """Standard deviation under all errors together."""
        return math.sqrt(float(((self.weight * self.sd) ** 2).sum()) + self.seed_sd**2)


def tornado(difference: Difference) -> list[dict[str, Any]]:
    """The difference with one input one standard deviation down and up, widest first."""
    rows = []
    for name, weight, sd in zip(difference.names, difference.weight, difference.sd, strict=True):
        low, high = difference.value - weight * sd, difference.value + weight * sd
        rows.append(_bar(name, float(sd), float(low), float(high), difference.value))
    if difference.seed_sd > 0:
        v, s = difference.value, difference.seed_sd
        rows.append(_bar("other requests (seeds)", None, v - s, v + s, v))
    return sorted(rows, key=lambda r: -abs(r["high"] - r["low"]))


def _bar(name: str, sd: float | None, low: float, high: float, value: float) -> dict[str, Any]:
    """low: the input one sd below, high: above; the value itself may move either way."""
    return {
        "input": name,
        "sd_relative": sd,
        "low": low,
        "high": high,
        "swing": abs(high - low),
        "flips": (low > 0) != (high > 0) or (low > 0) != (value > 0),
    }


def flip_probability(difference: Difference) -> float | None:
    """P(the sign is another one), exact for normal errors. None where nothing is uncertain or the two are equal."""
    if difference.value == 0 or difference.spread == 0:
        return 0.0 if difference.value != 0 else None
    return float(ndtr(-abs(difference.value) / difference.spread))


def drawn_flips(difference: Difference, *, draws: int = DRAWS, seed: int = 0) -> dict[str, Any]:
    """The same by Monte Carlo, with factors on power cut at 0, and its standard error."""
    rng = np.random.default_rng(seed)
    factor = np.maximum(1 + difference.sd * rng.standard_normal((draws, len(difference.sd))), _LEAST_FACTOR)
    value = factor @ difference.weight + difference.seed_sd * rng.standard_normal(draws)
    p = float(np.mean(np.sign(value) != np.sign(difference.value)))
    low, high = np.quantile(value, (0.025, 0.975))
    return {"probability": p, "standard_error": math.sqrt(p * (1 - p) / draws), "draws": draws, "seed": seed,
            "difference_low": float(low), "difference_high": float(high)}  # fmt: skip


def break_even(difference: Difference) -> list[dict[str, Any]]:
    """By input: the relative error at which the two are equal, alone; None where no error of it can do that."""
    rows = []
    for name, weight, sd in zip(difference.names, difference.weight, difference.sd, strict=True):
        error = -difference.value / weight if weight else None
        possible = error is not None and error > -1.0
        rows.append(
            {
                "input": name,
                "relative_error": float(error) if error is not None and possible else None,
                "in_sd": float(abs(error) / sd) if error is not None and possible and sd > 0 else None,
                "words": _even(name, error if possible else None),
            }
        )
    return sorted(rows, key=lambda r: (r["relative_error"] is None, abs(r["relative_error"] or 0.0)))


def _even(name: str, error: float | None) -> str:
    if error is None:
        return f"no error of {name} alone makes the two equal"
    return f"equal where {name} is {abs(error):.1%} {'above' if error > 0 else 'below'} the model"


def common_break_even(difference: Difference) -> float | None:
    """The smallest relative error that, on every input in its worst direction, makes the two equal."""
    total = float(np.abs(difference.weight).sum())
    return abs(difference.value) / total if total > 0 else None


def sobol(difference: Difference, *, n: int = SOBOL_N, seed: int = 0) -> dict[str, Any]:
    """First-order and total indices of the difference (scipy.stats.sobol_indices, Saltelli's estimators).

    Beside them the exact share of each input: errors act in sum, so both kinds of index equal it.
    """
    sd = np.append(difference.sd, difference.seed_sd)
    weight = np.append(difference.weight, 1.0)
    names = [*difference.names, "other requests (seeds)"]
    kept = [k for k in range(len(names)) if weight[k] != 0 and sd[k] > 0]
    if not kept:
        return {"n": n, "seed": seed, "indices": []}
    total = float(((weight * sd) ** 2).sum())
    if len(kept) == 1:
        return {"n": n, "seed": seed, "indices": [_index(names[kept[0]], 1.0, 1.0, 1.0)]}

    def value(x: Floats) -> Floats:
        out: Floats = np.atleast_2d(weight[kept] @ x)
        return out

    from scipy import stats  # half a second: not at every start

    found = stats.sobol_indices(
        func=value, n=n, dists=[stats.norm(0, sd[k]) for k in kept], rng=np.random.default_rng(seed)
    )
    rows = [
        _index(names[k], float(first), float(whole), float((weight[k] * sd[k]) ** 2 / total))
        for k, first, whole in zip(kept, np.ravel(found.first_order), np.ravel(found.total_order), strict=True)
    ]
    return {"n": n, "seed": seed, "indices": sorted(rows, key=lambda r: -r["total"])}


def _index(name: str, first: float, total: float, exact: float) -> dict[str, Any]:
    return {"input": name, "first_order": first, "total": total, "exact": exact}


def best_probabilities(
    weights: Mapping[str, Floats], sd: Floats, *, draws: int = DRAWS, seed: int = 0
) -> dict[str, float]:
    """P(a policy takes the least joules per success), over all policies under the same errors."""
    rng = np.random.default_rng(seed)
    factor = np.maximum(1 + sd * rng.standard_normal((draws, len(sd))), _LEAST_FACTOR)
    table = factor @ np.array(list(weights.values())).T
    best = np.bincount(np.argmin(table, axis=1), minlength=len(weights)) / draws
    return {name: float(p) for name, p in zip(weights, best, strict=True)}


def difference_of(names: Sequence[str], first: Floats, second: Floats, sd: Sequence[float]) -> Difference:
    """From coefficients by seed (seeds, k) of two policies on the same seeds."""
    delta = first - second
    noise = delta.sum(axis=1)
    error = float(np.std(noise, ddof=1) / math.sqrt(len(noise))) if len(noise) > 1 else 0.0
    return Difference(tuple(names), delta.mean(axis=0), np.asarray(sd, np.float64), error)
