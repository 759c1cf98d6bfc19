"""Bills: do the tariffs explain them, and what do the charges come to."""

from __future__ import annotations

from dataclasses import asdict
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import polars as pl
from pydantic import Field, field_validator

from app.operations import Actor, NoParams, Params, operation
from app.operations.plain import plain, plain_rows
from ingest.billing.currencies import CurrencyTotal, FxRate, total_in
from ingest.billing.derive import priced_requests
from ingest.billing.tariff_check import check, uncovered
from warehouse.accounts import account_usable
from warehouse.clock import to_utc, utcnow

if TYPE_CHECKING:
    from app.desk import Desk


class TariffParams(Params):
    provider: str | None = Field(None, max_length=100)
    account: str | None = Field(None, max_length=100)
    sample: bool = False
    """Check the sample data instead of the real one."""


@operation("tariffs.check", scope="read", params=TariffParams)
def tariffs_check(desk: Desk, actor: Actor, params: TariffParams) -> dict[str, Any]:
    """Check every tariff, declared or reconstructed, against the bill."""
    bound = {"sample": params.sample, "provider": params.provider, "account": params.account}
    where = (
        "(source_id LIKE 'sample:%') = $sample AND ($provider IS NULL OR provider = $provider) "
        "AND ($account IS NULL OR account = $account)"
    )
    tariffs = desk.warehouse.query(f"SELECT * FROM mart.tariff WHERE {where}", bound)
    days = desk.warehouse.query(f"SELECT * FROM core.usage WHERE grain IN ('day', 'period') AND {where}", bound)
    requests = _wanted(priced_requests(desk.warehouse, sample=params.sample), params)
    usage = pl.concat([days, requests.select(days.columns)])
    checks = check(usage, tariffs)
    without = [
        {"provider": provider, "account": account, "rows": rows}
        for (provider, account), rows in sorted(uncovered(usage, checks).items())
    ]
    return {
        "holds": None if not checks else all(c.holds is not False for c in checks),
        "tariffs": [{**plain(asdict(c)), "holds": c.holds} for c in checks],
        "without_tariff": without,
    }


def _wanted(usage: pl.DataFrame, params: TariffParams) -> pl.DataFrame:
    for name in ("provider", "account"):
        value = getattr(params, name)
        if value is not None:
            usage = usage.filter(pl.col(name) == value)
    return usage


class TotalsParams(Params):
    into: str | None = Field(None, pattern="^[A-Z]{3}$")
    """Also add up in this currency, by dated rates."""
    on: date | None = None
    """Use no rate after this day (default: today)."""
    provider: str | None = Field(None, max_length=100)
    period: date | None = None
    """Only the billing period that holds this day."""
    as_of: datetime | None = None
    """The bill as it was known at this instant."""

    @field_validator("as_of")
    @classmethod
    def _zoned(cls, value: datetime | None) -> datetime | None:
        if value is not None and value.tzinfo is None:
            raise ValueError("write the time with its zone, such as 2026-11-29T12:00:00Z")
        return value


_SUBTOTALS = """
SELECT provider, account, billing_period_start_at, billing_period_end_at, currency, charge_category, charge_class,
  count(*) AS lines, sum(billed_cost) AS billed_cost, sum(effective_cost) AS effective_cost,
  sum(list_cost) AS list_cost, CAST(sum(tokens) AS BIGINT) AS tokens
FROM mart.charge_at($as_of)
WHERE ($provider IS NULL OR provider = $provider)
  AND ($period IS NULL OR (billing_period_start_at <= $period AND $period < billing_period_end_at))
GROUP BY ALL ORDER BY ALL
"""


@operation("charges.totals", scope="read", params=TotalsParams)
def charges_totals(desk: Desk, actor: Actor, params: TotalsParams) -> dict[str, Any]:
    """Add up the charges in force: per currency, and in one currency only with dated rates."""
    as_of = utcnow() if params.as_of is None else to_utc(params.as_of, what="as_of")
    found = desk.warehouse.query(_SUBTOTALS, {"as_of": as_of, "provider": params.provider, "period": params.period})
    told: dict[str, Any] = {"subtotals": plain_rows(found), "total": None}
    if params.into is not None:
        sums: dict[str, Decimal] = {}
        for currency, cost in found.select("currency", "billed_cost").iter_rows():
            sums[currency] = sums.get(currency, Decimal(0)) + cost
        total = total_in(params.into, params.on or utcnow().date(), sums, _rates(desk, as_of))
        told["total"] = _shown(total)
    return told


@operation("accounts.list", scope="read", params=NoParams)
def accounts(desk: Desk, actor: Actor, params: NoParams) -> dict[str, Any]:
    """List the accounts with their balance and whether they pay for one more request."""
    now = utcnow()
    rows = []
    for row in desk.warehouse.query("SELECT * FROM mart.account_balance ORDER BY provider, account").iter_rows(
        named=True
    ):
        verdict = account_usable(row, now)
        told = {**row, "usable": verdict.usable, "why": verdict.reason}
        rows.append(plain({**told, "age_s": (now - row["snapshot_at"]).total_seconds()}))
    return {"accounts": rows}


def _rates(desk: Desk, as_of: datetime) -> list[FxRate]:
    rows = desk.warehouse.query(
        "SELECT * FROM core.fx_rate WHERE known_from <= $at QUALIFY row_number() OVER (PARTITION BY from_currency, "
        "to_currency, rate_source, rate_on_at ORDER BY known_from DESC) = 1",
        {"at": as_of},
    )
    return [
        FxRate(r["from_currency"], r["to_currency"], r["rate"], r["rate_on_at"].date(), r["rate_source"])
        for r in rows.iter_rows(named=True)
    ]


def _shown(total: CurrencyTotal) -> dict[str, Any]:
    shown: dict[str, Any] = plain({**asdict(total), "note": total.note})
    return shown
