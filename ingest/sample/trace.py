"""The sample's workload `sample`: 2,000 made-up requests within minutes, with a burst, and a distribution of lengths.

Everything is invented, drawn from a generator with a fixed seed. A third of the requests continue a conversation, so
that their prompts grow and sessions have something to hold on to; one category writes long answers to short prompts,
one the other way round. The model is that of the published profiles, so that a fleet can be tried at once.
"""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Iterator

TRACE = "sample"
REQUESTS = 2_000
MODEL = "llama-3-70b"
_SEED = 20260813
_RATE_PER_S = 8.0
_BURST = (0.45, 0.60, 3.0)  # from, to (shares of the requests), times the rate
_CONTINUES = 0.35
_LONGEST_PROMPT = 6_000

# category -> (share, prompt tokens, output tokens) of a usual request
_CATEGORIES = {
    "general_chat": (0.50, 420, 240),
    "coding_general": (0.30, 900, 520),
    "summarization": (0.20, 2_600, 130),
}
_COLUMNS = ("arrival_s", "prompt_tokens", "output_tokens", "session_id", "model", "category")
CITATION = "made up for the sample"
_KNOTS = (
    (128, 0.04), (256, 0.14), (512, 0.33), (768, 0.47), (1024, 0.58), (1536, 0.72), (2048, 0.81), (3072, 0.90),
    (4096, 0.95), (6144, 0.985), (8192, 1.0),
)  # fmt: skip


def trace_csv() -> str:
    """The trace as a `request-trace` file, always the same."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(_COLUMNS)
    table.writerows(_requests())
    return out.getvalue()


def lengths_json() -> str:
    """The distribution as a `length-cdf` file."""
    return json.dumps({"cdf": [list(knot) for knot in _KNOTS], "source": CITATION})


def _requests() -> Iterator[tuple[object, ...]]:
    rng = random.Random(_SEED)  # noqa: S311  (not a secret; a fixed seed is the point)
    names, shares = list(_CATEGORIES), [share for share, _, _ in _CATEGORIES.values()]
    at_s = 0.0
    talks: list[tuple[str, str, int]] = []  # session, category, tokens so far
    for number in range(REQUESTS):
        if talks and rng.random() < _CONTINUES:
            place = rng.randrange(max(0, len(talks) - 40), len(talks))
            session, category, before = talks[place]
        else:
            place, before = len(talks), 0
            session, category = f"talk-{place:04d}", rng.choices(names, shares)[0]
            talks.append((session, category, 0))
        _, prompt_mean, output_mean = _CATEGORIES[category]
        prompt = min(before + _draw(rng, prompt_mean), _LONGEST_PROMPT)
        output = _draw(rng, output_mean)
        talks[place] = (session, category, prompt + output)
        yield round(at_s, 3), prompt, output, session, MODEL, category
        low, high, times = _BURST
        rate = _RATE_PER_S * (times if low <= number / REQUESTS < high else 1.0)
        at_s += rng.expovariate(rate)


def _draw(rng: random.Random, mean: int) -> int:
    return max(4, min(8 * mean, round(rng.lognormvariate(0.0, 0.7) * mean * 0.78)))
