"""`fleet size`: the fewest instances that keep an SLO, in closed form, and whether a simulation agrees.

Each pool of the scenario is a candidate for the whole load; with `split_tokens` the first two share it by length.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from policies.fleet.comparison import compare, side
from policies.fleet.errors import ComparisonRefused, FleetError, ScenarioInvalid, SloUnreachable
from policies.fleet.experiments.figures import Run
from policies.fleet.experiments.report import case, finished, head
from policies.fleet.experiments.resolve import Resolved
from policies.fleet.experiments.running import Step, run_all, silent
from policies.fleet.experiments.scenario import LengthRule, PoolSpec
from policies.fleet.queueing import Convention, FleetResult, Lengths, PoolResult, evaluate, fleet, size, two_pools
from policies.fleet.queueing import Pool as QueuePool
from policies.fleet.queueing import Slo as QueueSlo

_MORE = 8  # instances beyond the closed form that the simulation is asked about, doubling
_MOST_INSTANCES = 4096


def sized(
    found: Resolved,
    *,
    peer: bool = False,
    split_tokens: int | None = None,
    verify: bool = True,
    utilization_max: float = 0.85,
    quantile: float = 0.99,
    step: Step = silent,
) -> dict[str, Any]:
    """The report. Raises SloUnreachable, CapacityZero, ProfileIncomplete, ScenarioInvalid."""
    told = found.scenario
    if told.classes or told.routing or told.changes or told.failures:
        raise ScenarioInvalid(
            "sizing takes the whole load to each pool.", fix="leave classes, routing, changes and failures out"
        )
    slo = queue_slo(found, utilization_max, quantile)
    plans: list[tuple[str, list[QueuePool]]] = [(p.name, [queue_pool(found, p)]) for p in told.pools]
    if split_tokens is not None:
        plans.append((f"{told.pools[0].name} up to {split_tokens} tokens, {told.pools[1].name} beyond"
                      if len(told.pools) > 1 else "", _split(found, split_tokens)))  # fmt: skip
    rows, cases = [], []
    for k, (name, pools) in enumerate(plans):
        step(f"sizing {name}", k, len(plans))
        row = _planned(name, pools, slo)
        row["peer"] = _peer(found, name, pools, slo, split_tokens if k >= len(told.pools) else None) if peer else None
        if verify and row["instances"] is not None:
            row["verified"], more = _verified(found, name, pools, row, quantile, step, split_tokens)
            cases += more
        rows.append(row)
    results = [row.pop("result") for row in rows]
    return finished(
        {
            **head("size", found, [*_notes(found)]),
            "convention": str(Convention.PHYSICAL),
            "quantile": quantile,
            "utilization_max": utilization_max,
            "sizes": rows,
            "comparison": _rule(results, found),
            "cases": cases,
        }
    )


def queue_slo(found: Resolved, utilization_max: float, quantile: float) -> QueueSlo:
    """The scenario's SLO as queueing takes it: time to first token, and time between tokens where it has one."""
    told = found.scenario.slo
    if math.isfinite(told.e2e_s):
        raise ScenarioInvalid(
            "closed forms know no end-to-end time at a quantile.", fix="give ttft_s and tpot_s, or simulate"
        )
    if not math.isfinite(told.ttft_s):
        raise ScenarioInvalid("sizing needs an SLO of the time to first token.", fix="give slo.ttft_s")
    itl = told.tpot_s if math.isfinite(told.tpot_s) else None
    return QueueSlo(ttft_s=told.ttft_s, quantile=quantile, itl_s=itl, utilization_max=utilization_max)


def queue_pool(found: Resolved, spec: PoolSpec, lengths: Lengths | None = None) -> QueuePool:
    """A pool under the whole load of the scenario."""
    return QueuePool(
        name=spec.name,
        profile=found.profiles[spec.name],
        context_tokens=spec.context_tokens,
        requests_per_s=found.source.requests_per_s,
        workload=lengths or found.source.lengths,
        concurrency_cap=spec.slots,
        extrapolate=spec.extrapolate,
    )


def _split(found: Resolved, tokens: int) -> list[QueuePool]:
    pools = found.scenario.pools
    if len(pools) < 2:
        raise ScenarioInvalid("a split by length needs two pools.", fix="declare a second pool")
    return two_pools(queue_pool(found, pools[0]), queue_pool(found, pools[1]), tokens)


def _planned(name: str, pools: Sequence[QueuePool], slo: QueueSlo) -> dict[str, Any]:
    try:
        parts = [size(pool, slo) for pool in pools]
    except SloUnreachable as error:
        return {"name": name, "instances": None, "why": error.message, "result": None, "pools": [], "verified": None}
    together = fleet(name, parts)
    return {
        "name": name,
        "instances": together.instances,
        "boards": together.boards,
        "why": None,
        "fleet": {k: v for k, v in together.to_dict().items() if k != "pools"},
        "pools": [p.to_dict() for p in parts],
        "one_instance_fewer": _fewer(pools, parts, slo),
        "verified": None,
        "result": together if len(parts) > 1 else parts[0],
    }


