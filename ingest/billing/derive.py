"""What follows from the usage that is already loaded: the tariffs of a source.

A payload alone cannot tell a tariff: an export speaks of one model, a tariff is of the account. So after
each load the rules are reconstructed from all usage of the source, in the same transaction. Loading
the same file twice, or several files in any order, ends in the same rules in force.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import polars as pl

from ingest.billing.list_costs import PRICE_COLUMNS, list_costs
from ingest.billing.request_tariffs import reconstruct_requests
from ingest.billing.tariffs import COLUMNS, reconstruct
from warehouse.tables import frame

if TYPE_CHECKING:
    from warehouse.engine import Transaction, Warehouse

NEWEST_REQUESTS = 100_000  # older ones keep the rules that were found from them


def tariffs_of_source(tx: Transaction, source_id: str) -> Mapping[str, pl.DataFrame]:
    """core.tariff rows from all usage of `source_id`, as seen within `tx`."""
    usage = tx.query(
        f"SELECT {', '.join(COLUMNS)} FROM core.usage WHERE source_id = $s AND grain IN ('day', 'period')",
        {"s": source_id},
    )
    return {"core.tariff": restated(reconstruct(usage).frame, _known(tx, source_id))}


def tariffs_of_requests(tx: Transaction, source_id: str) -> Mapping[str, pl.DataFrame]:
    """core.tariff rows from the newest requests of `source_id`, at the list prices known within `tx`."""
    return {"core.tariff": restated(reconstruct_requests(priced_requests(tx, source_id)).frame, _known(tx, source_id))}


def priced_requests(
    source: Warehouse | Transaction, source_id: str | None = None, *, sample: bool = False
) -> pl.DataFrame:
    """The newest 100,000 billed requests with their list cost where it is known: of one source, or of all.

    sample: of all sources of sample data, or of all others; `source_id` decides where it is given.
    """
    bound = {"s": source_id, "sample": sample if source_id is None else source_id.startswith("sample:")}
    usage = source.query(
        "SELECT * FROM core.usage WHERE grain = 'request' AND billed_cost_usd IS NOT NULL AND energy_j IS NOT NULL "
        "AND ($s IS NULL OR source_id = $s) AND (source_id LIKE 'sample:%') = $sample "
        f"ORDER BY period_start_at DESC, usage_key LIMIT {NEWEST_REQUESTS}",
        bound,
    )
    prices = source.query(
        f"SELECT {', '.join(PRICE_COLUMNS)} FROM core.price WHERE list_contains($providers, provider) "
        "AND (source_id LIKE 'sample:%') = $sample",
        {"providers": usage["provider"].unique().to_list(), "sample": bound["sample"]},
    )
    return usage.with_columns(pl.Series("list_cost_usd", list_costs(usage, prices), dtype=pl.Decimal(28, 12)))


def _known(tx: Transaction, source_id: str) -> pl.DataFrame:
    return tx.query(
        "SELECT DISTINCT provider, account, valid_from FROM core.tariff "
        "WHERE source_id = $s AND basis = 'reconstructed'",
        {"s": source_id},
    )


def restated(rules: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    """`rules`, and their values again for each instant in `known` from which an older reconstruction dated one.

    rules: core.tariff rows · known: provider, account, valid_from. Rows are never deleted, so a rule
    that turned out to begin earlier restates the row that was once its beginning.
    """
    rows = rules.to_dicts()
    starts = {(r["provider"], r["account"], r["valid_from"]) for r in rows}
    for provider, account, at in known.rows():
        if (provider, account, at) in starts:
            continue
        own = [r for r in rules.to_dicts() if (r["provider"], r["account"]) == (provider, account)]
        covering = max((r for r in own if r["valid_from"] <= at), key=lambda r: r["valid_from"], default=None)
        if covering is not None:
            rows.append({**covering, "valid_from": at})
    return frame("core.tariff", sorted(rows, key=lambda r: (r["provider"], r["account"], r["valid_from"])))
