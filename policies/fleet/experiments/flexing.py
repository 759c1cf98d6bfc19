"""`fleet flex`: power given back under a cap, in closed form and simulated, at the load that is really carried."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from policies.fleet.errors import CapacityZero, FleetError, ScenarioInvalid
from policies.fleet.experiments.capping import cap_slots
from policies.fleet.experiments.figures import Run, paired
from policies.fleet.experiments.report import case, finished, head
from policies.fleet.experiments.resolve import Resolved
from policies.fleet.experiments.running import Step, run_all, silent
from policies.fleet.experiments.sizing import queue_pool, queue_slo
from policies.fleet.queueing import LEVELS, Convention, flex
from policies.fleet.queueing import Pool as QueuePool
from policies.fleet.queueing import Slo as QueueSlo
from policies.fleet.sim import Scenario

_PAIRED = ("mean_power_w", "j_per_success", "p99_ttft_s", "p99_e2e_s", "slo_attainment", "success_rate", "energy_j",
           "g_per_success", "throughput_per_s")  # fmt: skip


def flexed(
    found: Resolved,
    *,
    levels: Sequence[float] = LEVELS,
    peer: bool = False,
    verify: bool = True,
    utilization_max: float = 0.85,
    quantile: float = 0.99,
    step: Step = silent,
) -> dict[str, Any]:
    """The report. `levels` are shares of the power of full instances; 0 is always among them.

    Closed forms answer for one pool that takes the whole load; a fleet of several is simulated alone.
    """
    levels = sorted({0.0, *levels})
    slots: dict[float, dict[str, int] | None] = {}
    for level in levels:
        try:
            slots[level] = cap_slots(found, level)
        except CapacityZero:
            slots[level] = None
    analytic, why = _closed_form(found, levels, utilization_max, quantile)
    runs = _simulate(found, slots, step) if verify else {}
    cases = [
        case(
            f"{level:.0%} given back", ran, found, cap=level, slots=slots[level], policy=found.scenario.balancer.policy
        )
        for level, ran in runs.items()
    ]
    rows = [_row(level, slots[level], analytic.get(level), runs, cases, found) for level in levels]
    return finished(
        {
            **head("flex", found, [why] if why else []),
            "convention": str(Convention.PHYSICAL),
            "quantile": quantile,
            "utilization_max": utilization_max,
            "levels": rows,
            "largest_within_slo": _largest(rows, verify),
            "peer": _peer(found, levels, utilization_max, quantile) if peer else None,
            "cases": cases,
        }
    )


def _closed_form(
    found: Resolved, levels: Sequence[float], utilization_max: float, quantile: float
) -> tuple[dict[float, dict[str, Any]], str | None]:
    asked = _single(found, utilization_max, quantile)
    if isinstance(asked, str):
        return {}, asked
    pool, instances, slo = asked
    return {r.reduction: r.to_dict() for r in flex(pool, instances, slo, levels=levels)}, None


def _single(found: Resolved, utilization_max: float, quantile: float) -> tuple[QueuePool, int, QueueSlo] | str:
    told = found.scenario
    if len(told.pools) != 1 or told.classes or told.routing or told.changes or told.failures:
        return "closed forms answer for one pool that takes the whole load; this fleet is simulated alone"
    try:
        slo = queue_slo(found, utilization_max, quantile)
    except ScenarioInvalid as error:
        return f"no closed form: {error.message}"
    spec = told.pools[0]
    return queue_pool(found, spec), spec.instances - spec.parked, slo


def _peer(found: Resolved, levels: Sequence[float], utilization_max: float, quantile: float) -> dict[str, Any]:
    """The peer's table: power of full instances at the cap, whatever the load, per board and not per instance."""
    asked = _single(found, utilization_max, quantile)
    if isinstance(asked, str):
        return {"why": asked, "levels": []}
    pool, instances, slo = asked
    if found.source.cdf is None:
        return {"why": "the peer's convention takes a distribution of total lengths", "levels": []}
    with_cdf = QueuePool(
        pool.name, pool.profile, pool.context_tokens, pool.requests_per_s, found.source.cdf, pool.concurrency_cap
    )
    try:
        rows = flex(with_cdf, instances, slo, Convention.PEER, levels=levels)
    except FleetError as error:
        return {"why": error.message, "levels": []}
    return {"why": None, "convention": str(Convention.PEER), "levels": [r.to_dict() for r in rows]}


def _simulate(found: Resolved, slots: dict[float, dict[str, int] | None], step: Step) -> dict[float, list[Run]]:
    jobs: list[tuple[float, Scenario, Resolved]] = [
        (level, found.sim(seed, slots=caps), found)
        for level, caps in slots.items()
        if caps is not None
        for seed in found.scenario.seeds
    ]
    runs: dict[float, list[Run]] = {}
    for level, run in run_all(jobs, step):
        runs.setdefault(level, []).append(run)
    return runs


def _row(
    level: float,
    slots: dict[str, int] | None,
    analytic: dict[str, Any] | None,
    runs: dict[float, list[Run]],
    cases: Sequence[dict[str, Any]],
    found: Resolved,
) -> dict[str, Any]:
    simulated = None
    if level in runs:
        mine = next(c for c in cases if c["cap"] == level)
        simulated = {
            "within_slo": mine["within_slo"],
            "figures": {m: mine["figures"][m] for m in _PAIRED},
            "against_no_cap": {m: paired(runs[0.0], runs[level], m) for m in _PAIRED},
        }
    return {
        "reduction": level,
        "slots": slots if slots or level == 0 else None,
        "possible": slots is not None,
        "analytic": analytic,
        "simulated": simulated,
        "words": _words(level, slots, simulated),
    }


def _words(level: float, slots: dict[str, int] | None, simulated: dict[str, Any] | None) -> list[str]:
    if slots is None:
        return ["not even one request at once keeps this cap; park instances instead"]
    if simulated is None or level == 0:
        return []
    told, against = [], simulated["against_no_cap"]
    saved, joules = against["mean_power_w"]["difference"]["value"], against["j_per_success"]
    if saved is not None:
        told.append(f"mean power over the run changes by {saved:+.4g} W")
    if joules["verdict"] == "worse" or (joules["verdict"] == "no interval" and (joules["relative"] or 0) > 0):
        told.append(f"the cap RAISES joules per success by {joules['relative']:.2%}")
    told.append("SLO kept" if simulated["within_slo"] else "SLO missed")
    return told


def _largest(rows: Sequence[dict[str, Any]], verify: bool) -> float | None:
    """The largest reduction up to which every level keeps the SLO, simulated where it was."""
    best = None
    for row in rows:
        if verify:
            keeps = row["simulated"] is not None and row["simulated"]["within_slo"]
        else:
            result = (row["analytic"] or {}).get("result")
            keeps = bool(result and result["slo_met"])
        if not keeps:
            break
        best = row["reduction"]
    return best
