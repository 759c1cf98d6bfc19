"""From conditions to alerts: raised, seen again, worse, cleared. Never two open alerts of one kind and subject."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from policies.alerts.model import Alert, Condition, Severity
from warehouse.ids import content_hash

MUCH_WORSE = 2.0  # so many times as far beyond the limit as when it was last told


@dataclass(frozen=True)
class Plan:
    """What to write. Alerts in `seen` keep their version, those in `worse` and `cleared` have the next one."""

    raised: list[Alert] = field(default_factory=list)
    seen: list[Alert] = field(default_factory=list)
    worse: list[Alert] = field(default_factory=list)
    cleared: list[Alert] = field(default_factory=list)

    @property
    def news(self) -> bool:
        """Whether anybody has to be told anything."""
        return bool(self.raised or self.worse or self.cleared)


def reconcile(open_alerts: Iterable[Alert], conditions: Iterable[Condition], now: datetime) -> Plan:
    """Compare the open alerts with what is so at `now` (naive UTC).

    - a condition without an open alert raises one; after a clear that is a new alert;
    - one with an open alert counts up, and where it got worse (severity, or more than `MUCH_WORSE` times as far
      beyond its limit as when it was last told) it is news again, so that its acknowledgement is lifted;
    - an open alert without its condition is cleared.
    """
    found = _worst_of_each(conditions)
    plan = Plan()
    known: set[tuple[str, str]] = set()
    for alert in sorted(open_alerts, key=lambda a: (a.first_seen_at, a.alert_id)):
        condition = found.get(alert.key)
        if condition is None or alert.key in known:
            plan.cleared.append(replace(alert, cleared_at=max(now, alert.last_seen_at), version=alert.version + 1))
            continue
        known.add(alert.key)
        if _is_worse(alert, condition):
            plan.worse.append(_seen(alert, condition, now, told=True))
        else:
            plan.seen.append(_seen(alert, condition, now, told=False))
    plan.raised.extend(_raised(c, now) for key, c in sorted(found.items()) if key not in known)
    return plan


def _worst_of_each(conditions: Iterable[Condition]) -> dict[tuple[str, str], Condition]:
    found: dict[tuple[str, str], Condition] = {}
    for condition in conditions:
        other = found.get(condition.key)
        if other is None or condition.severity.rank > other.severity.rank:
            found[condition.key] = condition
    return found


def _is_worse(alert: Alert, condition: Condition) -> bool:
    if condition.severity.rank > Severity(alert.severity).rank:
        return True
    told = alert.detail.get("told_degree")
    return condition.degree is not None and told is not None and condition.degree > MUCH_WORSE * told


def _detail(condition: Condition, told_degree: Any) -> dict[str, Any]:
    return {**condition.detail, "degree": condition.degree, "told_degree": told_degree}


def _raised(condition: Condition, now: datetime) -> Alert:
    return Alert(
        alert_id=content_hash([condition.kind.value, condition.subject, now]),
        kind=condition.kind.value,
        subject=condition.subject,
        severity=condition.severity.value,
        title=condition.title,
        detail=_detail(condition, condition.degree),
        first_seen_at=now,
        last_seen_at=now,
        times_seen=1,
    )


def _seen(alert: Alert, condition: Condition, now: datetime, *, told: bool) -> Alert:
    again = replace(
        alert,
        severity=condition.severity.value,
        title=condition.title,
        detail=_detail(condition, condition.degree if told else alert.detail.get("told_degree")),
        last_seen_at=max(now, alert.last_seen_at),
        times_seen=alert.times_seen + 1,
    )
    if not told:
        return again
    return replace(again, version=alert.version + 1, acknowledged_at=None, acknowledged_by=None)
