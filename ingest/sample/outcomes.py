"""The sample's replay data set `sample`: 600 made-up queries of 3 benchmarks x 5 arms, as an `outcomes` table.

Everything is invented, drawn from a generator with a fixed seed. A query's topic decides how hard it is and its text
tells the topic, so that a router has something to learn; no arm is best everywhere, and one is dominated. Joules are a
made-up rate per output token of the arm: class `modeled`. A few cells of one arm are missing.
"""

from __future__ import annotations

import csv
import io
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

from ingest.sample.catalog import list_cost_usd

DATASET = "sample"
METHOD = "made-up J per output token of the sample"
QUERIES_PER_BENCHMARK = 200
MISSING = 7  # cells that one arm lacks
_SEED = 20260812
_TRAIN_OF_TEN = 7
_STEEPNESS = 7.0  # of the success rate over skill - difficulty


@dataclass(frozen=True)
class Arm:
    """An offer of the sample catalog: J per output token, output tokens/s, skill by benchmark (0..1)."""

    name: str
    base_model: str
    parameters_b: float | None
    j_per_token: float
    tokens_per_s: float
    skill: tuple[float, float, float]


ARMS = (
    Arm("gemma-4-31b", "gemma-4-31b", 31, 0.12, 70, (0.45, 0.40, 0.62)),
    Arm("deepseek-v4-flash", "deepseek-v4-flash", None, 0.23, 95, (0.66, 0.55, 0.70)),
    Arm("qwen3.6-35b", "qwen3.6-35b", 35, 0.31, 110, (0.60, 0.52, 0.60)),
    Arm("kimi-k3-fast", "kimi-k3", None, 0.48, 67, (0.92, 0.72, 0.88)),
    Arm("kimi-k2.7-code", "kimi-k2.7-code", None, 1.87, 48, (0.80, 0.97, 0.74)),
)
_SPARSE = "qwen3.6-35b"


@dataclass(frozen=True)
class Topic:
    """Queries of one kind: how hard they are (0..1), output tokens of a usual answer, and how they are worded."""

    difficulty: float
    tokens: int
    wording: str


# {a}, {b}, {c} are numbers, {x} and {y} words.
BENCHMARKS: dict[str, tuple[str, tuple[Topic, ...]]] = {
    "sample-arithmetic": (
        "reasoning_math",
        (
            Topic(0.10, 40, "A crate holds {a} jars of {x}. How many jars are in {b} crates?"),
            Topic(0.35, 90, "Of {a} tickets for the {x} fair, {b} percent are sold on Monday. How many are left?"),
            Topic(0.70, 240, "Find the remainder when {a} to the power of {b} is divided by {c}."),
            Topic(0.90, 420, "In how many ways can {a} {x} be placed in {b} boxes so that no box has more than {c}?"),
        ),
    ),
    "sample-code": (
        "coding_general",
        (
            Topic(0.15, 70, "Write a function that returns the first {a} items of a list of {x}, or {b} if none."),
            Topic(0.45, 160, "Write a query that gives the {a} most frequent {x} of each month since year {b}."),
            Topic(
                0.75,
                380,
                "This cache of {x} evicts too early under {a} threads and {b} keys. Find the race.",
            ),
            Topic(
                0.95,
                640,
                "Write an incremental parser for {x} logs: {a} rules, recovery after {b} errors, {c} MB.",
            ),
        ),
    ),
    "sample-facts": (
        "general_chat",
        (
            Topic(0.05, 25, "Is {x} number {a} in our list a fruit? The list of {b} items is attached."),
            Topic(0.30, 60, "Explain to a child in {a} sentences why {x} float, or do not; use number {b}."),
            Topic(0.60, 150, "Compare the trade of {x} in the years {a} and {b} in one paragraph."),
            Topic(0.85, 300, "Which treaty on {x} has article {a}, and what did revision {b} change for {c} states?"),
        ),
    ),
}
_WORDS = ("apples", "lanterns", "maps", "bells", "kites", "stamps", "ropes", "violins", "barrels", "pebbles")
_COLUMNS = (
    "dataset", "query_id", "arm", "correct", "benchmark", "category", "split", "prompt", "model", "parameters_b",
    "energy_j", "evidence_class", "energy_method", "latency_s", "prompt_tokens", "output_tokens", "cost_usd",
)  # fmt: skip


def outcomes_csv() -> str:
    """The table, always the same."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(_COLUMNS)
    table.writerows(_rows())
    return out.getvalue()


def _rows() -> Iterator[tuple[object, ...]]:
    rng = random.Random(_SEED)  # noqa: S311  (not a secret; a fixed seed is the point)
    seen: set[str] = set()
    for place, (benchmark, (category, topics)) in enumerate(BENCHMARKS.items()):
        for number in range(QUERIES_PER_BENCHMARK):
            topic = topics[rng.randrange(len(topics))]
            text = _text(rng, topic, seen)
            split = "train" if number % 10 < _TRAIN_OF_TEN else "test"
            query_id = f"{benchmark}-{number:03d}"
            sparse = _SPARSE if place == 0 and number < MISSING else None
            for arm in ARMS:
                cell = _cell(rng, arm, place, topic, text)
                if arm.name != sparse:
                    head = (DATASET, query_id, arm.name, cell[0], benchmark, category, split, text, arm.base_model)
                    yield (*head, arm.parameters_b, *cell[1:])


def _text(rng: random.Random, topic: Topic, seen: set[str]) -> str:
    """A wording that no other query has, so that no text is in both splits."""
    while True:
        a, b, c = (rng.randrange(low, high) for low, high in ((3, 97), (12, 99), (5, 60)))
        text = topic.wording.format(a=a, b=b, c=c, x=_WORDS[rng.randrange(len(_WORDS))])
        if text not in seen:
            seen.add(text)
            return text


def _cell(rng: random.Random, arm: Arm, place: int, topic: Topic, text: str) -> tuple[object, ...]:
    """(correct, joules, class, method, seconds, prompt tokens, output tokens, USD)."""
    chance = 1 / (1 + math.exp(-_STEEPNESS * (arm.skill[place] - topic.difficulty)))
    correct = int(rng.random() < chance)
    prompt = 8 + len(text) // 4
    tokens = max(4, round(topic.tokens * (0.7 + 0.6 * rng.random())))
    joules = round(arm.j_per_token * tokens, 3)
    seconds = round(0.18 + tokens / arm.tokens_per_s, 3)
    usd = list_cost_usd(arm.base_model, prompt, tokens)
    return correct, joules, "modeled", METHOD, seconds, prompt, tokens, f"{usd:f}"
