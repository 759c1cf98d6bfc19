"""Alerts: what an operator must know although nobody asked. Pure: a snapshot in, conditions out.

`evaluate` turns a snapshot into conditions; `reconcile` turns conditions and the open alerts into what to write.
Sample data raises none: it is nobody's fleet.
"""

from __future__ import annotations

from policies.alerts.evaluate import evaluate
from policies.alerts.model import Alert, AlertKind, Condition, Severity, Thresholds
from policies.alerts.reconcile import Plan, reconcile

__all__ = ["Alert", "AlertKind", "Condition", "Plan", "Severity", "Thresholds", "evaluate", "reconcile"]
