"""`fleet compare`: policies side by side on the same requests, seed by seed, over loads and power caps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from policies.fleet.errors import FleetError, ScenarioInvalid
from policies.fleet.experiments.capping import cap_slots
from policies.fleet.experiments.figures import Run, paired
from policies.fleet.experiments.report import case, finished, head
from policies.fleet.experiments.resolve import Resolved
from policies.fleet.experiments.rules import compared
from policies.fleet.experiments.running import Step, run_all, silent
from policies.fleet.sim import POLICIES, Scenario

DEFAULT_POLICIES = ("round_robin", "least_loaded", "static", "pack", "energy_aware")
PAIRED = ("j_per_success", "success_rate", "slo_attainment", "p50_ttft_s", "p95_ttft_s", "p99_ttft_s", "p95_e2e_s",
          "p99_e2e_s", "p99_tpot_s", "cost_usd", "g_per_success", "energy_j", "mean_power_w",
          "throughput_per_s", "tokens_per_j")  # fmt: skip
MOST_RUNS = 10_000


def compared_policies(
    found: Resolved,
    policies: Sequence[str] = DEFAULT_POLICIES,
    *,
    baseline: str | None = None,
    loads: Sequence[float] = (1.0,),
    caps: Sequence[float] = (0.0,),
    step: Step = silent,
) -> dict[str, Any]:
    """The report. `loads` are factors on the rate, `caps` shares of power to give back; the baseline is the first
    policy unless named. Raises ScenarioInvalid, and what the simulator raises.
    """
    names, base = checked_policies(policies, baseline)
    _checked(names, loads, caps, len(found.scenario.seeds))
    slots = {cap: cap_slots(found, cap) for cap in caps}
    jobs: list[tuple[tuple[float, float, str], Scenario, Resolved]] = []
    for load in loads:
        at = _at_load(found, load)
        for cap in caps:
            for policy in names:
                jobs += [((load, cap, policy), at.sim(s, policy, slots[cap]), at) for s in at.scenario.seeds]
    runs: dict[tuple[float, float, str], list[Run]] = {}
    for key, run in run_all(jobs, step):
        runs.setdefault(key, []).append(run)
    many = len(loads) * len(caps) > 1
    cases = [
        case(_name(key, many), ran, found, policy=key[2], load=key[0], cap=key[1], slots=slots[key[1]])
        for key, ran in runs.items()
    ]
    groups = [_group(found, load, cap, names, base, runs, cases) for load in loads for cap in caps]
    told = {**head("compare", found), "baseline": base, "policies": names, "loads": list(loads), "caps": list(caps)}
    return finished({**told, "cases": cases, "groups": groups})


def checked_policies(policies: Sequence[str], baseline: str | None) -> tuple[list[str], str]:
    """Names without repeats, and the baseline among them."""
    names = list(dict.fromkeys(policies))
    for name in (*names, *([baseline] if baseline else [])):
        if name not in POLICIES:
            raise FleetError(f"there is no policy {name!r}.", fix=f"use one of {', '.join(POLICIES)}")
    if baseline and baseline not in names:
        names.insert(0, baseline)
    if len(names) < 2:
        raise ScenarioInvalid(
            f"a comparison of fewer than two policies: {', '.join(names) or 'none'}.",
            fix=f"name two or more of {', '.join(POLICIES)}",
        )
    return names, baseline or names[0]


def _checked(names: Sequence[str], loads: Sequence[float], caps: Sequence[float], seeds: int) -> None:
    if not loads or not caps or any(not 0 < load < 1e6 for load in loads):
        raise ScenarioInvalid(f"the loads are {list(loads)}.", fix="give factors above 0")
    if (count := len(names) * len(loads) * len(caps) * seeds) > MOST_RUNS:
        raise ScenarioInvalid(f"{count} runs in one comparison.", fix=f"ask for at most {MOST_RUNS}")


def _at_load(found: Resolved, load: float) -> Resolved:
    if load == 1.0:
        return found
    scaled = {id(w): w.scaled(load) for w in found.workloads.values()}
    return replace(found, workloads={seed: scaled[id(w)] for seed, w in found.workloads.items()})


def _name(key: tuple[float, float, str], many: bool) -> str:
    load, cap, policy = key
    return f"{policy} at load x{load:g}, {cap:.0%} power given back" if many else policy


def _group(
    found: Resolved,
    load: float,
    cap: float,
    names: Sequence[str],
    base: str,
    runs: Mapping[tuple[float, float, str], Sequence[Run]],
    cases: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Policies under one load and cap: ranked, in pairs against the baseline, and whether they may be compared."""
    mine = {c["policy"]: c for c in cases if (c["load"], c["cap"]) == (load, cap)}
    rule = compared(found, [(name, runs[load, cap, name], mine[name]) for name in names])
    pairs = [
        {
            "policy": name,
            "baseline": base,
            "metrics": {
                m: paired(runs[load, cap, base], runs[load, cap, name], m)
                for m in PAIRED
                if rule["allowed"] or m not in ("j_per_success", "tokens_per_j")
            },
        }
        for name in names
        if name != base
    ]
    metric = rank_metric(rule)
    order = ranking(list(mine.values()), metric) if metric else []
    best = next((c["policy"] for c in order if c["within_slo"]), None)
    return {
        "load": load,
        "cap": cap,
        "comparison": rule,
        "ranked_by": metric,
        "ranking": [
            {
                "rank": i + 1,
                "policy": c["policy"],
                "within_slo": c["within_slo"],
                "value": c["figures"][metric]["value"],
                "slo_attainment": c["figures"]["slo_attainment"]["value"],
            }
            for i, c in enumerate(order)
            if metric
        ],
        "best": best,
        "words": _words(order, best, metric, rule, found.scenario.slo_target),
        "pairs": pairs,
    }


def rank_metric(rule: Mapping[str, Any]) -> str | None:
    """Joules per success; per right answer where models differ and one outcome set controls for it; else nothing."""
    if not rule["allowed"]:
        return None
    return "j_per_right_answer" if rule["basis"] == "same_outcomes" else "j_per_success"


def ranking(cases: Sequence[Mapping[str, Any]], metric: str) -> list[Mapping[str, Any]]:
    """Those that keep the SLO first, least joules first; unknown last. Equal ones as they were given."""

    def key(told: Mapping[str, Any]) -> tuple[bool, bool, float]:
        value = told["figures"][metric]["value"]
        return not told["within_slo"], value is None, 0.0 if value is None else value

    return sorted(cases, key=key)


def _words(
    order: Sequence[Mapping[str, Any]], best: str | None, metric: str | None, rule: Mapping[str, Any], target: float
) -> list[str]:
    if metric is None:
        return [f"not ranked: {rule['why']}"]
    if best is None:
        return [f"no policy keeps the SLO for {target:.1%} of the offered requests; ranked by joules all the same"]
    least = min(order, key=lambda c: (c["figures"][metric]["value"] is None, c["figures"][metric]["value"] or 0.0))
    told = [f"{best} takes the least joules of those that keep the SLO"]
    if least["policy"] != best:
        told.append(f"{least['policy']} takes fewer joules and misses the SLO: it is no candidate")
    return told
