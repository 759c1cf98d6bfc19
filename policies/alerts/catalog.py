"""Alerts of the catalog: prices that moved, offers that end."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from policies.alerts import words
from policies.alerts.model import AlertKind, Condition, Severity, Thresholds

POLLS_UNTIL_REMOVED = 2  # one absence may be a hiccup of the listing
_KNOWN = ("fixed", "free")
Row = Mapping[str, Any]


def price_changes(rows: Iterable[Row], limits: Thresholds, in_use: Collection[str]) -> list[Condition]:
    """One condition per offer, with every component that moved beyond the limit; the largest names it.

    A price that was known and is not any more counts as a change without a size. One that becomes known does not.
    """
    moved: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        told = _moved(row, limits)
        if told is not None:
            moved.setdefault((row["provider"], row["offer_id"]), []).append(told)
    return [_price_condition(key, parts, limits, in_use) for key, parts in sorted(moved.items())]


def _moved(row: Row, limits: Thresholds) -> dict[str, Any] | None:
    if row["kind_before"] not in _KNOWN:
        return None
    before = Decimal(row["usd_before"] or 0)
    change: float | None = None
    if row["kind_after"] in _KNOWN:
        after = Decimal(row["usd_after"] or 0)
        if abs(after - before) <= Decimal(str(limits.price_change)) * before:
            return None
        change = float((after - before) / before) if before else None
    return {
        "component": row["component"],
        "min_prompt_tokens": row["min_prompt_tokens"],
        "before": words.usd(row["usd_before"], row["unit"], row["kind_before"]),
        "after": words.usd(row["usd_after"], row["unit"], row["kind_after"]),
        "relative_change": change,
        "since": row["after_at"],
        "before_since": row["before_at"],
        "source_id": row["source_id"],
        "evidence": row["origin"],
    }


def _price_condition(
    key: tuple[str, str], parts: list[dict[str, Any]], limits: Thresholds, in_use: Collection[str]
) -> Condition:
    provider, offer = key
    # A change without a size (a price that vanished, or one of a free offer) weighs more than any number.
    first = max(parts, key=lambda p: (p["relative_change"] is None, abs(p["relative_change"] or 0)))
    size = f" ({words.signed_percent(first['relative_change'])})" if first["relative_change"] is not None else ""
    tier = f" from {first['min_prompt_tokens']} prompt tokens" if first["min_prompt_tokens"] else ""
    more = f", and {len(parts) - 1} more" if len(parts) > 1 else ""
    vanished = any(p["relative_change"] is None and not p["after"].startswith("$") for p in parts)
    worst = abs(first["relative_change"]) if first["relative_change"] is not None else None
    return Condition(
        AlertKind.PRICE_CHANGE,
        f"{provider}/{offer}",
        Severity.BAD if vanished and offer in in_use else Severity.WARNING,
        f"{first['component']} price of {offer}{tier}: {first['before']} to {first['after']}{size}{more}",
        {
            "before": first["before"],
            "after": first["after"],
            "limit": limits.price_change,
            "changes": parts,
            "source_id": first["source_id"],
            "evidence": first["evidence"],
            "since": first["since"],
            "in_use": offer in in_use,
        },
        degree=worst / limits.price_change if worst is not None and limits.price_change else None,
    )


def endings(rows: Iterable[Row], limits: Thresholds, in_use: Collection[str], now: datetime) -> list[Condition]:
    """Offers that are deprecated, were removed (absent in two polls), or have a date of expiry that is near."""
    found = []
    for row in rows:
        used = row["offer_id"] in in_use
        if row["lifecycle"] == "removed":
            found += _removed(row, limits, used, now)
            continue
        if row["lifecycle"] == "deprecated":
            found.append(
                _ending(
                    row, AlertKind.OFFER_DEPRECATED, used, used, f"is deprecated since {words.at(row['valid_from'])}"
                )
            )
        if row["expires_at"] is not None:
            found += _expiring(row, limits, used, now)
    return found


def _removed(row: Row, limits: Thresholds, used: bool, now: datetime) -> list[Condition]:
    if row["absent_polls"] < POLLS_UNTIL_REMOVED or (now - row["known_from"] > limits.recent and not used):
        return []
    return [
        _ending(row, AlertKind.OFFER_REMOVED, used, used, f"is no longer listed since {words.at(row['valid_from'])}")
    ]


def _expiring(row: Row, limits: Thresholds, used: bool, now: datetime) -> list[Condition]:
    left = row["expires_at"] - now
    if left > limits.expiring_within or (left < -limits.recent and not used):
        return []
    over = left <= timedelta(0)
    verb = "expired" if over else "expires"
    bad = used and left <= timedelta(days=1)
    return [_ending(row, AlertKind.OFFER_EXPIRING, used, bad, f"{verb} at {words.at(row['expires_at'])}")]


def _ending(row: Row, kind: AlertKind, used: bool, bad: bool, what: str) -> Condition:
    tail = ", and it is in use" if used else ""
    ended = kind is not AlertKind.OFFER_EXPIRING
    return Condition(
        kind,
        f"{row['provider']}/{row['offer_id']}",
        Severity.BAD if bad else Severity.WARNING,
        f"{row['offer_id']} {what}{tail}",
        {
            "before": "active" if ended else None,
            "after": row["lifecycle"] if ended else None,
            "since": row["valid_from"],
            "expires_at": row["expires_at"],
            "absent_polls": row["absent_polls"] if row["lifecycle"] == "removed" else None,
            "source_id": row["source_id"],
            "evidence": "catalog",
            "in_use": used,
        },
    )
