"""What an account has left, and whether it may still be used: dollars are not the only thing that pays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from warehouse.engine import Transaction, Warehouse

_J_PER_KWH = 3_600_000
_PAYING = frozenset({"active", "trialing"})  # states of a subscription whose included energy counts


@dataclass(frozen=True)
class Usable:
    """usable None: the row does not tell. `reason` is a sentence for people."""

    usable: bool | None
    reason: str


def account_usable(row: Mapping[str, Any], at: datetime | None = None) -> Usable:
    """Whether the account of `row` (core.account_balance) pays for one more request.

    Any one of these is enough: credits, included energy of a running subscription, overage within a declared
    limit. A blocked or spent key overrules them all. `at` (naive UTC) is the instant in question: energy of a
    subscription period that has ended by then says nothing. An account at 0 dollars with energy left is usable.
    """
    if row.get("key_blocked"):
        return Usable(False, "the API key is blocked")
    key_left = row.get("key_remaining_usd")
    if key_left is not None and key_left <= 0:
        return Usable(False, f"the allowance of the API key is spent ({_usd(key_left)} left)")
    credits = row.get("credits_remaining_usd")
    if credits is not None and credits > 0:
        return Usable(True, f"{_usd(credits)} of credits left")
    energy, unknown = _energy(row, at)
    if energy is not None:
        return energy
    if row.get("in_overage") and (row.get("overage_limit_usd") or 0) > 0:
        return Usable(None, "the subscription is in overage with a limit; the balance does not tell how much is used")
    if unknown or credits is None:
        told = unknown or "the balance tells neither credits nor included energy"
        return Usable(None, told)
    return Usable(False, f"{_usd(credits)} of credits and no included energy left")


def _energy(row: Mapping[str, Any], at: datetime | None) -> tuple[Usable | None, str | None]:
    """A verdict from the subscription, or why it gives none."""
    left_j = row.get("energy_remaining_j")
    if left_j is None or left_j <= 0:
        return None, None
    left = f"{left_j / _J_PER_KWH:.6g} kWh"
    status, end_at = row.get("subscription_status"), row.get("subscription_end_at")
    if status is not None and status not in _PAYING:
        known = row.get("credits_remaining_usd") is not None
        return Usable(False if known else None, f"{left} are left, but the subscription is {status}"), None
    if at is not None and end_at is not None and at >= end_at:
        return None, f"{left} were left, but that subscription period ended at {end_at:%Y-%m-%d %H:%M} UTC"
    return Usable(True, f"{left} of included energy left"), None


def balance(
    source: Warehouse | Transaction, provider: str, account: str, as_of: datetime | None = None
) -> dict[str, Any] | None:
    """The newest row of core.account_balance of an account, as known at `as_of`; None where there is none."""
    found = source.query(
        "SELECT * FROM core.account_balance WHERE provider = $provider AND account = $account "
        "AND ($at IS NULL OR (snapshot_at <= $at AND known_from <= $at)) ORDER BY snapshot_at DESC LIMIT 1",
        {"provider": provider, "account": account, "at": as_of},
    )
    return found.to_dicts()[0] if found.height else None


def _usd(value: Decimal) -> str:
    return f"${value:,.2f}"
