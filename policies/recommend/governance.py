"""The approval policy that a recommendation is under: frozen into its content, so that a change of it is a revision.

A content without `governance` (made before there was any) is under none: one approval, no gate, one stage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

SHADOW = "shadow"  # the gate before any traffic is moved
FULL = "full"


@dataclass(frozen=True)
class Stage:
    """A share of the traffic (0..1] that the candidate gets while this stage lasts."""

    name: str
    share: float


@dataclass(frozen=True)
class Governance:
    """Who must approve, what must be proved, and how the change is rolled out.

    `stages` rise to a share of 1; each but the last has a gate before the next one. No stage moves more than
    `max_step` of the traffic. Durations in seconds.
    """

    environment: str = "none"
    require_pass: bool = False
    approvals: int = 1
    roles: tuple[str, ...] = ("operator",)
    self_approval: bool = True
    approval_expires_s: float | None = None
    stages: tuple[Stage, ...] = (Stage(FULL, 1.0),)
    max_step: float = 1.0
    auto_rollback: bool = False
    acknowledge_within_s: float | None = None
    actuate_within_s: float | None = None

    def to_dict(self) -> dict[str, Any]:
        told = asdict(self)
        return {**told, "roles": list(self.roles), "stages": [asdict(s) for s in self.stages]}


def step_too_large(rules: Governance, stage_no: int) -> str | None:
    """Why the stage moves more of the traffic at once than allowed; None where it does not."""
    before = rules.stages[stage_no - 1].share if stage_no else 0.0
    stage = rules.stages[stage_no]
    moved = stage.share - before
    if moved <= rules.max_step + 1e-9:
        return None
    return f"{stage.name} moves {moved:.0%} of the traffic at once, and at most {rules.max_step:.0%} may move"


def of_content(content: Mapping[str, Any]) -> Governance:
    """The approval policy frozen in a recommendation's content."""
    told = content.get("governance")
    if not told:
        return Governance()
    stages = tuple(Stage(s["name"], float(s["share"])) for s in told["stages"])
    return Governance(**{**told, "roles": tuple(told["roles"]), "stages": stages})
