"""The routing table in force: a baseline, and over it what recommendations have changed and undone.

A cell changes only when *every* target has actuated, and changes back when every holder has rolled back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from policies.errors import PolicyError
from policies.recommend.state import LedgerEvent
from policies.router import CATEGORIES, TIERS, Latency
from warehouse.ids import content_hash

DECLARED = "declared"
ASSUMED = "list-price baseline (assumed)"


class TableInvalid(PolicyError):
    """A routing table that names cells which do not exist, or fallbacks that run in a circle."""


@dataclass(frozen=True)
class Route:
    """One cell. `by`: a recommendation id, "declared" or "assumed". `changed_at`: the desk's last change of it."""

    offer_id: str | None
    by: str
    since: datetime | None = None
    changed_at: datetime | None = None


@dataclass(frozen=True)
class Table:
    """Cells by `category/tier/latency`. `version` identifies what routes where, not how it came to be."""

    routes: Mapping[str, Route]
    basis: str
    fallbacks: Mapping[str, str] = field(default_factory=dict)
    declared_at: datetime | None = None
    declared_by: str | None = None

    @property
    def offers(self) -> dict[str, str | None]:
        return {key: route.offer_id for key, route in sorted(self.routes.items())}

    @property
    def version(self) -> str:
        return content_hash({"routes": self.offers, "fallbacks": dict(self.fallbacks)})


TABLE_KINDS = ("routing.declared", "recommendation.observing", "recommendation.rolled_back")


def fold_table(events: Iterable[LedgerEvent], baseline: Table) -> Table:
    """`baseline` with every declaration, actuation and rollback of `events` (in order of seq) applied."""
    table = baseline
    below: dict[str, list[Route]] = {}
    for event in events:
        if event.kind not in TABLE_KINDS:
            continue
        body = event.data
        if event.kind == "routing.declared":
            table, below = _declared(event, body), {}
            continue
        routes = dict(table.routes)
        for key, offer in (body.get("routes") or {}).items():
            stack = below.setdefault(key, [])
            current = routes.get(key, Route(None, "undeclared"))
            if event.kind == "recommendation.observing":
                stack.append(current)
                routes[key] = Route(offer, event.subject, event.happened_at, event.happened_at)
            elif current.by == event.subject and stack:
                routes[key] = replace(stack.pop(), offer_id=offer, changed_at=event.happened_at)
        table = replace(table, routes=routes)
    return table


def _declared(event: LedgerEvent, body: Mapping[str, Any]) -> Table:
    return Table(
        routes={key: Route(offer, DECLARED, event.happened_at) for key, offer in body["routes"].items()},
        basis=DECLARED,
        fallbacks=body.get("fallbacks") or {},
        declared_at=event.happened_at,
        declared_by=getattr(event, "actor", None),
    )


def parse_key(key: str) -> tuple[str, int, str]:
    """`category/tier/latency` taken apart. Raises TableInvalid naming what is wrong and what is allowed."""
    parts = key.split("/")
    if len(parts) == 2:
        parts.append(Latency.INTERACTIVE.value)
    category, tier, latency = (*parts, "", "", "")[:3]
    if len(parts) != 3 or not tier.isdigit():
        raise TableInvalid(
            f"{key!r} is not a cell.", fix="write category/tier/latency, such as debugging/2/interactive"
        )
    if category not in CATEGORIES:
        raise TableInvalid(f"{key}: {category!r} is no category.", fix=f"use one of {', '.join(CATEGORIES)}")
    if int(tier) not in TIERS:
        raise TableInvalid(f"{key}: tier is {tier}.", fix="use 1, 2 or 3")
    if latency not in set(Latency):
        raise TableInvalid(f"{key}: latency is {latency!r}.", fix=f"use one of {', '.join(Latency)}")
    return category, int(tier), latency


def check_fallbacks(fallbacks: Mapping[str, str]) -> None:
    """Refuse fallbacks that run in a circle. Raises TableInvalid with the circle printed."""
    for start in sorted(fallbacks):
        seen = [start]
        while (following := fallbacks.get(seen[-1])) is not None:
            if following in seen:
                circle = " -> ".join([*seen[seen.index(following) :], following])
                raise TableInvalid(f"The fallbacks run in a circle: {circle}.", fix="take one of them out")
            seen.append(following)
