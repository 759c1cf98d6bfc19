"""Small catalogs and usage logs, made for these tests, in the wire format of their sources."""

from __future__ import annotations

import csv
import io
import json
from typing import Any


def spend_row(request_id: str = "chatcmpl-1", **changes: Any) -> dict[str, Any]:
    """A row of LiteLLM_SpendLogs: 1,000 prompt tokens (400 cached) and 50 completion tokens."""
    return {
        "request_id": request_id,
        "call_type": "acompletion",
        "api_key": "88dc28d0f030c55ed4ab77ed8faf0981",
        "spend": 0.00175,
        "total_tokens": 1050,
        "prompt_tokens": 1000,
        "completion_tokens": 50,
        "startTime": "2026-08-06T14:30:00.250Z",
        "endTime": "2026-08-06T14:31:30.250Z",
        "request_duration_ms": 90_000,
        "model": "openai/gpt-4o-mini",
        "model_group": "gpt-4o-mini",
        "custom_llm_provider": "openai",
        "metadata": {"usage_object": {"prompt_tokens_details": {"cached_tokens": 400}}},
        "cache_hit": "False",
        "status": "success",
        **changes,
    }


def json_lines(*rows: Any) -> str:
    return "".join(json.dumps(r) + "\n" for r in rows)


def csv_text(*rows: dict[str, Any], header: list[str] | None = None) -> str:
    """Rows as a database exports them: objects as JSON text, NULL as nothing."""
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, header or list(rows[0]), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({k: json.dumps(v) if isinstance(v, dict) else v for k, v in row.items()})
    return out.getvalue()


def openrouter_completion(request_id: str = "gen-1", **changes: Any) -> dict[str, Any]:
    return {
        "id": request_id,
        "object": "chat.completion",
        "created": 1_786_026_600,  # 2026-08-06T14:30:00Z
        "model": "acme/one",
        "choices": [{"index": 0, "message": {"content": "hi"}, "finish_reason": "stop"}],
        "usage": {
            "prompt_tokens": 194,
            "completion_tokens": 2,
            "cost": 0.95,
            "cost_details": {"upstream_inference_cost": 19},
            "prompt_tokens_details": {"cached_tokens": 100},
        },
        **changes,
    }


def openrouter_generation(request_id: str = "gen-1", **changes: Any) -> dict[str, Any]:
    return {
        "id": request_id,
        "created_at": "2026-08-06T14:30:00.500000+00:00",
        "model": "acme/one",
        "total_cost": 0.0015,
        "usage": 0.0015,
        "upstream_inference_cost": None,
        "tokens_prompt": 90,
        "tokens_completion": 20,
        "native_tokens_prompt": 100,
        "native_tokens_completion": 25,
        "native_tokens_cached": 30,
        "latency": 1250,
        "generation_time": 1200,
        "finish_reason": "stop",
        "cancelled": False,
        **changes,
    }


def openrouter_day(date: str = "2026-08-06", **changes: Any) -> dict[str, Any]:
    return {
        "date": date,
        "model": "acme/one",
        "model_permaslug": "acme/one-20260501",
        "endpoint_id": "e1",
        "provider_name": "Acme",
        "usage": 0.015,
        "byok_usage_inference": 0.012,
        "requests": 5,
        "prompt_tokens": 50,
        "completion_tokens": 125,
        "reasoning_tokens": 25,
        **changes,
    }


def observation(observation_id: str = "obs1", **changes: Any) -> dict[str, Any]:
    """A Langfuse generation: 1,000 input tokens, of which 800 came from the cache."""
    return {
        "id": observation_id,
        "trace_id": "t1",
        "project_id": "p1",
        "type": "GENERATION",
        "start_time": "2026-11-01 10:00:00.000000",
        "end_time": "2026-11-01 10:00:02.500000",
        "level": "DEFAULT",
        "provided_model_name": "glm-5.2-short-flex",
        "usage_details": {"input": 200, "input_cached_tokens": 800, "output": 200, "total": 1200},
        "cost_details": {"input": 0.000406, "output": 0.0009},
        "total_cost": 0.001306,
        "latency": 2.5,
        **changes,
    }


def helicone_row(response_id: str = "r1", **changes: Any) -> dict[str, Any]:
    return {
        "response_id": response_id,
        "response_created_at": "2026-11-01T10:00:02.500Z",
        "response_status": "200",
        "request_created_at": "2026-11-01T10:00:00.000Z",
        "request_body": "",
        "request_properties": '{"env":"prod"}',
        "request_user_id": "u1",
        "model": "gpt-4o-mini",
        "prompt_tokens": "1000",
        "completion_tokens": "200",
        "latency": "2500",
        "cost": "0.00027",
        **changes,
    }


def litellm_prices(**entries: Any) -> dict[str, Any]:
    """A price map with its prose entry, and `entries`."""
    return {"sample_spec": {"input_cost_per_token": 0.0, "litellm_provider": "one of https://x"}, **entries}


def litellm_entry(**changes: Any) -> dict[str, Any]:
    return {
        "max_tokens": 8192,
        "max_input_tokens": 200_000,
        "max_output_tokens": 8192,
        "input_cost_per_token": 2e-06,
        "output_cost_per_token": 1e-05,
        "cache_read_input_token_cost": 2e-07,
        "litellm_provider": "acme",
        "mode": "chat",
        **changes,
    }


def models_dev(provider: str = "acme", **models: Any) -> dict[str, Any]:
    return {provider: {"id": provider, "name": "Acme", "models": models}}


def models_dev_model(**changes: Any) -> dict[str, Any]:
    return {
        "name": "One",
        "cost": {"input": 0.04, "output": 0.15, "cache_read": 0.01},
        "limit": {"context": 131_072, "output": 8192},
        "modalities": {"input": ["text"], "output": ["text"]},
        "release_date": "2026-05-01",
        **changes,
    }


def openai_model(model_id: str = "my-model", **changes: Any) -> dict[str, Any]:
    return {
        "id": model_id,
        "object": "model",
        "created": 1_763_980_800,
        "owned_by": "vllm",
        "root": model_id,
        "parent": None,
        "max_model_len": 40_960,
        "permission": [],
        **changes,
    }


SOUND: dict[str, str] = {
    "litellm-spendlogs": json_lines(spend_row("a"), spend_row("b", call_type="aget_responses"), spend_row("c")),
    "openrouter-usage": json_lines(openrouter_completion("gen-1"), openrouter_completion("gen-2")),
    "langfuse": json_lines(observation("a"), observation("b", level="ERROR", end_time=None)),
    "helicone": csv_text(helicone_row("a"), helicone_row("b", response_status="500", cost="", prompt_tokens="")),
    "litellm-prices": json.dumps(litellm_prices(one=litellm_entry(), two=litellm_entry(input_cost_per_token=None))),
    "models-dev": json.dumps(models_dev(one=models_dev_model(), router={"name": "Router"})),
    "openai-models": json.dumps({"object": "list", "data": [openai_model(), openai_model("lora", parent="my-model")]}),
}
