"""The figures of /metrics, read from the warehouse at each scrape into a registry of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC
from importlib import metadata

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from app.desk import Desk
from app.errors import AppError
from app.recommendations.store import all_events, states
from policies.recommend.state import State
from warehouse.engine import Warehouse
from warehouse.errors import WarehouseError
from warehouse.freshness import freshness


def metrics_text(get_desk: Callable[[], Desk]) -> bytes:
    """Prometheus text; without a usable warehouse it says just that."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Figures(get_desk))
    return generate_latest(registry)


class _Figures(Collector):
    def __init__(self, get_desk: Callable[[], Desk]) -> None:
        self._get_desk = get_desk

    def collect(self) -> Iterator[Metric]:
        info = GaugeMetricFamily("joulebook_info", "Version of the running joulebook.", labels=["version"])
        info.add_metric([metadata.version("joulebook")], 1)
        yield info
        try:
            desk = self._get_desk()
            found = [*_desk(desk), *_warehouse(desk.warehouse)]
            usable = 1
        except (AppError, WarehouseError):
            found, usable = [], 0
        yield GaugeMetricFamily("joulebook_warehouse_up", "1 while the warehouse can be used.", value=usable)
        yield from found


def _desk(desk: Desk) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        "joulebook_start_time_seconds",
        "When this process started, in Unix time.",
        value=desk.started_at.replace(tzinfo=UTC).timestamp(),
    )
    if desk.sampler is not None:
        status = desk.sampler.status()
        yield CounterMetricFamily("joulebook_sampler_ticks", "Power readings that took place.", value=status.ticks)
        yield CounterMetricFamily(
            "joulebook_sampler_missed_ticks", "Power readings that were due and did not.", value=status.missed_ticks
        )


def _warehouse(warehouse: Warehouse) -> Iterator[Metric]:
    age = GaugeMetricFamily(
        "joulebook_source_age_seconds", "Time since the last good refresh.", labels=["source", "sample"]
    )
    status = GaugeMetricFamily(
        "joulebook_source_status", "1 for the status a source is in.", labels=["source", "status"]
    )
    for row in freshness(warehouse).iter_rows(named=True):
        if row["age_s"] is not None:
            age.add_metric([row["source_id"], str(row["is_sample"]).lower()], row["age_s"])
        for name in ("fresh", "stale", "expired", "never"):
            status.add_metric([row["source_id"], name], float(row["status"] == name))
    yield age
    yield status

    runs = CounterMetricFamily("joulebook_runs", "Attempts to refresh a source.", labels=["source", "state"])
    counted = "SELECT source_id, state, count(*) FROM ops.run GROUP BY ALL ORDER BY ALL"
    for source, state, n in warehouse.query(counted).iter_rows():
        runs.add_metric([source, state], n)
    yield runs

    held = GaugeMetricFamily("joulebook_quarantine_rows", "Rows that were not loaded.", labels=["source"])
    for source, n in warehouse.query(
        "SELECT source_id, count(*) FROM ops.quarantine GROUP BY ALL ORDER BY ALL"
    ).iter_rows():
        held.add_metric([source], n)
    yield held

    alerts = GaugeMetricFamily("joulebook_alerts", "Open alerts.", labels=["kind", "severity", "acknowledged"])
    for kind, severity, acknowledged, n in warehouse.query(
        "SELECT kind, severity, acknowledged_at IS NOT NULL, count(*) FROM ops.alert WHERE cleared_at IS NULL "
        "GROUP BY ALL ORDER BY ALL"
    ).iter_rows():
        alerts.add_metric([kind, severity, str(acknowledged).lower()], n)
    yield alerts

    found = [s.state for s in states(all_events(warehouse))]
    recommendations = GaugeMetricFamily("joulebook_recommendations", "Recommendations by state.", labels=["state"])
    for known in State:
        recommendations.add_metric([known.value], found.count(known))
    yield recommendations

    events = warehouse.scalar("SELECT count(*) FROM ledger.event")
    yield CounterMetricFamily("joulebook_ledger_events", "Events of the ledger.", value=events)
