"""Strata of requests by category and size, and their mix. Light: whatever only names strata loads no statistics."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from policies.proof.errors import StratumMissing, ValuesInvalid

SIZE_BAND_EDGES = (512, 2_048, 8_192, 32_768)  # tokens of prompt and answer; a band includes its lower edge


def size_band(tokens: float) -> str:
    """The size band of a request, such as `512-2047`. Raises ValuesInvalid for unknown or negative tokens."""
    if not tokens >= 0 or math.isinf(tokens):
        raise ValuesInvalid(f"tokens is {tokens}.", fix="leave requests of unknown size out of a standardised figure")
    low = 0
    for edge in SIZE_BAND_EDGES:
        if tokens < edge:
            return f"{low}-{edge - 1}"
        low = edge
    return f"{low}+"


def stratum(category: str, tokens: float) -> str:
    """The name of a stratum: `category|band`."""
    return f"{category}|{size_band(tokens)}"


def reference_mix(strata: Sequence[str]) -> dict[str, float]:
    """The mix of a reference period: the share of each stratum."""
    if not len(strata):
        raise StratumMissing("the reference period has no request.", fix="choose a longer reference period")
    return {name: k / len(strata) for name, k in sorted(Counter(strata).items())}
