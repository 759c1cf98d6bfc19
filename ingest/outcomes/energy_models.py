"""Which arms of public data sets ML.ENERGY measured: name there -> model id in its tables.

Facts about names only. The ids are those of the ML.ENERGY benchmark, edition 2 (https://ml.energy/leaderboard; J.-W.
Chung et al., "The ML.ENERGY Benchmark", arXiv:2505.06371), as the kind `mlenergy-v2` loads them; the names are those of
ZeroEval (github.com/WildEval/ZeroEval), LLMRouter (github.com/ulab-uiuc/LLMRouter) and RouteLLM
(github.com/lm-sys/RouteLLM). An arm that is not here has no measured model, and none is guessed.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

_LLAMA_8B, _MIXTRAL = "meta-llama/Meta-Llama-3.1-8B-Instruct", "mistralai/Mixtral-8x7B-Instruct-v0.1"

ZEROEVAL: Mapping[str, str] = {
    "gemma-2-2b-it": "google/gemma-2-2b-it",
    "gemma-2-9b-it": "google/gemma-2-9b-it",
    "gemma-2-27b-it": "google/gemma-2-27b-it",
    "Meta-Llama-3.1-8B-Instruct": _LLAMA_8B,
    "Meta-Llama-3.1-70B-Instruct": "meta-llama/Meta-Llama-3.1-70B-Instruct",
    "Llama-3.1-405B-Inst@sambanova": "meta-llama/Meta-Llama-3.1-405B-Instruct",
    "Mistral-Nemo-Instruct-2407": "mistralai/Mistral-Nemo-Instruct-2407",
    "Mistral-Large-2": "mistralai/Mistral-Large-Instruct-2407",
    "Mixtral-8x7B-Instruct-v0.1": _MIXTRAL,
    "Phi-3-mini-4k-instruct": "microsoft/Phi-3-mini-4k-instruct",
}
LLMROUTER: Mapping[str, str] = {
    "gemma-2-9b-it": "google/gemma-2-9b-it",
    "llama-3.1-8b-instruct": _LLAMA_8B,
    "mistral-7b-instruct-v0.3": "mistralai/Mistral-7B-Instruct-v0.3",
    "codegemma-7b": "google/codegemma-7b",
    "mixtral-8x7b-instruct-v0.1": _MIXTRAL,
    "mixtral-8x22b-instruct-v0.1": "mistralai/Mixtral-8x22B-Instruct-v0.1",
}
ROUTELLM: Mapping[str, str] = {_MIXTRAL: _MIXTRAL}


def energy_model(known: Mapping[str, str]) -> pl.Expr:
    """The measured model of each `arm`, or NULL."""
    return pl.col("arm").replace_strict(dict(known), default=None, return_dtype=pl.String).alias("energy_model")


def parameters_b() -> pl.Expr:
    """1e9 parameters, as text, where the name of the `arm` tells one number of them (gemma-2-27b-it, not 8x7B)."""
    return pl.col("arm").str.extract(r"(?i)(?:^|[-_/])(\d+(?:\.\d+)?)b(?:$|[-_@])", 1).alias("parameters_b")
