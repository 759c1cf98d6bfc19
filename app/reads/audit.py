"""The audit trail: ledger events, newest first, and the changes among them that an operator looks for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from warehouse.engine import Warehouse

# Events that changed what the fleet does, or were meant to.
CHANGES = (
    "recommendation.approved",
    "recommendation.actuated",
    "recommendation.succeeded",
    "recommendation.failed",
    "recommendation.rejected",
    "recommendation.dismissed",
    "recommendation.rollback_requested",
    "recommendation.rolled_back",
    "sample.loaded",
    "sample.removed",
)
DENIED = ("command.denied", "recommendation.refused")
ACTUAL = ("recommendation.actuated", "recommendation.rolled_back")
LOOKS = {
    "succeeded": "ok",
    "actuated": "ok",
    "failed": "bad",
    "rejected": "bad",
    "refused": "warn",
    "denied": "warn",
    "rolled_back": "warn",
}


@dataclass(frozen=True)
class Entry:
    """One ledger event; `body` is canonical JSON text."""

    seq: int
    at: datetime
    kind: str
    subject: str
    revision: int | None
    actor: str
    role: str
    channel: str
    idempotency_key: str | None
    body: str
    prev_hash: str
    hash: str

    @property
    def data(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads(self.body)
        return loaded

    @property
    def source(self) -> str:
        """Class of the address it came from: loopback, private, public or none; unknown for older events."""
        return str(self.data.get("source") or "not recorded")

    @property
    def is_denied(self) -> bool:
        return self.kind in DENIED

    @property
    def look(self) -> str:
        return LOOKS.get(self.kind.rpartition(".")[2], "")


_SELECT = (
    "SELECT seq, happened_at, kind, subject, revision, actor, role, channel, idempotency_key, body, prev_hash, hash "
    "FROM ledger.event"
)


def changes(warehouse: Warehouse, limit: int) -> list[Entry]:
    """The latest events of `CHANGES`, newest first."""
    frame = warehouse.query(
        f"{_SELECT} WHERE list_contains($kinds, kind) ORDER BY seq DESC LIMIT $n", {"kinds": list(CHANGES), "n": limit}
    )
    return [Entry(*row) for row in frame.iter_rows()]


def entries(
    warehouse: Warehouse,
    shown: str = "all",
    kinds: Sequence[str] = (),
    subject: str = "",
    actor: str = "",
    role: str = "",
    source: str = "",
    before_seq: int | None = None,
    limit: int = 100,
) -> list[Entry]:
    """Events newest first; empty filters keep everything. `subject` and `actor` match as part of the text.

    shown: all, denied (commands that were refused), or changes (everything else).
    """
    frame = warehouse.query(
        f"""{_SELECT}
        WHERE (len($kinds) = 0 OR list_contains($kinds, kind))
          AND ($shown = 'all' OR list_contains($denied, kind) = ($shown = 'denied'))
          AND contains(lower(subject), lower($subject)) AND contains(lower(actor), lower($actor))
          AND ($role = '' OR role = $role)
          AND ($source = '' OR coalesce(json_extract_string(body, '$.source'), 'not recorded') = $source)
          AND ($before IS NULL OR seq < $before)
        ORDER BY seq DESC LIMIT $n""",
        {"kinds": list(kinds), "shown": shown, "denied": list(DENIED), "subject": subject, "actor": actor,
         "role": role, "source": source, "before": before_seq, "n": limit},
    )  # fmt: skip
    return [Entry(*row) for row in frame.iter_rows()]


@dataclass(frozen=True)
class Choices:
    """What the ledger knows, for filters."""

    kinds: tuple[str, ...]
    roles: tuple[str, ...]
    sources: tuple[str, ...]


def choices(warehouse: Warehouse) -> Choices:
    def distinct(expression: str) -> tuple[str, ...]:
        frame = warehouse.query(f"SELECT DISTINCT {expression} AS value FROM ledger.event ORDER BY 1")
        return tuple(frame["value"])

    source = "coalesce(json_extract_string(body, '$.source'), 'not recorded')"
    return Choices(distinct("kind"), distinct("role"), distinct(source))


def size(warehouse: Warehouse) -> int:
    return int(warehouse.scalar("SELECT count(*) FROM ledger.event"))
