"""Small outcome tables with a known answer, made here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from policies.replay.table import Arm, OutcomeTable, Queries, strings

NAN = float("nan")


def table(
    correct: npt.ArrayLike,
    energy_j: npt.ArrayLike | None = None,
    *,
    names: Sequence[str] | None = None,
    sizes: Sequence[float | None] | None = None,
    benchmarks: Sequence[str] | None = None,
    texts: Sequence[str | None] | None = None,
    embeddings: npt.ArrayLike | None = None,
    held_out: npt.ArrayLike | None = None,
    cost_usd: npt.ArrayLike | None = None,
    first_id: int = 0,
) -> OutcomeTable:
    """N x K scores; joules default to 10, 20, 30... per arm; arms to a, b, c..."""
    scores = np.asarray(correct, dtype=np.float64)
    n, k = scores.shape
    unknown = np.full((n, k), np.nan)
    joules = np.tile(10.0 * np.arange(1, k + 1), (n, 1)) if energy_j is None else np.asarray(energy_j, dtype=np.float64)
    arms = tuple(
        Arm(name, name, parameters_b=None if sizes is None else sizes[at])
        for at, name in enumerate(names or [chr(ord("a") + at) for at in range(k)])
    )
    queries = Queries(
        strings([f"q{first_id + at}" for at in range(n)]),
        strings(list(benchmarks) if benchmarks is not None else ["all"] * n),
        None if texts is None else strings(list(texts)),
        None if embeddings is None else np.asarray(embeddings, dtype=np.float64),
    )
    return OutcomeTable(
        dataset="made",
        arms=arms,
        queries=queries,
        held_out=np.zeros(n, dtype=np.bool_) if held_out is None else np.asarray(held_out, dtype=np.bool_),
        correct=scores,
        energy_j=joules,
        latency_s=unknown,
        cost_usd=unknown if cost_usd is None else np.asarray(cost_usd, dtype=np.float64),
        power_w=unknown,
        output_tokens=unknown,
    )


def two_kinds(n: int = 60, seed: int = 0, **more: Any) -> OutcomeTable:
    """Half the queries are easy (the cheap arm a is right), half hard (only b is, at ten times the joules).

    Embeddings tell the kinds apart, benchmarks and texts too; c is dear and never better than b.
    """
    rng = np.random.default_rng(seed)
    hard = np.arange(n) % 2 == 1
    noise = rng.normal(scale=0.05, size=(n, 4))
    centre = np.where(hard[:, None], [0.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0])
    correct = np.column_stack([~hard, np.ones(n), hard]).astype(np.float64)
    energy_j = np.column_stack([np.full(n, 10.0), np.full(n, 100.0), np.full(n, 300.0)])
    energy_j = energy_j * np.where(hard, 2.0, 1.0)[:, None]
    said = ["Prove that 12 + 30 = 42 for all $x$." if h else "Say hello to the dog" for h in hard]
    texts = [text + " again" * int(times) for text, times in zip(said, rng.integers(0, 9, n), strict=True)]
    given: dict[str, Any] = {
        "benchmarks": np.where(hard, "math", "chat").tolist(),
        "texts": texts,
        "embeddings": centre + noise,
        "held_out": np.arange(n) >= n * 2 // 3,
    }
    return table(correct, energy_j, **{**given, **more})


def graded(n: int = 400, seed: int = 0) -> OutcomeTable:
    """Queries of every hardness 0..1, told by the text's length and the embedding; b is right 19 of 20 times."""
    rng = np.random.default_rng(seed)
    hard = rng.uniform(size=n)
    correct = np.column_stack([rng.uniform(size=n) > hard, rng.uniform(size=n) < 0.95]).astype(np.float64)
    noise = rng.lognormal(-0.02, 0.2, size=(n, 2))
    energy_j = np.column_stack([np.full(n, 10.0), np.full(n, 100.0)]) * (1.0 + hard[:, None]) * noise
    texts = ["again " * int(40 * h + 1) for h in hard]
    return table(correct, energy_j, texts=texts, embeddings=np.column_stack([np.cos(hard), np.sin(hard)]))


def replayed(test: OutcomeTable, arms: npt.NDArray[np.int32]) -> tuple[float, float]:
    """Mean score and joules of the picks."""
    rows = np.arange(len(test))
    return float(test.correct[rows, arms].mean()), float(test.energy_j[rows, arms].mean())
