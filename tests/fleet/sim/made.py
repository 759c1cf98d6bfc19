"""Profiles and requests made for these tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from policies.fleet.power import Linear, Logistic, Profile
from policies.fleet.sim import LengthCdf, Pool, Workload, generate
from warehouse.evidence import EvidenceClass, Quality

# W = 10 ms, H = 1 ms per request of 1,000 tokens, 100 prompt tokens per iteration, 64,000 tokens of KV memory.
PROFILE = Profile(
    name="made",
    power=Logistic(
        hardware_count=2,
        board_idle_empty_w=40.0,
        board_idle_loaded_w=100.0,
        board_idle_w=110.0,
        board_nominal_w=400.0,
        k=1.0,
        x0=2.0,
    ),
    logical_model="acme/small",
    hardware_model="X1",
    evidence_class=EvidenceClass.MODELED,
    quality=Quality.FAIR,
    provenance="made for a test",
    version="1",
    W_ms=10.0,
    H_ms_per_seq=1.0,
    calibration_ctx=1000,
    chunk_tokens=100,
    kv_blocks=4000,
    block_tokens=16,
    max_slots=32,
    usd_per_hour=2.0,
)
LINEAR = replace(
    PROFILE,
    name="linear",
    power=Linear(
        hardware_count=1,
        board_idle_empty_w=40.0,
        board_idle_loaded_w=100.0,
        board_idle_w=100.0,
        board_w_per_request=10.0,
    ),
)
THRIFTY = replace(PROFILE, name="thrifty", power=replace(LINEAR.power, board_w_per_request=1.0))
LENGTHS = LengthCdf((100, 400, 1000), (0.3, 0.8, 1.0), "short")


def pool(**changes: Any) -> Pool:
    """Four instances that serve up to 1,000 tokens."""
    return Pool(**{"name": "a", "profile": PROFILE, "instances": 4, "context_tokens": 1000, **changes})


def work(n: int = 2000, rate_per_s: float = 20.0, seed: int = 1, **changes: Any) -> Workload:
    return generate(n, rate_per_s, LENGTHS, seed=seed, **changes)


def requests(*rows: tuple[float, int, int], **columns: Any) -> Workload:
    """From (arrival_s, l_in, l_out)."""
    arrival_s, l_in, l_out = (np.array(column) for column in zip(*rows, strict=True))
    return Workload(arrival_s=arrival_s, l_in=l_in, l_out=l_out, **columns)
