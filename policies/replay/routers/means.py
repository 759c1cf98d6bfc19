"""What every family asks of a training part: masked means, which arms are known at all, and is there a lesson.

Unknown cells are NaN and stay out of every mean; they never count as 0.
"""

from __future__ import annotations

import numpy as np

from policies.replay.errors import EmbeddingInvalid, NothingToLearn
from policies.replay.table import Bools, Floats, Ints, OutcomeTable, Queries, Strings, check_embeddings


def column_means(values: Floats) -> Floats:
    """(K,) means over the known rows of (N, K); NaN for a column without any."""
    n = np.isfinite(values).sum(axis=0)
    return np.where(n > 0, np.nansum(values, axis=0) / np.maximum(n, 1), np.nan)


def usable_arms(train: OutcomeTable) -> Bools:
    """(K,) arms with a known score and, where the table knows any joules, with known joules."""
    scored = np.isfinite(train.correct).any(axis=0)
    powered = np.isfinite(train.energy_j).any(axis=0)
    return np.asarray(scored & powered if powered.any() else scored)


def has_energy(train: OutcomeTable) -> bool:
    return bool(np.isfinite(train.energy_j).any())


def lesson(train: OutcomeTable, policy: str) -> dict[str, int]:
    """How many training queries say something: counts `n_train`, `tied_queries`, `unanswered_queries`.

    A query is tied where all known scores (two or more) agree, unanswered where all known scores are 0.
    Raises NothingToLearn where no score is known, all are 0, or no query tells two arms apart.
    """
    scores = train.correct
    known = np.isfinite(scores)
    if not known.any():
        raise NothingToLearn(
            f"{policy}: none of the {len(train)} training queries of {train.dataset} has a graded answer.",
            fix="import outcomes with correctness, or give more queries the split 'train'",
        )
    high = np.where(known, scores, -np.inf).max(axis=1, initial=-np.inf)
    low = np.where(known, scores, np.inf).min(axis=1, initial=np.inf)
    n_known = known.sum(axis=1)
    unanswered = (n_known > 0) & (high <= 0)
    tied = (n_known > 1) & (high == low)
    if high.max() <= 0:
        raise NothingToLearn(
            f"{policy}: no arm has any of the {int((n_known > 0).sum())} training queries of {train.dataset} right.",
            fix="check the grader; where it is right, use the cheapest fixed arm",
        )
    compared = int((n_known > 1).sum())
    means = column_means(scores)
    alike = compared == int(tied.sum()) if compared else np.nanmax(means) == np.nanmin(means)
    if alike:
        raise NothingToLearn(
            f"{policy}: the arms tie on every one of the {int((n_known > 0).sum())} training queries "
            f"of {train.dataset}.",
            fix="use the cheapest fixed arm, or train on queries that tell arms apart",
        )
    return {"n_train": len(train), "tied_queries": int(tied.sum()), "unanswered_queries": int(unanswered.sum())}


def embeddings_of(queries: Queries, policy: str) -> Floats:
    """(N, D) embeddings. Raises EmbeddingInvalid where there are none, or some are not finite."""
    if queries.embeddings is None:
        raise EmbeddingInvalid(
            f"{policy} routes by text embeddings, and these {len(queries)} queries have none.",
            fix="embed the texts first (embedder wordllama), or choose policies that need none",
        )
    return check_embeddings(queries.embeddings, len(queries))


def unit_rows(vectors: Floats) -> Floats:
    """Rows scaled to length 1, so that a dot product is a cosine; a zero row stays zero."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 0))


def positions(values: Strings, known: tuple[str, ...]) -> Ints:
    """(N,) index of each value in `known`; -1 where it is not there."""
    where = {value: at for at, value in enumerate(known)}
    return np.fromiter((where.get(value, -1) for value in values), dtype=np.int64, count=len(values))
