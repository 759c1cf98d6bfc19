"""Small scrapes and score files, made for these tests, in the wire format of their sources."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

TTFT_BOUNDS = (0.001, 0.1, 0.25, 0.5, 1.0, 2.5)


def series(name: str, value: object, **labels: object) -> str:
    told = ",".join(f'{k}="{v}"' for k, v in labels.items())
    return f"{name}{{{told}}} {value}" if told else f"{name} {value}"


def histogram(name: str, bounds: Sequence[float], observed: Iterable[float], **labels: object) -> list[str]:
    """The lines of a histogram over `observed`, cumulative as Prometheus writes it."""
    values = list(observed)
    lines = [f"# TYPE {name} histogram"]
    lines += [series(f"{name}_bucket", sum(v <= b for v in values), **labels, le=b) for b in bounds]
    lines += [series(f"{name}_bucket", len(values), **labels, le="+Inf")]
    lines += [series(f"{name}_count", len(values), **labels), series(f"{name}_sum", sum(values), **labels)]
    return lines


def text(*parts: str | Iterable[str]) -> str:
    lines = [line for part in parts for line in ([part] if isinstance(part, str) else part)]
    return "\n".join(lines) + "\n"


def vllm(
    output_tokens: object = 7_557,
    *,
    engine: str = "0",
    model: str = "llama-3.3-70b",
    ttft: Iterable[float] = (0.05, 0.2, 0.2, 0.9),
    created: float | None = None,
    kv_name: str = "vllm:kv_cache_usage_perc",
) -> list[str]:
    """The lines of one engine."""
    of: dict[str, object] = {"engine": engine, "model_name": model}
    lines = [
        series("vllm:num_requests_running", 3.0, **of),
        series("vllm:num_requests_waiting", 1.0, **of),
        series("vllm:num_requests_waiting_by_reason", 41.0, **of, reason="capacity"),
        series(kv_name, 0.25, **of),
        series("vllm:prompt_tokens_total", "8.128902e+06", **of),
        series("vllm:generation_tokens_total", output_tokens, **of),
        series("vllm:request_success_total", 4.0, **of, finished_reason="stop"),
        series("vllm:request_success_total", 2.0, **of, finished_reason="length"),
        series("vllm:request_success_total", 1.0, **of, finished_reason="abort"),
        series("vllm:num_preemptions_total", 0.0, **of),
        *histogram("vllm:time_to_first_token_seconds", TTFT_BOUNDS, ttft, **of)[1:],
        series("vllm:cache_config_info", 1.0, **of, block_size=16, num_gpu_blocks=1000, cache_dtype="auto"),
    ]
    if created is not None:
        lines.append(series("vllm:generation_tokens_created", created, **of))
    return lines


def sglang() -> str:
    front = {"engine_type": "unified", "model_name": "qwen3"}
    ranks = [{**front, "dp_rank": dp, "pp_rank": 0, "tp_rank": tp} for dp in (0, 1) for tp in (0, 1)]
    return text(
        [series("sglang:num_running_reqs", 4 + r["dp_rank"], **r) for r in ranks],  # type: ignore[operator]
        [series("sglang:num_queue_reqs", 2.0, **r) for r in ranks],
        [series("sglang:token_usage", 0.28, **r) for r in ranks],
        series("sglang:prompt_tokens_total", 700.0, **front),
        series("sglang:generation_tokens_total", 800.0, **front),
        series("sglang:cached_tokens_total", 30.0, **front, cache_source="device"),
        series("sglang:cached_tokens_total", 12.0, **front, cache_source="host"),
        series("sglang:num_requests_total", 9.0, **front),
        series("sglang:num_aborted_requests_total", 1.0, **front),
        histogram("sglang:time_to_first_token_seconds", TTFT_BOUNDS, (0.3, 0.4), **front),
        series("sglang:cache_config_info", 1.0, **front, page_size=64, num_pages=11147),
    )


def tensorrt_llm() -> str:
    of = {"model_name": "nemotron-nano-3", "engine_type": "trtllm"}
    return text(
        series("trtllm_num_requests_running", 5, **of),
        series("trtllm_num_requests_waiting", 0, **of),
        series("trtllm_kv_cache_utilization", 0.62, **of),
        series("trtllm_kv_cache_tokens_per_block", 32, **of),
        series("trtllm_kv_cache_max_blocks", 500, **of),
        series("trtllm_request_success_total", 11, **of, finished_reason="stop"),
        series("trtllm_request_success_total", 2, **of, finished_reason="cancelled"),
        series("trtllm_generation_tokens_total", 900, **of),
        histogram("trtllm_e2e_request_latency_seconds", (0.3, 0.5, 0.8), (0.4, 0.4, 3.0), **of),
    )


TRITON = """# TYPE nv_trt_llm_request_metrics gauge
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="waiting",version="1"} 3
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="context",version="1"} 1
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="scheduled",version="1"} 4
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="max",version="1"} 512
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="fraction",model="tensorrt_llm",version="1"} 0.6
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="used",model="tensorrt_llm",version="1"} 2000
"""


def matrix(*found: tuple[str, Mapping[str, object], Sequence[tuple[float, object]]], **more: object) -> dict[str, Any]:
    """An answer of query_range: (metric name, labels, points)."""
    result = [
        {
            "metric": {"__name__": name, **{k: str(v) for k, v in labels.items()}},
            "values": [[at, str(value)] for at, value in points],
        }
        for name, labels, points in found
    ]
    return {"status": "success", "data": {"resultType": "matrix", "result": result}, **more}


AT = 1_764_417_600  # 2025-11-29T12:00:00Z
_ONE: dict[str, object] = {"instance": "gpu-1:8000", "job": "vllm", "engine": "0", "model_name": "m"}

RANGE = matrix(
    ("vllm:num_requests_running", _ONE, [(AT, 2), (AT + 60, 3), (AT + 120, 0)]),
    ("vllm:generation_tokens_total", _ONE, [(AT, 100), (AT + 60, 400), (AT + 120, 1000)]),
)

SCORES_CSV = """model,category,component,source,date,n,score_percent
gemma-4-31b,coding_general,leaderboard,LiveBench,2026-05-01,,61.5
glm-5.2,coding_general,leaderboard,LiveBench,2026-05-01,,74.25
glm-5.2,coding_general,self_eval,our 40 tickets,2026-05-10,40,82.5
"""

MLENERGY_V3_CSV = """task,model_id,nickname,architecture,total_params_billions,activated_params_billions,\
weight_precision,gpu_model,num_gpus,tensor_parallel,expert_parallel,data_parallel,max_num_seqs,avg_batch_size,\
avg_output_len,avg_power_watts,\
energy_per_token_joules,energy_per_request_joules,output_throughput_tokens_per_sec,median_itl_ms,p90_itl_ms,p95_itl_ms,\
p99_itl_ms
lm-arena-chat,acme/Big-70B,Big,Dense Transformer,70.0,70.0,bfloat16,H100,4,4,1,1,8,7.5,400.25,1800.0,4.0,1601.0,450.0,\
17.0,18.5,19.0,22.0
lm-arena-chat,acme/Big-70B,Big,Dense Transformer,70.0,70.0,bfloat16,H100,4,4,1,1,64,63.5,400.25,2000.0,0.5,200.125,\
4000.0,25.0,30.0,40.0,50.0
"""

MLENERGY_V2_CSV = """task,model_id,gpu,tp,pp,energy_per_request_joules,avg_tpot_s,token_throughput_tok_s,\
avg_output_tokens,avg_batch_size,max_batch_size,energy_per_token_joules,implied_power_w
chat,acme/Small-9B,NVIDIA A100-SXM4-40GB,2,1,120.0,0.05,1000.0,300.0,127.5,128,0.4,400.0
chat,acme/Small-9B,NVIDIA A100-SXM4-40GB,2,2,90.0,0.05,1500.0,300.0,255.5,256,0.3,450.0
"""

LEADGREEN: dict[str, Any] = {
    "version": "1",
    "slug": "big-70b",
    "model_id": "acme/Big-70B",
    "source": {"name": "ML.ENERGY Leaderboard"},
    "configurations": [
        {
            "gpu": "H100",
            "num_gpus": 4,
            "tensor_parallel": 4,
            "data_parallel": 1,
            "expert_parallel": 1,
            "precision": "BF16",
            "max_num_seqs": 8,
            "wh_per_million_output_tokens": 1111.11,
            "joules_per_output_token": 4.0,
            "median_itl_ms": 17.0,
            "tokens_per_second": 450.0,
            "gpu_power_watts_total": 1800,
            "avg_output_tokens": 400,
            "avg_running_batch": 7.5,
            "repeat": 1,
        }
    ],
}

# kind -> one sound payload body
SOUND: dict[str, str] = {
    "vllm-metrics": text("# a scrape", vllm()),
    "sglang-metrics": sglang(),
    "tensorrt-llm-metrics": tensorrt_llm(),
    "prometheus-range": json.dumps(RANGE),
    "scores": SCORES_CSV,
    "mlenergy-v2": MLENERGY_V2_CSV,
    "mlenergy-v3": MLENERGY_V3_CSV,
    "leadgreen": json.dumps(LEADGREEN),
}
