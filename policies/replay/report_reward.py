"""Rewards are compared among equal weights only: with other weights the same choices earn another figure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from policies.replay.errors import RewardsIncomparable

_PUBLISHED_WEIGHT = re.compile(r"λe=([0-9.]+)")


def ranked(rewards: Sequence[tuple[str, Any, float]]) -> list[str]:
    """Names of (name, weights, reward) by falling reward, then by name.

    Raises RewardsIncomparable where the weights differ.
    """
    by_weights: dict[str, list[str]] = {}
    for name, weights, _ in rewards:
        by_weights.setdefault(str(weights), []).append(name)
    if len(by_weights) > 1:
        each = "; ".join(f"{weights}: {', '.join(names)}" for weights, names in sorted(by_weights.items()))
        raise RewardsIncomparable(
            f"Rewards of different weights are different measures ({each}).",
            fix="compare accuracy and joules, or evaluate all with one weight (--reward-lambda)",
        )
    return [name for name, _, _ in sorted(rewards, key=lambda r: (-r[2], r[0]))]


def published_weight(policy: str) -> float | None:
    """The weight of energy that a published reward was computed with: the last one that the name tells."""
    told = _PUBLISHED_WEIGHT.findall(policy)
    return float(told[-1]) if told else None


def by_weight(rewards: Mapping[str, float]) -> dict[str, list[str]]:
    """Published policies by the weight of their reward, each list by falling reward. Unknown weights stand apart."""
    groups: dict[str, list[tuple[str, Any, float]]] = {}
    for name, value in rewards.items():
        weight = published_weight(name)
        groups.setdefault("unknown" if weight is None else f"{weight:g}", []).append((name, weight, value))
    return {weight: ranked(group) for weight, group in sorted(groups.items())}
