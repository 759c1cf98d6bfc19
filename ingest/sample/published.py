"""Points that a publication reports: `published-points` -> core.published_point.

They are nobody's measurement here: the class is `modeled`, the method `published table`, and every point
carries its citation.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from ingest.base import Parsed, Payload, Reject
from ingest.fields import Row, as_float
from ingest.read import field_of, read_json, refuse, shape_of
from warehouse.evidence import EvidenceClass
from warehouse.tables import frame

CITATION = "Measured Joules, Learned Routes, arXiv:2609.23085, Table 2"
HELD_OUT_QUERIES = 913

# policy, accuracy, reward (None: the table has none), duration (ms), model energy (J), power (W).
# Power is the mean of per-call power, not energy / duration.
TABLE_2: tuple[tuple[str, float, float | None, int, float, float], ...] = (
    ("always_smallest", 0.189, None, 3780, 91.8, 23.2),
    ("always_medium", 0.791, None, 28672, 4127.9, 125.9),
    ("always_large", 0.735, None, 25706, 5112.4, 174.5),
    ("K-NN", 0.790, None, 23366, 3697.6, 121.3),
    ("UniRoute", 0.618, None, 15371, 2192.2, 84.8),
    ("Smoothie", 0.599, None, 9269, 1070.6, 59.4),
    ("RouteLLM", 0.721, None, 25053, 4958.6, 170.3),
    ("GreenServ (λ=0.5)", 0.567, None, 5584, 277.0, 41.4),
    ("SFT (λe=0.5)", 0.502, 0.400, 7821, 822.8, 45.9),
    ("KL-GRPO (SFT λe=0.5, RL λe=0.4, step 500)", 0.591, 0.686, 10932, 1339.8, 47.1),
    ("KL-GRPO (SFT λe=0.5, RL λe=0.4, step 1500)", 0.609, 0.720, 13118, 1691.9, 55.2),
    ("GRPO (SFT λe=0.5, RL λe=0.4, step 750)", 0.584, 0.666, 7942, 811.8, 48.5),
    ("GRPO (both λe=0.3, step 1000)", 0.573, 0.612, 6002, 297.0, 46.8),
)


def published_document() -> dict[str, Any]:
    """Table 2 of arXiv 2609.23085 as a `published-points` document."""
    names = ("policy", "accuracy", "reward", "duration_ms", "energy_j", "power_w")
    return {
        "dataset": "published",
        "citation": CITATION,
        "n": HELD_OUT_QUERIES,
        "points": [dict(zip(names, row, strict=True)) for row in TABLE_2],
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
    return Parsed(
        primary="core.published_point",
        tables={"core.published_point": frame("core.published_point", rows)},
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
        "duration_ms": row.number("duration_ms", data.get("duration_ms")),
        "energy_j": row.number("energy_j", data.get("energy_j")),
        "power_w": row.number("power_w", data.get("power_w")),
    }
    bad = [name for name, value in needed.items() if value is None]
    if bad:
        row.rejects.clear()  # one whole-row reject says it all; the invariant counts rows, not fields
        row.refuse(bad[0], data.get(bad[0]), "is not a usable number", whole_row=True)
        return None
    duration_ms = needed["duration_ms"]
    assert duration_ms is not None
    return {
        "policy": row.key,
        "accuracy": as_float(needed["accuracy"]),
        "reward": as_float(row.number("reward", data.get("reward"), low=Decimal(-100))),
        "energy_j": as_float(needed["energy_j"]),
        "latency_s": float(duration_ms / 1000),
        "power_w": as_float(needed["power_w"]),
        "evidence_class": EvidenceClass.MODELED.value,
        "method": "published table",
    }
