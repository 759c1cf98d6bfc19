"""The reference mix of a shadow, fixed when it starts: from the logged traffic of the days before."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from app.operations.routing import TABLE_CONTEXT_TOKENS, router_parameters
from policies.recommend.state import cell_key
from policies.router import load
from policies.shadow.mix import mix_of
from policies.shadow.requests import Defaults, Scope, questions, read
from warehouse.engine import Transaction
from warehouse.snapshots import Snapshot

if TYPE_CHECKING:
    from app.settings import Settings

PERIOD = timedelta(days=7)


def defaults(settings: Settings) -> Defaults:
    return Defaults(settings.shadow.category, TABLE_CONTEXT_TOKENS)


def fixed_mix(reader: Transaction, settings: Settings, content: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """The mix of the traffic that `content` would move, as plain values; empty where no such request is logged."""
    snap = Snapshot(reader, now)
    requests = read(snap, Scope(now - PERIOD))
    if requests.is_empty():
        return {}
    offers = load(snap, router_parameters(settings)).offers
    tiers = dict(offers.select("offer_id", "tier").iter_rows())
    asked = questions(requests, tiers, defaults(settings))
    found = mix_of(asked, [cell_key(c) for c in content["cells"]], content["from"])
    return {} if found is None else found.to_dict() | {"mix_since": (now - PERIOD).isoformat() + "Z"}
