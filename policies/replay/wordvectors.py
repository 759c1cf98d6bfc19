"""Token vectors and tokenizer straight from the wordllama wheel.

Its own loader looks for the tokenizer in another folder than the wheel has it, and then asks a hub; so the two files
are read here: a Llama-2 tokenizer and a (32000, 256) matrix of float16.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from policies.replay.errors import EmbedderUnavailable
from policies.replay.table import Floats

_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
_WEIGHTS = "weights/l2_supercat_256.safetensors"
_BATCH = 4096


@cache
def _model() -> tuple[Any, npt.NDArray[np.float32]]:
    from safetensors.numpy import load_file  # heavy to import: only where texts are embedded
    from tokenizers import Tokenizer

    spec = find_spec("wordllama")
    folder = Path(spec.origin).parent if spec and spec.origin else Path()
    missing = [name for name in (_TOKENIZER, _WEIGHTS) if not (folder / name).is_file()]
    if spec is None or missing:
        raise EmbedderUnavailable(
            f"The package wordllama is not installed, or lacks {', '.join(missing)}.",
            fix="install wordllama>=0.4, or choose tfidf-svd",
        )
    tokenizer = Tokenizer.from_file(str(folder / _TOKENIZER))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer, load_file(folder / _WEIGHTS)["embedding.weight"].astype(np.float32)


def embed(texts: Sequence[str]) -> Floats:
    """(N, 256) means of token vectors, L2-normalised; zeros for a text without tokens."""
    tokenizer, weights = _model()
    found = np.zeros((len(texts), weights.shape[1]), dtype=np.float64)
    for start in range(0, len(texts), _BATCH):
        encoded = tokenizer.encode_batch_fast(list(texts[start : start + _BATCH]), add_special_tokens=False)
        for row, tokens in enumerate(encoded, start):
            if tokens.ids:
                found[row] = weights[tokens.ids].mean(axis=0, dtype=np.float64)
    return normalised(found)


def normalised(vectors: Floats) -> Floats:
    """Rows of length 1; a zero row stays zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1.0))
