"""A model's page of Lead Green (`api/v1/models/<slug>.json`) -> core.energy_observation.

Lead Green publishes the chat runs of ML.ENERGY v3 again, rounded, as Wh per million output tokens and J per token. They
are the same runs as in the kind `mlenergy-v3`, under another source: compare them, never add them up. `modeled` for
the same reason, see ingest/quality/mlenergy.py. J/token = Wh per million tokens x 3600 / 1e6.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from ingest.quality.mlenergy import Configuration, Edition, agree, figures, whole_of
from ingest.quality.table import needed, text_of

_J_PER_TOKEN = Decimal(3600) / Decimal(10**6)  # of one Wh per million tokens


def _configuration(data: Mapping[str, Any]) -> Configuration:
    model, gpu, precision = (text_of(data, n) for n in ("model_id", "gpu", "precision"))
    gpus, tp, ep, dp, seqs = (
        whole_of(data, n) for n in ("num_gpus", "tensor_parallel", "expert_parallel", "data_parallel", "max_num_seqs")
    )
    j_per_token, power = needed(data, "joules_per_output_token"), needed(data, "gpu_power_watts_total")
    wh = needed(data, "wh_per_million_output_tokens", high=10**12)
    agree("wh_per_million_output_tokens", wh * _J_PER_TOKEN, j_per_token)
    throughput = needed(data, "tokens_per_second")
    agree("gpu_power_watts_total", power, j_per_token * throughput)
    return Configuration(
        key=(model, gpu, gpus, precision, tp, ep, dp, seqs),
        task="lm-arena-chat",
        model=model,
        version={"bf16": "bfloat16"}.get(precision.lower(), precision.lower()),  # as ML.ENERGY writes it
        gpu=gpu,
        gpus=gpus,
        layout=f"tp{tp} ep{ep} dp{dp} max_num_seqs {seqs}",
        batch=needed(data, "avg_running_batch"),
        j_per_token=j_per_token,
        tokens=needed(data, "avg_output_tokens"),
        power_w=power,
        attributes={
            "power_w": power,
            "output_tokens_per_s": throughput,
            "max_num_seqs": seqs,
            **figures(data, "median_itl_ms", "p90_itl_ms", "p95_itl_ms", "p99_itl_ms"),
        },
        runtime="vllm",
        runtime_version="0.11.1",
    )


LEADGREEN = Edition(
    name="Lead Green, from ML.ENERGY v3",
    published=datetime(2026, 2, 16),  # when the data it shows were compiled
    needed=(
        "model_id", "gpu", "max_num_seqs", "precision", "num_gpus", "tensor_parallel", "expert_parallel",
        "data_parallel", "joules_per_output_token", "wh_per_million_output_tokens", "gpu_power_watts_total",
        "tokens_per_second", "avg_running_batch", "avg_output_tokens",
    ),
    read=_configuration,
)  # fmt: skip
