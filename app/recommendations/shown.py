"""Recommendations as plain JSON: rows of a list, the whole of one, its timeline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from policies.recommend.deadlines import in_words, waiting
from policies.recommend.freeze import frozen
from policies.recommend.state import RecState
from policies.recommend.votes import votes
from warehouse import ledger
from warehouse.clock import iso


def _iso(value: Any) -> Any:
    return iso(value) if isinstance(value, datetime) else value


def target_json(state: RecState) -> list[dict[str, Any]]:
    return [{k: _iso(v) for k, v in asdict(t).items()} for t in state.targets]


def now(state: RecState, at: datetime, freeze: Sequence[str] = ()) -> dict[str, Any]:
    """What depends on the time of asking: who is silent for how long, approvals that lapsed, a freeze."""
    owed = [
        {"target": w.target, "owes": w.owes, "since": _iso(w.since), "for_s": w.for_s, "limit_s": w.limit_s,
         "overdue": w.overdue, "rejection": w.rejection}
        for w in waiting(state, at)
    ]  # fmt: skip
    return {
        "partial": state.partial,
        "progress": in_words(state, at),
        "waiting": owed,
        "votes": votes(state, at),
        "frozen": frozen(freeze, at),
    }


def stage_json(state: RecState) -> dict[str, Any]:
    """Which share of the traffic it is at, and what its gates said."""
    shadow = state.shadow
    return {
        "stage": {"no": state.stage_no, **asdict(state.stage), "since": _iso(state.stage_since)},
        "stages": [asdict(s) for s in state.governance.stages],
        "gates": {name: {k: _iso(v) for k, v in asdict(v).items()} for name, v in state.verdicts.items()},
        "in_force": state.in_force,
        "margins": None if shadow is None else {
            "margins": dict(shadow.margins), "sha256": shadow.margins_sha256, "since": _iso(shadow.started_at),
            "set_by": shadow.person, "planned_n": shadow.planned_n,
        },
    }  # fmt: skip


def progress(state: RecState) -> dict[str, Any]:
    """How far a recommendation is."""
    return {
        "id": state.id,
        "state": state.state.value,
        "label": state.label,
        "revision": state.revision,
        "etag": state.etag,
        "pending": state.pending,
        "content_hash": state.content_hash,
        "partial": state.partial,
        "targets": target_json(state),
        "outcome": dict(state.outcomes[-1]) if state.outcomes else None,
        "seq": state.last_seq,
    }


def summary(state: RecState) -> dict[str, Any]:
    """A row of the list: state, what would change and what it promises."""
    content = state.content
    told = content["promise"]
    return {
        **progress(state),
        **stage_json(state),
        "title": content["title"],
        "from": content["from"],
        "to": content["to"],
        "cells": len(content["cells"]),
        "per": told["per"],
        "promise": {
            name: {k: metric[k] for k in ("difference", "interval", "separable", "unit", "note")}
            | {"evidence_class": metric["to"]["evidence_class"], "n": [metric["from"]["n"], metric["to"]["n"]]}
            for name, metric in told["metrics"].items()
        },
        "success": told["success"],
        "proficiency": told["proficiency"],
        "is_sample": content["is_sample"],
        "as_of": content["as_of"],
        "proposed_at": _iso(state.proposed_at),
        "changed_at": _iso(state.changed_at),
        "expires_at": _iso(state.expires_at),
        "closed": state.closed,
        "reason": state.reason,
    }


def detail(state: RecState, events: Sequence[ledger.Event]) -> dict[str, Any]:
    """Everything about one recommendation, timeline included; a function of its events alone."""
    return {
        **summary(state),
        "content": dict(state.content),
        "timeline": [_timeline(e) for e in events],
        "outcomes": [dict(o) for o in state.outcomes],
        "approved_at": _iso(state.approved_at),
    }


def _timeline(event: ledger.Event) -> dict[str, Any]:
    return {
        "seq": event.seq,
        "at": iso(event.happened_at),
        "kind": event.kind,
        "actor": event.actor,
        "role": event.role,
        "channel": event.channel,
        "revision": event.revision,
        "body": {k: v for k, v in event.data.items() if k not in ("content", "command", "routes")},
        "hash": event.hash,
    }
