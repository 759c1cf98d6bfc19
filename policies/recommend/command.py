"""A command, the events that it drafts, and the checks that every handler shares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from policies.recommend.errors import NotAllowed, RevisionMissing, RevisionStale, TargetUnknown
from policies.recommend.state import PREFIX, RecState, State, TargetState

OPERATOR_COMMANDS = ("shadow", "approve", "promote", "dismiss", "rollback")
TARGET_COMMANDS = ("acknowledge", "actuate", "outcome", "rolled_back")
SYSTEM_COMMANDS = ("expire", "supersede", "judge", "measure")


DESK = "desk"  # who an outcome is by that the desk measured itself


@dataclass(frozen=True)
class Command:
    """`data` is what the command adds to its event: an outcome with its verdict, an evidence of the target,
    margins of a shadow, the verdict of a gate; for an approval `person` and `role`; for a report the `content_hash`
    of what the target carries out, where it tells it.

    `rejection` (acknowledge only): the target refuses the change or the rollback, in words.
    """

    name: str
    revision: int | None = None
    target: str | None = None
    reason: str | None = None
    rejection: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Draft:
    """An event to append: kind without prefix removed, body, and the revision after it."""

    kind: str
    body: Mapping[str, Any]
    revision: int


class Drafts:
    """Collects the events of one command and counts the revision on."""

    def __init__(self, state: RecState) -> None:
        self.revision = state.revision
        self.items: list[Draft] = []

    def add(self, kind: str, *, state: State | None = None, bump: bool = False, **body: Any) -> None:
        if state is not None or bump:
            self.revision += 1
        told = {k: v for k, v in body.items() if v is not None}
        if state is not None:
            told["state"] = state.value
        self.items.append(Draft(PREFIX + kind, told, self.revision))


def check_revision(state: RecState, command: Command) -> None:
    seen = command.revision
    if seen is None:
        raise RevisionMissing(
            f"The command {command.name} of {state.id} does not say which revision it saw.",
            fix=f"read {state.id} and send its revision (If-Match: {state.etag})",
        )
    oldest = state.decision_revision if command.name in TARGET_COMMANDS else state.revision
    if seen > state.revision and command.name in TARGET_COMMANDS:
        raise RevisionStale(
            f"The command {command.name} names revision {seen} of {state.id}, and this ledger knows {state.revision} "
            f"({state.label}): it may be older than what the target holds. Nothing was written.",
            fix="see `joulebook verify`; after a restore declare the table that routes, then collect again",
        )
    if not oldest <= seen <= state.revision:
        raise RevisionStale(
            f"The command {command.name} is based on revision {seen} of {state.id}, which is at revision "
            f"{state.revision} ({state.label}). Nothing was written.",
            fix=f"read {state.id} again and decide on revision {state.revision}",
        )


def target(state: RecState, command: Command) -> TargetState:
    mine = state.target(command.target or "")
    if mine is None:
        names = ", ".join(t.target for t in state.targets)
        raise TargetUnknown(f"{state.id} has no target {command.target!r}.", fix=f"use one of {names}")
    told = command.data.get("content_hash")
    if told is not None and told != state.content_hash:
        raise refuse(
            state,
            command,
            f"{mine.target} tells content {told[:12]}, and {state.content_hash[:12]} was approved",
            "collect the commands again and carry out exactly what they say",
        )
    return mine


def refuse(state: RecState, command: Command, why: str, fix: str) -> NotAllowed:
    return NotAllowed(f"{state.id} cannot take {command.name}: {why}.", fix=fix)
