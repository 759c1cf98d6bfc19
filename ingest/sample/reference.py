"""The reference sweep: one fixed prompt, five runs on each of the 13 routable models.

The energies are constants, made so that the published properties hold:
deepseek-v4-flash costs $9.80e-05 a run and gemma-4-31b $5.02e-05, though it lists at two thirds of the
price, and emits 284 % more carbon; the price ceiling binds twice, on its two energy spikes; glm-5.2-fast is
second cheapest and sixth cleanest; kimi-k3-flex draws 3.7 times less energy than kimi-k2.7-code and emits
3.6 times more carbon. Runs of one model spread up to fourfold, as identical requests do.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from ingest.sample.completions import Run

PROMPT_TOKENS, COMPLETION_TOKENS = 18, 192

# offer -> base model, serving grid, energy of the five runs in 1e-10 kWh.
SWEEP: dict[str, tuple[str, str, tuple[int, int, int, int, int]]] = {
    "deepseek-v4-flash": ("deepseek-v4-flash", "FR", (61_000, 213_900, 54_000, 75_400, 214_850)),
    "gemma-4-31b": ("gemma-4-31b", "FI", (64_700, 38_200, 87_400, 52_100, 71_350)),
    "qwen3.6-35b": ("qwen3.6-35b", "FI", (158_900, 131_700, 255_700, 92_300, 186_400)),
    "qwen3.6-35b-fast": ("qwen3.6-35b", "FI", (104_000, 149_600, 71_500, 198_100, 126_800)),
    "glm-5.2": ("glm-5.2", "US-CAL-CISO", (571_200, 921_500, 341_000, 689_800, 476_500)),
    "glm-5.2-fast": ("glm-5.2", "US-CAL-CISO", (93_600, 58_300, 106_500, 137_400, 79_200)),
    "glm-5.2-short": ("glm-5.2", "FR", (391_200, 468_700, 263_400, 761_300, 552_900)),
    "glm-5.2-short-fast": ("glm-5.2", "FR", (213_600, 101_900, 181_200, 148_300, 292_500)),
    "kimi-k2.7-code": ("kimi-k2.7-code", "FI", (954_000, 1_539_000, 803_000, 561_000, 1_143_000)),
    "kimi-k2.7-code-fast": ("kimi-k2.7-code", "FI", (2_812_500, 1_312_000, 948_000, 2_123_000, 1_617_000)),
    "kimi-k3": ("kimi-k3", "US-CAR-DUK", (1_108_000, 632_000, 1_764_000, 1_318_500, 927_500)),
    "kimi-k3-fast": ("kimi-k3", "US-CAL-CISO", (271_250, 142_300, 380_400, 259_100, 221_950)),
    "kimi-k3-flex": ("kimi-k3", "US-MIDA-PJM", (253_300, 417_300, 148_700, 214_610, 301_200)),
}

_ROUND_EVERY = timedelta(hours=6)
_BETWEEN_MODELS = timedelta(seconds=40)


def reference_runs(now: datetime) -> Iterator[Run]:
    """The 65 runs, in five rounds that end six hours before `now`."""
    for turn in range(5):
        start = now - _ROUND_EVERY * (5 - turn)
        for place, (offer_id, (base, zone, energies)) in enumerate(SWEEP.items()):
            yield Run(
                run_id=f"sample-reference-{offer_id}-{turn + 1}",
                offer_id=offer_id,
                base_model=base,
                workload="seed_reference",
                zone=zone,
                started_at=start + place * _BETWEEN_MODELS,
                prompt_tokens=PROMPT_TOKENS,
                completion_tokens=COMPLETION_TOKENS,
                energy_steps=energies[turn],
            )
