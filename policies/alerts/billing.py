"""Alerts of the bill: tokens without a price, tariffs that moved, energy that is no longer told."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

from policies.alerts import words
from policies.alerts.model import AlertKind, Condition, Severity, Thresholds

ENOUGH_REQUESTS = 20  # a share of fewer requests says nothing
DAYS_BEFORE = 7
_BAD_SHARE = 0.5
_OFFERS_NAMED = 5
Row = Mapping[str, Any]


def unpriced(rows: Iterable[Row], limits: Thresholds) -> list[Condition]:
    """One condition per provider whose share of tokens without any price is beyond the limit."""
    found = []
    for row in rows:
        tokens, without = row["tokens"] or 0, row["unpriced_tokens"] or 0
        if not tokens or without / tokens <= limits.unpriced_share:
            continue
        share, offers = without / tokens, json.loads(row["offers"])
        more = f" and {len(offers) - _OFFERS_NAMED} more" if len(offers) > _OFFERS_NAMED else ""
        found.append(
            Condition(
                AlertKind.UNPRICED_SHARE,
                row["provider"],
                Severity.BAD if share >= _BAD_SHARE else Severity.WARNING,
                f"unpriced share {words.percent(share)} of tokens of {row['provider']}: no price is known for "
                f"{', '.join(offers[:_OFFERS_NAMED])}{more}",
                {
                    "before": None,
                    "after": share,
                    "limit": limits.unpriced_share,
                    "tokens": tokens,
                    "unpriced_tokens": without,
                    "requests": row["requests"],
                    "unpriced_requests": row["unpriced_requests"],
                    "offers": offers[:50],
                    "newest_at": row["newest_at"],
                    "evidence": "counted",
                },
                degree=share / limits.unpriced_share if limits.unpriced_share else None,
            )
        )
    return found


_TARIFF_PARTS = (
    ("usd_per_kwh", "USD/kWh"),
    ("flex_multiplier", "flex multiplier"),
    ("list_price_ceiling_multiple", "list price ceiling"),
)


def tariff_changes(rows: Iterable[Row], limits: Thresholds, now: datetime) -> list[Condition]:
    """One condition per account and basis whose rule in force differs from the one known before `recent`."""
    since = now - limits.recent

    def key(row: Row) -> tuple[str, str, str, str]:
        return row["provider"], row["account"], row["basis"], row["source_id"]

    found = []
    for (provider, account, basis, source), group in groupby(rows, key=key):
        rules = list(group)
        told = [t for name, unit in _TARIFF_PARTS if (t := _tariff_part(rules, name, unit, limits, since)) is not None]
        if told:
            found.append(_tariff_condition(f"{provider}/{account} ({basis}, {source})", rules[-1], told, limits))
    return found


def _tariff_part(
    rules: Sequence[Row], name: str, unit: str, limits: Thresholds, since: datetime
) -> dict[str, Any] | None:
    after = rules[-1][name]
    if max(r["known_from"] for r in rules) <= since:
        return None
    before = next((r for r in reversed(rules) if r["known_from"] <= since), rules[0])[name]
    if before is None or before == after:
        return None
    change = None
    if after is not None:
        change = (float(after) - float(before)) / float(before) if before else None
        if change is not None and abs(change) <= limits.tariff_change:
            return None
    start = rules[-1]["valid_from"]
    for rule in reversed(rules):
        if rule[name] != after:
            break
        start = rule["valid_from"]
    return {
        "name": name,
        "unit": unit,
        "before": words.plain(before),
        "after": None if after is None else words.plain(after),
        "relative_change": change,
        "since": start,
    }


def _tariff_condition(subject: str, rule: Row, told: list[dict[str, Any]], limits: Thresholds) -> Condition:
    first = told[0]
    size = f" ({words.signed_percent(first['relative_change'])})" if first["relative_change"] is not None else ""
    worst = max((abs(t["relative_change"]) for t in told if t["relative_change"] is not None), default=None)
    return Condition(
        AlertKind.TARIFF_CHANGE,
        subject,
        Severity.WARNING,
        f"tariff of {rule['provider']}/{rule['account']}: {first['unit']} {first['before']} to "
        f"{first['after'] or 'unknown'}{size} since {words.at(first['since'])}",
        {
            "before": first["before"],
            "after": first["after"],
            "limit": limits.tariff_change,
            "changes": told,
            "basis": rule["basis"],
            "n": rule["n"],
            "residual_relative": rule["residual_relative"],
            "since": first["since"],
            "source_id": rule["source_id"],
            "evidence": rule["evidence_class"],
        },
        degree=worst / limits.tariff_change if worst is not None and limits.tariff_change else None,
    )


def coverage_drops(rows: Iterable[Row], limits: Thresholds) -> list[Condition]:
    """One condition per provider whose newest day tells energy for fewer requests than the week before.

    Days with fewer than `ENOUGH_REQUESTS` requests are passed over; the week is the seven days before with data.
    """
    found = []
    for provider, group in groupby(rows, key=lambda r: str(r["provider"])):
        days = [r for r in group if r["requests"] >= ENOUGH_REQUESTS]
        if len(days) < 2:
            continue
        newest, week = days[0], days[1 : DAYS_BEFORE + 1]
        now = newest["with_energy"] / newest["requests"]
        before = sum(d["with_energy"] for d in week) / sum(d["requests"] for d in week)
        if before - now <= limits.coverage_drop:
            continue
        found.append(
            Condition(
                AlertKind.COVERAGE_DROP,
                provider,
                Severity.BAD if newest["with_energy"] == 0 else Severity.WARNING,
                f"energy of {provider} is known for {words.percent(now)} of requests on {newest['day']}, "
                f"{words.percent(before)} on the days before",
                {
                    "before": before,
                    "after": now,
                    "limit": limits.coverage_drop,
                    "day": newest["day"],
                    "requests": newest["requests"],
                    "with_energy": newest["with_energy"],
                    "days_before": len(week),
                    "evidence": "counted",
                },
                degree=(before - now) / limits.coverage_drop if limits.coverage_drop else None,
            )
        )
    return found
