"""TF-IDF of words and a truncated SVD (latent semantic analysis), fitted on training texts only.

Weights: (1 + ln tf) x (ln((1 + n) / (1 + df)) + 1), rows L2-normalised; a word must stand in two training texts.
Embedding: row x V, where U S V^T is the SVD of the training rows; L2-normalised. Where the matrix is larger than the
rank asked for, the SVD is that of a subspace found by randomised power iteration (N. Halko, P. Martinsson, J. Tropp,
SIAM Review 53, 2011, algorithm 4.4) with a fixed seed: ARPACK restarts at random and differs from run to run.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from policies.replay.errors import NothingToLearn
from policies.replay.table import Bools, Floats
from policies.replay.wordvectors import normalised

if TYPE_CHECKING:
    from scipy import sparse

_WORD = re.compile(r"\w+", re.UNICODE)
_LEAST_DF = 2
_MOST_WORDS = 50_000
_OVERSAMPLED, _ROUNDS = 32, 3
_LEAST_VALUE = 1e-9  # of the largest singular value


def embed(texts: Sequence[str], train: Bools, dimensions: int) -> Floats:
    """(N, D) with D <= `dimensions`. Raises NothingToLearn where the training texts have too few words."""
    counts = [Counter(_WORD.findall(text.lower())) for text in texts]
    rows = np.flatnonzero(train)
    df = Counter(word for row in rows.tolist() for word in counts[row])
    words = sorted((w for w, n in df.items() if n >= _LEAST_DF), key=lambda w: (-df[w], w))[:_MOST_WORDS]
    d = min(dimensions, len(words) - 1, rows.size - 1)
    if d < 1:
        raise NothingToLearn(
            f"{rows.size} training texts share {len(words)} words, too few for tfidf-svd.",
            fix="use more training texts, or another embedding",
        )
    matrix = _weighted(counts, {w: i for i, w in enumerate(words)}, df, rows.size)
    fitted = matrix[rows]
    values, basis = _svd(fitted, d)
    basis = basis[: int((values > values.max() * _LEAST_VALUE).sum())]  # beyond the rank there is only rounding
    largest = np.abs(basis).argmax(axis=1)
    basis *= np.sign(basis[np.arange(len(basis)), largest])[:, None]  # the sign of an axis is arbitrary: fix it
    return normalised(np.asarray(matrix @ basis.T, dtype=np.float64))


def _svd(matrix: sparse.csr_matrix, d: int) -> tuple[Floats, Floats]:
    """The d largest singular values and their right vectors (d, words)."""
    if min(matrix.shape) <= d + _OVERSAMPLED:
        _, values, basis = np.linalg.svd(matrix.toarray(), full_matrices=False)
        return values[:d], basis[:d]
    found = np.random.default_rng(0).standard_normal((matrix.shape[1], d + _OVERSAMPLED))
    for _ in range(_ROUNDS):
        left, _ = np.linalg.qr(matrix @ found)
        found, _ = np.linalg.qr(matrix.T @ left)
    _, values, within = np.linalg.svd(matrix @ found, full_matrices=False)
    return values[:d], (within @ found.T)[:d]


def _weighted(counts: Sequence[Counter[str]], index: dict[str, int], df: Counter[str], n: int) -> sparse.csr_matrix:
    from scipy import sparse  # slow to import: not at every start

    columns: list[int] = []
    data: list[int] = []
    ends = [0]
    for counted in counts:
        for word, times in counted.items():
            if (at := index.get(word)) is not None:
                columns.append(at)
                data.append(times)
        ends.append(len(columns))
    idf = np.log((1 + n) / (1 + np.array([df[w] for w in index]))) + 1
    weights = (1 + np.log(np.asarray(data, dtype=np.float64))) * idf[columns]
    matrix = sparse.csr_matrix((weights, columns, ends), shape=(len(counts), len(index)))
    lengths = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1))).ravel()
    return sparse.csr_matrix(sparse.diags(1 / np.where(lengths > 0, lengths, 1.0)) @ matrix)
