"""How sure a choice is of its inputs: tornado, flip probability, Sobol indices, break-even.

A margin is a function of named inputs whose sign is the decision: above 0 the candidate is chosen. It must accept
arrays and return one value per row. `cost_margin` is the one operators know.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from policies.proof.checked import Floats, Interval, z_two_sided
from policies.proof.errors import ValuesInvalid
from policies.proof.intervals import wilson

Inputs = Mapping[str, Floats]
Margin = Callable[[Inputs], Floats]
DRAWS = 10_000
_GRID = 257
_NOTHING = 1e-12  # of the largest margin: rounding


@dataclass(frozen=True)
class Input:
    """An input's value and standard deviation; drawn normal, kept within low..high."""

    value: float
    sd: float
    low: float = -math.inf
    high: float = math.inf

    def __post_init__(self) -> None:
        if not (math.isfinite(self.value) and math.isfinite(self.sd) and self.sd >= 0):
            raise ValuesInvalid(
                f"an input has value {self.value} and sd {self.sd}.", fix="give finite numbers, sd >= 0"
            )
        if not self.low <= self.value <= self.high:
            raise ValuesInvalid(f"value {self.value} is outside {self.low}..{self.high}.", fix="widen the range")

    def quantile(self, u: Floats) -> Floats:
        return np.asarray(np.clip(self.value + self.sd * ndtri(u), self.low, self.high))


@dataclass(frozen=True)
class Bar:
    """One bar of a tornado: the margin with this input one sd lower and higher; `flips`: the choice changes."""

    name: str
    at_low: float
    at_high: float
    swing: float
    flips: bool


@dataclass(frozen=True)
class Flip:
    """Probability that the choice changes within the uncertainty of the inputs, with its Monte Carlo interval."""

    probability: float
    low: float
    high: float
    draws: int
    margin: float  # at the inputs' values


@dataclass(frozen=True)
class Share:
    """Sobol indices of one input: its share of the margin's variance, alone and with all its interactions."""

    name: str
    first: float
    total: float


def tornado(margin: Margin, inputs: Mapping[str, Input]) -> list[Bar]:
    """The margin at +-1 sd of each input, the others at their values; widest first, ties by name."""
    base = _at(margin, {name: x.value for name, x in inputs.items()})
    bars = []
    for name, x in inputs.items():
        ends = [
            _at(margin, {n: i.value for n, i in inputs.items()} | {name: end})
            for end in (max(x.value - x.sd, x.low), min(x.value + x.sd, x.high))
        ]
        flips = any((end > 0) != (base > 0) for end in ends)
        bars.append(Bar(name, ends[0], ends[1], abs(ends[1] - ends[0]), flips))
    return sorted(bars, key=lambda bar: (-bar.swing, bar.name))


def flip_probability(
    margin: Margin, inputs: Mapping[str, Input], *, draws: int = DRAWS, seed: int = 0, confidence: float = 0.95
) -> Flip:
    """Monte Carlo over all inputs at once. A margin of 0 or NaN counts as a change: it no longer chooses."""
    if draws < 1:
        raise ValuesInvalid(f"draws is {draws}.", fix="give at least 1, better 10,000")
    rng = np.random.default_rng(seed)
    base = _at(margin, {name: x.value for name, x in inputs.items()})
    values = _values(margin, {name: x.quantile(rng.uniform(size=draws)) for name, x in inputs.items()})
    flipped = ~(values > 0) if base > 0 else ~(values <= 0)
    share = float(flipped.mean())
    low, high = wilson(share, draws, z_two_sided(confidence))
    return Flip(share, low, high, draws, base)


def sobol(margin: Margin, inputs: Mapping[str, Input], *, n: int = 1_024, seed: int = 0) -> list[Share]:
    """First and total Sobol indices of the margin (`scipy.stats.sobol_indices`, Saltelli 2010); n a power of 2.

    Largest total first. Inputs without spread get 0, a single one with spread all of it. Empty where the margin does
    not vary at all.
    """
    free = {name: x for name, x in inputs.items() if x.sd > 0}
    fixed = {name: x for name, x in inputs.items() if x.sd == 0}
    names = list(free)
    shares = [Share(name, 0.0, 0.0) for name in fixed]
    if not names:
        return []

    def evaluate(rows: Floats) -> Floats:
        columns = {
            name: free[name].quantile(np.clip(row, 1e-12, 1 - 1e-12)) for name, row in zip(names, rows, strict=True)
        }
        return _values(margin, columns | {name: np.full(rows.shape[1], x.value) for name, x in fixed.items()})[None, :]

    if float(np.ptp(evaluate(np.random.default_rng(seed).uniform(size=(len(names), 64))))) == 0:
        return []
    if len(names) == 1:  # all of the variance by definition; scipy's estimator takes two inputs and more
        shares.append(Share(names[0], 1.0, 1.0))
    else:
        from scipy import stats  # half a second: not at every start

        found = stats.sobol_indices(
            func=evaluate, n=n, dists=[stats.uniform()] * len(names), rng=np.random.default_rng(seed)
        )
        indices = zip(names, found.first_order.reshape(-1), found.total_order.reshape(-1), strict=True)
        shares += [Share(name, float(first), float(total)) for name, first, total in indices]
    return sorted(shares, key=lambda share: (-share.total, share.name))


