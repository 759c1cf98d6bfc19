"""The kinds of serving telemetry."""

from __future__ import annotations

from ingest.kind import HOUR_S, MIB, Kind, Option
from ingest.serving import derive, query_range
from ingest.serving.names import SGLANG, TENSORRT_LLM, VLLM, Runtime
from ingest.serving.scrape import parser

_BACKEND = Option("backend", "the id of the serving endpoint; default: host and port of the address")


def _scrape(runtime: Runtime, title: str, docs: str) -> Kind:
    return Kind(
        name=runtime.kind,
        title=title,
        parse=parser(runtime),
        docs=docs,
        transports=("http", "file"),
        max_bytes=32 * MIB,
        cadence_s=60.0,
        stale_after_s=300.0,
        expire_after_s=HOUR_S,
        derive=derive.windows_of_source,
        options=(_BACKEND,),
    )


KINDS = (
    _scrape(VLLM, "vLLM metrics", "Prometheus text of a vLLM server: queue, tokens, latency, cache"),
    _scrape(SGLANG, "SGLang metrics", "Prometheus text of an SGLang server: queue, tokens, latency, cache"),
    _scrape(
        TENSORRT_LLM,
        "TensorRT-LLM metrics",
        "Prometheus text of trtllm-serve (/prometheus/metrics) or of Triton's TensorRT-LLM backend",
    ),
    Kind(
        name=query_range.KIND,
        title="Serving metrics from Prometheus",
        parse=query_range.parse,
        docs="/api/v1/query_range of a Prometheus that scrapes vLLM, SGLang or TensorRT-LLM (JSON, matrix)",
        transports=("http", "file"),
        max_bytes=256 * MIB,
        cadence_s=300.0,
        stale_after_s=900.0,
        expire_after_s=2 * HOUR_S,
        derive=derive.windows_of_source,
        options=query_range.OPTIONS,
        fetch=query_range.fetch_range,
    ),
)
