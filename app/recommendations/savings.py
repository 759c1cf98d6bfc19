"""What the changes in force save per success, measured; never without the success rate beside it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from policies.recommend.state import RecState
from policies.recommend.table import Table
from policies.recommend.traffic import UNITS, Figure, Traffic, read_traffic
from warehouse.clock import iso
from warehouse.snapshots import Snapshot

_Z = 1.959963984540054


def of_changes(snap: Snapshot, states: Sequence[RecState], table: Table) -> list[dict[str, Any]]:
    """One row per recommendation whose content some cell still routes by, oldest first."""
    rows = []
    for state in states:
        cells = sum(route.by == state.id for route in table.routes.values())
        if not cells or state.stage_since is None:
            continue
        to = state.content["to"]
        traffic = read_traffic(snap, [to], state.stage_since, snap.as_of)[to]
        rows.append(_row(state, cells, traffic))
    shared = Counter(row["to"] for row in rows)
    for row in rows:
        if shared[row["to"]] > 1:  # a bill does not say which cell asked, so the same joules would count twice
            others = ", ".join(r["id"] for r in rows if r["to"] == row["to"])
            for metric in row["metrics"].values():
                metric["saved_total"] = None
                metric["why_no_total"] = f"{others} route to the same offer, and its bill does not tell them apart"
    return rows


def _row(state: RecState, cells: int, traffic: Traffic) -> dict[str, Any]:
    baseline = state.content.get("baseline")
    before: Mapping[str, Any] = (baseline or {}).get("figures", {})
    return {
        "id": state.id,
        "title": state.content["title"],
        "state": state.state.value,
        "from": state.content["from"],
        "to": traffic.offer,
        "cells": cells,
        "since": iso(traffic.since),
        "until": iso(traffic.until),
        "requests": traffic.requests,
        "is_sample": state.content["is_sample"],
        "baseline": None if baseline is None else {k: baseline[k] for k in ("offer", "since", "until", "requests")},
        "metrics": {name: _metric(name, before.get(name), traffic) for name in UNITS},
        "success": {
            "rate": traffic.success_rate,
            "successes": traffic.successes,
            "attempts": traffic.attempts_told,
            "baseline_rate": (baseline or {}).get("success_rate"),
        },
    }


def _metric(name: str, before: Mapping[str, Any] | None, traffic: Traffic) -> dict[str, Any]:
    """Saved is before minus after, so more is better; negative is a loss."""
    now = traffic.figures.get(name)
    told: dict[str, Any] = {
        "unit": UNITS[name],
        "measured": now.value if now else None,
        "baseline": before["value"] if before else None,
        "evidence_class": now.evidence_class if now else None,
        "n": now.n if now else 0,
        "coverage": now.coverage if now else None,
        "saved_per_success": None,
        "relative": None,
        "interval": None,
        "saved_total": None,
        "why": None,
    }
    why = _why_not(before, now)
    if why is not None or before is None or now is None or now.value is None:
        return {**told, "why": why}
    per_success = before["value"] - now.value
    ratio = now.value / before["value"]
    told |= {"saved_per_success": per_success, "relative": ratio - 1, "saved_total": per_success * (now.units or 0)}
    if before["se_log"] is not None and now.se_log is not None:
        half = _Z * math.hypot(before["se_log"], now.se_log)
        told["interval"] = [ratio * math.exp(-half) - 1, ratio * math.exp(half) - 1]
    return told


def _why_not(before: Mapping[str, Any] | None, now: Figure | None) -> str | None:
    if before is None:
        return "the incumbent had no traffic of its own before the change"
    if now is None:
        return "no organic request was billed since the change"
    if before["value"] is None or now.value is None:
        return str(now.note or before["note"])
    if before["evidence_class"] != now.evidence_class:
        return f"{before['evidence_class']} before, {now.evidence_class} since: they cannot be compared"
    return None


def totals(changes: Sequence[Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Sums per metric, apart for each evidence class; changes whose total is unknown are counted, not guessed."""
    found: dict[str, list[dict[str, Any]]] = {}
    for name, unit in UNITS.items():
        told = [c["metrics"][name] for c in changes]
        classes = sorted({str(m["evidence_class"]) for m in told if m["saved_total"] is not None})
        found[name] = [
            {
                "evidence_class": cls,
                "unit": unit.partition("/")[0],
                "saved": math.fsum(m["saved_total"] for m in told if m["saved_total"] is not None
                                   and m["evidence_class"] == cls),
                "changes": sum(m["saved_total"] is not None and m["evidence_class"] == cls for m in told),
                "unknown": sum(m["saved_total"] is None for m in told),
            }
            for cls in classes
        ]  # fmt: skip
    return found
