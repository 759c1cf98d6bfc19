"""Tariffs reconstructed from what was billed: usage rows -> core.tariff rows. Pure.

A day's rate is billed cost / charged energy. Daily rows of the Neuralwatt export tell consumed energy
only, so charged = consumed x flex multiplier, where the multiplier is charged / consumed of the
period row of the same offer. Consecutive days with the same rate (within 0.5 %) are one rule. The last
rule stays in force (valid_to NULL); an earlier one ends with its last observed day, because nobody saw
the hour of the change.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

import polars as pl

from ingest.fields import J_PER_KWH, money
from warehouse.evidence import EvidenceClass
from warehouse.tables import frame

SAME_RATE = Decimal("0.005")  # relative: two rates closer than this are one rule
DEAREST_USD_PER_KWH = Decimal(100_000)
COLUMNS = (
    "provider", "account", "grain", "requested_offer", "service_tier", "period_start_at", "period_end_at",
    "billed_cost_usd", "energy_j", "energy_charged_j",
)  # fmt: skip


@dataclass(frozen=True)
class Reconstruction:
    """`frame`: rows for core.tariff; `notes`: what did not fit into a rule."""

    frame: pl.DataFrame
    notes: tuple[str, ...] = ()


@dataclass
class _Day:
    """What one account was billed in one span, over all its offers."""

    start_at: datetime
    end_at: datetime
    rates: list[Decimal] = field(default_factory=list)
    cost_usd: Decimal = Decimal(0)
    charged_kwh: Decimal = Decimal(0)

    @property
    def rate(self) -> Decimal:
        return self.cost_usd / self.charged_kwh

    @property
    def agrees(self) -> bool:
        return all(_close(rate, self.rate) for rate in self.rates)


def reconstruct(usage: pl.DataFrame) -> Reconstruction:
    """Rules of every (provider, account) in `usage`, rows of core.usage.

    Where there are no days the periods are used, one rate per period. Days on which offers of one
    account were billed at different rates fit no single rule; they are left out and noted.
    """
    rows = usage.select(COLUMNS).filter(pl.col("grain").is_in(["day", "period"])).to_dicts()
    accounts: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        accounts[row["provider"], row["account"]].append(row)
    rules: list[dict[str, Any]] = []
    notes: list[str] = []
    for (provider, account), own in sorted(accounts.items()):
        multipliers = _multipliers(own)
        flex = _flex_multiplier(own, multipliers)
        for rule in _rules(_days(own, multipliers, notes), notes):
            rules.append({"provider": provider, "account": account, "flex_multiplier": flex, **rule})
    return Reconstruction(frame("core.tariff", rules), tuple(notes))


def _multipliers(rows: list[dict[str, Any]]) -> dict[str, Decimal]:
    """Charged / consumed energy of each offer, over its periods that tell both."""
    sums: dict[str, list[Decimal]] = defaultdict(lambda: [Decimal(0), Decimal(0)])
    for row in rows:
        if row["grain"] == "period" and row["energy_j"] and row["energy_charged_j"] is not None:
            sums[row["requested_offer"]][0] += _decimal(row["energy_charged_j"])
            sums[row["requested_offer"]][1] += _decimal(row["energy_j"])
    return {offer: charged / consumed for offer, (charged, consumed) in sums.items()}


def _flex_multiplier(rows: list[dict[str, Any]], multipliers: dict[str, Decimal]) -> float | None:
    """The multiplier of traffic billed as flex; None where there was none, or where it was not one value."""
    offers = {r["requested_offer"] for r in rows if r["grain"] == "period" and r["service_tier"] == "flex"}
    found = [multipliers[o] for o in sorted(offers) if o in multipliers]
    if not found or not all(_close(m, found[0]) for m in found):
        return None
    return round(float(found[0]), 9)


def _days(rows: list[dict[str, Any]], multipliers: dict[str, Decimal], notes: list[str]) -> list[_Day]:
    with_days = {r["requested_offer"] for r in rows if r["grain"] == "day"}
    days: dict[tuple[datetime, datetime], _Day] = {}
    for row in rows:
        offer, cost = row["requested_offer"], row["billed_cost_usd"]
        if cost is None or (row["grain"] == "period" and offer in with_days):
            continue
        charged_j = row["energy_charged_j"]
        if charged_j is not None:
            charged = _decimal(charged_j) / J_PER_KWH
        elif row["energy_j"] is not None and offer in multipliers:
            charged = _decimal(row["energy_j"]) / J_PER_KWH * multipliers[offer]
        else:
            continue
        if charged <= 0:
            continue
        if cost / charged > DEAREST_USD_PER_KWH:
            notes.append(f"{offer} at {row['period_start_at']:%Y-%m-%d}: {cost / charged:.3g} USD/kWh is not plausible")
            continue
        span = (row["period_start_at"], row["period_end_at"])
        day = days.setdefault(span, _Day(*span))
        day.rates.append(cost / charged)
        day.cost_usd += cost
        day.charged_kwh += charged
    return [days[span] for span in sorted(days)]


def _rules(days: list[_Day], notes: list[str]) -> list[dict[str, Any]]:
    groups: list[list[_Day]] = []
    for day in days:
        if not day.agrees:
            rates = ", ".join(f"{float(r):.4g}" for r in sorted(day.rates))
            notes.append(f"{day.start_at:%Y-%m-%d} was billed at several rates ({rates} USD/kWh): in no tariff rule")
        elif groups and _close(day.rate, _mean_rate(groups[-1])):
            groups[-1].append(day)
        else:
            groups.append([day])
    return [_rule(group, last=group is groups[-1]) for group in groups]


def _rule(days: list[_Day], *, last: bool) -> dict[str, Any]:
    rate = _mean_rate(days)
    residual = max(abs(r - rate) / r if r else Decimal(0) for day in days for r in day.rates)
    return {
        "valid_from": days[0].start_at,
        "valid_to": None if last else days[-1].end_at,
        "usd_per_kwh": money(rate.quantize(Decimal("1e-9"))),
        "basis": "reconstructed",
        "evidence_class": EvidenceClass.ALLOCATED.value,
        "n": sum(len(day.rates) for day in days),
        "residual_relative": float(residual),
    }


def _mean_rate(days: list[_Day]) -> Decimal:
    """Energy-weighted: total cost over total charged energy."""
    return sum((d.cost_usd for d in days), Decimal(0)) / sum((d.charged_kwh for d in days), Decimal(0))


def _close(a: Decimal, b: Decimal) -> bool:
    return abs(a - b) <= SAME_RATE * max(abs(a), abs(b))


def _decimal(value: float) -> Decimal:
    return Decimal(str(value))
