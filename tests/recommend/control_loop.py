"""The control loop without a warehouse: signal -> promise -> guardrails -> decision -> table, over days of fake time.

Everything that decides is the code of the desk; the fleet, the clock and an operator who approves at once are made up.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from app.recommendations.refresh import _held_back
from policies.recommend.fold import advance
from policies.recommend.governance import Governance
from policies.recommend.guardrails import Limits, gain_hold
from policies.recommend.lifecycle import Command, Draft, collect, decide
from policies.recommend.promise import Run, primary_metric, promise
from policies.recommend.propose import Proposal
from policies.recommend.state import RecState, State
from policies.recommend.table import DECLARED, Route, Table, fold_table
from warehouse.ids import content_hash

START = datetime(2026, 8, 10)
KEY = "debugging/1/interactive"
Signal = Callable[[float], tuple[float, float] | None]  # hours -> J of old and new; None: no evidence


@dataclass(frozen=True)
class Fact:
    seq: int
    happened_at: datetime
    kind: str
    subject: str
    revision: int | None
    data: dict[str, Any] = field(default_factory=dict)


@dataclass
class Loop:
    """`limits` as configured; `clock` tells the hours that the desk sees at a true hour; `flips` are in true hours."""

    limits: Limits = field(default_factory=lambda: replace(Limits(), governance=Governance(), max_changes_per_day=10**6,
                                                           max_changes_per_pool=10**6))  # fmt: skip
    rng: random.Random = field(default_factory=lambda: random.Random(7))
    noise: float = 0.01
    succeed: bool = True  # whether outcomes are good; otherwise the change is rolled back at once
    clock: Callable[[float], float] = lambda hours: hours
    events: list[Fact] = field(default_factory=list)
    states: dict[str, RecState] = field(default_factory=dict)
    table: Table = field(default_factory=lambda: Table({KEY: Route("old", "declared")}, DECLARED))
    flips: list[float] = field(default_factory=list)  # true hours
    held: list[str] = field(default_factory=list)

    @property
    def incumbent(self) -> str:
        return str(self.table.routes[KEY].offer_id)

    def run(self, signal: Signal, hours: float, step_h: float = 1 / 6) -> Loop:
        for i in range(round(hours / step_h)):
            self.step(signal, i * step_h)
        return self

    def step(self, signal: Signal, hours: float) -> None:
        now = START + timedelta(hours=self.clock(hours))
        told = signal(hours)
        if told is None:
            return  # stale: nothing is proposed, and what is in force stays
        energies = dict(zip(("old", "new"), told, strict=True))
        before, other = self.incumbent, "new" if self.incumbent == "old" else "old"
        proposal = self._proposal(before, other, energies, now)
        if energies[other] >= energies[before]:
            return  # the ranking keeps the incumbent; a tie goes to it, too
        known = list(self.states.values())
        why = gain_hold(proposal.content["promise"], self.limits) or _held_back(
            proposal,
            None,
            known,
            self.table,
            self.events,
            self.limits,
            now,  # type: ignore[arg-type]
        )
        if why is not None:
            self.held.append(why)
            return
        self._carry_out(proposal, now)
        if self.incumbent != before:
            self.flips.append(hours)

    def _proposal(self, old: str, new: str, energies: dict[str, float], now: datetime) -> Proposal:
        def runs(offer: str) -> list[Run]:
            joules = [energies[offer] * (1 + self.rng.gauss(0, self.noise)) for _ in range(5)]
            return [Run(1, 1, 1, j, Decimal(1), None, "allocated", None, "m", "s", now) for j in joules]

        told = promise(runs(old), runs(new))
        told["primary"] = primary_metric(told, self.limits.min_gain)
        cell = {"category": "debugging", "tier": 1, "latency": "interactive", "from": old, "to": new}
        content = {
            "title": f"{old} -> {new}", "group": [1, "interactive", old, new], "from": old, "to": new, "cells": [cell],
            "targets": ["router"], "promise": told, "governance": self.limits.governance.to_dict(),
            "evidence_hash": content_hash(repr(told)), "is_sample": False, "expires_at": None,
        }  # fmt: skip
        return Proposal((1, "interactive", old, new), content)

    # the life of one change -------------------------------------------------------------------------------

    def _carry_out(self, proposal: Proposal, now: datetime) -> None:
        rec_id = f"R-{len(self.states) + 1:04d}"
        body = {"state": "PROPOSED", "content": proposal.content, "content_hash": "h"}
        self._add(Fact(0, now, "recommendation.proposed", rec_id, 1, body))
        self._send(rec_id, "approve", now)
        self._report(rec_id, now)
        if self.succeed:
            self._send(rec_id, "measure", now, verdict="SUCCEEDED", why="-")
        else:
            self._send(rec_id, "rollback", now)
            self._report(rec_id, now)

    def _report(self, rec_id: str, now: datetime) -> None:
        kind, drafts = collect(self.states[rec_id], "router", now=now)
        self._write(rec_id, drafts, now)
        for name in ("acknowledge", "actuate" if kind == "apply" else "rolled_back"):
            self._send(rec_id, name, now, target="router")

    def _send(self, rec_id: str, name: str, now: datetime, target: str | None = None, **data: Any) -> None:
        state = self.states[rec_id]
        self._write(rec_id, decide(state, Command(name, state.revision, target, data=data), now=now), now)

    def _write(self, rec_id: str, drafts: list[Draft], now: datetime) -> None:
        for draft in drafts:
            self._add(Fact(0, now, draft.kind, rec_id, draft.revision, dict(draft.body)))

    def _add(self, event: Fact) -> None:
        event = replace(event, seq=len(self.events) + 1)
        self.events.append(event)
        state = advance(self.states.get(event.subject), event)
        assert state is not None
        self.states[event.subject] = state
        if event.kind in ("recommendation.observing", "recommendation.rolled_back"):
            self.table = fold_table(self.events, Table({KEY: Route("old", "declared")}, DECLARED))

    def all_in(self, *allowed: State) -> bool:
        return all(s.state in allowed for s in self.states.values())
