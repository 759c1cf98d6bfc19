"""Sources: how old each one is, its runs, its last payload and what it refused."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import polars as pl

from warehouse.clock import utcnow
from warehouse.engine import Transaction, Warehouse
from warehouse.freshness import freshness

RUNS_SHOWN = 20


@dataclass(frozen=True)
class SourceFreshness:
    """One source as of now. `age_s` is None while it has never succeeded."""

    source_id: str
    kind: str
    title: str
    status: str  # fresh | stale | expired | never
    age_s: float | None
    why: str
    enabled: bool
    is_sample: bool
    cadence_s: float | None
    last_attempt_at: datetime | None
    last_success_at: datetime | None
    last_state: str | None
    last_error: str | None
    last_fix: str | None
    data_at: datetime | None

    @property
    def shown(self) -> bool:
        """Sources that are switched off and were never tried say nothing about the data on a page."""
        return self.enabled or self.last_attempt_at is not None


def freshness_rows(warehouse: Warehouse | Transaction, at: datetime | None = None) -> list[SourceFreshness]:
    names = list(SourceFreshness.__dataclass_fields__)
    return [SourceFreshness(*row) for row in freshness(warehouse, at).select(names).iter_rows()]


def sample_rows(warehouse: Warehouse) -> dict[str, int]:
    """Rows loaded per sample source; empty when no sample data is there."""
    frame = warehouse.query("""
        SELECT s.source_id, coalesce(sum(r.rows_loaded), 0)::BIGINT AS n
        FROM ops.source s LEFT JOIN ops.run r USING (source_id)
        WHERE s.is_sample GROUP BY s.source_id ORDER BY s.source_id
    """)
    return dict(frame.iter_rows())


@dataclass(frozen=True)
class SourceHistory:
    """The last runs (states oldest first), rows of the last good run, quarantined rows in all."""

    states: list[str]
    rows_in: int | None
    rows_loaded: int | None
    rows_unchanged: int | None
    quarantined: int


def histories(warehouse: Warehouse) -> dict[str, SourceHistory]:
    runs = warehouse.query(f"""
        SELECT source_id, list(state ORDER BY started_at, run_id) AS states,
               arg_max(rows_in, started_at) FILTER (WHERE loaded_it) AS rows_in,
               arg_max(rows_loaded, started_at) FILTER (WHERE loaded_it) AS loaded,
               arg_max(rows_unchanged, started_at) FILTER (WHERE loaded_it) AS same
        FROM (SELECT *, state IN ('OK', 'PARTIAL') AND NOT not_modified AS loaded_it FROM ops.run
              QUALIFY row_number() OVER (PARTITION BY source_id ORDER BY started_at DESC, run_id DESC) <= {RUNS_SHOWN})
        GROUP BY source_id
    """)
    refused = dict(warehouse.query("SELECT source_id, count(*) FROM ops.quarantine GROUP BY source_id").iter_rows())
    found = {row[0]: SourceHistory(row[1], row[2], row[3], row[4], refused.get(row[0], 0)) for row in runs.iter_rows()}
    return found | {
        source: SourceHistory([], None, None, None, n) for source, n in refused.items() if source not in found
    }


def runs(warehouse: Warehouse, source_id: str, limit: int = RUNS_SHOWN) -> pl.DataFrame:
    """The last runs of a source, newest first."""
    return warehouse.query(
        """
        SELECT started_at, state, trigger, not_modified, rows_in, rows_loaded, rows_unchanged, rows_quarantined,
               date_diff('millisecond', started_at, finished_at) / 1000.0 AS duration_s,
               coalesce(error_text, '') AS error_text, run_id
        FROM ops.run WHERE source_id = $s ORDER BY started_at DESC, run_id DESC LIMIT $n
        """,
        {"s": source_id, "n": limit},
    )


def quarantined(warehouse: Warehouse, source_id: str, limit: int = 500) -> pl.DataFrame:
    """Refused rows of a source, newest first."""
    return warehouse.query(
        """
        SELECT quarantined_at, row_no, natural_key, field, value, reason, raw
        FROM ops.quarantine WHERE source_id = $s ORDER BY quarantined_at DESC, row_no, quarantine_id LIMIT $n
        """,
        {"s": source_id, "n": limit},
    )


@dataclass(frozen=True)
class PayloadFacts:
    payload_id: str
    url: str
    fetched_at: datetime
    http_status: int | None
    content_type: str | None
    sha256: str
    size_bytes: int


def last_payload(warehouse: Warehouse, source_id: str) -> PayloadFacts | None:
    """What the source sent last, without its body."""
    names = ", ".join(PayloadFacts.__dataclass_fields__)
    frame = warehouse.query(
        f"SELECT {names} FROM landing.payload WHERE source_id = $s ORDER BY fetched_at DESC, payload_id LIMIT 1",
        {"s": source_id},
    )
    return PayloadFacts(*frame.row(0)) if frame.height else None


def troubles(warehouse: Warehouse, at: datetime | None = None) -> tuple[list[SourceFreshness], list[SourceFreshness]]:
    """Sources that are switched on and stale or expired, and those whose last run failed.

    A host without a GPU is no trouble: its sampler has nothing to sample and says so on the Sources page.
    """
    rows = [
        s
        for s in freshness_rows(warehouse, at or utcnow())
        if s.enabled and not (s.kind == "nvml" and s.status == "never")
    ]
    old = [s for s in rows if s.status in ("stale", "expired")]
    failed = [s for s in rows if s.last_state in ("FAILED", "ABORTED")]
    return old, failed
