"""Windows made for these tests, with a truth that is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from policies.fleet.power.curves import Array
from policies.fleet.power.windows import Binding, MeasuredWindow
from warehouse.evidence import EvidenceClass, Quality

START = datetime(2026, 11, 1, 8)
FITTED = datetime(2026, 11, 2)
BINDING = Binding(
    logical_model="acme/big-70b",
    hardware_model="H100",
    hardware_count=4,
    runtime="vllm",
    runtime_version="0.20.0",
    config_version="tp4",
)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)


def window(at: int, concurrency: float, power_w: float | None = 1000.0, **changes: Any) -> MeasuredWindow:
    made = MeasuredWindow(
        observations=(f"w{at}",),
        binding=BINDING,
        start_at=START + timedelta(minutes=at),
        end_at=START + timedelta(minutes=at + 1),
        concurrency=concurrency,
        power_w=power_w,
        output_tokens_per_s=None,
        context_tokens=None,
        relative_uncertainty=0.02,
        evidence_class=EvidenceClass.MEASURED,
        quality=Quality.HIGH,
        method="counter",
    )
    return replace(made, **changes)


def logistic_w(n: Array) -> Array:
    """The truth of power: W of 4 boards."""
    out: Array = 4 * (100 + 500 / (1 + np.exp(-0.9 * (np.log2(n) - 3.5))))
    return out


def iteration_tokens_per_s(n: Array, ratio: float = 1.0) -> Array:
    """The truth of throughput: 10 ms and 0.25 ms per request."""
    return 1000 * n / (10 + 0.25 * ratio * n)


def sweep(
    noise: float = 0.01, seed: int = 0, batches: Sequence[float] = BATCHES, repeats: int = 3, **changes: Any
) -> list[MeasuredWindow]:
    """Windows of power and throughput at these batches with Gaussian relative noise."""
    rng = np.random.default_rng(seed)
    n = np.repeat(np.asarray(batches, dtype=np.float64), repeats)
    power = logistic_w(n) * (1 + noise * rng.standard_normal(len(n)))
    tokens = iteration_tokens_per_s(n) * (1 + noise * rng.standard_normal(len(n)))
    return [
        window(i, float(b), float(p), output_tokens_per_s=float(t), **changes)
        for i, (b, p, t) in enumerate(zip(n, power, tokens, strict=True))
    ]
