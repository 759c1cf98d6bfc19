"""The figures of a report as rows of core.replay_metric."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from policies.replay.metrics import UNITS
from warehouse.evidence import EvidenceClass

_CLASSED = {"energy_j_per_query", "energy_j_per_correct", "power_w_per_call", "energy_over_time_w"}


def metric_rows(told: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The figures of a block as rows of core.replay_metric (without the run's id)."""
    rows: list[dict[str, Any]] = []
    for policy in told["policies"]:
        rows += _figure_rows(policy["name"], "", policy["figures"], policy["intervals"])
        for benchmark, figures in policy["by_benchmark"].items():
            rows += _figure_rows(policy["name"], benchmark, figures, {})
        rows += _comparison_rows(policy)
    return rows


def _figure_rows(
    policy: str, benchmark: str, figures: Mapping[str, Any], found: Mapping[str, list[float | None]]
) -> list[dict[str, Any]]:
    head = {"policy": policy, "benchmark": benchmark, "n": figures["n"]}
    rows = []
    for metric, unit in UNITS.items():
        low, high = found.get(metric, (None, None))
        cls: EvidenceClass | None = figures["evidence_class"] if metric in _CLASSED else None
        if metric == "gco2_per_query":
            cls = figures["carbon_evidence_class"]
        row = {"metric": metric, "unit": unit, "value": figures[metric], "low": low, "high": high}
        rows.append(head | row | {"evidence_class": None if cls is None or figures[metric] is None else cls.value})
    rows += [head | {"metric": f"share:{arm}", "unit": "share", "value": s} for arm, s in figures["mix"].items()]
    return rows


def _comparison_rows(policy: Mapping[str, Any]) -> list[dict[str, Any]]:
    head = {"policy": policy["name"], "benchmark": "", "n": policy["figures"]["n"]}
    cls = policy["figures"]["evidence_class"]
    rows = []
    for comparator, told in policy["against"].items():
        for measure in ("accuracy_difference", "energy_ratio", "energy_per_correct_ratio"):
            if told is None:
                continue
            values = {"value": told[measure]["estimate"], "low": told[measure]["low"], "high": told[measure]["high"]}
            unit = "share" if measure == "accuracy_difference" else "ratio"
            known = cls is not None and unit == "ratio" and values["value"] is not None
            rows.append(
                head
                | {"metric": f"{measure}:{comparator}", "unit": unit}
                | values
                | {"evidence_class": cls.value if known else None}
            )
    margin = policy["domination"]["margin_over_hull"]
    told = {"value": margin["estimate"], "low": margin["low"], "high": margin["high"]}
    rows.append(head | {"metric": "margin_over_hull", "unit": "share"} | told)
    return rows
