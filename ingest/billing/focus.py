"""FOCUS 1.0 to 1.2, the FinOps Open Cost and Usage Specification: CSV or Parquet -> core.charge.

Times are UTC by the specification (`2026-11-03T09:00:00Z`). Real files write them without the Z, so a time
without a zone is read in the zone `timezone`, UTC where nothing is declared. The specification's own samples
write `5/1/25` and `$10,000.00 `: such dates need `date_order`, such amounts `number_format=us`, and
without them their rows go to quarantine, because 5/1 is two days and a comma two things.

All columns that every row must fill have to be there, with one exception: ServiceCategory, which the
specification's own samples leave out and nothing here reads. InvoiceId (1.2) may be absent; the file
then speaks of whole billing periods. Tokens come from ConsumedQuantity of Usage lines only: a *purchase* of
"Token" is a virtual currency, and so is a unit that PricingCurrency names.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import polars as pl

from ingest.base import Parsed
from ingest.billing import charges
from ingest.billing.columns import Columns
from ingest.billing.sheets import Chunk, Sheet, open_sheet, refuse
from ingest.billing.usage_types import read_usage_type
from ingest.stream import Stream, whole

REQUIRED = (
    "BilledCost", "BillingAccountId", "BillingCurrency", "BillingPeriodEnd", "BillingPeriodStart", "ChargeCategory",
    "ChargeClass", "ChargePeriodEnd", "ChargePeriodStart", "ContractedCost", "EffectiveCost", "InvoiceIssuerName",
    "ListCost", "PricingQuantity", "PricingUnit", "ProviderName", "PublisherName", "ServiceName",
)  # fmt: skip
LEFT_OUT = "ServiceCategory"  # mandatory, yet absent from samples of the specification itself
_KEPT = ("SkuMeter", "SkuPriceDetails", "PricingCurrency", "PricingCurrencyEffectiveCost", "ResourceId")
_ISO_4217 = r"^[A-Z]{3}$"


def stream(about: Stream, file: BinaryIO) -> Iterator[Parsed]:
    """The lines of a file, chunk by chunk. Raises PayloadError naming the columns that are missing."""
    with open_sheet(about, file) as sheet:
        yield from _lines(about, sheet)


def _lines(about: Stream, sheet: Sheet) -> Iterator[Parsed]:
    names = {n.strip().lower(): n for n in sheet.names}
    missing = [n for n in REQUIRED if n.lower() not in names]
    if missing:
        refuse(
            about,
            f"the file lacks {len(missing)} of the columns that FOCUS demands: {', '.join(missing)}",
            field=missing[0],
            fix="export FOCUS 1.0 to 1.2 with all mandatory columns",
        )
    delivery, reading = charges.Delivery.of(about, sheet), charges.reading(about)
    notes = () if LEFT_OUT.lower() in names else (f"the file has no column {LEFT_OUT}, which FOCUS demands",)
    rows = 0
    for chunk in sheet.chunks:
        found = _chunk(Columns(chunk, names, reading, "SkuPriceId"), chunk, delivery, notes)
        rows += found.rows_in
        yield found
    if not rows:
        refuse(about, "the file has a header and no rows", fix="export a period that was billed")


parse = whole(stream)


def _chunk(columns: Columns, chunk: Chunk, delivery: charges.Delivery, notes: tuple[str, ...]) -> Parsed:
    currency = columns.text("BillingCurrency", required=True)
    wrong = ~currency.str.contains(_ISO_4217)
    columns.refuse(wrong, "BillingCurrency", "is no ISO 4217 code of three capitals", whole_row=True)
    category = columns.one_of("ChargeCategory", charges.CATEGORIES, required=True)
    consumed, unit = columns.decimal("ConsumedQuantity"), columns.text("ConsumedUnit")
    usage = (category == "Usage").fill_null(False)
    llm = usage & ~_same_word(unit, columns.text("PricingCurrency"))
    meters = columns.text("SkuMeter")
    usage_types = columns.text("x_UsageType")
    told = {m: read_usage_type(m) for m in [*meters.unique().drop_nulls(), *usage_types.unique().drop_nulls()]}
    kinds = {m: t.token_kind for m, t in told.items()}
    tokens = charges.tokens(columns, "ConsumedQuantity", consumed, unit, llm)
    kind = pl.select(pl.coalesce(*(_mapped(s, kinds) for s in (usage_types, meters)))).to_series()
    values = {
        "line_key": charges.line_keys(delivery, chunk),
        "provider": columns.text("ProviderName", required=True),
        "account": columns.text("BillingAccountId", required=True),
        "sub_account": columns.text("SubAccountId"),
        "invoice_id": columns.text("InvoiceId"),
        "billing_period_start_at": columns.time("BillingPeriodStart", required=True),
        "billing_period_end_at": columns.time("BillingPeriodEnd", required=True),
        "charge_period_start_at": columns.time("ChargePeriodStart", required=True),
        "charge_period_end_at": columns.time("ChargePeriodEnd", required=True),
        "charge_category": category,
        "charge_class": columns.one_of("ChargeClass", ("Correction",), required=False),
        "billed_cost": columns.decimal("BilledCost", required=True, currency=currency),
        "effective_cost": columns.decimal("EffectiveCost", currency=currency),
        "list_cost": columns.decimal("ListCost", currency=currency),
        "contracted_cost": columns.decimal("ContractedCost", currency=currency),
        "currency": currency,
        "service": columns.text("ServiceName"),
        "publisher": columns.text("PublisherName"),
        "sku_id": columns.text("SkuId"),
        "sku_price_id": columns.text("SkuPriceId"),
        "description": columns.text("ChargeDescription"),
        "region": columns.text("RegionId"),
        "consumed_quantity": consumed,
        "consumed_unit": unit,
        "pricing_quantity": columns.decimal("PricingQuantity"),
        "pricing_unit": columns.text("PricingUnit"),
        "tokens": tokens,
        "token_kind": pl.select(pl.when(tokens.is_not_null()).then(kind)).to_series(),
        **charges.energy(consumed, unit, usage),
        "offer_id": _mapped(usage_types, {m: t.model for m, t in told.items()}),
        "routing": _mapped(usage_types, {m: t.routing for m, t in told.items()}),
        "service_tier": _mapped(usage_types, {m: t.service_tier for m, t in told.items()}),
        "tags": charges.json_object(columns, "Tags"),
        "attributes": charges.attributes(
            columns, [*_KEPT, *sorted(n for key, n in columns.names.items() if key.startswith("x_"))]
        ),
    }
    unknown = tuple(
        f"some lines have no {n}, which FOCUS demands: it is unknown there"
        for n in ("EffectiveCost", "ListCost", "ContractedCost")
        if columns.text(n).is_null().any()
    )
    return charges.parsed(columns, values, delivery, names_invoices=columns.has("InvoiceId"), notes=(*notes, *unknown))


def _mapped(text: pl.Series, told: dict[str, str | None]) -> pl.Series:
    return text.replace_strict(told, default=None, return_dtype=pl.String) if told else text.clear(text.len())


def _same_word(unit: pl.Series, currency: pl.Series) -> pl.Series:
    """Where the unit is the virtual currency that the line is priced in, whatever its number."""
    one, other = (s.str.to_lowercase().str.strip_suffix("s") for s in (unit, currency))
    return (one == other).fill_null(False)
