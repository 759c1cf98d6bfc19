"""A desk that shadows, with logged requests and pairs of outcomes of its two offers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from app.desk import Desk
from app.operations import call
from tests.recommend.desks import OPERATOR, ROUTER, Driver, insert, make_desk, run_row
from warehouse.clock import iso, utcnow

PLANNED = 320
CONFIG = f"""
[policy]
tiers = {{old = 1, new = 1}}
[environments.local]
require_pass = true
auto_shadow = true
[shadow.margins]
planned_n = {PLANNED}
"""
_keys = count()


def shadow_desk(home: Path, config: str = "", *, proposed: bool = False) -> Desk:
    """Offers old and new (half the joules); proposals shadow by themselves; the gate wants 320 pairs.

    `proposed`: R-0001 (old -> new in nine cells of tier 1) has begun to shadow.
    """
    return make_desk(home, CONFIG + config, proposed=proposed)


def log(desk: Desk, at: datetime, served: str = "old", **changes: Any) -> str:
    """A billed organic request of `served`, known when it ended; its request id."""
    return log_all(desk, [{"at": at, "served": served, **changes}])[0]


def log_all(desk: Desk, requests: list[dict[str, Any]]) -> list[str]:
    """The same for many at once."""
    rows = []
    for told in requests:
        at, changes = told["at"], {k: v for k, v in told.items() if k not in ("at", "served")}
        rows.append(
            run_row(told.get("served", "old"), 0, 40.0, "acme", {}) | {
                "workload": "organic", "usage_key": f"organic-{next(_keys)}", "period_start_at": at,
                "period_end_at": at + timedelta(seconds=2), "known_from": at + timedelta(seconds=2),
                "prompt_tokens": 300, "completion_tokens": 100, **changes,
            }
        )  # fmt: skip
    insert(desk, "core.usage", rows)
    return [f"acme/main/{row['usage_key']}" for row in rows]


def label_all(desk: Desk, labels: dict[str, dict[str, Any]]) -> None:
    """What a router told of requests, by request id."""
    shared = {"source_id": "router", "run_id": "r1", "known_from": utcnow()}
    insert(desk, "core.request_label", [{"request_id": name, **shared, **told} for name, told in labels.items()])


def pairs(n: int = PLANNED, *, seed: int = 1, start: datetime | None = None, **changes: Any) -> list[dict[str, Any]]:
    """`n` replays in which new takes half the joules and succeeds as often; every figure is told."""
    rng = np.random.default_rng(seed)
    at = start or utcnow()
    shared = np.exp(rng.normal(0, 0.3, n))
    noise = np.exp(rng.normal(0, 0.1, (2, n)))
    return [
        {
            "pair_id": f"p{seed}-{i}",
            "evidence_kind": "paired_replay",
            "request_id": f"q{seed}-{i}",
            "control_offer": "old",
            "candidate_offer": "new",
            "observed_at": iso(at + timedelta(milliseconds=i)),
            "category": "general_chat",
            "tokens": 400,
            "first_arm": ("control", "candidate")[int(rng.integers(2))],
            "meter_class": "nvml",
            "evidence_class": "measured",
            "carbon_evidence_class": "calibrated",
            "control_success": True,
            "candidate_success": True,
            "control_latency_s": 1.0 * float(noise[0, i]),
            "candidate_latency_s": 0.9 * float(noise[1, i]),
            **_amounts("control", 100 * float(shared[i] * noise[0, i])),
            **_amounts("candidate", 50 * float(shared[i] * noise[1, i])),
            **changes,
        }
        for i in range(n)
    ]


def _amounts(arm: str, joules: float) -> dict[str, float]:
    usd, grams = joules * 8 / 3.6e6, joules * 200 / 3.6e6
    return {f"{arm}_energy_j": joules, f"{arm}_cost_usd": round(usd, 12), f"{arm}_carbon_g": grams}


class Shadow(Driver):
    """Drives R-0001 of a shadowing desk."""

    def push(self, rows: list[Any], **params: Any) -> dict[str, Any]:
        return self.call("shadow.pairs", {"pairs": rows, **params}, ROUTER)

    def judge(self) -> str | None:
        told = self.call("recommend.judge")["judged"]
        return told.get("R-0001")

    def gate(self) -> dict[str, Any]:
        """The newest gate report."""
        found: dict[str, Any] = self.call("shadow.report", {"id": "R-0001"})["gate"]["report"]
        return found

    def check(self, name: str) -> dict[str, Any]:
        return next(c for c in self.gate()["checks"] if c["name"] == name)

    def decisions(self, **only: Any) -> list[dict[str, Any]]:
        where = " AND ".join(f"{k} = ${k}" for k in only) or "true"
        text = f"SELECT * FROM core.shadow_decision WHERE {where} ORDER BY requested_at, request_id, policy_id"
        return self.desk.warehouse.query(text, only).to_dicts()


def operate(desk: Desk, name: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return call(desk, name, params or {}, OPERATOR)
