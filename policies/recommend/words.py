"""A recommendation in sentences: gains with their harm, each with interval, evidence class and n."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_NAMES = {"energy_j": "energy", "billed_cost_usd": "billed cost", "carbon_g": "gCO2eq"}


def summary(content: Mapping[str, Any]) -> list[str]:
    """One line per metric, then success, proficiency and why."""
    told = content["promise"]
    lines = [_metric(name, metric, told["per"]) for name, metric in told["metrics"].items()]
    lines.append(_success(told["success"]))
    change = told["proficiency"]["difference"]
    lines.append("proficiency " + ("unknown" if change is None else f"{change:+.3f} (mean of the cells)"))
    return [*lines, *content["why"], *content["warnings"], content["undo"]]


def _metric(name: str, metric: Mapping[str, Any], per: str) -> str:
    n = f"n {metric['from']['n']} against {metric['to']['n']}"
    if metric["difference"] is None:
        return f"{_NAMES[name]} per {per}: difference unknown ({metric['note']}; {n})"
    interval = "no interval"
    if metric["interval"]:
        low, high = metric["interval"]
        interval = f"95 % {low:+.1%} to {high:+.1%}, {metric['separable']}"
    return f"{_NAMES[name]} per {per} {metric['difference']:+.1%} ({interval}); {metric['to']['evidence_class']}, {n}"


def _success(told: Mapping[str, Any]) -> str:
    def side(of: Mapping[str, Any]) -> str:
        return "unknown" if of["rate"] is None else f"{of['successes']} of {of['attempts']}"

    return f"success {side(told['to'])}, incumbent {side(told['from'])}"
