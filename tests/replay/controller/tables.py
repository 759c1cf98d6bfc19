"""A world in which the right arm depends on a topic that the embedding shows, and the arms cost 10, 20, 40 J."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from policies.replay.controller import Settings
from policies.replay.table import Arm, Floats, OutcomeTable, Queries, strings

# Share of right answers by topic (rows) and arm: topic 0 is easy for all, topic 1 for the middle, topic 2 for the dear.
SKILL = np.array([[0.95, 0.95, 0.95], [0.05, 0.95, 0.95], [0.05, 0.05, 0.95]])
JOULES = np.array([10.0, 20.0, 40.0])
QUICK = Settings(components=4, steps=200, batch=128)


def topics(n: int = 600, *, seed: int = 0, skill: Floats = SKILL, held_out: float = 0.3) -> OutcomeTable:
    """`n` queries, equally many of each topic, in mixed order; the first 70 % train."""
    rng = np.random.default_rng(seed)
    topic = rng.permutation(np.arange(n) % len(skill))
    centres = np.eye(8)[: len(skill)]
    embeddings = centres[topic] + rng.normal(0, 0.15, (n, 8))
    correct = (rng.random((n, skill.shape[1])) < skill[topic]).astype(np.float64)
    energy_j = JOULES[: skill.shape[1]] * rng.uniform(0.8, 1.2, (n, 1))
    unknown = np.full(correct.shape, np.nan)
    words = ("sum of 12 and 7", "a poem on rain, please", "prove that there are infinitely many primes")
    return OutcomeTable(
        dataset="topics",
        arms=tuple(Arm(name, name) for name in ("small", "middle", "large")[: skill.shape[1]]),
        queries=Queries(
            strings([f"q{i}" for i in range(n)]),
            strings([f"b{t}" for t in topic]),
            strings([words[t] for t in topic]),
            embeddings,
        ),
        held_out=np.arange(n) >= (1 - held_out) * n,
        correct=correct,
        energy_j=energy_j,
        latency_s=energy_j / 20,
        cost_usd=unknown,
        power_w=unknown,
        output_tokens=unknown,
        sha256=f"topics-{n}-{seed}",
    )


def with_gaps(table: OutcomeTable, gaps: Floats) -> OutcomeTable:
    """The table without the cells that `gaps` (N, K) marks."""
    marks = np.asarray(gaps, dtype=np.bool_)
    return replace(
        table, correct=np.where(marks, np.nan, table.correct), energy_j=np.where(marks, np.nan, table.energy_j)
    )
