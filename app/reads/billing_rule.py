"""The billing rule in force of two offers: a price of electricity, and where the ceiling of the price list rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from ingest.billing.list_costs import PRICE_COLUMNS, list_costs
from policies.proof.bills import Bill, bill_of
from warehouse.engine import Warehouse

_RULES = """
SELECT o.offer_id, CAST(t.usd_per_kwh AS DOUBLE) AS usd_per_kwh, t.flex_multiplier,
  t.list_price_ceiling_multiple AS multiple, min(t.valid_from) AS since
FROM (
  SELECT DISTINCT provider, offer_id FROM core.offer
  WHERE list_contains($offers, offer_id) AND (source_id LIKE 'sample:%') = $sample
) AS o
JOIN mart.tariff AS t USING (provider)
WHERE (t.source_id LIKE 'sample:%') = $sample AND t.valid_to IS NULL AND t.superseded_at IS NULL
  AND t.usd_per_kwh IS NOT NULL
GROUP BY ALL
"""
_RUNS = """
SELECT * REPLACE (coalesce(served_offer, requested_offer) AS requested_offer) FROM core.usage
WHERE grain = 'request' AND workload = 'seed_reference' AND billed_cost_usd > 0 AND energy_j > 0
  AND period_start_at >= $since AND list_contains($offers, coalesce(served_offer, requested_offer))
  AND (source_id LIKE 'sample:%') = $sample
QUALIFY row_number() OVER (PARTITION BY provider, account, usage_key ORDER BY known_from DESC, row_sha256 DESC) = 1
ORDER BY requested_offer, usage_key
"""
_PRICES = f"""
SELECT {", ".join(PRICE_COLUMNS)} FROM core.price
WHERE list_contains($offers, offer_id) AND (source_id LIKE 'sample:%') = $sample
"""


@dataclass(frozen=True)
class Rule:
    """usd_per_kwh now, and what it makes of the joules of either offer at another price: control, candidate."""

    usd_per_kwh: float
    bills: tuple[Bill, Bill]


def ruled(warehouse: Warehouse, control: str, candidate: str, *, sample: bool = False) -> Rule | str:
    """The one rule that both offers are billed by; otherwise why no price of electricity is asked, in words.

    The ceiling binds request by request, so where it rules is told by the reference runs under this rule. sample: by
    sample data alone, or by everything else.
    """
    offers = [control, candidate]
    found = warehouse.query(_RULES, {"offers": offers, "sample": sample})
    told = found.select("usd_per_kwh", "flex_multiplier", "multiple").unique()
    if told.height != 1 or set(found["offer_id"]) != set(offers):
        known = "several tariffs are in force" if told.height > 1 else "no tariff in $/kWh of both offers is known"
        return f"{known}, so the bill is taken as a fee: a price of electricity does not move it"
    rule = found.row(0, named=True)
    runs = warehouse.query(_RUNS, {"offers": offers, "since": found["since"].min(), "sample": sample})
    listed = list_costs(runs, warehouse.query(_PRICES, {"offers": offers, "sample": sample}))
    priced = runs.with_columns(pl.Series("list_cost_usd", listed, dtype=pl.Decimal(28, 12)).cast(pl.Float64))
    bills = [_bill(rule, priced.filter(pl.col("requested_offer") == offer)) for offer in offers]
    if bills[0] is None or bills[1] is None:
        offer = offers[0] if bills[0] is None else offers[1]
        return (
            f"the bill has a ceiling of {rule['multiple']:g} x list price, and the reference runs of {offer} do not "
            "tell where it rules, so the bill is taken as a fee"
        )
    return Rule(rule["usd_per_kwh"], (bills[0], bills[1]))


def _bill(rule: Mapping[str, Any], runs: pl.DataFrame) -> Bill | None:
    """None: there is a ceiling, and no runs or one of unknown charge or list price."""
    if rule["multiple"] is None:
        return Bill()
    flex = pl.when(pl.col("service_tier") == "flex").then(pl.lit(rule["flex_multiplier"], pl.Float64)).otherwise(1.0)
    priced = runs.with_columns(charged_j=pl.coalesce("energy_charged_j", pl.col("energy_j") * flex))
    if priced.is_empty() or priced["charged_j"].null_count() or priced["list_cost_usd"].null_count():
        return None
    free = priced["list_cost_usd"] == 0  # a list price of 0 is no ceiling to a bill that was above 0
    ceiling = np.where(free, np.inf, rule["multiple"] * priced["list_cost_usd"].to_numpy())
    return bill_of(priced["energy_j"].to_numpy(), priced["charged_j"].to_numpy(), ceiling)
