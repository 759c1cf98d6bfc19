"""What the desk knows about both offers of a recommendation, for `app.reads.sensitivity`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from app.reads.billing_rule import Rule, ruled
from app.reads.sensitivity import Answer, Assumed, Facts, Ratio, answers
from app.reads.shadow import Levels, gate_reports, levels
from app.recommendations import store
from policies.recommend.governance import SHADOW
from policies.recommend.state import RecState
from warehouse.clock import parse_utc
from warehouse.engine import Warehouse

_ROUNDING = 0.005  # of a bill: what a rounded amount may differ from its rule, as `tariffs check` says
_CEILING = 0.05  # a bill this much below its rule is not made by it


@dataclass(frozen=True)
class Sureness:
    """facts: None where nothing tells joules of both offers; notes: what is left out, and why."""

    facts: Facts | None
    answers: tuple[Answer, ...]
    notes: tuple[str, ...]


def sureness(warehouse: Warehouse, rec_id: str, assumed: Assumed) -> Sureness:
    """How sure recommendation `rec_id` is; by the pairs its gate judged, else by the reference workload."""
    state, _ = store.one(warehouse, rec_id)
    said = state.gate
    report = gate_reports(warehouse, rec_id).get(said.gate_id or "") if said is not None else None
    facts = _of_pairs(warehouse, state, report) if report else None
    facts = facts or _of_promise(state.content)
    if facts is None:
        return Sureness(None, (), ("neither pairs nor the reference workload tell joules of both offers",))
    rule = ruled(warehouse, state.content["from"], state.content["to"], sample=state.content["is_sample"])
    facts, notes = _billed(facts, rule) if isinstance(rule, Rule) else (facts, (rule,))
    return Sureness(facts, tuple(answers(facts, assumed)), notes)


def _of_pairs(warehouse: Warehouse, state: RecState, report: Mapping[str, Any]) -> Facts | None:
    kind, shadow = report.get("evidence_kind"), state.shadow
    if kind is None or shadow is None or report.get("stage") != SHADOW:
        return None
    until = parse_utc(report["as_of"], what="as_of", assume_utc=True)
    found = levels(warehouse, state.content["from"], state.content["to"], kind, shadow.started_at, until)
    checks = {c["name"]: c for c in report["checks"]}
    if found is None or found.successes is None or not min(found.successes):
        return None
    energy = _judged(checks.get("energy"), found.energy_j, found)
    if energy is None:
        return None
    return Facts(
        kind=kind,
        n=found.n,
        energy=energy,
        usd=_judged(checks.get("usd"), found.cost_usd, found),
        carbon=_judged(checks.get("carbon"), found.carbon_g, found),
        success=(found.successes[0] / found.n, found.successes[1] / found.n),
        energy_class=checks["energy"]["evidence_class"],
        carbon_class=(checks.get("carbon") or {}).get("evidence_class"),
    )


def _judged(check: Mapping[str, Any] | None, totals: tuple[float, float] | None, found: Levels) -> Ratio | None:
    """The ratio as the gate found it, over the level of the control."""
    if check is None or check["estimate"] is None or totals is None or found.successes is None or totals[0] <= 0:
        return None
    return Ratio(totals[0] / found.successes[0], check["estimate"], check["low"], check["high"])


def _of_promise(content: Mapping[str, Any]) -> Facts | None:
    promise = content["promise"]
    metrics = promise["metrics"]
    ratios = {name: _promised(metrics.get(name)) for name in ("energy_j", "billed_cost_usd", "carbon_g")}
    if ratios["energy_j"] is None:
        return None
    rates = [promise["success"][side]["rate"] for side in ("from", "to")]
    return Facts(
        kind="reference_workload",
        n=min(metrics["energy_j"][side]["n"] for side in ("from", "to")),
        energy=ratios["energy_j"],
        usd=ratios["billed_cost_usd"],
        carbon=ratios["carbon_g"],
        success=(rates[0], rates[1]) if all(rates) else None,
        energy_class=metrics["energy_j"]["to"]["evidence_class"],
        carbon_class=metrics["carbon_g"]["to"]["evidence_class"],
    )


def _promised(metric: Mapping[str, Any] | None) -> Ratio | None:
    if metric is None or metric["difference"] is None or not metric["from"]["value"]:
        return None
    low, high = (1 + end for end in metric["interval"]) if metric["interval"] else (None, None)
    return Ratio(metric["from"]["value"], 1 + metric["difference"], low, high)


def _billed(facts: Facts, rule: Rule) -> tuple[Facts, tuple[str, ...]]:
    """`facts` with the tariff that carries the bills of both offers; as they were, and why, where it does not."""
    if facts.usd is None or facts.energy is None:
        return replace(facts, tariff_usd_per_kwh=rule.usd_per_kwh, bills=rule.bills), ()
    levels_usd = (facts.usd.level, facts.usd.level * facts.usd.ratio)
    joules = (facts.energy.level, facts.energy.level * facts.energy.ratio)
    bills = []
    for bill, level, j in zip(rule.bills, levels_usd, joules, strict=True):
        over = level / (j * float(bill.per_j(rule.usd_per_kwh))) - 1
        if over < -_CEILING:
            return facts, ("the bill is below what tariff and ceiling make of the joules, so $/kWh does not carry it",)
        # No fee of a rounding's size, above all no negative one: it would turn the choice somewhere near 0 $/kWh.
        bills.append(bill.scaled(1 + over) if over <= _ROUNDING else bill)
    return replace(facts, tariff_usd_per_kwh=rule.usd_per_kwh, bills=(bills[0], bills[1])), ()
