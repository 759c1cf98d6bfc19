"""AWS Cost and Usage Report 2.0, as Data Exports delivers it: CSV or Parquet -> core.charge.

Every line of the bill loads, so that invoices are whole; what the lines of Amazon Bedrock tell besides (kind
of tokens, routing, tier, model) comes from the usage type, see `usage_types`. `pricing_unit` differs per
row: "1K tokens" and "1M tokens" are converted exactly, a plain "Units" says nothing about tokens and leaves
them NULL. Discounts, fees, taxes, credits and refunds are lines of their own and stay apart.

billed_cost is line_item_unblended_cost, whose sum is the invoice; effective_cost is
line_item_net_unblended_cost, after discounts; list_cost is pricing_public_on_demand_cost. All times are UTC. A
period that ends at 23:59:59 ends at midnight. Without bill_billing_period_end_date the billing period is
the calendar month.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, BinaryIO

import polars as pl

from ingest.base import Parsed
from ingest.billing import charges
from ingest.billing.columns import Columns
from ingest.billing.sheets import Chunk, Sheet, open_sheet, refuse
from ingest.billing.usage_types import read_usage_type
from ingest.stream import Stream, whole

PROVIDER = "AWS"
REQUIRED = (
    "bill_billing_period_start_date", "line_item_usage_start_date", "line_item_usage_end_date",
    "line_item_usage_account_id", "line_item_line_item_type", "line_item_product_code", "line_item_usage_type",
    "line_item_usage_amount", "line_item_currency_code", "line_item_unblended_cost",
)  # fmt: skip
CATEGORY = {
    "Usage": "Usage", "DiscountedUsage": "Usage", "SavingsPlanCoveredUsage": "Usage",
    "Fee": "Purchase", "RIFee": "Purchase", "SavingsPlanRecurringFee": "Purchase", "SavingsPlanUpfrontFee": "Purchase",
    "Tax": "Tax", "Credit": "Credit",
    "Refund": "Adjustment", "SavingsPlanNegation": "Adjustment", "Discount": "Adjustment",
    "BundledDiscount": "Adjustment", "EdpDiscount": "Adjustment", "PrivateRateDiscount": "Adjustment",
    "SppDiscount": "Adjustment", "RiVolumeDiscount": "Adjustment", "DistributorDiscount": "Adjustment",
}  # fmt: skip
_KEPT = (
    "line_item_line_item_type", "line_item_operation", "line_item_usage_type", "line_item_resource_id",
    "line_item_iam_principal", "bill_billing_entity", "bill_bill_type", "line_item_tax_type",
)  # fmt: skip
_EDITION = " (Amazon Bedrock Edition)"


def stream(about: Stream, file: BinaryIO) -> Iterator[Parsed]:
    """The lines of a report, chunk by chunk. Raises PayloadError naming the columns that are missing."""
    with open_sheet(about, file) as sheet:
        yield from _lines(about, sheet)


def _lines(about: Stream, sheet: Sheet) -> Iterator[Parsed]:
    names = {n.strip().lower(): n for n in sheet.names}
    if "lineitem/usagetype" in names:
        refuse(
            about,
            "this is a report of the first CUR (lineItem/UsageType), not CUR 2.0",
            field="lineItem/UsageType",
            fix="export CUR 2.0 from Data Exports",
        )
    if missing := [n for n in REQUIRED if n not in names]:
        refuse(
            about,
            f"the file lacks {len(missing)} columns of CUR 2.0: {', '.join(missing)}",
            field=missing[0],
            fix="export CUR 2.0 with the bill, line item and pricing columns",
        )
    delivery, reading = charges.Delivery.of(about, sheet), charges.reading(about)
    rows = 0
    for chunk in sheet.chunks:
        found = _chunk(Columns(chunk, names, reading, "identity_line_item_id"), chunk, delivery)
        rows += found.rows_in
        yield found
    if not rows:
        refuse(about, "the file has a header and no rows", fix="export a period that was billed")


parse = whole(stream)


def _chunk(columns: Columns, chunk: Chunk, delivery: charges.Delivery) -> Parsed:
    line_type = columns.one_of("line_item_line_item_type", tuple(CATEGORY), required=True)
    category = _mapped(line_type, dict(CATEGORY))
    currency = columns.text("line_item_currency_code", required=True)
    columns.refuse(~currency.str.contains("^[A-Z]{3}$"), "line_item_currency_code", "is no ISO 4217 code",
                   whole_row=True)  # fmt: skip
    usage = (category == "Usage").fill_null(False)
    amount, unit = columns.decimal("line_item_usage_amount"), columns.text("pricing_unit")
    usage_type = columns.text("line_item_usage_type")
    told = {u: read_usage_type(u) for u in usage_type.unique().drop_nulls()}
    tokens = charges.tokens(columns, "line_item_usage_amount", amount, unit, usage)
    account = columns.text("line_item_usage_account_id", required=True)
    product = columns.text("line_item_product_code")
    start = columns.time("line_item_usage_start_date", required=True)
    billing_start = columns.time("bill_billing_period_start_date", required=True)
    billing_end = columns.time("bill_billing_period_end_date")
    model = _first(_model(columns), _mapped(usage_type, {u: t.model for u, t in told.items()}))
    values: dict[str, Any] = {
        "line_key": _keys(columns, chunk, delivery, start),
        "provider": pl.lit(PROVIDER),
        "account": _first(columns.text("bill_payer_account_id"), account),
        "sub_account": account,
        "invoice_id": columns.text("bill_invoice_id"),
        "billing_period_start_at": billing_start,
        "billing_period_end_at": _first(_half_open(billing_end), _next_month(billing_start)),
        "charge_period_start_at": start,
        "charge_period_end_at": _half_open(columns.time("line_item_usage_end_date", required=True)),
        "charge_category": category,
        "billed_cost": columns.decimal("line_item_unblended_cost", required=True),
        "effective_cost": columns.decimal("line_item_net_unblended_cost"),
        "list_cost": columns.decimal("pricing_public_on_demand_cost"),
        "currency": currency,
        "service": product,
        "publisher": columns.text("line_item_legal_entity"),
        "sku_id": columns.text("product_sku"),
        "sku_price_id": columns.text("pricing_rate_id"),
        "description": columns.text("line_item_line_item_description"),
        "region": _first(columns.text("product_region_code"), columns.text("product_from_region_code")),
        "consumed_quantity": amount,
        "consumed_unit": unit,
        "pricing_quantity": amount,
        "pricing_unit": unit,
        "tokens": tokens,
        **charges.energy(amount, unit, usage),
        "offer_id": _only(usage, model),
        **{
            column: _only(usage, _mapped(usage_type, {u: getattr(t, column) for u, t in told.items()}))
            for column in ("token_kind", "routing", "service_tier")
        },
        "tags": charges.json_object(columns, "resource_tags" if columns.has("resource_tags") else "tags"),
        "attributes": charges.attributes(columns, list(_KEPT)),
    }
    unclear = int((usage & values["token_kind"].is_not_null() & tokens.is_null()).sum())
    return charges.parsed(
        columns,
        values,
        delivery,
        names_invoices=columns.has("bill_invoice_id"),
        notes=("some lines count tokens in a unit that does not say how many: their tokens are unknown",)
        if unclear
        else (),
    )


def _keys(columns: Columns, chunk: Chunk, delivery: charges.Delivery, start: pl.Series) -> pl.Series:
    """The line's own id and hour within its file, which is all that AWS promises to be unique; else its place."""
    part = delivery.part[:16]
    ids = columns.text("identity_line_item_id")
    keys = [
        f"{part}:{n}" if told is None else f"{part}:{told}@{at:%Y-%m-%dT%H:%M}" if at is not None else part
        for n, told, at in zip(chunk.row_nos, ids, start, strict=True)
    ]
    return pl.Series(keys, dtype=pl.String)


