"""Small bills, balances and rates, made for these tests, in the formats of their sources."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from typing import Any

FOCUS_LINE = {
    "BilledCost": "2.5",
    "EffectiveCost": "2.25",
    "ListCost": "3",
    "ContractedCost": "2.5",
    "BillingAccountId": "acct-1",
    "BillingCurrency": "USD",
    "BillingPeriodStart": "2026-04-01T00:00:00Z",
    "BillingPeriodEnd": "2026-05-01T00:00:00Z",
    "ChargePeriodStart": "2026-04-02T10:00:00Z",
    "ChargePeriodEnd": "2026-04-02T11:00:00Z",
    "ChargeCategory": "Usage",
    "ChargeClass": "",
    "ChargeDescription": "tokens, in",
    "ConsumedQuantity": "1234.567",
    "ConsumedUnit": "1000 Tokens",
    "InvoiceId": "INV-1",
    "InvoiceIssuerName": "Acme",
    "PricingQuantity": "1234.567",
    "PricingUnit": "1000 Tokens",
    "ProviderName": "Acme",
    "PublisherName": "Acme",
    "ServiceCategory": "AI and Machine Learning",
    "ServiceName": "Inference",
    "SkuId": "sku-1",
    "SkuMeter": "Input Tokens",
    "SkuPriceId": "sku-1.p",
    "Tags": '{"team": "a"}',
}


def table(rows: list[Mapping[str, Any]]) -> str:
    """Rows as CSV; the header is that of the first."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def focus_line(**changes: str) -> dict[str, str]:
    return {**FOCUS_LINE, **changes}


def focus(*lines: Mapping[str, str]) -> str:
    """A FOCUS file of `lines`, of one usage line where none are given."""
    return table(list(lines or (focus_line(),)))


CUR_LINE = {
    "identity_line_item_id": "l1",
    "bill_billing_period_start_date": "2026-11-01T00:00:00Z",
    "bill_invoice_id": "",
    "line_item_usage_start_date": "2026-11-03T09:00:00Z",
    "line_item_usage_end_date": "2026-11-03T10:00:00Z",
    "line_item_usage_account_id": "111122223333",
    "line_item_line_item_type": "Usage",
    "line_item_product_code": "AmazonBedrock",
    "line_item_usage_type": "USW2-MP:USW2_InputTokenCount-Units",
    "line_item_usage_amount": "1.5",
    "pricing_unit": "1K tokens",
    "line_item_currency_code": "USD",
    "line_item_unblended_cost": "0.0045",
    "line_item_net_unblended_cost": "0.004",
    "product": '{"servicename": "Sonata Haiku 4.5 (Amazon Bedrock Edition)"}',
}


def cur_line(**changes: str) -> dict[str, str]:
    return {**CUR_LINE, **changes}


def cur(*lines: Mapping[str, str]) -> str:
    return table(list(lines or (cur_line(),)))


def quota(**changes: Any) -> dict[str, Any]:
    """An answer of GET /v1/quota: no dollar left, but 2.353 kWh."""
    return {
        "snapshot_at": "2026-05-14T17:41:40Z",
        "balance": {
            "credits_remaining_usd": 0.0,
            "total_credits_usd": 100.0,
            "credits_used_usd": 100.0,
            "accounting_method": "energy",
        },
        "usage": {
            "lifetime": {"cost_usd": 120.1, "requests": 10500, "tokens": 612000000, "energy_kwh": 15.2},
            "current_month": {"cost_usd": 35.45, "requests": 3907, "tokens": 262799455, "energy_kwh": 3.35747},
        },
        "limits": {"overage_limit_usd": None, "rate_limit_tier": "standard"},
        "subscription": {
            "plan": "standard",
            "status": "active",
            "current_period_start": "2026-05-01T04:15:28Z",
            "current_period_end": "2026-06-01T04:15:28Z",
            "kwh_included": 6.25,
            "kwh_used": 3.897,
            "kwh_remaining": 2.353,
            "in_overage": False,
        },
        "key": {"name": "key-1", "allowance": None},
        **changes,
    }


def usage_energy() -> dict[str, Any]:
    return {
        "period": {"start": "2026-05-01", "end": "2026-05-02"},
        "totals": {"requests": 12, "requests_with_energy": 10, "energy_kwh": 0.003, "energy_joules": 10800},
        "daily": [_day("2026-05-02", 5, 0.001), _day("2026-05-01", 7, 0.002)],
    }


def _day(date: str, requests: int, kwh: float) -> dict[str, Any]:
    return {
        "date": date,
        "requests": requests,
        "requests_with_energy": requests - 1,
        "energy_kwh": kwh,
        "energy_joules": kwh * 3.6e6,
    }


FX = """date,from,to,rate,source
2026-04-30,USD,CNY,7.2,ECB
2026-05-01,EUR,USD,1.125,ECB
"""

TARIFFS = """provider,account,valid_from,usd_per_kwh,flex_multiplier,list_price_ceiling_multiple
neuralwatt,default,2026-05-01T00:00:00Z,8.00,0.65,3
acme,team-a,2026-01-01T00:00:00+01:00,5,,
"""

SOUND = {
    "focus": focus(
        focus_line(),
        focus_line(ConsumedUnit="kWh", ConsumedQuantity="0.5", SkuMeter="", InvoiceId=""),
        focus_line(ChargeCategory="Tax", BilledCost="0.475", ConsumedQuantity="", ConsumedUnit="NULL", Tags=""),
        focus_line(ChargeCategory="Credit", BilledCost="-1", ConsumedQuantity="", ConsumedUnit=""),
    ),
    "aws-cur2": cur(cur_line(), cur_line(identity_line_item_id="l2", line_item_line_item_type="Tax")),
    "fx-rates": FX,
    "neuralwatt-quota": json.dumps(quota()),
    "neuralwatt-usage-energy": json.dumps(usage_energy()),
    "tariffs": TARIFFS,
}
