"""What an alert is: a kind of condition of one subject, how bad it is, and the facts behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from policies.errors import ParametersInvalid


class AlertKind(StrEnum):
    PRICE_CHANGE = "price_change"
    OFFER_DEPRECATED = "offer_deprecated"
    OFFER_REMOVED = "offer_removed"
    OFFER_EXPIRING = "offer_expiring"
    SOURCE_STALE = "source_stale"
    UNPRICED_SHARE = "unpriced_share"
    TARIFF_CHANGE = "tariff_change"
    COVERAGE_DROP = "coverage_drop"
    SENSOR_FROZEN = "sensor_frozen"
    GPU_LOST = "gpu_lost"
    IMPLAUSIBLE_ENERGY = "implausible_energy"
    QUARANTINE_GROWTH = "quarantine_growth"
    TARGET_SILENT = "target_silent"
    OUTCOME_BREACH = "outcome_breach"


class Severity(StrEnum):
    WARNING = "warning"
    BAD = "bad"

    @property
    def rank(self) -> int:
        return list(Severity).index(self)


@dataclass(frozen=True)
class Thresholds:
    """Limits beyond which something becomes an alert. Shares are 0..1, changes relative."""

    price_change: float = 0.1
    tariff_change: float = 0.01
    recent: timedelta = timedelta(days=7)
    """How long news (a price, a tariff, a removal) is told after it was learned."""
    expiring_within: timedelta = timedelta(days=7)
    unpriced_share: float = 0.05
    usage_window: timedelta = timedelta(days=7)
    coverage_drop: float = 0.1
    quarantine_growth: float = 0.01
    frozen_for: timedelta = timedelta(minutes=5)
    implausible_within: timedelta = timedelta(days=1)
    freeze: tuple[str, ...] = ()
    """Times in which no target is handed anything, so that none is silent."""

    def __post_init__(self) -> None:
        for name in ("price_change", "tariff_change", "unpriced_share", "coverage_drop", "quarantine_growth"):
            value = getattr(self, name)
            if not 0 <= value < float("inf"):
                raise ParametersInvalid(f"alerts.{name} is {value}.", fix="set a share of 0 or more, such as 0.1")


@dataclass(frozen=True)
class Condition:
    """Something that is so now. One per (kind, subject).

    `degree` says how far it is beyond its limit (1: at the limit), so that getting much worse is news again.
    `detail` is plain data: before, after, limit, evidence, source and times.
    """

    kind: AlertKind
    subject: str
    severity: Severity
    title: str
    detail: Mapping[str, Any] = field(default_factory=dict)
    degree: float | None = None

    @property
    def key(self) -> tuple[str, str]:
        return self.kind.value, self.subject


@dataclass(frozen=True)
class Alert:
    """A row of ops.alert: one condition of one subject from first to last sight.

    `version` moves when something happened that a person or machine must hear of (raised, worse, acknowledged,
    cleared), not when the same is merely seen again.
    """

    alert_id: str
    kind: str
    subject: str
    severity: str
    title: str
    detail: Mapping[str, Any]
    first_seen_at: datetime
    last_seen_at: datetime
    times_seen: int
    cleared_at: datetime | None = None
    acknowledged_at: datetime | None = None
    acknowledged_by: str | None = None
    delivered: Mapping[str, Any] = field(default_factory=dict)
    version: int = 1

    @property
    def key(self) -> tuple[str, str]:
        return self.kind, self.subject