def _fewer(pools: Sequence[QueuePool], parts: Sequence[PoolResult], slo: QueueSlo) -> dict[str, Any] | None:
    """What the first pool does with one instance fewer: why the size is the least."""
    if parts[0].instances < 2:
        return None
    told = evaluate(pools[0], parts[0].instances - 1, slo)
    return {k: told.to_dict()[k] for k in ("pool", "instances", "stable", "slo_met", "utilization", "ttft_s", "itl_s")}


def _peer(
    found: Resolved, name: str, pools: Sequence[QueuePool], slo: QueueSlo, split: int | None
) -> dict[str, Any] | None:
    """The same under the peer's conventions, whose tok/W divides eight boards' tokens by one board's power."""
    cdf = found.source.cdf
    if cdf is None:
        return {"why": "the peer's convention takes a distribution of total lengths", "fleet": None, "pools": []}
    plain = [replace(p, workload=cdf, requests_per_s=found.source.requests_per_s) for p in pools]
    try:
        if split is not None and len(plain) > 1:
            plain = two_pools(plain[0], plain[1], split, Convention.PEER)
        parts = [size(p, slo, Convention.PEER) for p in plain]
    except FleetError as error:
        return {"why": error.message, "fleet": None, "pools": []}
    together = fleet(name, parts)
    return {
        "why": None,
        "convention": str(Convention.PEER),
        "fleet": {k: v for k, v in together.to_dict().items() if k != "pools"},
        "pools": [p.to_dict() for p in parts],
    }


def _verified(
    found: Resolved, name: str, pools: Sequence[QueuePool], row: dict[str, Any], quantile: float, step: Step,
    split: int | None,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:  # fmt: skip
    """Simulates the size found and, for one pool, one instance fewer; goes on upwards until the SLO holds."""
    counts = [p["instances"] for p in row["pools"]]
    names = [p.name for p in pools]
    asked = [counts] if len(counts) > 1 or counts[0] < 2 else [[counts[0] - 1], counts]
    cases, held, more = [], None, 1
    while asked:
        trial = asked.pop(0)
        runs = _simulated(found, names, trial, split, step)
        keeps = all(_keeps(run, found, quantile) for run in runs)
        label = f"{name}: {' + '.join(map(str, trial))} instances"
        with_size = _with(found, names, trial, split)
        cases.append({**case(label, runs, with_size, policy="least_loaded", instances=sum(trial)), "keeps_slo": keeps})
        if keeps and held is None:
            held = trial
        if not asked and held is None and more <= _MORE and sum(trial) < _MOST_INSTANCES:
            asked.append([c + more for c in counts])
            more *= 2
    least = None if held is None else sum(held)
    return {
        "policy": "least_loaded",
        "instances": least,
        "agrees": least == sum(counts),
        "words": _words(sum(counts), least, [c["instances"] for c in cases]),
    }, cases


def _words(analytic: int, simulated: int | None, tried: Sequence[int]) -> str:
    if simulated is None:
        return f"no size from {min(tried)} to {max(tried)} keeps the SLO in the simulation"
    if simulated < analytic:
        return f"the simulation keeps the SLO with {simulated}; the closed form also bounds the utilization"
    if simulated > analytic:
        return f"the simulation needs {simulated}: bursts or uneven lengths that the closed form does not know"
    return "the simulation keeps the SLO with this size and not with the one below that was tried"


def _with(found: Resolved, names: Sequence[str], counts: Sequence[int], split: int | None) -> Resolved:
    by_name = {p.name: p for p in found.scenario.pools}
    pools = tuple(replace(by_name[n], instances=c, parked=0) for n, c in zip(names, counts, strict=True))
    rules: tuple[LengthRule, ...] = ()
    if len(names) > 1 and split is not None:
        rules = (LengthRule(tokens=split, pools=(names[0],)), LengthRule(pools=(names[1],)))
    scenario = replace(found.scenario, pools=pools, routing=rules)
    return replace(found, scenario=scenario, profiles={n: found.profiles[n] for n in names})


def _simulated(
    found: Resolved, names: Sequence[str], counts: Sequence[int], split: int | None, step: Step
) -> list[Run]:
    at = _with(found, names, counts, split)
    jobs = [(seed, at.sim(seed, "least_loaded"), at) for seed in at.scenario.seeds]
    return [run for _, run in run_all(jobs, step, f"simulating {' + '.join(map(str, counts))} instances")]


def _keeps(run: Run, found: Resolved, quantile: float) -> bool:
    """Whether so many of the offered requests met the SLO; the simulator judges each by all of its limits."""
    return run.figures["slo_attainment"] >= quantile


def _rule(results: Sequence[PoolResult | FleetResult | None], found: Resolved) -> dict[str, Any] | None:
    known = [r for r in results if r is not None]
    if len(known) < 2:
        return None
    try:
        told = compare([side(r, load=found.workload_sha256) for r in known])
        return {"allowed": True, "why": None, **told.to_dict()}
    except ComparisonRefused as refused:
        return {"allowed": False, "why": refused.message, "fix": refused.fix, "sides": []}


def _notes(found: Resolved) -> list[str]:
    notes = ["instances of the scenario are not used: their number is the answer"]
    if found.source.trace is not None:
        notes.append("closed forms take Poisson arrivals at the mean rate; the simulation takes them as recorded")
    return notes
