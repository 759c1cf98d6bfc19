"""What a recommendation is at an instant. Which events lead there: fold.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Protocol

from policies.recommend.governance import SHADOW, Governance, Stage, of_content

PREFIX = "recommendation."


class State(StrEnum):
    PROPOSED = "PROPOSED"
    SHADOWING = "SHADOWING"  # margins are stored, evidence is collected
    READY = "READY"  # the gate passed: an approval is awaited
    INCONCLUSIVE = "INCONCLUSIVE"  # the planned evidence does not settle it; it never promotes
    APPROVED = "APPROVED"
    SENT = "SENT"  # at least one target has collected the change
    ACKED = "ACKED"  # at least one target has acknowledged it
    ACTUATED = "ACTUATED"  # at least one target has carried it out
    OBSERVING = "OBSERVING"  # every target has carried it out; an outcome is awaited
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    ROLLED_BACK = "ROLLED_BACK"
    DISMISSED = "DISMISSED"
    EXPIRED = "EXPIRED"
    SUPERSEDED = "SUPERSEDED"  # the ranking moved on before anybody decided
    REJECTED_BY_TARGET = "REJECTED_BY_TARGET"  # every target refused it, and none holds any of it


TERMINAL = frozenset({State.ROLLED_BACK, State.DISMISSED, State.EXPIRED, State.SUPERSEDED, State.REJECTED_BY_TARGET})
UNDECIDED = frozenset({State.PROPOSED, State.SHADOWING, State.READY, State.INCONCLUSIVE})
IN_FLIGHT = frozenset({State.APPROVED, State.SENT, State.ACKED, State.ACTUATED, State.OBSERVING})
HANDED_OVER = frozenset({State.SENT, State.ACKED, State.ACTUATED, State.OBSERVING, State.SUCCEEDED, State.FAILED})


class LedgerEvent(Protocol):
    """The part of `warehouse.ledger.Event` that the fold reads."""

    @property
    def seq(self) -> int: ...
    @property
    def happened_at(self) -> datetime: ...
    @property
    def kind(self) -> str: ...
    @property
    def subject(self) -> str: ...
    @property
    def revision(self) -> int | None: ...
    @property
    def data(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class TargetState:
    """How far one target is, forwards and backwards. Times are naive UTC; None: has not happened."""

    target: str
    sent_at: datetime | None = None
    acknowledged_at: datetime | None = None
    actuated_at: datetime | None = None
    rejected_at: datetime | None = None
    rejection: str | None = None
    rollback_sent_at: datetime | None = None
    rollback_acknowledged_at: datetime | None = None
    rollback_rejection: str | None = None
    rolled_back_at: datetime | None = None
    held: bool = False  # it carried out an earlier stage

    @property
    def has_change(self) -> bool:
        """Whether the target may hold the new content and therefore has something to undo."""
        return self.held or (self.sent_at is not None and self.rejected_at is None)


@dataclass(frozen=True)
class Approval:
    """One person's yes to exactly this content."""

    person: str
    role: str
    at: datetime
    content_hash: str


@dataclass(frozen=True)
class Shadow:
    """What the gate is held to; only evidence from after `started_at` counts, so that margins come first."""

    margins: Mapping[str, Any]
    margins_sha256: str
    started_at: datetime
    person: str | None  # who asked for these margins; None: the desk, by its configuration
    planned_n: int | None = None
    mix: Mapping[str, float] | None = None  # category|size band -> share, fixed with the margins; None: no traffic
    mix_basis: str | None = None  # which traffic, in words


@dataclass(frozen=True)
class Verdict:
    """What the gate of one stage said last."""

    stage: str
    verdict: str  # PASS | FAIL | INCONCLUSIVE
    at: datetime
    gate_id: str | None
    why: str
    n: int
    planned_n: int | None


@dataclass(frozen=True)
class Standing:
    """Where a stage stood when it was promoted from: what holds again where nobody collects the next one in time."""

    targets: tuple[TargetState, ...]
    stage_since: datetime | None
    approved_at: datetime | None
    decision_revision: int


