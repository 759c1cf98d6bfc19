"""One short text that changes whenever something a page shows may have changed."""

from __future__ import annotations

from warehouse.engine import Warehouse

_SQL = """
SELECT coalesce((SELECT max(seq) FROM ledger.event), 0) || '/' ||
       (SELECT count(*) || ':' || coalesce(max(finished_at)::VARCHAR, '') || ':' ||
               coalesce(sum(rows_loaded) FILTER (WHERE finished_at IS NOT NULL), 0)
        FROM ops.run) || '/' ||
       (SELECT count(*) || ':' || coalesce(max(updated_at)::VARCHAR, '') FROM ops.source)
"""


def stamp(warehouse: Warehouse) -> str:
    """Ledger head, runs and sources: every load, command and configuration change moves one of them."""
    return str(warehouse.scalar(_SQL))
