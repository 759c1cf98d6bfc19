"""The kinds of invoices, account balances, exchange rates and declared tariffs."""

from __future__ import annotations

from ingest.billing import charges, cur2, declared_tariffs, focus, fx_rates, quota, usage_energy
from ingest.kind import DAY_S, HOUR_S, MIB, Kind

_MONTH_S = 31 * DAY_S

KINDS = (
    Kind(
        name="focus",
        title="FOCUS bill",
        parse=focus.parse,
        stream=focus.stream,
        docs="FOCUS 1.0 to 1.2 charge lines (CSV, gzip CSV or Parquet) of any provider",
        transports=("file",),
        max_bytes=4096 * MIB,
        stale_after_s=_MONTH_S,
        expire_after_s=3 * _MONTH_S,
        options=charges.OPTIONS,
    ),
    Kind(
        name="aws-cur2",
        title="AWS Cost and Usage Report 2.0",
        parse=cur2.parse,
        stream=cur2.stream,
        docs="CUR 2.0 line items (CSV, gzip CSV or Parquet) with the token types of Amazon Bedrock",
        transports=("file",),
        max_bytes=4096 * MIB,
        provider=cur2.PROVIDER,
        stale_after_s=_MONTH_S,
        expire_after_s=3 * _MONTH_S,
        options=charges.OPTIONS,
    ),
    Kind(
        name="fx-rates",
        title="Exchange rates",
        parse=fx_rates.parse,
        docs="dated exchange rates (CSV): date, from, to, rate, source",
        transports=("file", "http"),
        max_bytes=32 * MIB,
        stale_after_s=7 * DAY_S,
        expire_after_s=_MONTH_S,
    ),
    Kind(
        name="tariffs",
        title="Declared tariffs",
        parse=declared_tariffs.parse,
        docs="tariffs as an operator declares them (CSV or JSON): rate per kWh, flex multiplier, ceiling",
        transports=("file",),
        max_bytes=4 * MIB,
        stale_after_s=366 * DAY_S,
        expire_after_s=3 * 366 * DAY_S,
    ),
    Kind(
        name="neuralwatt-quota",
        title="Neuralwatt account balance",
        parse=quota.parse,
        docs="answer of GET /v1/quota: credits, included energy, overage and the allowance of the key",
        transports=("http", "file"),
        max_bytes=1 * MIB,
        provider=quota.PROVIDER,
        default_url="https://api.neuralwatt.com/v1/quota",
        cadence_s=900,
        stale_after_s=HOUR_S,
        expire_after_s=DAY_S,
        options=(quota.ACCOUNT,),
    ),
    Kind(
        name="neuralwatt-usage-energy",
        title="Neuralwatt usage totals",
        parse=usage_energy.parse,
        docs="answers of /v1/usage/energy, /v1/usage/summary and /v1/usage/by-model: totals to check records by",
        transports=("http", "file"),
        max_bytes=16 * MIB,
        provider=quota.PROVIDER,
        default_url="https://api.neuralwatt.com/v1/usage/energy",
        cadence_s=6 * HOUR_S,
        stale_after_s=2 * DAY_S,
        expire_after_s=14 * DAY_S,
        options=usage_energy.OPTIONS,
    ),
)
