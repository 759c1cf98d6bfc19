"""Joules per success as a weighted sum of the errors of the power model.

A policy decides by the model that it has. Given its decisions, the joules of a run are a sum over pools and states of
power times time, so an error of the power model scales each part: with relative errors e of the inputs,

    J per success = sum over inputs of c (1 + e),        c = joules of the input's part / successes

Pools with the same profile share its error; active and idle states err apart, because idle power is a constant of its
own. A difference of two policies is the difference of their c, so what it does under error is exact, not simulated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from policies.fleet.experiments.figures import Run
from policies.fleet.experiments.resolve import Resolved

SD_WITHOUT_ONE = 0.20  # of power, where a profile tells no uncertainty: what the publishers of the profiles state
_STATES = {"active": ("active_j",), "idle": ("idle_j", "warming_j", "empty_j", "down_j")}


@dataclass(frozen=True)
class Input:
    """One uncertain input: a relative error with mean 0 and standard deviation `sd`."""

    name: str
    profile: str
    state: str
    sd: float
    told: bool  # whether the profile tells its uncertainty


def inputs_of(found: Resolved, sd: float | None = None) -> list[Input]:
    """Active and idle power of every distinct profile; `sd` takes the place of what the profiles tell."""
    rows = []
    for profile in dict.fromkeys(found.profiles[p.name].profile_id for p in found.scenario.pools):
        named = next(p for p in found.profiles.values() if p.profile_id == profile)
        told = sd is None and named.relative_uncertainty is not None
        size = sd if sd is not None else named.relative_uncertainty or SD_WITHOUT_ONE
        rows += [Input(f"{state} power of {named.name}", named.profile_id, state, size, told) for state in _STATES]
    return rows


def coefficients(found: Resolved, runs: Sequence[Run], inputs: Sequence[Input]) -> NDArray[np.float64]:
    """J per success of each input's part, by run (runs, inputs). NaN for a run without a success."""
    pools = [found.profiles[p.name].profile_id for p in found.scenario.pools]
    table = np.zeros((len(runs), len(inputs)))
    for i, run in enumerate(runs):
        successes = run.figures["completed"]
        for k, told in enumerate(inputs):
            joules = sum(
                float(pool[state])
                for profile, pool in zip(pools, run.pools, strict=True)
                if profile == told.profile
                for state in _STATES[told.state]
            )
            table[i, k] = joules / successes if successes else np.nan
    return table


def means(tables: Mapping[str, NDArray[np.float64]]) -> dict[str, NDArray[np.float64]]:
    return {name: table.mean(axis=0) for name, table in tables.items()}
