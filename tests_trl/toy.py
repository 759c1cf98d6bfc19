"""A table in which one word of a query decides which of three arms answers it."""

from __future__ import annotations

from typing import Any

import numpy as np

from policies.replay.table import Arm, OutcomeTable, Queries, strings
from warehouse.evidence import EvidenceClass

ARMS = ("small", "medium", "large")
WORDS = ("sum", "prove", "translate")  # answered by small, by medium and large, by large alone
_FILL = ("please", "kindly", "now", "quickly", "again", "today", "carefully", "soon")
_JOULES = (10.0, 100.0, 1000.0)


def toy_table(queries: int = 120, **changes: Any) -> OutcomeTable:
    """`queries` x 3: query i holds WORDS[i % 3] among other words; every fourth three are held out."""
    words = [WORDS[i % 3] for i in range(queries)]
    texts = [f"{_FILL[i % 8]} {word} {_FILL[(i // 8) % 8]} number {i % 5}" for i, word in enumerate(words)]
    correct = np.array([[float(arm >= WORDS.index(word)) for arm in range(3)] for word in words])
    nan = np.full((queries, 3), np.nan)
    energy = np.tile(_JOULES, (queries, 1))
    parts: dict[str, Any] = {
        "dataset": "toy",
        "arms": tuple(Arm(name, name) for name in ARMS),
        "queries": Queries(strings([f"q{i}" for i in range(queries)]), strings(words), strings(texts)),
        "held_out": (np.arange(queries) // 3) % 4 == 3,
        "correct": correct,
        "energy_j": energy,
        "latency_s": nan,
        "cost_usd": nan,
        "power_w": nan,
        "output_tokens": nan,
        "evidence_class": EvidenceClass.MEASURED,
        "sha256": "toy",
    }
    return OutcomeTable(**(parts | changes))
