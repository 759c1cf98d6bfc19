"""The gate before the approval, the people who approve, and the stages after it: pure moves of the lifecycle."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest

from policies.recommend.errors import NotAllowed
from policies.recommend.fold import fold
from policies.recommend.governance import Governance, Stage
from policies.recommend.lifecycle import Command, collect, decide
from policies.recommend.state import RecState, State
from policies.recommend.table import Route, Table, fold_table

NOW = datetime(2026, 8, 11, 12)
KEY = "debugging/1/interactive"


@dataclass(frozen=True)
class Fact:
    seq: int
    happened_at: datetime
    kind: str
    subject: str
    revision: int | None
    data: dict[str, Any] = field(default_factory=dict)


class Story:
    """The events of one recommendation, and commands that add to them."""

    def __init__(self, targets: tuple[str, ...] = ("lb-eu",), **rules: Any) -> None:
        self.now = NOW
        self.events: list[Fact] = []
        self.targets = targets
        self.rules = Governance(**{"environment": "production", "require_pass": True, "self_approval": False} | rules)
        self.propose("h1")

    def propose(self, digest: str, state: str = "PROPOSED") -> None:
        content = {
            "targets": list(self.targets),
            "cells": [{"category": "debugging", "tier": 1, "latency": "interactive", "from": "old", "to": "new"}],
            "expires_at": (NOW + timedelta(days=7)).isoformat(),
            "governance": self.rules.to_dict(),
            "title": "tier 1: old -> new",
        }
        body = {"state": state, "content": content, "content_hash": digest}
        self._add("recommendation.proposed", self.state.revision + 1 if self.events else 1, body)

    def _add(self, kind: str, revision: int | None, body: dict[str, Any]) -> None:
        self.events.append(Fact(len(self.events) + 1, self.now, kind, "R-0001", revision, body))

    @property
    def state(self) -> RecState:
        found = fold(self.events)
        assert found is not None
        return found

    def send(self, name: str, *, blocked: str | None = None, target: str | None = None, **data: Any) -> RecState:
        given = {"reason": data.pop("reason", None), "rejection": data.pop("rejection", None)}
        command = Command(name, self.state.revision, target, data=data, **given)
        for draft in decide(self.state, command, now=self.now, blocked=blocked):
            self._add(draft.kind, draft.revision, dict(draft.body))
        return self.state

    def collect(self, target: str = "lb-eu") -> str | None:
        kind, drafts = collect(self.state, target)
        for draft in drafts:
            self._add(draft.kind, draft.revision, dict(draft.body))
        return kind

    def shadow(self, person: str | None = "ada") -> RecState:
        return self.send("shadow", margins={"success": 0.02}, margins_sha256="m", person=person, planned_n=100)

    def judge(self, verdict: str, stage: str = "shadow", **more: Any) -> RecState:
        return self.send("judge", stage=stage, verdict=verdict, why=f"because {verdict}", n=100, **more)

    def approve(self, person: str, role: str = "operator") -> RecState:
        return self.send("approve", person=person, role=role)

    def carry(self, *targets: str) -> RecState:
        for target in targets or self.targets:
            assert self.collect(target) == "apply"
            self.send("acknowledge", target=target)
            self.send("actuate", target=target)
        return self.state

    def undo(self, target: str) -> RecState:
        assert self.collect(target) == "rollback"
        self.send("acknowledge", target=target)
        return self.send("rolled_back", target=target)


def refused(action: Any) -> str:
    with pytest.raises(NotAllowed) as caught:
        action()
    return caught.value.message


def test_without_a_pass_nothing_is_approved_whatever_the_gate_said_instead() -> None:
    story = Story()
    assert "gate has not passed" in refused(lambda: story.approve("bob"))
    story.shadow()
    assert "gate has not passed" in refused(lambda: story.approve("bob"))
    story.judge("INCONCLUSIVE", complete=False)
    assert story.state.state is State.SHADOWING
    story.judge("INCONCLUSIVE", complete=True)
    assert story.state.state is State.INCONCLUSIVE
    assert "because INCONCLUSIVE" in refused(lambda: story.approve("bob"))
    story.judge("FAIL")
    assert story.state.state is State.FAILED and story.state.closed
    assert "FAILED" in refused(lambda: story.approve("bob"))


def test_a_pass_makes_ready_and_an_approval_sends_it_on() -> None:
    story = Story()
    story.shadow()
    assert story.judge("PASS").state is State.READY
    assert story.approve("bob").state is State.APPROVED


def test_who_set_the_margins_may_not_approve_them_under_any_role() -> None:
    story = Story(roles=("operator", "admin"))
    story.shadow("ada")
    story.judge("PASS")
    for role in ("operator", "admin"):
        assert "nobody approves their own request" in refused(lambda role=role: story.approve("ada", role))
    assert story.approve("bob").state is State.APPROVED


def test_four_eyes_are_two_people_and_the_second_visit_of_the_first_does_not_count() -> None:
    story = Story(approvals=2)
    story.shadow()
    story.judge("PASS")
    first = story.approve("bob")
    assert first.state is State.READY and "approved 1/2" in first.label
    assert "2 different people must" in refused(lambda: story.approve("bob"))
    assert story.approve("cem").state is State.APPROVED


def test_a_role_that_may_not_approve_is_refused() -> None:
    story = Story(roles=("approver",))
    story.shadow()
    story.judge("PASS")
    assert "operator may not approve here" in refused(lambda: story.approve("bob"))


@pytest.mark.parametrize("change", ["content", "margins", "gate"])
def test_a_change_of_content_margins_or_verdict_voids_the_approvals_that_were_given(change: str) -> None:
    story = Story(approvals=2)
    story.shadow()
    story.judge("PASS")
    before = story.approve("bob").revision
    if change == "content":
        story.propose("h2", state="SHADOWING")
    elif change == "margins":
        story.shadow("ada")
    else:
        story.judge("INCONCLUSIVE", complete=True)
    assert story.state.approvals == () and story.state.revision > before
    assert story.state.state is not State.READY
    if change == "content":
        assert story.state.shadow is not None, "the margins were stored before and still hold"
        story.judge("PASS")
        story.approve("cem")
        assert story.state.state is State.READY, "one of two: the earlier yes was to other content"


def test_an_approval_that_lapsed_no_longer_counts() -> None:
    story = Story(approvals=2, approval_expires_s=3600.0)
    story.shadow()
    story.judge("PASS")
    story.approve("bob")
    story.now += timedelta(hours=2)
    assert story.approve("cem").state is State.READY
    assert story.approve("bob").state is State.APPROVED
    story.now += timedelta(hours=2)
    assert story.send("expire").state is State.EXPIRED


CANARY = (Stage("canary", 0.1), Stage("full", 1.0))


def canary(**rules: Any) -> Story:
    story = Story(targets=("lb-eu", "lb-us"), stages=CANARY, **rules)
    story.shadow()
    story.judge("PASS")
    story.approve("bob")
    story.carry()
    return story


def test_a_canary_moves_on_only_after_its_own_gate() -> None:
    story = canary()
    assert story.state.state is State.OBSERVING and story.state.stage.share == 0.1
    assert "gate of canary has not passed" in refused(lambda: story.send("promote"))
    story.judge("INCONCLUSIVE", stage="canary")
    assert "because INCONCLUSIVE" in refused(lambda: story.send("promote"))
    story.judge("PASS", stage="canary")
    assert story.send("promote").state is State.APPROVED
    assert story.state.stage.name == "full"
    assert story.carry().state is State.OBSERVING
    assert story.send("outcome", target="lb-eu", verdict="SUCCEEDED", why="held").state is State.SUCCEEDED


def test_the_table_changes_with_the_whole_traffic_only() -> None:
    baseline = Table({KEY: Route("old", "declared")}, "declared")
    story = canary()
    assert fold_table(story.events, baseline).routes[KEY].offer_id == "old"
    story.judge("PASS", stage="canary")
    story.send("promote")
    story.carry()
    assert fold_table(story.events, baseline).routes[KEY].offer_id == "new"
    story.send("rollback", reason="-")
    for target in story.targets:
        story.undo(target)
    assert story.state.state is State.ROLLED_BACK
    assert fold_table(story.events, baseline).routes[KEY].offer_id == "old"


def test_a_canary_that_fails_rolls_back_by_itself_where_the_owner_allowed_it() -> None:
    alone = canary(auto_rollback=True)
    alone.judge("FAIL", stage="canary")
    assert alone.state.pending == "rollback" and "automatic" in (alone.state.reason or "")
    for target in alone.targets:
        alone.undo(target)
    assert alone.state.state is State.ROLLED_BACK
    watched = canary()
    assert watched.judge("FAIL", stage="canary").state is State.FAILED
    assert watched.state.pending is None and not watched.state.closed


def test_a_rollback_in_the_middle_of_the_second_stage_reaches_every_target_that_held_the_first() -> None:
    story = canary()
    story.judge("PASS", stage="canary")
    story.send("promote")
    story.carry("lb-eu")
    assert story.state.partial
    story.send("rollback", reason="latency")
    assert story.undo("lb-us").state is not State.ROLLED_BACK
    assert story.undo("lb-eu").state is State.ROLLED_BACK


def test_what_every_target_refused_is_over_and_what_one_holds_is_not() -> None:
    story = Story(targets=("lb-eu", "lb-us"))
    story.shadow()
    story.judge("PASS")
    story.approve("bob")
    for target in story.targets:
        story.collect(target)
    story.send("acknowledge", target="lb-eu", rejection="frozen")
    assert story.state.state is State.SENT
    assert story.send("acknowledge", target="lb-us", rejection="frozen").state is State.REJECTED_BY_TARGET
    held = canary()
    held.judge("PASS", stage="canary")
    held.send("promote")
    for target in held.targets:
        held.collect(target)
        held.send("acknowledge", target=target, rejection="no capacity")
    assert held.state.state is not State.REJECTED_BY_TARGET, "both still hold the canary share"
    held.send("rollback", reason="-")
    for target in held.targets:
        held.undo(target)
    assert held.state.state is State.ROLLED_BACK


def test_no_stage_moves_more_of_the_traffic_at_once_than_its_policy_allows() -> None:
    """The settings are checked with their file; content that was frozen under others is checked here again."""
    story = canary(max_step=0.5)
    story.judge("PASS", stage="canary")
    assert "full moves 90% of the traffic at once, and at most 50% may move" in refused(lambda: story.send("promote"))
    whole = Story(max_step=0.5)
    whole.shadow()
    whole.judge("PASS")
    assert "full moves 100% of the traffic at once" in refused(lambda: whole.approve("bob"))
