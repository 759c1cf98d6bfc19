"""The metrics of serving runtimes that joulebook reads, by exact name, and what each fills.

Where a runtime renamed a metric, the names are tried in order and the first that tells something is taken.
Names are never matched by prefix: `vllm:num_requests_waiting_by_reason` follows `vllm:num_requests_waiting`
in the text and would overwrite it. Sources: vLLM `docs/usage/metrics`, SGLang `srt/metrics/collector.py`,
TensorRT-LLM `metrics/collector.py`, Triton's TensorRT-LLM backend, and the model server protocol of the
Gateway API inference extension.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Metric:
    """A metric that may fill a column.

    part: the label whose values split the metric, so that its series add up · only: of those, the values that count.
    """

    name: str
    part: str | None = None
    only: frozenset[str] | None = None


@dataclass(frozen=True)
class Runtime:
    """What one serving runtime exposes. Columns are those of core.serving_window; histograms by quantity."""

    name: str
    kind: str
    model_labels: tuple[str, ...]
    engine_label: str | None
    ranks: tuple[str, ...]  # labels of workers of one engine that repeat its figures: the lowest one speaks
    gauges: Mapping[str, tuple[Metric, ...]]
    counters: Mapping[str, tuple[Metric, ...]]
    histograms: Mapping[str, tuple[str, ...]]
    cache_info: tuple[str, str, str] | None = None  # metric, label of tokens per block, label of blocks
    cache_gauges: tuple[Metric, Metric] | None = None  # tokens per block, blocks
    max_requests: Metric | None = None


_GOOD = frozenset({"stop", "length"})
_BROKEN_OFF = frozenset({"abort", "cancelled", "timeout"})


def _named(**columns: str | tuple[str, ...]) -> dict[str, tuple[Metric, ...]]:
    return {
        c: tuple(Metric(n) for n in ((names,) if isinstance(names, str) else names)) for c, names in columns.items()
    }


VLLM = Runtime(
    name="vllm",
    kind="vllm-metrics",
    model_labels=("model_name",),
    engine_label="engine",
    ranks=(),
    gauges=_named(
        running_requests="vllm:num_requests_running",
        waiting_requests="vllm:num_requests_waiting",
        kv_cache_utilization=("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
    ),
    counters={
        **_named(
            prompt_tokens="vllm:prompt_tokens_total",
            output_tokens="vllm:generation_tokens_total",
            # gpu_prefix_cache_hits_total counted blocks before it counted tokens: not read
            cached_prompt_tokens=("vllm:prompt_tokens_cached_total", "vllm:prefix_cache_hits_total"),
            preemptions="vllm:num_preemptions_total",
        ),
        "successes": (Metric("vllm:request_success_total", "finished_reason", _GOOD),),
        "aborts": (Metric("vllm:request_success_total", "finished_reason", _BROKEN_OFF),),
    },
    histograms={
        "ttft": ("vllm:time_to_first_token_seconds",),
        # inter_token_latency is what time_per_output_token was renamed to; the mean per request is another quantity
        "tpot": (
            "vllm:inter_token_latency_seconds",
            "vllm:time_per_output_token_seconds",
            "vllm:request_time_per_output_token_seconds",
        ),
        "e2e": ("vllm:e2e_request_latency_seconds",),
        "queue": ("vllm:request_queue_time_seconds",),
    },
    cache_info=("vllm:cache_config_info", "block_size", "num_gpu_blocks"),
)

SGLANG = Runtime(
    name="sglang",
    kind="sglang-metrics",
    model_labels=("model_name",),
    engine_label="dp_rank",
    ranks=("pp_rank", "tp_rank", "moe_ep_rank"),
    gauges=_named(
        running_requests="sglang:num_running_reqs",
        waiting_requests="sglang:num_queue_reqs",
        kv_cache_utilization="sglang:token_usage",
    ),
    counters={
        **_named(
            prompt_tokens="sglang:prompt_tokens_total",
            output_tokens="sglang:generation_tokens_total",
            aborts="sglang:num_aborted_requests_total",
            preemptions="sglang:num_retracted_requests_total",
        ),
        # num_requests_total counts requests, not successes: no column is filled from it
        "cached_prompt_tokens": (Metric("sglang:cached_tokens_total", "cache_source"),),
    },
    histograms={
        "ttft": ("sglang:time_to_first_token_seconds",),
        "tpot": ("sglang:inter_token_latency_seconds", "sglang:time_per_output_token_seconds"),
        "e2e": ("sglang:e2e_request_latency_seconds",),
        "queue": ("sglang:queue_time_seconds",),
    },
    cache_info=("sglang:cache_config_info", "page_size", "num_pages"),
)

_TRITON = "nv_trt_llm_request_metrics"
_TRITON_KV = "nv_trt_llm_kv_cache_block_metrics"


def _triton(value: str) -> Metric:
    return Metric(_TRITON, "request_type", frozenset({value}))


def _triton_kv(value: str) -> Metric:
    return Metric(_TRITON_KV, "kv_cache_block_type", frozenset({value}))


TENSORRT_LLM = Runtime(
    name="tensorrt-llm",
    kind="tensorrt-llm-metrics",
    model_labels=("model_name", "model"),
    engine_label=None,
    ranks=(),
    gauges={
        "running_requests": (Metric("trtllm_num_requests_running"), _triton("scheduled")),
        "waiting_requests": (Metric("trtllm_num_requests_waiting"), _triton("waiting")),
        "kv_cache_utilization": (Metric("trtllm_kv_cache_utilization"), _triton_kv("fraction")),
    },
    counters={
        **_named(
            prompt_tokens="trtllm_prompt_tokens_total",
            output_tokens="trtllm_generation_tokens_total",
            cached_prompt_tokens="trtllm_prompt_cached_tokens_total",
        ),
        "successes": (Metric("trtllm_request_success_total", "finished_reason", _GOOD),),
        "aborts": (Metric("trtllm_request_success_total", "finished_reason", _BROKEN_OFF),),
    },
    histograms={
        "ttft": ("trtllm_time_to_first_token_seconds",),
        "tpot": ("trtllm_time_per_output_token_seconds",),
        "e2e": ("trtllm_e2e_request_latency_seconds",),
        "queue": ("trtllm_request_queue_time_seconds",),
    },
    cache_gauges=(Metric("trtllm_kv_cache_tokens_per_block"), Metric("trtllm_kv_cache_max_blocks")),
    max_requests=_triton("max"),
)

RUNTIMES: Mapping[str, Runtime] = {r.name: r for r in (VLLM, SGLANG, TENSORRT_LLM)}


@dataclass(frozen=True)
class Use:
    """What a sample name is good for: gauge, counter, bucket, count, created or static; `order` is its preference."""

    role: str
    column: str
    order: int
    metric: Metric


@dataclass(frozen=True)
class Known:
    """A sample name: whose it is and every use of it."""

    runtime: Runtime
    uses: tuple[Use, ...] = field(default=())


def _uses(runtime: Runtime) -> Iterator[tuple[str, Use]]:
    for column, metrics in runtime.gauges.items():
        for order, metric in enumerate(metrics):
            yield metric.name, Use("gauge", column, order, metric)
    for column, metrics in runtime.counters.items():
        for order, metric in enumerate(metrics):
            yield metric.name, Use("counter", column, order, metric)
            yield metric.name.removesuffix("_total") + "_created", Use("created", column, order, metric)
    for column, names in runtime.histograms.items():
        for order, name in enumerate(names):
            metric = Metric(name)
            yield f"{name}_bucket", Use("bucket", column, order, metric)
            yield f"{name}_count", Use("count", column, order, metric)
            yield f"{name}_created", Use("created", column, order, metric)
    if runtime.cache_info is not None:
        yield runtime.cache_info[0], Use("static", "cache_info", 0, Metric(runtime.cache_info[0]))
    for column, static in zip(("block_tokens", "blocks"), runtime.cache_gauges or (), strict=False):
        yield static.name, Use("static", column, 0, static)
    if runtime.max_requests is not None:
        yield runtime.max_requests.name, Use("static", "max_requests", 0, runtime.max_requests)


def _known() -> dict[str, Known]:
    found: dict[str, Known] = {}
    for runtime in RUNTIMES.values():
        for told, use in _uses(runtime):
            for name in {told, told.replace(":", "_")}:
                found[name] = Known(runtime, (*found[name].uses, use) if name in found else (use,))
    return found


KNOWN: Mapping[str, Known] = _known()
"""Every sample name that is read, exactly as it is exposed; with `_` for `:` as OpenMetrics writers escape it."""
