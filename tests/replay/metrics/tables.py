"""Small outcome tables for these tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from policies.replay.policy import Choices
from policies.replay.table import Arm, Condition, OutcomeTable, Queries, strings


def table(correct: Any, energy_j: Any = None, *, benchmarks: list[str] | None = None, **more: Any) -> OutcomeTable:
    """A table of these matrices; joules default to 10, 20, ... per arm, seconds to a tenth of them."""
    right = np.asarray(correct, dtype=np.float64)
    n, k = right.shape
    joules = np.tile(10.0 * np.arange(1, k + 1), (n, 1)) if energy_j is None else np.asarray(energy_j, np.float64)
    given = {
        "latency_s": joules / 10,
        "cost_usd": joules / 1000,
        "power_w": np.full((n, k), np.nan),
        "output_tokens": np.full((n, k), np.nan),
        "condition": Condition(),
        **more,
    }
    ids = strings([f"q{i}" for i in range(n)])
    queries = Queries(ids, strings(benchmarks or ["b"] * n))
    arms = tuple(Arm(f"arm{i}", f"model{i}") for i in range(k))
    return OutcomeTable("d", arms, queries, np.ones(n, np.bool_), right, joules, **given)


def random_table(rng: np.random.Generator, n: int, k: int, *, missing: float = 0.0) -> OutcomeTable:
    made = table(rng.integers(0, 2, (n, k)), rng.uniform(1, 100, (n, k)), benchmarks=[f"b{i % 3}" for i in range(n)])
    gaps = rng.random((n, k)) < missing
    return replace(
        made,
        correct=np.where(gaps, np.nan, made.correct),
        energy_j=np.where(gaps, np.nan, made.energy_j),
        latency_s=np.where(gaps, np.nan, made.latency_s),
        power_w=rng.uniform(50, 400, (n, k)),
    )


def arms(*chosen: int) -> Choices:
    return Choices(arms=np.array(chosen, dtype=np.int32))


def always(arm: int, n: int) -> Choices:
    return Choices(arms=np.full(n, arm, dtype=np.int32))


def mixing(probability: npt.ArrayLike) -> Choices:
    return Choices(probability=np.asarray(probability, dtype=np.float64))
