"""Who has approved what, how many must, and which of it still counts. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from policies.recommend.state import RecState, State
from warehouse.clock import iso


def votes(state: RecState, now: datetime) -> dict[str, Any]:
    """Who has approved the content as it is, how many must, and whether a yes has lapsed."""
    rules = state.governance
    given = [
        {"person": a.person, "role": a.role, "at": iso(a.at), "lapsed": _lapsed(state, a.at, now)}
        for a in state.approvals
    ]
    return {
        "given": given,
        "counting": sum(not g["lapsed"] for g in given),
        "needed": rules.approvals,
        "roles": list(rules.roles),
        "not_by": [] if rules.self_approval else list(state.asked_by),
        "expires_s": rules.approval_expires_s,
        "lapsed": state.lapsed(now) is not None,
    }


def _lapsed(state: RecState, at: datetime, now: datetime) -> bool:
    """Whether a yes no longer counts. One that carried the change to its targets stands."""
    within = state.governance.approval_expires_s
    waits = state.state in (State.PROPOSED, State.READY) or state.uncollected
    return waits and within is not None and (now - at).total_seconds() >= within
