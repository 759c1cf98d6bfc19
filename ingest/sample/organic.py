"""Organic traffic of seven days: requests of every shape, some that fail, some that break off, some retried.

Drawn from a generator with a fixed seed. On deepseek-v4-flash energy per request spans 19x purely from
the shapes, which is why organic traffic never steers a decision.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from ingest.sample.completions import Run
from ingest.sample.reference import SWEEP

_SEED = 20260811
_PER_DAY = (52, 61, 58, 66, 63, 47, 55)  # oldest day first
SPANNED_OFFER, SPAN = "deepseek-v4-flash", 19
_LIGHTEST_STEPS = 20_000  # energy of the lightest request on the spanned offer, 1e-10 kWh
_HEAVIEST_STEPS = _LIGHTEST_STEPS * SPAN
# Prompt tokens, completion tokens and energy of the lightest and the heaviest request.
_EXTREMES = ((16, 31, _LIGHTEST_STEPS), (3480, 519, _HEAVIEST_STEPS))

_SHARE_FAILED, _SHARE_ABORTED, _SHARE_RETRIED = 0.05, 0.03, 0.8
_PROMPT_WEIGHT = 0.02  # energy of a prompt token, in completion tokens


@dataclass(frozen=True)
class _Traffic:
    share: float
    steps_per_token: float  # 1e-10 kWh per weighted token
    drift: float  # change of the energy per token over the seven days


_TRAFFIC: dict[str, _Traffic] = {
    "deepseek-v4-flash": _Traffic(0.40, 640.0, 0.00),
    "kimi-k2.7-code": _Traffic(0.24, 5200.0, 0.18),
    "glm-5.2-fast": _Traffic(0.14, 500.0, -0.05),
    "gemma-4-31b": _Traffic(0.10, 330.0, -0.08),
    "kimi-k3-fast": _Traffic(0.07, 1330.0, 0.04),
    "qwen3.6-35b": _Traffic(0.05, 860.0, 0.00),
}


def organic_runs(now: datetime) -> Iterator[Run]:
    """Every attempt of the last seven days, oldest first; the newest started five minutes before `now`."""
    rng = random.Random(_SEED)  # noqa: S311  (not a secret; a fixed seed is the point)
    offers, shares = list(_TRAFFIC), [t.share for t in _TRAFFIC.values()]
    extremes = list(_EXTREMES)
    number = 0
    for day, count in enumerate(_PER_DAY):
        start = now - timedelta(days=len(_PER_DAY) - day)
        for place in sorted(rng.random() for _ in range(count)):
            number += 1
            offer_id = rng.choices(offers, shares)[0]
            started = start + (timedelta(days=1) - timedelta(minutes=5)) * place
            run = _draw(rng, f"sample-organic-{number:04d}", offer_id, started, day)
            if offer_id == SPANNED_OFFER and extremes and day >= 2:
                prompt, completion, steps = extremes.pop()
                yield replace(run, prompt_tokens=prompt, completion_tokens=completion, energy_steps=steps)
            else:
                yield from _attempts(rng, run)


def _draw(rng: random.Random, run_id: str, offer_id: str, started: datetime, day: int) -> Run:
    base, zone, _ = SWEEP[offer_id]
    traffic = _TRAFFIC[offer_id]
    prompt, completion = _log_uniform(rng, 20, 3400), _log_uniform(rng, 36, 500)
    drift = 1 + traffic.drift * (day - 3) / 6
    noise = rng.uniform(0.8, 1.25)
    steps = round(traffic.steps_per_token * (completion + _PROMPT_WEIGHT * prompt) * drift * noise)
    if offer_id == SPANNED_OFFER:
        steps = min(max(steps, _LIGHTEST_STEPS), _HEAVIEST_STEPS)
    return Run(
        run_id=run_id,
        offer_id=offer_id,
        base_model=base,
        workload="organic",
        zone=zone,
        started_at=started,
        prompt_tokens=prompt,
        completion_tokens=completion,
        energy_steps=steps,
        slow=1.0 + rng.expovariate(4.0),
    )


def _attempts(rng: random.Random, run: Run) -> Iterator[Run]:
    """The request as it went: at once, or failed or broken off and perhaps tried again."""
    luck = rng.random()
    if luck >= _SHARE_FAILED + _SHARE_ABORTED:
        yield run
        return
    aborted = luck < _SHARE_ABORTED
    yield replace(run, success=False, energy_steps=None) if aborted else replace(run, success=False)
    if rng.random() < _SHARE_RETRIED:
        again = run.started_at + timedelta(seconds=30)
        yield replace(run, run_id=f"{run.run_id}-retry", started_at=again)


def _log_uniform(rng: random.Random, low: int, high: int) -> int:
    return round(low * math.pow(high / low, rng.random()))
