"""What of the recommendations waits for a person: counted for the Overview, the most urgent first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from app.components.format import parse_instant

RECENT = timedelta(days=7)  # how long a failed gate is told although nothing can be done about it any more


@dataclass(frozen=True)
class Needs:
    """`parts` are sentences, `rows` the recommendations behind them, `shadowing` how many collect evidence."""

    parts: tuple[str, ...]
    rows: tuple[Mapping[str, Any], ...]
    shadowing: int


def counts(recommendations: Sequence[Mapping[str, Any]], now: datetime) -> Needs:
    """Silent, refusing or partial targets first, then harm, then what is ready, then what could not be settled."""
    found = [(_kind(r, now), r) for r in recommendations]
    parts, rows = [], []
    for kind, (one, many) in _WORDS.items():
        own = [r for k, r in found if k == kind]
        rows += own
        if own:
            parts.append(f"{len(own)} {one if len(own) == 1 else many}")
    shadowing = sum(r["state"] == "SHADOWING" for r in recommendations)
    return Needs(tuple(parts), tuple(rows), shadowing)


_WORDS = {
    "silent": ("change with silent or refusing targets", "changes with silent or refusing targets"),
    "partial": ("change PARTIAL", "changes PARTIAL"),
    "failed": ("change failed and still carried out", "changes failed and still carried out"),
    "ready": ("recommendation ready", "recommendations ready"),
    "promote": ("change ready for its next share", "changes ready for their next share"),
    "waiting": ("recommendation waiting for a decision", "recommendations waiting for a decision"),
    "inconclusive": ("gate inconclusive", "gates inconclusive"),
    "gate failed": ("gate failed", "gates failed"),
}


def _kind(row: Mapping[str, Any], now: datetime) -> str | None:
    waiting, state = row.get("waiting") or [], row["state"]
    if any(w["overdue"] for w in waiting):
        return "silent"
    if row.get("partial"):
        return "partial"
    if state == "FAILED":
        return _failed(row, now)
    if row["closed"]:
        return None
    if state == "OBSERVING":
        return "promote" if _promotable(row) else None
    return {"READY": "ready", "PROPOSED": "waiting", "INCONCLUSIVE": "inconclusive"}.get(state)


def _failed(row: Mapping[str, Any], now: datetime) -> str | None:
    if not row["closed"]:
        return "failed"
    at = parse_instant(row["changed_at"])
    said = (row.get("gates") or {}).get("shadow")
    recent = at is not None and now - at < RECENT
    return "gate failed" if recent and said is not None and said["verdict"] == "FAIL" else None


def _promotable(row: Mapping[str, Any]) -> bool:
    stages, stage = row.get("stages") or [], row.get("stage") or {}
    said = (row.get("gates") or {}).get(stage.get("name"))
    return stage.get("no", 0) + 1 < len(stages) and said is not None and said["verdict"] == "PASS"


def why(row: Mapping[str, Any]) -> str:
    """One sentence beside the row: silence, votes, or what the gate said."""
    if row.get("progress"):
        return str(row["progress"])
    votes = row.get("votes") or {}
    if votes.get("counting") and row["state"] in ("PROPOSED", "READY"):
        return f"{votes['counting']} of {votes['needed']} approvals"
    said = (row.get("gates") or {}).get("shadow")
    if said is not None and said["verdict"] != "PASS":
        return str(said["why"])
    return ""
