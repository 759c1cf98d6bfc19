"""Tariffs held against the bill: for each rule what it says every row should cost, and what was billed. Pure.

A request should cost min(rate x charged kWh, multiple x list token price). Of a day or a period only
rate x charged kWh can be said, because a ceiling binds request by request: such a row may be below it by
what the ceiling took off, never above. A period that reaches over a change of the tariff is not checked. Two
amounts agree within half a percent plus half a unit of the last digit that the bill uses.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

import polars as pl

from ingest.billing.request_tariffs import COLUMNS, Billed, agree, billed, cost_step, expected

_SHOWN = 20
_NEEDED = (*COLUMNS, "usage_key", "grain", "requested_offer")


@dataclass(frozen=True)
class Residual:
    """A row that the rule does not explain."""

    usage_key: str
    grain: str
    offer_id: str
    start_at: datetime
    billed_usd: Decimal
    expected_usd: Decimal
    residual_usd: Decimal  # billed - expected
    residual_relative: float  # / billed


@dataclass
class TariffCheck:
    """One rule against the rows it is in force for. rows = explained + below_ceiling + unexplained + unchecked."""

    provider: str
    account: str
    basis: str
    source_id: str
    valid_from: datetime
    valid_to: datetime | None
    usd_per_kwh: Decimal
    flex_multiplier: float | None
    list_price_ceiling_multiple: float | None
    evidence_class: str
    rows: int = 0
    explained: int = 0
    at_ceiling: int = 0  # of the explained: bound by the ceiling
    below_ceiling: int = 0  # days and periods below rate x kWh, which a ceiling may have made
    unexplained: int = 0
    unchecked: int = 0  # flex without a multiplier, a span over a change of tariff
    billed_usd: Decimal = Decimal(0)  # of the rows that were checked
    expected_usd: Decimal = Decimal(0)
    largest_residual_relative: float | None = None
    worst: list[Residual] = field(default_factory=list)  # the unexplained, largest first

    @property
    def holds(self) -> bool | None:
        """Whether the rule explains the bill; None where no row could tell."""
        checked = self.explained + self.below_ceiling + self.unexplained
        return None if not checked else self.unexplained == 0


def check(usage: pl.DataFrame, tariffs: pl.DataFrame) -> list[TariffCheck]:
    """Every rule of `tariffs` (mart.tariff) against `usage` (core.usage with list costs), in order of time.

    Of one account and grain the rows are independent; a period is left out where its offer has days.
    """
    rows = _rows(usage)
    steps = {who: cost_step(b.cost for _, b in own) for who, own in rows.items()}
    checks = []
    for rule in tariffs.sort("provider", "account", "basis", "source_id", "valid_from").iter_rows(named=True):
        who = (rule["provider"], rule["account"])
        if rule["usd_per_kwh"] is not None:
            checks.append(_check(rule, rows.get(who, []), steps.get(who, Decimal(0))))
    return checks


def _rows(usage: pl.DataFrame) -> dict[tuple[str, str], list[tuple[Mapping[str, Any], Billed]]]:
    days = {
        (r["provider"], r["account"], r["requested_offer"])
        for r in usage.filter(pl.col("grain") == "day").iter_rows(named=True)
    }
    found: dict[tuple[str, str], list[tuple[Mapping[str, Any], Billed]]] = defaultdict(list)
    for row in usage.select(_NEEDED).sort("period_start_at", "usage_key").iter_rows(named=True):
        whole_of_days = (row["provider"], row["account"], row["requested_offer"]) in days
        told = None if row["grain"] == "period" and whole_of_days else billed(row)
        if told is not None:
            found[row["provider"], row["account"]].append((row, told))
    return found


def _check(rule: Mapping[str, Any], rows: Sequence[tuple[Mapping[str, Any], Billed]], step: Decimal) -> TariffCheck:
    end_at = min((e for e in (rule["valid_to"], rule["superseded_at"]) if e is not None), default=None)
    told = TariffCheck(
        **{n: rule[n] for n in ("provider", "account", "basis", "source_id", "valid_from", "usd_per_kwh",
                                "flex_multiplier", "list_price_ceiling_multiple", "evidence_class")},
        valid_to=end_at,
    )  # fmt: skip
    residuals: list[Residual] = []
    for row, request in rows:
        if request.start_at < rule["valid_from"] or (end_at is not None and request.start_at >= end_at):
            continue
        told.rows += 1
        if end_at is not None and row["grain"] != "request" and request.end_at > end_at:
            told.unchecked += 1
            continue
        residual = _hold(told, row, request, step)
        if residual is not None:
            residuals.append(residual)
    told.worst = sorted(residuals, key=lambda r: (-abs(r.residual_relative), r.usage_key))[:_SHOWN]
    return told


def _hold(told: TariffCheck, row: Mapping[str, Any], request: Billed, step: Decimal) -> Residual | None:
    """Count one row; its residual where the rule does not explain it."""
    flex, multiple = _decimal(told.flex_multiplier), _decimal(told.list_price_ceiling_multiple)
    single = row["grain"] == "request"
    by_energy = expected(request, told.usd_per_kwh, flex, None)
    by_rule = expected(request, told.usd_per_kwh, flex, multiple if single else None)
    if by_energy is None or by_rule is None:
        told.unchecked += 1
        return None
    told.billed_usd += request.cost
    told.expected_usd += by_rule
    residual = request.cost - by_rule
    relative = float(residual / request.cost)
    if agree(request.cost, by_rule, step):
        told.explained += 1
        told.at_ceiling += by_rule < by_energy
        told.largest_residual_relative = max(told.largest_residual_relative or 0.0, abs(relative))
        return None
    if not single and multiple is not None and request.cost < by_rule:
        told.below_ceiling += 1
        return None
    told.unexplained += 1
    told.largest_residual_relative = max(told.largest_residual_relative or 0.0, abs(relative))
    return Residual(
        row["usage_key"],
        row["grain"],
        row["requested_offer"],
        request.start_at,
        request.cost,
        by_rule,
        residual,
        relative,
    )


def uncovered(usage: pl.DataFrame, checks: Iterable[TariffCheck]) -> dict[tuple[str, str], int]:
    """Per (provider, account) how many rows that tell cost and energy no rule is in force for."""
    spans: dict[tuple[str, str], list[tuple[datetime, datetime | None]]] = defaultdict(list)
    for rule in checks:
        spans[rule.provider, rule.account].append((rule.valid_from, rule.valid_to))
    found: dict[tuple[str, str], int] = {}
    for who, own in _rows(usage).items():
        outside = sum(
            not any(a <= b.start_at and (e is None or b.start_at < e) for a, e in spans.get(who, ())) for _, b in own
        )
        if outside:
            found[who] = outside
    return found


def _decimal(value: float | None) -> Decimal | None:
    return None if value is None else Decimal(str(value))
