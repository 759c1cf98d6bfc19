"""One sample completion in the wire format of a Neuralwatt answer: usage, energy and cost blocks.

All amounts are exact decimals: energy is a whole number of 1e-10 kWh, so that joules (x 3.6e6), carbon
(x intensity) and the bill (x $8.00) have no rounding of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from ingest.sample.catalog import list_cost_usd

ACCOUNT = "sample"
USD_PER_KWH = Decimal("8.00")
CEILING_MULTIPLE = 3  # the bill never exceeds this many times the list token price
ENERGY_STEP_KWH = Decimal("1e-10")
_J_PER_KWH = 3_600_000

# Intensity of the serving grids, gCO2eq/kWh. The published catalog spans 37 (FI) to 505 (US-MIDA-PJM).
ZONES: dict[str, int] = {"FI": 37, "FR": 72, "US-CAL-CISO": 210, "US-CAR-DUK": 380, "US-MIDA-PJM": 505}

# Serving speed, tokens/s, and power of the whole server pool, W: plausible, and only shown.
_SPEED = {
    "deepseek-v4-flash": 95, "gemma-4-31b": 70, "qwen3.6-35b": 110, "glm-5.2": 60, "kimi-k2.7-code": 48, "kimi-k3": 42,
}  # fmt: skip
_POOL_W = {
    "deepseek-v4-flash": 3720, "gemma-4-31b": 1460, "qwen3.6-35b": 1380, "glm-5.2": 4090, "kimi-k2.7-code": 4480,
    "kimi-k3": 4910,
}  # fmt: skip


@dataclass(frozen=True)
class Run:
    """What happened in one request. `energy_steps` counts 1e-10 kWh; None: aborted, so no figures arrived."""

    run_id: str
    offer_id: str
    base_model: str
    workload: str  # seed_reference | organic
    zone: str
    started_at: datetime  # naive UTC
    prompt_tokens: int
    completion_tokens: int
    energy_steps: int | None
    success: bool = True
    slow: float = 1.0  # queueing: how many times the unloaded duration


def billed_usd(run: Run) -> Decimal | None:
    """min($8.00/kWh x energy, 3 x list token price), exactly."""
    if run.energy_steps is None:
        return None
    ceiling = CEILING_MULTIPLE * list_cost_usd(run.base_model, run.prompt_tokens, run.completion_tokens)
    return min(USD_PER_KWH * run.energy_steps * ENERGY_STEP_KWH, ceiling)


def completion(run: Run) -> dict[str, Any]:
    """The answer body. An aborted stream has neither energy nor cost."""
    document: dict[str, Any] = {
        "id": f"chatcmpl-{run.run_id}",
        "object": "chat.completion",
        "created": int(run.started_at.replace(tzinfo=UTC).timestamp()),
        "model": run.offer_id,
        "service_tier": "flex" if run.offer_id.endswith("-flex") else "standard",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": ""}, "finish_reason": _finish(run)}],
        "usage": {
            "prompt_tokens": run.prompt_tokens,
            "completion_tokens": run.completion_tokens,
            "total_tokens": run.prompt_tokens + run.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": 0},
        },
        # What the API does not tell, added by whoever recorded the answer.
        "joulebook": {"workload": run.workload, "account": ACCOUNT, "success": run.success},
    }
    if run.energy_steps is not None:
        document["energy"] = _energy(run, run.energy_steps)
        document["cost"] = {"request_cost_usd": _exact(billed_usd(run)), "cache_savings_usd": 0.0}
    return document


def duration_s(run: Run) -> Decimal:
    """Wall time of the request to the millisecond."""
    speed = _SPEED[run.base_model] * (1.6 if "-fast" in run.offer_id else 1.0)
    seconds = (0.18 + run.prompt_tokens / 9000 + run.completion_tokens / speed) * run.slow
    return Decimal(str(round(seconds, 3)))


def _energy(run: Run, steps: int) -> dict[str, Any]:
    kwh = steps * ENERGY_STEP_KWH
    seconds, pool_w = duration_s(run), _POOL_W[run.base_model]
    intensity = ZONES[run.zone]
    return {
        "energy_joules": _exact(kwh * _J_PER_KWH),
        "energy_kwh": _exact(kwh),
        "avg_power_watts": float(pool_w),
        "duration_seconds": _exact(seconds),
        "attribution_method": "counter_prorated_token_pool_weighted_multi_gpu_8",
        "attribution_ratio": round(float(kwh * _J_PER_KWH / (seconds * pool_w)), 6),
        "carbon_g_co2eq": _exact(kwh * intensity),
        "grid_carbon_intensity_gco2perkwhr": float(intensity),
        "grid_id": run.zone,
        "carbon_source": "agent_cache",
    }


def _finish(run: Run) -> str | None:
    if run.energy_steps is None:
        return None  # the stream broke off
    return "stop" if run.success else "length"


def _exact(value: Decimal | None) -> float:
    """As a JSON number: these decimals have at most 15 digits, which the shortest float text keeps."""
    assert value is not None
    return float(value)
