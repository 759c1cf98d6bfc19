"""Shares of the traffic as the integer weights that proxies take."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

LARGEST = 1_000_000  # the largest weight of HTTPRoute and InferenceModelRewrite; Envoy and LiteLLM take it too


def as_fraction(share: float) -> Fraction:
    """The share that was meant: 0.1 is 1/10, not the nearest binary fraction."""
    return Fraction(repr(float(share))).limit_denominator(LARGEST)


def split(old: Mapping[str, int], new: Mapping[str, int], share: Fraction) -> dict[str, Fraction]:
    """Shares of the backends when the new side gets `share` (0..1) of the traffic and the old side the rest.

    Within a side the weights (>= 0, not all 0) divide. A backend of both sides gets the sum of both.
    """
    told: dict[str, Fraction] = {}
    for weights, part in ((old, 1 - share), (new, share)):
        total = sum(weights.values())
        for name, weight in weights.items():
            told[name] = told.get(name, Fraction(0)) + part * Fraction(weight, total)
    return told


def integer_weights(shares: Mapping[str, Fraction]) -> dict[str, int]:
    """Integers in proportion to `shares` (sum 1): of 100 where that is exact, else of the smallest exact total.

    Backends without a share are left out: not every format can say 0, and 0 is not the same as absent in all
    others. Beyond a total of 1,000,000 the largest remainders are rounded up, and no share becomes 0.
    """
    positive = {name: share for name, share in shares.items() if share > 0}
    total = math.lcm(*(share.denominator for share in positive.values()))
    if 100 % total == 0:
        total = 100
    if total <= LARGEST:
        return {name: int(share * total) for name, share in positive.items()}
    exact = {name: share * LARGEST for name, share in positive.items()}
    told = {name: max(1, math.floor(value)) for name, value in exact.items()}
    by_remainder = sorted(exact, key=lambda name: (math.floor(exact[name]) - exact[name], name))
    for name in by_remainder[: max(0, LARGEST - sum(told.values()))]:
        told[name] += 1
    return told
