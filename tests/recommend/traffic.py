"""Organic requests for a desk under test: what an offer's own traffic took, after or before an instant."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Any

from app.desk import Desk
from tests.recommend.desks import insert, run_row


def organic(
    desk: Desk,
    offer: str,
    n: int,
    *,
    since: datetime,
    every_s: float = 1.0,
    joules: float = 300.0,
    noise: float = 0.2,
    failures: int = 0,
    seed: int = 1,
    **changes: Any,
) -> None:
    """n requests of one attempt each; the last `failures` did not succeed, and took their joules all the same."""
    rng = random.Random(seed)
    rows = []
    for i in range(n):
        start = since + timedelta(seconds=i * every_s)
        told = {
            "workload": "organic",
            "period_start_at": start,
            "period_end_at": start + timedelta(seconds=0.5),
            "known_from": start + timedelta(seconds=0.5),
            "successes": 0 if i >= n - failures else 1,
            "duration_s": 0.5,
            **changes,
        }
        rows.append(run_row(offer, i, joules * (1 + noise * rng.uniform(-1, 1)), "acme", told))
    insert(desk, "core.usage", rows)
