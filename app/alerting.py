"""Alerts after each load and each sweep: evaluate, reconcile, write, wake the couriers. Never in the way of ingest."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import structlog

from app.delivery import store
from app.errors import AppError
from app.operations.routing import known_table
from policies.alerts import Plan, Thresholds, evaluate, reconcile
from policies.errors import PolicyError
from warehouse.errors import WarehouseError
from warehouse.snapshots import snapshot

if TYPE_CHECKING:
    from app.desk import Desk
    from app.settings import Settings

log = structlog.get_logger("joulebook.alerts")


@dataclass(frozen=True)
class Evaluated:
    """How many alerts one look raised, saw again, found worse and cleared."""

    as_of: datetime
    raised: int
    seen: int
    worse: int
    cleared: int


def thresholds(settings: Settings) -> Thresholds:
    """The limits as configured."""
    told = settings.alerts
    return Thresholds(
        price_change=told.price_change,
        tariff_change=told.tariff_change,
        recent=timedelta(seconds=told.recent),
        expiring_within=timedelta(seconds=told.expiring_within),
        unpriced_share=told.unpriced_share,
        usage_window=timedelta(seconds=told.usage_window),
        coverage_drop=told.coverage_drop,
        quarantine_growth=told.quarantine_growth,
        frozen_for=timedelta(seconds=told.frozen_for),
        implausible_within=timedelta(seconds=told.implausible_within),
        freeze=settings.approval_policy.freeze,
    )


def refresh_alerts(desk: Desk, as_of: datetime | None = None) -> Evaluated:
    """Bring ops.alert up to date with one snapshot. Raises AppError, WarehouseError or PolicyError."""
    with desk.alert_lock:
        with snapshot(desk.warehouse, as_of) as snap:
            conditions = evaluate(snap, thresholds(desk.settings), _routed(desk))
            now = snap.as_of
        with desk.warehouse.transaction() as tx:
            plan = reconcile(store.open_alerts(tx), conditions, now)
            store.write(tx, plan)
    _told(desk, plan)
    return Evaluated(now, len(plan.raised), len(plan.seen), len(plan.worse), len(plan.cleared))


def _routed(desk: Desk) -> set[str]:
    """Offers that the declared or actuated routing table names."""
    routes = known_table(desk.warehouse, desk.settings).routes.values()
    return {route.offer_id for route in routes if route.offer_id is not None}


def _told(desk: Desk, plan: Plan) -> None:
    for word, alerts in (("raised", plan.raised), ("worse", plan.worse), ("cleared", plan.cleared)):
        for alert in alerts:
            log.info(f"alert {word}", kind=alert.kind, severity=alert.severity, title=alert.title)
    if plan.news and desk.couriers is not None:
        desk.couriers.wake()


def look_for_alerts(desk: Desk) -> None:
    """The same, after something else: whatever goes wrong here is logged and undoes nothing."""
    try:
        refresh_alerts(desk)
    except (AppError, WarehouseError, PolicyError) as error:
        log.warning("alerts could not be looked for", reason=error.message, fix=error.fix)
    except Exception as error:  # a defect of ours must not fail the load that came before
        log.error("alerts could not be looked for", error=f"{type(error).__name__}: {error}")
