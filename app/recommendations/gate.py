"""The gate at the desk: pairs of the warehouse -> evidence -> verdict -> a report and a move of the lifecycle.

Only pairs that were observed, and learned of, after the margins were stored count, and only those of exactly the two
offers. Below the plan only harm is looked for, by a confidence sequence. At the plan there is one look by fixed
intervals. After it a verdict changes only where fixed intervals and the sequence agree, so that looking again and
again does not pass what one look would not.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import polars as pl

from app.operations import Actor
from app.operations.routing import router_parameters
from app.recommendations import store
from app.shadow.beside import weaker
from app.shadow.deciding import candidate_of
from app.shadow.evidence import evidence_of, first_runs, kind_of, notes, usable
from policies.proof.checks import Mode, Ruling
from policies.proof.evidence import Constraint
from policies.proof.gate import Verdict, judge
from policies.proof.margins import HARD_CONSTRAINTS, Margins, OutcomeKind
from policies.recommend import lifecycle
from policies.recommend.governance import SHADOW
from policies.recommend.lifecycle import Command
from policies.recommend.operators import lapsed
from policies.recommend.state import UNDECIDED, RecState, State
from policies.router.filters import ACCESS, CONTEXT, TAGS
from warehouse.clock import iso, utcnow
from warehouse.engine import Transaction
from warehouse.ids import canonical_json, uuid7
from warehouse.loads import load
from warehouse.snapshots import Snapshot, snapshot
from warehouse.tables import frame

if TYPE_CHECKING:
    from app.desk import Desk
    from app.settings import Settings

SOURCE = "desk:gate"
_AGAIN_AT = 1.1  # an undecided verdict is written down again once the requests have grown by a tenth
# Which reasons of an excluded offer break which hard constraint; tags carry residency and safety promises alike.
_BROKEN_BY = {"authorization": (ACCESS,), "residency": (TAGS,), "safety": (TAGS,), "context": (CONTEXT,)}

_PAIRS = """
SELECT * FROM core.shadow_pair
WHERE control_offer = $control AND candidate_offer = $candidate AND observed_at >= $since
  AND known_from >= $since AND known_from <= $as_of
ORDER BY observed_at, pair_id, source_id
"""
_DECISIONS = """
SELECT incumbent, excluded, count(*) AS n
FROM core.shadow_decision
WHERE policy_id = $policy_id AND known_from <= $as_of
GROUP BY ALL ORDER BY ALL
"""


@dataclass(frozen=True)
class Look:
    """One look at what there is. n: requests that count towards the plan."""

    pairs: pl.DataFrame
    kind: OutcomeKind
    n: int
    planned: int
    eligible: tuple[Constraint, ...]

    @property
    def enough(self) -> bool:
        return self.n >= self.planned

    @property
    def broken(self) -> bool:
        return any(c.violations for c in self.eligible)


def stage_of(state: RecState) -> str | None:
    """The stage whose gate is to be judged now; None where nothing is."""
    if state.shadow is None or state.pending is not None:
        return None
    if state.state in UNDECIDED:
        return SHADOW
    return state.stage.name if state.state is State.OBSERVING and state.next_stage is not None else None


def read_pairs(snap: Snapshot, state: RecState) -> pl.DataFrame:
    """Pairs that count for the present gate of `state`: of its two offers, from after its margins (or its stage)."""
    assert state.shadow is not None
    since = state.stage_since if state.state is State.OBSERVING and state.stage_since else state.shadow.started_at
    return snap.sql(_PAIRS, control=state.content["from"], candidate=state.content["to"], since=since)


def look(snap: Snapshot, settings: Settings, state: RecState) -> Look:
    """What there is to be judged about `state` in `snap`."""
    assert state.shadow is not None
    pairs = read_pairs(snap, state)
    planned = Margins.from_dict(state.shadow.margins).n
    kind = kind_of(pairs, planned)
    return Look(pairs, kind, usable(first_runs(pairs, kind)), planned, eligibility(snap, settings, state))


def eligibility(snap: Snapshot, settings: Settings, state: RecState) -> tuple[Constraint, ...]:
    """Hard constraints, proved over the eligible sets of every cell and of every logged request in them.

    A request that broke the same constraint with the offer that did serve it is not counted against the candidate.
    """
    cells, to = state.content["cells"], state.content["to"]
    candidate = candidate_of(state, router_parameters(settings))
    seen = snap.sql(_DECISIONS, policy_id=candidate.policy_id)
    n, broken = len(cells), dict.fromkeys(HARD_CONSTRAINTS, sum(c["score_to"] is None for c in cells))
    for incumbent, excluded, count in seen.iter_rows():
        n += count
        codes: dict[str, Any] = json.loads(excluded)
        for name, by in _BROKEN_BY.items():
            mine, served = (set(by) & set(codes.get(offer, ())) for offer in (to, incumbent))
            broken[name] += count if mine and not served else 0
    return tuple(Constraint(name, n, broken[name], proved=True) for name in HARD_CONSTRAINTS)


def verdict_of(state: RecState, seen: Look, mode: Mode) -> Verdict:
    """The gate's verdict on one look. Pure."""
    assert state.shadow is not None
    margins = Margins.from_dict(state.shadow.margins)
    told = evidence_of(seen.pairs, seen.kind, seen.eligible, state.shadow.mix, margins.min_coverage)
    if mode is Mode.MONITOR:  # a sequence is of the pairs as they come; the fixed look is that of the mix
        told = replace(told, strata=None, mix=None)
    return judge(told, margins, mode=mode)


