"""Neuralwatt `GET /v1/quota` -> core.account_balance: credits, included energy, and the allowance of the key.

The answer names no account; the option `account` does, "default" otherwise. kWh become J exactly (x 3.6e6).
A missing subscription or allowance is none told, not one of zero. Energies are the provider's shares of
measured servers, so their class is `allocated`. Whether the account may still be used is
`warehouse.accounts.account_usable`: an account without a dollar but with energy left is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ingest.base import Parsed, Payload
from ingest.fields import J_PER_KWH, LARGEST_MONEY, Row, as_float, money
from ingest.kind import Option
from ingest.read import field_of, read_json
from warehouse.accounts import Usable, account_usable
from warehouse.evidence import EvidenceClass
from warehouse.tables import frame

__all__ = ["Usable", "account_usable", "parse"]

PROVIDER = "neuralwatt"
ACCOUNT = Option("account", "name of the account that the answer is about", default="default")
LARGEST_KWH = 10**9


def parse(payload: Payload) -> Parsed:
    """One balance. Raises PayloadError for an answer that is none."""
    document = read_json(payload, allow_nan=True)
    balance = field_of(payload, document, "balance", dict)
    row = Row(0, document)
    at = row.time("snapshot_at", document.get("snapshot_at"))
    rows: list[dict[str, Any]] = []
    if at is None:
        row.refuse("snapshot_at", document.get("snapshot_at"), "is missing, so the balance has no instant",
                   whole_row=True)  # fmt: skip
    else:
        rows.append(
            {
                "provider": PROVIDER,
                "account": (payload.options.get("account") or "default").strip(),
                "snapshot_at": at,
                "accounting_method": row.text("balance.accounting_method", balance.get("accounting_method")),
                **_amounts(row, "balance", balance, {
                    "credits_remaining_usd": "credits_remaining_usd", "credits_total_usd": "total_credits_usd",
                    "credits_used_usd": "credits_used_usd",
                }),
                **_subscription(row, row.mapping("subscription", document.get("subscription"))),
                **_amounts(row, "limits", row.mapping("limits", document.get("limits")),
                           {"overage_limit_usd": "overage_limit_usd"}),
                **_key(row, row.mapping("key", document.get("key"))),
                **_usage(row, row.mapping("usage", document.get("usage"))),
                "evidence_class": EvidenceClass.ALLOCATED.value,
            }
        )  # fmt: skip
    return Parsed(
        primary="core.account_balance",
        tables={"core.account_balance": frame("core.account_balance", rows)},
        rows_in=1,
        rejects=tuple(row.rejects),
        data_at=at,
    )


def _amounts(row: Row, where: str, data: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Dollars; an overdrawn balance is below 0."""
    found = {}
    for column, name in names.items():
        value = row.number(f"{where}.{name}", data.get(name), low=-LARGEST_MONEY, high=LARGEST_MONEY)
        found[column] = None if value is None else money(value)
    return found


def _joules(row: Row, name: str, value: Any) -> float | None:
    kwh = row.number(name, value, high=LARGEST_KWH)
    return as_float(None if kwh is None else kwh * J_PER_KWH)


def _subscription(row: Row, data: Mapping[str, Any]) -> dict[str, Any]:
    overage = data.get("in_overage")
    if overage is not None and not isinstance(overage, bool):
        row.refuse("subscription.in_overage", overage, "is neither true nor false")
        overage = None
    return {
        "plan": row.text("subscription.plan", data.get("plan")),
        "subscription_status": row.text("subscription.status", data.get("status")),
        "subscription_start_at": row.time("subscription.current_period_start", data.get("current_period_start")),
        "subscription_end_at": row.time("subscription.current_period_end", data.get("current_period_end")),
        "energy_included_j": _joules(row, "subscription.kwh_included", data.get("kwh_included")),
        "energy_used_j": _joules(row, "subscription.kwh_used", data.get("kwh_used")),
        "energy_remaining_j": _joules(row, "subscription.kwh_remaining", data.get("kwh_remaining")),
        "in_overage": overage,
    }


def _key(row: Row, data: Mapping[str, Any]) -> dict[str, Any]:
    allowance = row.mapping("key.allowance", data.get("allowance"))
    blocked = allowance.get("blocked")
    if blocked is not None and not isinstance(blocked, bool):
        row.refuse("key.allowance.blocked", blocked, "is neither true nor false")
        blocked = None
    names = {"key_limit_usd": "limit_usd", "key_spent_usd": "spent_usd", "key_remaining_usd": "remaining_usd"}
    return {
        "key_name": row.text("key.name", data.get("name")),
        "key_period": row.text("key.allowance.period", allowance.get("period")),
        "key_blocked": blocked,
        **_amounts(row, "key.allowance", allowance, names),
    }


def _usage(row: Row, data: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for prefix, name in (("month", "current_month"), ("lifetime", "lifetime")):
        span = row.mapping(f"usage.{name}", data.get(name))
        found |= _amounts(row, f"usage.{name}", span, {f"{prefix}_cost_usd": "cost_usd"})
        found[f"{prefix}_requests"] = row.whole(f"usage.{name}.requests", span.get("requests"))
        found[f"{prefix}_tokens"] = row.whole(f"usage.{name}.tokens", span.get("tokens"))
        found[f"{prefix}_energy_j"] = _joules(row, f"usage.{name}.energy_kwh", span.get("energy_kwh"))
    return found
