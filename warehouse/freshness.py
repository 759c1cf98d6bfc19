"""How old each source is, and what that means (the macro is in views/v20_operations.sql)."""

from __future__ import annotations

from datetime import datetime

import polars as pl

from warehouse.clock import utcnow
from warehouse.engine import Transaction, Warehouse


def freshness(source: Warehouse | Transaction, at: datetime | None = None) -> pl.DataFrame:
    """One row per source: last success and attempt, `age_s`, status fresh | stale | expired | never, and why."""
    return source.query("SELECT * FROM mart.freshness_at($at) ORDER BY is_sample, source_id", {"at": at or utcnow()})
