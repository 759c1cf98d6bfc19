"""The knobs of the router and the identity they give to its decisions.

A decision names the `policy_id` it was made with: a hash over the name, every parameter and the code,
so that a stored decision can never silently stand for another rule.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

from policies.errors import ParametersInvalid
from policies.router.request import TIERS
from warehouse.ids import content_hash, sha256

# Capability tiers are a judgement of the operator, not a measurement: no catalog declares them.
DECLARED_TIERS: Mapping[str, int] = {
    "deepseek-v4-flash": 1,
    "gemma-4-31b": 1,
    "qwen3.6-35b": 1,
    "glm-5.2": 2,
    "kimi-k2.7-code": 3,
    "kimi-k3": 3,
}


class Basis(StrEnum):
    """What the cost axis reads."""

    MEASURED = "measured"  # mean billed USD and emitted gCO2eq of the reference workload
    LIST_PRICE = "list_price"  # the catalog's token prices; knows nothing of energy (the fallback)


@dataclass(frozen=True)
class Weights:
    """Shares of cost, carbon and proficiency in the score; each 0..1, together 1."""

    w_cost: float = 0.3
    w_eco: float = 0.3
    w_prof: float = 0.4

    def __post_init__(self) -> None:
        for name in ("w_cost", "w_eco", "w_prof"):
            _number(name, getattr(self, name), low=0.0, high=1.0)
        total = math.fsum((self.w_cost, self.w_eco, self.w_prof))
        if abs(total - 1.0) > 1e-9:
            raise ParametersInvalid(
                f"w_cost + w_eco + w_prof is {total:g}.",
                fix="make the three weights sum to 1, such as 0.3, 0.3 and 0.4",
            )


@dataclass(frozen=True)
class Parameters:
    """Everything the router may be told. Mappings are keyed by offer id or base model; the offer id wins.

    context_factor          share of the advertised context that is used (quality falls before the limit)
    reserved_output_tokens  kept free for the answer
    self_eval_min_n         below this many own evaluations only the leaderboard counts
    evidence_max_age        older reference observations do not steer decisions
    neutral_score           what an unknown carbon figure or proficiency scores; in the middle of 0..1
    reference_*_tokens      the request shape that list prices are compared at
    tiers                   declared capability tier; an offer without one is not routed to
    tags                    declared residency, safety and authorization tags beside the catalog's own
    """

    name: str = "router"
    basis: Basis = Basis.MEASURED
    weights: Weights = field(default_factory=Weights)
    context_factor: float = 0.75
    context_factors: Mapping[str, float] = field(default_factory=dict)
    reserved_output_tokens: int = 4096
    self_eval_min_n: int = 10
    leaderboard_share: float = 0.3
    evidence_max_age: timedelta = timedelta(days=14)
    neutral_score: float = 0.5
    reference_prompt_tokens: int = 18
    reference_completion_tokens: int = 192
    tiers: Mapping[str, int] = field(default_factory=lambda: dict(DECLARED_TIERS))
    tags: Mapping[str, frozenset[str]] = field(default_factory=dict)
    seed: int = 0  # recorded with every decision; the rule itself draws nothing at random

    def __post_init__(self) -> None:
        if self.basis not in set(Basis):
            raise ParametersInvalid(f"basis is {self.basis!r}.", fix=f"use one of {', '.join(Basis)}")
        object.__setattr__(self, "basis", Basis(self.basis))
        _number("context_factor", self.context_factor, low=0.0, high=1.0, open_low=True)
        for model, factor in self.context_factors.items():
            _number(f"context_factors[{model}]", factor, low=0.0, high=1.0, open_low=True)
        _number("leaderboard_share", self.leaderboard_share, low=0.0, high=1.0)
        _number("neutral_score", self.neutral_score, low=0.0, high=1.0)
        for name in ("reserved_output_tokens", "reference_prompt_tokens", "reference_completion_tokens"):
            _number(name, getattr(self, name), low=0, high=1e12)
        if self.reference_prompt_tokens + self.reference_completion_tokens <= 0:
            raise ParametersInvalid(
                "the reference request has no tokens.",
                fix="give reference_prompt_tokens or reference_completion_tokens",
            )
        _number("self_eval_min_n", self.self_eval_min_n, low=1, high=1e12)
        if self.evidence_max_age <= timedelta(0):
            raise ParametersInvalid(
                f"evidence_max_age is {self.evidence_max_age}.", fix="give a positive duration, such as 14 days"
            )
        for model, tier in self.tiers.items():
            if isinstance(tier, bool) or tier not in TIERS:
                raise ParametersInvalid(f"tiers[{model}] is {tier!r}.", fix="use 1, 2 or 3")
        # Own copies: a caller that later changes its dict must not change the identity of this policy.
        object.__setattr__(self, "context_factors", dict(self.context_factors))
        object.__setattr__(self, "tiers", dict(self.tiers))
        object.__setattr__(self, "tags", {model: frozenset(tags) for model, tags in self.tags.items()})

    def describe(self) -> dict[str, Any]:
        """Every parameter as plain JSON values, as stored in core.policy_version."""
        return {
            "basis": self.basis.value,
            "weights": {"w_cost": self.weights.w_cost, "w_eco": self.weights.w_eco, "w_prof": self.weights.w_prof},
            "context_factor": self.context_factor,
            "context_factors": dict(sorted(self.context_factors.items())),
            "reserved_output_tokens": self.reserved_output_tokens,
            "self_eval_min_n": self.self_eval_min_n,
            "leaderboard_share": self.leaderboard_share,
            "evidence_max_age_s": self.evidence_max_age.total_seconds(),
            "neutral_score": self.neutral_score,
            "reference_prompt_tokens": self.reference_prompt_tokens,
            "reference_completion_tokens": self.reference_completion_tokens,
            "tiers": dict(sorted(self.tiers.items())),
            "tags": {model: sorted(tags) for model, tags in sorted(self.tags.items())},
            "seed": self.seed,
        }

    def policy_id(self) -> str:
        """sha256 over name, parameters and the router's own code and SQL."""
        return content_hash({"name": self.name, "parameters": self.describe(), "code_sha256": code_sha256()})


def sql_text(name: str) -> str:
    """One of the router's queries, by file name."""
    return (resources.files("policies.router.sql") / name).read_text(encoding="utf-8")


@cache
def code_sha256() -> str:
    """sha256 over the router's Python and SQL files."""
    package = resources.files("policies.router")
    files = [f for folder in (package, package / "sql") for f in folder.iterdir() if _is_code(f)]
    return content_hash(sorted([f.name, sha256(f.read_bytes().replace(b"\r\n", b"\n"))] for f in files))


def _is_code(file: Traversable) -> bool:
    return file.is_file() and file.name.endswith((".py", ".sql"))


def _number(name: str, value: float, *, low: float, high: float, open_low: bool = False) -> None:
    ok = not isinstance(value, bool) and isinstance(value, int | float) and math.isfinite(value)
    if not ok or value > high or value < low or (open_low and value == low):
        edge = "above" if open_low else "from"
        raise ParametersInvalid(f"{name} is {value!r}.", fix=f"give a number {edge} {low:g} to {high:g}")
