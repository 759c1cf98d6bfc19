"""Points that a publication reports: `published-points` -> core.published_point, core.published_slice.

They are nobody's measurement here: the class is `modeled`, the method `published table`, and every point
carries its citation.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from ingest.base import Parsed, Payload, Reject
from ingest.fields import Row, as_float
from ingest.read import field_of, read_json, refuse, shape_of
from ingest.sample.published_tables import (
    CITATION,
    COLUMNS,
    FIXED_ARM_SLICES,
    FIXED_ARMS,
    FIXED_ARMS_CITATION,
    HELD_OUT,
    HELD_OUT_QUERIES,
    SLICES_CITATION,
    TABLE_2,
    TABLE_3,
    TABLE_4,
)
from warehouse.evidence import EvidenceClass
from warehouse.tables import frame

METHOD = "published table"
DATASET = "published"


def published_document() -> dict[str, Any]:
    """Table 2 of arXiv 2609.23085 as a `published-points` document, with Tables 3 and 4 as its slices."""
    names = ("policy", "accuracy", "reward", "duration_ms", "energy_j", "power_w")
    return {
        "dataset": DATASET,
        "citation": CITATION,
        "n": HELD_OUT_QUERIES,
        "points": [dict(zip(names, row, strict=True)) for row in TABLE_2],
        "slices_citation": SLICES_CITATION,
        "slices": [
            {
                "policy": policy,
                "benchmark": benchmark,
                "n": HELD_OUT[benchmark],
                "accuracy": round(percent[i] / 100, 3),
                "energy_j": joules[i],
            }
            for benchmark, percent, joules in zip(HELD_OUT, TABLE_3, TABLE_4, strict=True)
            for i, policy in enumerate(COLUMNS)
        ],
    }


def fixed_arms_document() -> dict[str, Any]:
    """The fixed arm that the same paper tells in its text only: a data set of its own, so that Table 2 stays itself."""
    return {
        "dataset": f"{DATASET}-fixed-arms",
        "citation": FIXED_ARMS_CITATION,
        "n": HELD_OUT_QUERIES,
        "points": [{"policy": policy, "accuracy": acc, "energy_j": joules} for policy, acc, joules in FIXED_ARMS],
        "slices": [
            {"policy": policy, "benchmark": benchmark, "n": HELD_OUT[benchmark], "accuracy": acc}
            for policy, benchmark, acc in FIXED_ARM_SLICES
        ],
    }


def parse(payload: Payload) -> Parsed:
    """Points of one publication. Raises PayloadError when the payload is no such document."""
    document = read_json(payload, allow_nan=True)
    listed = field_of(payload, document, "points", list)
    dataset, citation = (_named(payload, document, name) for name in ("dataset", "citation"))
    head = Row(0, {k: v for k, v in document.items() if k != "points"}, dataset)
    n = head.whole("n", document.get("n"), low=1)
    rows: list[dict[str, Any]] = []
    rejects: list[Reject] = list(head.rejects)
    seen: set[str] = set()
    for row_no, data in enumerate(listed):
        row = Row(row_no, data if isinstance(data, dict) else {"row": data})
        point = _point(row, data, seen)
        rejects += row.rejects
        if point is not None:
            rows.append({"dataset": dataset, "n": n, "citation": citation, **point})
    slices, refused = _slices(document, dataset, citation, seen)
    rejects += refused
    return Parsed(
        primary="core.published_point",
        tables={
            "core.published_point": frame("core.published_point", rows),
            "core.published_slice": frame("core.published_slice", slices),
        },
        rows_in=len(listed),
        rejects=tuple(rejects),
    )


def _named(payload: Payload, document: dict[str, Any], name: str) -> str:
    value = document.get(name)
    if not isinstance(value, str) or not value.strip():
        refuse(payload, f"is {shape_of(value)}, not text", field=name, fix=f"give the points' {name}")
    return value.strip()


def _point(row: Row, data: Any, seen: set[str]) -> dict[str, Any] | None:
    """One point, or None with a whole-row reject: half a point has no place on a front."""
    if not isinstance(data, dict):
        row.refuse(None, data, f"the row is {shape_of(data)}, not an object", whole_row=True)
        return None
    policy = data.get("policy")
    if not isinstance(policy, str) or not policy.strip():
        row.refuse("policy", policy, "is missing or not text, so the point cannot be named", whole_row=True)
        return None
    row.key = policy.strip()
    if row.key in seen:
        row.refuse("policy", policy, "came twice; the first one was kept", whole_row=True)
        return None
    seen.add(row.key)
    needed = {
        "accuracy": row.number("accuracy", data.get("accuracy"), high=1),
        "energy_j": row.number("energy_j", data.get("energy_j")),
    }
    bad = [name for name, value in needed.items() if value is None]
    if bad:
        row.rejects.clear()  # one whole-row reject says it all; the invariant counts rows, not fields
        row.refuse(bad[0], data.get(bad[0]), "is not a usable number", whole_row=True)
        return None
    duration_ms = row.number("duration_ms", data.get("duration_ms"))
    return {
        "policy": row.key,
        "accuracy": as_float(needed["accuracy"]),
        "reward": as_float(row.number("reward", data.get("reward"), low=Decimal(-100))),
        "energy_j": as_float(needed["energy_j"]),
        "latency_s": None if duration_ms is None else float(duration_ms / 1000),
        "power_w": as_float(row.number("power_w", data.get("power_w"))),
        "evidence_class": EvidenceClass.MODELED.value,
        "method": METHOD,
    }


def _slices(
    document: dict[str, Any], dataset: str, citation: str, policies: set[str]
) -> tuple[list[dict[str, Any]], list[Reject]]:
    """The points by benchmark. A bad one is dropped; it never costs the point it belongs to."""
    listed = document.get("slices")
    cited = document.get("slices_citation") or citation
    rows: list[dict[str, Any]] = []
    rejects: list[Reject] = []
    seen: set[tuple[str, str]] = set()
    for row_no, data in enumerate(listed if isinstance(listed, list) else []):
        row = Row(row_no, data if isinstance(data, dict) else {"row": data}, dataset)
        told = row.data
        policy, benchmark = row.text("policy", told.get("policy")), row.text("benchmark", told.get("benchmark"))
        accuracy = row.number("accuracy", told.get("accuracy"), high=1)
        if policy not in policies or benchmark is None or accuracy is None or (policy, benchmark) in seen:
            row.refuse("slices", told, "names no point above, no benchmark or accuracy, or came twice")
        else:
            seen.add((policy, benchmark))
            rows.append(
                {
                    "dataset": dataset,
                    "policy": policy,
                    "benchmark": benchmark,
                    "n": row.whole("n", told.get("n"), low=1),
                    "accuracy": as_float(accuracy),
                    "energy_j": as_float(row.number("energy_j", told.get("energy_j"))),
                    "evidence_class": EvidenceClass.MODELED.value,
                    "method": METHOD,
                    "citation": str(cited),
                }
            )
        rejects += row.rejects
    return rows, rejects
