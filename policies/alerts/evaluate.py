"""All rules over one snapshot: pure, so that the same snapshot and limits give the same conditions."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from functools import cache
from importlib import resources
from typing import Any, Protocol

import polars as pl

from policies.alerts import billing, catalog, power, recommendations, sources
from policies.alerts.model import Condition, Thresholds
from warehouse.ids import canonical_json

_SHOWN_TEXT = 500  # what a source says may be long; an alert is not


class Snapshot(Protocol):
    """The part of `warehouse.snapshots.Snapshot` that the rules read through."""

    as_of: datetime

    def sql(self, text: str, **params: Any) -> pl.DataFrame: ...


@cache
def _text(name: str) -> str:
    return (resources.files("policies.alerts") / "sql" / f"{name}.sql").read_text(encoding="utf-8")


def evaluate(snap: Snapshot, limits: Thresholds, routed: Collection[str] = ()) -> list[Condition]:
    """Everything that is so as of the snapshot, in a fixed order.

    `routed` are the offers that the routing table names: with those of recent usage they are "in use", which makes
    the end of an offer worse.
    """

    def rows(name: str, **params: Any) -> list[dict[str, Any]]:
        return snap.sql(_text(name), **params).rows(named=True)

    now = snap.as_of
    in_use = {*routed, *(r["offer_id"] for r in rows("in_use") if r["offer_id"])}
    flying = recommendations.in_flight(rows("recommendations"))
    found = [
        *catalog.price_changes(rows("price_change", since=now - limits.recent), limits, in_use),
        *catalog.endings(rows("offers"), limits, in_use, now),
        *sources.old(rows("freshness")),
        *billing.unpriced(rows("unpriced", window_s=limits.usage_window.total_seconds()), limits),
        *billing.tariff_changes(rows("tariff"), limits, now),
        *billing.coverage_drops(rows("coverage"), limits),
        *power.frozen(rows("sensors", since=now - limits.frozen_for), limits),
        *power.lost(rows("lost")),
        *power.implausible(rows("implausible", since=now - limits.implausible_within), limits),
        *sources.quarantine_growth(rows("quarantine"), limits),
        *recommendations.silent_targets(flying, limits, now),
        *recommendations.breaches(flying),
    ]
    return sorted((_plain(c) for c in found), key=lambda c: c.key)


def _plain(condition: Condition) -> Condition:
    """The same with its facts as JSON data, and bounded: subjects and reasons come from outside."""
    detail = json.loads(canonical_json(dict(condition.detail)))
    short = {k: v[:_SHOWN_TEXT] if isinstance(v, str) else v for k, v in detail.items()}
    return replace(
        condition, title=condition.title[:_SHOWN_TEXT], subject=condition.subject[:_SHOWN_TEXT], detail=short
    )