def _model(columns: Columns) -> pl.Series:
    """The model, as the product of a Bedrock edition is named: in its own column or in the product map."""
    names = columns.text("product_servicename")
    products = columns.text("product")
    told = {p: _of_product(p) for p in products.unique().drop_nulls()}
    found = _first(names, _mapped(products, told))
    return pl.select(pl.when(found.str.ends_with(_EDITION)).then(found.str.strip_suffix(_EDITION))).to_series()


def _of_product(text: str) -> str | None:
    try:
        product: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    name = product.get("servicename") if isinstance(product, dict) else None
    return name if isinstance(name, str) else None


def _half_open(at: pl.Series) -> pl.Series:
    """Ends half-open: 23:59:59 is the last second of a period, not its end."""
    last_second = (at.dt.minute() == 59) & (at.dt.second() == 59)
    return pl.select(pl.when(last_second).then(at.dt.offset_by("1s")).otherwise(at)).to_series()


def _next_month(at: pl.Series) -> pl.Series:
    return at.dt.truncate("1mo").dt.offset_by("1mo")


def _mapped(text: pl.Series, told: dict[str, str | None] | dict[str, str]) -> pl.Series:
    return text.replace_strict(told, default=None, return_dtype=pl.String) if told else text.clear(text.len())


def _first(*series: pl.Series) -> pl.Series:
    return pl.select(pl.coalesce(*series)).to_series()


def _only(where: pl.Series, values: pl.Series) -> pl.Series:
    return pl.select(pl.when(where).then(values)).to_series()
