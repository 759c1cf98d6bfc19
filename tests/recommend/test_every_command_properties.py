"""Whatever operators, gates, targets and clocks do in whatever order, under four eyes and stages.

Never: a lost event, a double actuation, an approval on other content or by whoever asked, a promotion without PASS.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from policies.recommend.errors import RecommendError
from policies.recommend.fold import advance, fold
from policies.recommend.freeze import frozen
from policies.recommend.governance import SHADOW, Governance, Stage
from policies.recommend.lifecycle import Command, Draft, collect, decide
from policies.recommend.state import RecState, State

NOW = datetime(2026, 8, 11, 12)  # a Tuesday
TARGETS = ("lb-eu", "lb-us")
FREEZE = ("Wed 00:00 - Wed 12:00",)
RULES = Governance(
    environment="production",
    require_pass=True,
    approvals=2,
    roles=("operator", "owner"),
    self_approval=False,
    approval_expires_s=30 * 3600.0,
    stages=(Stage("canary", 0.1), Stage("half", 0.5), Stage("full", 1.0)),
    max_step=0.5,
    auto_rollback=True,
)


@dataclass(frozen=True)
class Fact:
    seq: int
    happened_at: datetime
    kind: str
    subject: str
    revision: int | None
    data: dict[str, Any] = field(default_factory=dict)


class World:
    """One recommendation, its events and the truth at its targets."""

    def __init__(self) -> None:
        self.now, self.content = NOW, 0
        self.events: list[Fact] = []
        self.state: RecState | None = None
        self.sent: Counter[tuple[str, int, str]] = Counter()  # kind, decision revision, target -> hand-overs as news
        self.propose()

    def propose(self) -> None:
        self.content += 1
        content = {
            "targets": list(TARGETS),
            "cells": [{"category": "debugging", "tier": 1, "latency": "interactive", "from": "old", "to": "new"}],
            "expires_at": (NOW + timedelta(days=6)).isoformat(),
            "governance": RULES.to_dict(),
        }
        kept = self.state is not None and self.state.shadow is not None
        body = {"state": "SHADOWING" if kept else "PROPOSED", "content": content, "content_hash": f"h{self.content}"}
        self.add("recommendation.proposed", self.state.revision + 1 if self.state else 1, body)

    def add(self, kind: str, revision: int | None, body: dict[str, Any]) -> None:
        event = Fact(len(self.events) + 1, self.now, kind, "R-0001", revision, body)
        self.events.append(event)
        self.state = advance(self.state, event)

    def write(self, drafts: list[Draft]) -> None:
        for draft in drafts:
            self.add(draft.kind, draft.revision, dict(draft.body))


steps = st.fixed_dictionaries(
    {
        "name": st.sampled_from(
            ["shadow", "judge", "judge", "approve", "approve", "promote", "promote", "dismiss", "rollback", "expire"]
            + ["acknowledge", "actuate", "outcome", "rolled_back", "measure", "revise", "supersede"]
            + ["carry"] * 3 + ["collect"] * 2
        ),
        "target": st.sampled_from(TARGETS),
        "person": st.sampled_from(["ada", "bob", "cem"]),
        "role": st.sampled_from(["operator", "owner", "operator", "reader"]),
        "verdict": st.sampled_from(["PASS", "PASS", "PASS", "INCONCLUSIVE", "FAIL"]),
        "outcome": st.sampled_from(["INCONCLUSIVE", "SUCCEEDED", "FAILED"]),
        "stale": st.sampled_from([0, 0, 0, 0, 1]),
        "hash": st.sampled_from([None, None, "mine", "other"]),
        "rejection": st.sampled_from([None, None, None, "cannot"]),
        "hours": st.sampled_from([0, 0, 0, 0, 1, 13, -2]),
    }
)  # fmt: skip


def command_of(state: RecState, step: dict[str, Any]) -> Command:
    name = step["name"]
    data: dict[str, Any] = {}
    if name == "shadow":
        data = {"margins": {}, "margins_sha256": "m", "person": step["person"], "planned_n": 100}
    elif name == "judge":
        stage = state.stage.name if state.state is State.OBSERVING else SHADOW
        data = {"stage": stage, "verdict": step["verdict"], "why": "-", "n": 100, "complete": True}
    elif name == "approve":
        data = {"person": step["person"], "role": step["role"]}
    elif name == "measure" or name == "outcome":
        data = {"verdict": step["outcome"], "why": "-"}
    elif name in ("acknowledge", "actuate", "rolled_back") and step["hash"]:
        data = {"content_hash": state.content_hash if step["hash"] == "mine" else "f" * 64}
    rejection = step["rejection"] if name == "acknowledge" else None
    return Command(name, state.revision - step["stale"], step["target"], rejection=rejection, data=data)


def take(world: World, step: dict[str, Any]) -> None:
    """One step. A refusal writes nothing."""
    state, ice = world.state, frozen(FREEZE, world.now)
    assert state is not None
    name = step["name"]
    if name == "revise":
        if state.uncollected or state.state in (State.PROPOSED, State.SHADOWING, State.READY, State.INCONCLUSIVE):
            world.propose()
        return
    if name == "collect":
        hand_over(world, step["target"], ice)
        return
    if name == "carry":
        for target in TARGETS:
            kind = hand_over(world, target, ice)
            for report in {"apply": ("acknowledge", "actuate"), "rollback": ("acknowledge", "rolled_back")}.get(
                kind or "", ()
            ):
                send(world, Command(report, world.state.revision if world.state else 0, target))
        return
    send(world, command_of(state, step), ice)


def hand_over(world: World, target: str, ice: str | None) -> str | None:
    state = world.state
    assert state is not None
    kind, drafts = collect(state, target, now=world.now, frozen=ice)
    if kind == "apply" and drafts:
        assert ice is None, "handed out in a freeze"
        assert state.lapsed(world.now) is None, "handed out on a lapsed approval"
        assert state.approvals and all(a.content_hash == state.content_hash for a in state.approvals)
    world.write(drafts)
    return kind


def send(world: World, command: Command, ice: str | None = None) -> None:
    before, count = world.state, len(world.events)
    assert before is not None
    blocked = ice if command.name in ("approve", "promote") else None
    try:
        drafts = decide(before, command, now=world.now, blocked=blocked)
    except RecommendError:
        assert len(world.events) == count
        return
    check(before, command, drafts)
    world.write(drafts)


def check(before: RecState, command: Command, drafts: list[Draft]) -> None:
    """What an accepted command must have had to stand on."""
    kinds = [d.kind.removeprefix("recommendation.") for d in drafts]
    if "approved" in kinds:
        assert before.state is State.READY and before.verdicts[SHADOW].verdict == "PASS"
        voters = {a.person for a in before.approvals if a.content_hash == before.content_hash}
        voters |= {command.data["person"]}
        assert len(voters) >= RULES.approvals
        assert command.data["person"] not in before.asked_by and command.data["role"] in RULES.roles
    if "promoted" in kinds:
        assert before.verdicts[before.stage.name].verdict == "PASS"
        assert all(t.actuated_at is not None for t in before.targets)
    if "actuated" in kinds:
        mine = before.target(command.target or "")
        assert mine is not None and mine.actuated_at is None, "carried out twice"
        assert mine.acknowledged_at is not None and mine.sent_at is not None and mine.rejected_at is None
        assert command.data.get("content_hash") in (None, before.content_hash)
    if command.name in ("rollback", "dismiss") and drafts:
        assert before.state not in (State.ROLLED_BACK, State.DISMISSED, State.EXPIRED)


@settings(max_examples=300, deadline=None)
@given(st.lists(steps, min_size=5, max_size=45))
def test_no_sequence_approves_promotes_or_actuates_what_it_must_not(sequence: list[dict[str, Any]]) -> None:
    world = World()
    for step in sequence:
        world.now += timedelta(hours=step["hours"])  # the clock may go backwards
        take(world, step)
        assert world.state == fold(world.events), "the fold of all events is the state"
        state = world.state
        assert state is not None
        assert state.revision >= 1 and [e.seq for e in world.events] == list(range(1, len(world.events) + 1))
        if state.state is State.OBSERVING:
            assert all(t.actuated_at is not None for t in state.targets)
        if state.in_force:
            assert state.stage_no == len(RULES.stages) - 1
        if state.state is State.ROLLED_BACK:
            assert all(t.rolled_back_at is not None for t in state.targets if t.has_change)
    per_stage = Counter(
        (e.data["target"], sum(b.kind == "recommendation.promoted" for b in world.events[: e.seq]))
        for e in world.events
        if e.kind == "recommendation.actuated"
    )
    assert not per_stage or max(per_stage.values()) == 1, "a target carried the same stage out twice"


def test_the_steps_above_do_reach_the_last_stage() -> None:
    """The property is not vacuous: one good sequence goes all the way."""
    world = World()
    base = {"target": "lb-eu", "person": "ada", "role": "operator", "verdict": "PASS", "outcome": "SUCCEEDED"}
    base |= {"stale": 0, "hash": "mine", "rejection": None, "hours": 0}
    for name, more in [
        ("shadow", {}), ("judge", {}), ("approve", {"person": "bob"}), ("approve", {"person": "cem"}), ("carry", {}),
        ("judge", {}), ("promote", {}), ("carry", {}), ("judge", {}), ("promote", {}), ("carry", {}), ("measure", {}),
    ]:  # fmt: skip
        take(world, {**base, "name": name, **more})
    assert world.state is not None and world.state.state is State.SUCCEEDED and world.state.in_force