@dataclass(frozen=True)
class RecState:
    """A recommendation as of its last event.

    `revision` grows with every change of state, content or pending decision and is the etag of operator
    commands; `decision_revision` is the revision of the decision (approval or rollback) that targets carry out.
    """

    id: str
    state: State
    revision: int
    decision_revision: int
    content: Mapping[str, Any]
    content_hash: str
    targets: tuple[TargetState, ...]
    proposed_at: datetime
    changed_at: datetime
    expires_at: datetime | None = None
    approved_at: datetime | None = None
    pending: str | None = None  # "rollback" from its request until every holder of the change has undone it
    pending_since: datetime | None = None
    outcomes: tuple[Mapping[str, Any], ...] = ()
    last_seq: int = 0
    reason: str | None = None
    routes: Mapping[str, str | None] = field(default_factory=dict)
    approvals: tuple[Approval, ...] = ()  # of the content as it is now
    asked_by: tuple[str, ...] = ()  # everybody who ever set margins for this recommendation
    shadow: Shadow | None = None
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)  # by stage, of the content as it is now
    stage_no: int = 0
    stage_since: datetime | None = None  # since when every target carries the current stage
    in_force: bool = False  # the routing table says the new content
    before_stage: Standing | None = None  # of the stage before the present one; None on the first

    @property
    def governance(self) -> Governance:
        return of_content(self.content)

    @property
    def stage(self) -> Stage:
        return self.governance.stages[self.stage_no]

    @property
    def next_stage(self) -> Stage | None:
        stages = self.governance.stages
        return stages[self.stage_no + 1] if self.stage_no + 1 < len(stages) else None

    @property
    def gate(self) -> Verdict | None:
        """The verdict before any traffic."""
        return self.verdicts.get(SHADOW)

    @property
    def partial(self) -> bool:
        """Some targets carry the current stage and others do not."""
        carrying = sum(t.actuated_at is not None for t in self.targets)
        return self.state in (State.SENT, State.ACKED, State.ACTUATED) and 0 < carrying < len(self.targets)

    @property
    def holds_share(self) -> bool:
        """Some target may give it a share of its cells while the routing table still says the incumbent."""
        staged = len(self.governance.stages) > 1 and self.state not in TERMINAL
        return staged and not self.in_force and any(t.has_change for t in self.targets)

    @property
    def uncollected(self) -> bool:
        """Approved, and no target has taken it yet: nothing is lost by deciding anew."""
        taken = any(t.has_change or t.sent_at is not None for t in self.targets)
        return self.state is State.APPROVED and not taken and self.stage_no == 0

    @property
    def unclaimed(self) -> bool:
        """Promoted, and no target has taken the next stage yet: all of them stand where they stood."""
        waits = self.state is State.APPROVED and self.stage_no > 0 and self.pending is None
        return waits and not any(t.sent_at is not None for t in self.targets)

    def lapsed(self, now: datetime) -> datetime | None:
        """Since when the approval or promotion that no target has collected no longer counts; None where it does."""
        within = self.governance.approval_expires_s
        if not (self.uncollected or self.unclaimed) or within is None or self.approved_at is None:
            return None
        end = self.approved_at + timedelta(seconds=within)
        return end if now >= end else None

    @property
    def closed(self) -> bool:
        """Nothing is left to do: a terminal state, a success that nobody is undoing, a failure that nobody holds."""
        if self.state in TERMINAL or (self.state is State.SUCCEEDED and self.pending is None):
            return True
        return self.state is State.FAILED and not any(t.has_change for t in self.targets)

    @property
    def etag(self) -> str:
        return f'"{self.revision}"'

    @property
    def label(self) -> str:
        """The state with its count where it has one: `ACKED (1/2)`."""
        counts = {
            State.SENT: sum(t.sent_at is not None for t in self.targets),
            State.ACKED: sum(t.acknowledged_at is not None for t in self.targets),
            State.ACTUATED: sum(t.actuated_at is not None for t in self.targets),
        }
        k = counts.get(self.state)
        text = self.state.value if k is None else f"{self.state.value} ({k}/{len(self.targets)})"
        if self.state in UNDECIDED and self.approvals:
            text += f", approved {len(self.approvals)}/{self.governance.approvals}"
        if self.partial:
            text += ", PARTIAL"
        if self.state in IN_FLIGHT and len(self.governance.stages) > 1:
            text += f", {self.stage.name} {self.stage.share:.0%}"
        if self.pending == "rollback":
            holders = [t for t in self.targets if t.has_change]
            undone = sum(t.rolled_back_at is not None for t in holders)
            text += f", rolling back ({undone}/{len(holders)})"
        return text

    def target(self, name: str) -> TargetState | None:
        return next((t for t in self.targets if t.target == name), None)


def cell_key(cell: Mapping[str, Any]) -> str:
    """A cell of the routing table as text: `category/tier/latency`."""
    return f"{cell['category']}/{cell['tier']}/{cell['latency']}"
