"""What a decision looks like: who was eligible, who was not and why, and who was chosen."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from policies.router.filters import Reason
from policies.router.request import Request
from policies.router.score import Interval
from warehouse.ids import canonical_json


@dataclass(frozen=True)
class Figures:
    """What is known about one offer. USD, gCO2eq and J are means per run of the reference workload.

    `cost_usd` is what the ranking's basis scored: `billed_cost_usd` or `list_cost_usd`. `n` counts the
    fresh reference runs behind the means; `age_s` is the age of the newest one. None is unknown, never 0.
    `evidence_class` is that of the joules, `carbon_evidence_class` that of the grams; where the fresh runs tell
    grams of several classes there is no carbon figure.
    """

    provider: str
    offer_id: str
    base_model: str
    display_name: str | None
    latency_class: str
    reasoning_mode: str
    context_variant: str
    access_level: str
    tier: int | None
    context_tokens: int | None
    endpoint_context_tokens: int | None
    effective_context_tokens: int | None
    cost_usd: Decimal | None
    billed_cost_usd: Decimal | None
    list_cost_usd: Decimal | None
    carbon_g: float | None
    carbon_evidence_class: str | None
    energy_j: float | None
    n: int
    cost_interval_usd: Interval | None
    carbon_interval_g: Interval | None
    energy_interval_j: Interval | None
    evidence_class: str | None
    newest_at: datetime | None
    age_s: float | None
    proficiency: float | None
    source_id: str


@dataclass(frozen=True)
class Parts:
    """The three unweighted parts of a score, each 0..1."""

    cost: float
    eco: float
    prof: float


@dataclass(frozen=True)
class Scored:
    """An eligible candidate. `warnings` say what is still true today and soon may not be."""

    figures: Figures
    score: float
    parts: Parts
    warnings: tuple[str, ...] = ()

    @property
    def offer_id(self) -> str:
        return self.figures.offer_id


@dataclass(frozen=True)
class Excluded:
    """A candidate that a hard constraint keeps out; every reason, in the order of the filters."""

    figures: Figures
    reasons: tuple[Reason, ...]

    @property
    def offer_id(self) -> str:
        return self.figures.offer_id

    @property
    def first_reason(self) -> Reason:
        return self.reasons[0]


@dataclass(frozen=True)
class HandBack:
    """Nothing fits. The caller must change the request (trim, wait, ask for access); nothing is truncated."""

    message: str
    counts: tuple[tuple[str, int], ...]  # excluded candidates per first reason, in the order of the filters


@dataclass(frozen=True)
class Ranking:
    """One decision. `basis` is what was used; it differs from the parameters' where `fallback` is true.

    `snapshot_digest` is a sha256 over everything the decision read.
    """

    request: Request
    as_of: datetime
    policy_id: str
    policy_name: str
    snapshot_digest: str
    basis: str
    fallback: bool
    fallback_reason: str | None
    seed: int
    incumbent: str | None
    eligible: tuple[Scored, ...]  # best first
    excluded: tuple[Excluded, ...]  # by offer id
    hand_back: HandBack | None

    @property
    def chosen(self) -> Scored | None:
        return self.eligible[0] if self.eligible else None

    @property
    def chosen_offer_id(self) -> str | None:
        return self.eligible[0].offer_id if self.eligible else None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; times as ISO text (UTC), money as exact decimal text; a candidate's figures lie flat."""
        plain: dict[str, Any] = json.loads(canonical_json({**asdict(self), "chosen": self.chosen_offer_id}))
        for side in ("eligible", "excluded"):
            plain[side] = [{**candidate.pop("figures"), **candidate} for candidate in plain[side]]
        return plain


Cell = tuple[str, int]  # category, tier


@dataclass(frozen=True)
class RoutingTable:
    """Which offer each (category, tier) goes to, with the decision behind each cell."""

    decisions: Mapping[Cell, Ranking]

    @property
    def cells(self) -> dict[Cell, str | None]:
        """Offer id per (category, tier); None where the policy hands back."""
        return {cell: ranking.chosen_offer_id for cell, ranking in self.decisions.items()}

    def changes(self, incumbents: Mapping[Cell, str | None]) -> dict[Cell, tuple[str | None, str | None]]:
        """Cells where the ranked offer differs from the incumbent: (incumbent, ranked)."""
        return {c: (incumbents.get(c), new) for c, new in self.cells.items() if incumbents.get(c) != new}
