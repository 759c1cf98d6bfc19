"""The sample catalog in the wire format of Neuralwatt `GET /v1/models`: 19 rows of 6 base models.

List prices and context windows are the provider's published ones (USD per million tokens, tokens). Which
rows are gated, and in which words, is made up after the published count of 6.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

_CREATED = 1_782_000_000  # unix seconds; a catalog row does not age with the sample


@dataclass(frozen=True)
class BaseModel:
    title: str
    maker: str
    input_per_million: str
    output_per_million: str
    cached_per_million: str
    context_tokens: int
    max_output_tokens: int
    about: str


MODELS: dict[str, BaseModel] = {
    "deepseek-v4-flash": BaseModel(
        "DeepSeek V4 Flash", "deepseek", "0.14", "0.28", "0.028", 1_048_560, 65_536, "Fast general model."
    ),
    "gemma-4-31b": BaseModel(
        "Gemma 4 31B", "google", "0.144", "0.42", "0.0144", 262_128, 16_384, "Compact dense model."
    ),
    "qwen3.6-35b": BaseModel(
        "Qwen3.6 35B", "qwen", "0.29", "1.15", "0.029", 131_056, 131_056, "Small mixture of experts."
    ),
    "glm-5.2": BaseModel(
        "GLM 5.2", "zai", "1.45", "4.5", "0.145", 1_048_560, 1_048_560, "Long-context reasoning model."
    ),
    "kimi-k2.7-code": BaseModel(
        "Kimi K2.7 Code", "moonshotai", "0.95", "4", "0.095", 262_128, 262_128, "Model for code and agents."
    ),
    "kimi-k3": BaseModel("Kimi K3", "moonshotai", "3", "15", "0.3", 1_048_560, 1_048_560, "Frontier reasoning model."),
}

# Suffixes of each base model's rows, and the words in which a row is gated ("" where it is open).
_PREVIEW, _CANARY = "Private preview (grant-gated).", "(Canary) May change without notice."
ROWS: tuple[tuple[str, str, str], ...] = (
    ("deepseek-v4-flash", "", ""),
    ("deepseek-v4-flash", "-flex", _CANARY),
    ("gemma-4-31b", "", ""),
    ("gemma-4-31b", "-flex", _CANARY),
    ("qwen3.6-35b", "", ""),
    ("qwen3.6-35b", "-fast", ""),
    ("glm-5.2", "", ""),
    ("glm-5.2", "-fast", ""),
    ("glm-5.2", "-flex", _PREVIEW),
    ("glm-5.2", "-short", ""),
    ("glm-5.2", "-short-fast", ""),
    ("glm-5.2", "-short-flex", _PREVIEW),
    ("glm-5.2", "-short-fast-flex", _PREVIEW),
    ("kimi-k2.7-code", "", ""),
    ("kimi-k2.7-code", "-fast", ""),
    ("kimi-k2.7-code", "-flex", _PREVIEW),
    ("kimi-k3", "", ""),
    ("kimi-k3", "-fast", ""),
    ("kimi-k3", "-flex", ""),
)

_SUFFIX_PROSE = {
    "short": "200K pool with a bounded reasoning budget.",
    "fast": "Thinking disabled or capped to a short budget.",
    "flex": "Flex: requests may be held until a capacity gap opens.",
}
_SHORT_CONTEXT_TOKENS, _SHORT_OUTPUT_TOKENS = 199_984, 32_000


def models_document() -> dict[str, Any]:
    """The answer of `GET /v1/models`."""
    return {"object": "list", "data": [_row(*row) for row in ROWS]}


def routable() -> list[str]:
    """Offer ids that the catalog does not gate."""
    return [base + suffix for base, suffix, gate in ROWS if not gate]


def list_cost_usd(base_model: str, prompt_tokens: int, completion_tokens: int) -> Decimal:
    """Tokens at list price, USD."""
    model = MODELS[base_model]
    per_million = prompt_tokens * Decimal(model.input_per_million) + completion_tokens * Decimal(
        model.output_per_million
    )
    return per_million / 1_000_000


def _row(base: str, suffix: str, gate: str) -> dict[str, Any]:
    model = MODELS[base]
    offer_id = base + suffix
    words = suffix.removeprefix("-").split("-") if suffix else []
    short = "short" in words
    context = _SHORT_CONTEXT_TOKENS if short else model.context_tokens
    reasoning = "fast" not in words and base != "gemma-4-31b"
    prose = [gate, model.about, *(_SUFFIX_PROSE[word] for word in words)]
    return {
        "id": offer_id,
        "object": "model",
        "created": _CREATED,
        "owned_by": "neuralwatt",
        "root": offer_id,
        "parent": None,
        "max_model_len": context,
        "metadata": {
            "display_name": model.title + (f" ({', '.join(words)})" if words else ""),
            "description": " ".join(part for part in prose if part),
            "provider": model.maker,
            "huggingface_id": None,
            "pricing": {
                "input_per_million": float(model.input_per_million),
                "output_per_million": float(model.output_per_million),
                "cached_input_per_million": float(model.cached_per_million),
                "cached_output_per_million": None,
                "currency": "USD",
                "pricing_tbd": False,
            },
            "capabilities": {
                "tools": True,
                "json_mode": True,
                "vision": base in ("gemma-4-31b", "kimi-k2.7-code", "kimi-k3"),
                "reasoning": reasoning,
                "reasoning_effort": reasoning,
                "streaming": True,
                "system_role": True,
                "developer_role": False,
            },
            "limits": {
                "max_context_length": context,
                "max_output_tokens": _SHORT_OUTPUT_TOKENS if short else model.max_output_tokens,
                "max_images": None,
            },
            "deprecated": False,
            "deprecated_message": None,
        },
    }