def decided(state: RecState, seen: Look, before: Ruling | None) -> Verdict:
    """The verdict that counts: see the rule at the top of this module. before: what the look at the plan said."""
    if not seen.enough:
        return verdict_of(state, seen, Mode.MONITOR)
    found = verdict_of(state, seen, Mode.FIXED)
    if before is None or found.verdict is before or seen.broken:
        return found
    again = verdict_of(state, seen, Mode.MONITOR)
    if again.verdict is found.verdict:
        return found
    words = f"{found.words}; an interval that holds at every look does not confirm it, so {before} stays"
    return replace(found, verdict=before, words=words)


def run_gate(tx: Transaction, desk: Desk, actor: Actor, state: RecState, snap: Snapshot, now: datetime) -> str | None:
    """Judge `state` and write what came of it; the verdict, or None where nothing is to be judged or nothing is new."""
    stage = stage_of(state)
    if stage is None or state.shadow is None:
        return None
    before = state.verdicts.get(stage)
    over = (now - state.shadow.started_at).total_seconds() >= desk.settings.shadow.give_up_after
    over = over and stage == SHADOW and state.state is State.SHADOWING
    seen = look(snap, desk.settings, state)
    aged = before is not None and stage != SHADOW and lapsed(state, before.at, now)
    if not _news(state, stage, seen, over=over, aged=aged):
        return None
    planned_look = Ruling(before.verdict) if before is not None and before.n >= seen.planned else None
    found = decided(state, seen, planned_look)
    if found.verdict is Ruling.PASS and not seen.enough:  # a look before the plan is complete may only find harm
        return None
    complete = found.verdict is Ruling.INCONCLUSIVE and (seen.enough or over)
    gate_id = uuid7()
    _store(tx, desk, state, stage, gate_id, found, seen, snap, now)
    told = {
        "stage": stage,
        "verdict": found.verdict.value,
        "gate_id": gate_id,
        "why": found.words,
        "n": seen.n,
        "planned_n": seen.planned,
        "complete": complete,
    }
    command = Command("judge", revision=state.revision, data=told)
    store.append(tx, actor, state.id, lifecycle.decide(state, command, now=now))
    return found.verdict.value


def _news(state: RecState, stage: str, seen: Look, *, over: bool, aged: bool) -> bool:
    """Whether judging again could say anything new, without judging: so that a sweep costs little.

    `aged`: the last verdict is too old to promote on, so that any newer request is news.
    """
    before = state.verdicts.get(stage)
    if over:
        return True
    if before is None:
        return bool(seen.pairs.height) or seen.broken
    if seen.broken:
        return before.verdict != Ruling.FAIL
    if before.n < seen.planned <= seen.n:
        return True
    newest = seen.pairs["known_from"].max()
    restated = isinstance(newest, datetime) and newest > before.at
    return restated and (aged or seen.n >= _AGAIN_AT * max(before.n, 1) or seen.n < before.n)


def _store(
    tx: Transaction,
    desk: Desk,
    state: RecState,
    stage: str,
    gate_id: str,
    found: Verdict,
    seen: Look,
    snap: Snapshot,
    now: datetime,
) -> None:
    assert state.shadow is not None
    report = {
        **found.to_dict(),
        "judged_at": iso(now),
        "as_of": iso(snap.as_of),
        "margins": dict(state.shadow.margins),
        "mix": dict(state.shadow.mix) if state.shadow.mix else None,
        "mix_basis": state.shadow.mix_basis,
        "evidence": notes(seen.pairs, seen.kind),
        "beside": weaker(snap, desk.settings, state, seen.pairs, seen.kind),
    }
    row = {
        "gate_id": gate_id,
        "recommendation_id": state.id,
        "revision": state.revision,
        "content_hash": state.content_hash,
        "stage": stage,
        "margins_sha256": state.shadow.margins_sha256,
        "evidence_kind": found.kind.value if found.kind and seen.pairs.height else None,
        "judged_at": now,
        "verdict": found.verdict.value,
        "n": seen.n,
        "planned_n": seen.planned,
        "report": canonical_json(report),
    }
    source = "sample:gate" if state.content["is_sample"] else SOURCE
    load(tx, "core.gate_report", frame("core.gate_report", [row]), source_id=source, run_id=gate_id, known_from=now)


def judge_all(desk: Desk, actor: Actor, only: str | None = None) -> dict[str, str]:
    """Judge every recommendation that waits for a gate (or `only` one); id -> verdict where it was written down."""
    found: dict[str, str] = {}
    now = utcnow()
    with snapshot(desk.warehouse, now) as snap, desk.warehouse.transaction() as tx:
        for state in store.states(store.all_events(tx)):
            if only is not None and state.id != only:
                continue
            verdict = run_gate(tx, desk, actor, state, snap, now)
            if verdict is not None:
                found[state.id] = verdict
    return found