def break_even(margin: Margin, values: Mapping[str, float], name: str, within: Interval) -> list[float]:
    """Every value of the input `name` within the range at which the choice changes, ascending; empty: it never does."""
    low, high = within
    if name not in values:
        raise ValuesInvalid(f"there is no input {name!r}.", fix=f"use one of {', '.join(values)}")
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValuesInvalid(f"the range is {low}..{high}.", fix="give a finite lower end below a finite upper end")

    from scipy.optimize import brentq  # slow to import: not at every start

    def at(x: float) -> float:
        return _at(margin, {**values, name: x})

    grid = np.linspace(low, high, _GRID)
    seen = _values(margin, {n: np.full(_GRID, v) for n, v in values.items()} | {name: grid})
    roots = [float(x) for x, y in zip(grid, seen, strict=True) if y == 0]
    for i in range(_GRID - 1):
        if seen[i] * seen[i + 1] < 0:
            roots.append(float(brentq(at, grid[i], grid[i + 1], xtol=1e-12 * max(abs(low), abs(high)))))
    return sorted(roots)


def break_even_pieces(margin: Margin, values: Mapping[str, float], name: str, kinks: npt.ArrayLike) -> list[float]:
    """Every value of `name` from 0 upwards at which the choice turns, for a margin linear between `kinks`; ascending.

    Exact and without an upper end: beyond the last kink the line goes on for ever. Where the margin is 0 over a whole
    stretch neither is chosen, and only what follows it can turn the choice: its start is told then.
    """
    if name not in values:
        raise ValuesInvalid(f"there is no input {name!r}.", fix=f"use one of {', '.join(values)}")
    at = np.unique(np.concatenate([[0.0], np.asarray(kinks, dtype=np.float64)]))
    at = np.append(at[at >= 0], 2 * at[-1] + 1)  # the last two give the line that goes on
    seen = _values(margin, {n: np.full(at.size, v) for n, v in values.items()} | {name: at})
    seen = np.where(np.abs(seen) <= _NOTHING * np.abs(seen).max(), 0.0, seen)
    roots, told = [], None  # told: the last point whose margin is not 0
    for i in np.flatnonzero(seen):
        if told is not None and seen[told] * seen[i] < 0:
            apart = i - told > 1
            share = seen[told] / (seen[told] - seen[i])
            roots.append(float(at[told + 1] if apart else at[told] + share * (at[i] - at[told])))
        told = i
    rise = seen[-1] - seen[-2]
    if seen[-1] * rise < 0 and abs(rise) > _NOTHING * np.abs(seen).max():  # towards 0: it is crossed further on
        roots.append(float(at[-1] - seen[-1] / rise * (at[-1] - at[-2])))
    return roots


COST_INPUTS: Mapping[str, str] = {
    "energy_j_candidate": "J per attempt",
    "energy_j_control": "J per attempt",
    "fee_usd_candidate": "USD per attempt, without electricity",
    "fee_usd_control": "USD per attempt, without electricity",
    "success_candidate": "share",
    "success_control": "share",
    "tariff_usd_per_kwh": "USD/kWh",
    "intensity_g_per_kwh": "gCO2eq/kWh",
    "carbon_usd_per_t": "USD/t of CO2-equivalent: what a gram is worth to you",
    "failure_usd": "USD per failed attempt: what a failure costs beyond its repetition",
}


def cost_margin(x: Inputs) -> Floats:
    """USD per success of the control minus that of the candidate (`COST_INPUTS`): above 0 the candidate is chosen.

    (energy (tariff + carbon price x intensity) + fee + (1 - success) failure) / success, of each arm.
    """
    per_j = (x["tariff_usd_per_kwh"] + x["intensity_g_per_kwh"] * x["carbon_usd_per_t"] / 1e6) / 3.6e6

    def cost(arm: str) -> Floats:
        success = x[f"success_{arm}"]
        spent = x[f"energy_j_{arm}"] * per_j + x[f"fee_usd_{arm}"] + (1 - success) * x["failure_usd"]
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(spent / success)

    with np.errstate(invalid="ignore"):
        return cost("control") - cost("candidate")


def _at(margin: Margin, values: Mapping[str, float]) -> float:
    return float(_values(margin, {name: np.array([value]) for name, value in values.items()})[0])


def _values(margin: Margin, columns: Mapping[str, npt.NDArray[np.float64]]) -> Floats:
    return np.asarray(margin(columns), dtype=np.float64)
