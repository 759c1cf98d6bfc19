"""A home with recorded outcomes of three arms, for tests of the replay lab's commands and operations."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

ARMS = {"small": (10.0, 0.45), "medium": (40.0, 0.65), "large": (200.0, 0.85)}  # J per call, share right
N = 120


def outcomes(path: Path, *, n: int = N, holes: bool = False) -> Path:
    """A long table of `n` queries in two benchmarks, a third of them held out; `holes` leaves out some cells of large.

    Arms get answers right by one difficulty per query, so that a stronger arm is right wherever a weaker one is.
    """
    rng = np.random.default_rng(7)
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(
            ["query_id", "arm", "correct", "benchmark", "split", "energy_j", "evidence_class", "latency_s",
             "output_tokens", "cost_usd", "prompt", "parameters_b"]
        )  # fmt: skip
        for i in range(n):
            hard = rng.random()
            benchmark, split = ("easy", "hard")[i % 2], "test" if i % 3 == 0 else "train"
            hard = hard * 0.7 if benchmark == "easy" else 0.3 + hard * 0.7
            for size, (arm, (joules, right)) in enumerate(ARMS.items(), 1):
                if holes and arm == "large" and i % 10 == 0:
                    continue
                spent = joules * rng.lognormal(0, 0.2)
                text = f"{benchmark} question number {i}"
                out.writerow(
                    [f"q{i:04d}", arm, int(hard < right), benchmark, split, f"{spent:.4f}", "measured",
                     f"{spent / 50:.4f}", int(spent), f"{spent * 1e-6:.9f}", text, size * 5]
                )  # fmt: skip
    return path
