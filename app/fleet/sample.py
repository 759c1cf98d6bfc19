"""The stored experiments that come with the sample, so that the Fleet page shows some from the start.

Closed forms alone: a simulation compiles its loop once per machine, which a load of the sample must not wait for.
"""

from __future__ import annotations

from typing import Any

from app.desk import Desk
from app.operations import Actor
from app.operations.fleet import FlexParams, SizeParams, flex, size
from ingest.sample.trace import TRACE

RATE_PER_S = 60.0
ASKED: dict[str, Any] = {
    "cdf": TRACE,
    "requests_per_s": RATE_PER_S,
    "requests": 1_000,
    "ttft_s": 0.5,
    "seeds": [0],
    "verify": False,
    "convention": "peer",
}


def sample_fleet(desk: Desk, actor: Actor) -> None:
    """Size two pools for the sample's lengths, and cap one of them. Raises AppError."""
    title = f"Sample: {RATE_PER_S:g} requests/s of sample lengths"
    size(desk, actor, SizeParams(**ASKED, title=title, pool=["H100-80GB:1", "A100-80GB:1"]))
    flex(desk, actor, FlexParams(**ASKED, title=f"{title}, power given back", pool=["H100-80GB:4"]))
