"""`fleet sensitivity`: does the ranking of policies survive what the power model may be wrong by?

Two answers for each input. `decided by the model`: the policies go on deciding by the model they have, and the true
power is another one; exact, see `coefficients`. `decided by the truth`: they are simulated again with a model that is
right; that shows what knowing it better would change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from policies.fleet.errors import ComparisonRefused, ScenarioInvalid
from policies.fleet.experiments import errors_of_power as power_errors
from policies.fleet.experiments.coefficients import Input, coefficients, inputs_of, means
from policies.fleet.experiments.comparing import DEFAULT_POLICIES, checked_policies, rank_metric, ranking
from policies.fleet.experiments.figures import Run
from policies.fleet.experiments.report import case, finished, head
from policies.fleet.experiments.resolve import Resolved
from policies.fleet.experiments.rules import compared
from policies.fleet.experiments.running import Step, run_all, silent
from policies.fleet.power import Profile, power_model
from policies.fleet.sim import Scenario


def studied(
    found: Resolved,
    policies: Sequence[str] = DEFAULT_POLICIES,
    *,
    sd: float | None = None,
    draws: int = power_errors.DRAWS,
    sobol_n: int = power_errors.SOBOL_N,
    seed: int = 0,
    step: Step = silent,
) -> dict[str, Any]:
    """The report. `sd` is the relative error of power, instead of what the profiles tell.

    Raises ComparisonRefused where the policies' joules do not compare, ScenarioInvalid, and what the simulator raises.
    """
    names, _ = checked_policies(policies, None)
    if sd is not None and not 0 < sd < 1:
        raise ScenarioInvalid(f"sd is {sd}.", fix="give a relative error between 0 and 1, such as 0.2")
    if not 1000 <= draws <= 10_000_000 or sobol_n < 64 or sobol_n & (sobol_n - 1):
        raise ScenarioInvalid(
            f"{draws} draws and a base sample of {sobol_n}.",
            fix="give 1,000 to 10,000,000 draws and a power of 2, 64 or more",
        )
    runs = _run(found, names, step, "simulating")
    cases = {name: case(name, runs[name], found, policy=name) for name in names}
    rule = compared(found, [(name, runs[name], cases[name]) for name in names])
    if rank_metric(rule) != "j_per_success":
        raise ComparisonRefused(
            rule["why"] or "joules per right answer weigh the pools by their quality, which this study does not.",
            fix="give every pool the same logical model",
        )
    order = ranking(list(cases.values()), "j_per_success")
    first, second = order[0]["policy"], order[1]["policy"]
    inputs = inputs_of(found, sd)
    tables = {name: coefficients(found, runs[name], inputs) for name in names}
    difference = power_errors.difference_of(
        [i.name for i in inputs], tables[first], tables[second], [i.sd for i in inputs]
    )
    truth = _decided_by_the_truth(found, (first, second), inputs, step)
    exact = power_errors.flip_probability(difference)
    drawn = power_errors.drawn_flips(difference, draws=draws, seed=seed)
    eligible = [c["policy"] for c in order if c["within_slo"]] or names
    shares = means({name: tables[name] for name in eligible})
    return finished(
        {
            **head("sensitivity", found, _notes(order, inputs)),
            "policies": names,
            "first": first,
            "second": second,
            "metric": "j_per_success",
            "difference": difference.value,
            "difference_relative": _relative(difference.value, cases[second]),
            "difference_sd": difference.spread,
            "inputs": [{**vars(i), "c_first": float(tables[first][:, k].mean()),
                        "c_second": float(tables[second][:, k].mean())} for k, i in enumerate(inputs)],
            "tornado": [{**b, "decided_by_truth": truth.get(b["input"])} for b in power_errors.tornado(difference)],
            "sobol": power_errors.sobol(difference, n=sobol_n, seed=seed),
            "flip": {**drawn, "exact_normal": exact},
            "best": power_errors.best_probabilities(
                shares, np.array([i.sd for i in inputs]), draws=draws, seed=seed
            ),
            "break_even": power_errors.break_even(difference),
            "break_even_common": power_errors.common_break_even(difference),
            "verdict": _verdict(first, second, difference.value, drawn["probability"]),
            "ranking": [{"policy": c["policy"], "within_slo": c["within_slo"],
                         "j_per_success": c["figures"]["j_per_success"]["value"]} for c in order],
            "cases": list(cases.values()),
        }
    )  # fmt: skip


def _run(found: Resolved, names: Sequence[str], step: Step, stage: str) -> dict[str, list[Run]]:
    jobs: list[tuple[str, Scenario, Resolved]] = [
        (name, found.sim(seed, name), found) for name in names for seed in found.scenario.seeds
    ]
    runs: dict[str, list[Run]] = {}
    for name, run in run_all(jobs, step, stage):
        runs.setdefault(name, []).append(run)
    return runs


def _decided_by_the_truth(
    found: Resolved, two: tuple[str, str], inputs: Sequence[Input], step: Step
) -> dict[str, dict[str, float]]:
    """The difference where the model is one sd down and up and the policies know it, by input."""
    jobs: list[tuple[tuple[str, str, str], Scenario, Resolved]] = []
    for told in inputs:
        for side, factor in (("low", 1 - told.sd), ("high", 1 + told.sd)):
            at = _with_error(found, told, factor)
            jobs += [((told.name, side, p), at.sim(s, p), at) for p in two for s in found.scenario.seeds]
    sums: dict[tuple[str, str, str], list[float]] = {}
    for key, run in run_all(jobs, step, "simulating with other power models"):
        sums.setdefault(key, []).append(run.figures["j_per_success"])
    mean = {key: float(np.mean(values)) for key, values in sums.items()}
    return {
        told.name: {side: mean[told.name, side, two[0]] - mean[told.name, side, two[1]] for side in ("low", "high")}
        for told in inputs
    }


def _with_error(found: Resolved, told: Input, factor: float) -> Resolved:
    profiles = {
        name: with_error(p, told.state, factor) if p.profile_id == told.profile else p
        for name, p in found.profiles.items()
    }
    return replace(found, profiles=profiles)


def with_error(profile: Profile, state: str, factor: float) -> Profile:
    """The profile with the watts of one state times `factor`: idle states, or the active form."""
    if state == "active":
        scaled = profile.scaled(factor)
        kept = {k: v for k, v in profile.power.to_dict().items() if k.startswith("board_idle_") and k != "board_idle_w"}
        return replace(scaled, power=power_model(scaled.power.to_dict() | kept))
    data = profile.power.to_dict()
    idle = {k: data[k] * factor for k in ("board_idle_empty_w", "board_idle_loaded_w") if data.get(k) is not None}
    return replace(profile, power=power_model(data | idle))


def _relative(difference: float, second: Mapping[str, Any]) -> float | None:
    base = second["figures"]["j_per_success"]["value"]
    return difference / base if base else None


def _verdict(first: str, second: str, difference: float, p: float) -> str:
    if difference == 0:
        return f"{first} and {second} take the same joules"
    least = first if difference < 0 else second
    held = "holds" if p < 0.05 else "is uncertain" if p < 0.3 else "is not decided"
    return f"that {least} takes fewer joules than the other {held}: it flips with probability {p:.3g}"


def _notes(order: Sequence[Mapping[str, Any]], inputs: Sequence[Input]) -> list[str]:
    notes = []
    if sum(bool(c["within_slo"]) for c in order) < 2:
        notes.append("fewer than two policies keep the SLO; the two best are compared all the same")
    if untold := [i.name for i in inputs if not i.told]:
        notes.append(
            f"assumed relative error {max(i.sd for i in inputs):.0%} where the profile tells none: {', '.join(untold)}"
        )
    notes.append("errors of different profiles are taken as independent; one that all share scales both sides alike")
    return notes
