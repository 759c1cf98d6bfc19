"""The refresh: compare the table in force with the ranked one, and bring the proposals up to date."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import polars as pl

from app.operations import Actor
from app.operations.routing import current_table, ranked_cells, router_parameters
from app.recommendations import margins, store
from app.shadow.mixes import fixed_mix
from policies.recommend import guardrails, lifecycle
from policies.recommend.lifecycle import Command, Draft
from policies.recommend.propose import Held, Proposal, differences, read_evidence
from policies.recommend.state import HANDED_OVER, PREFIX, UNDECIDED, RecState, State
from policies.recommend.table import Table
from policies.router import Parameters, code_sha256
from warehouse import ledger
from warehouse.engine import Transaction
from warehouse.ids import canonical_json, content_hash
from warehouse.snapshots import snapshot
from warehouse.tables import columns

if TYPE_CHECKING:
    from app.desk import Desk


@dataclass(frozen=True)
class Found:
    """What a comparison found, read through one snapshot."""

    proposals: list[Proposal]
    held: list[Held]
    table: Table
    as_of: datetime


@dataclass
class Told:
    """What a refresh did, as ids. `lapsed`: promotions that nobody collected; the stage before goes on."""

    proposed: list[str] = field(default_factory=list)
    revised: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    superseded: list[str] = field(default_factory=list)
    expired: list[str] = field(default_factory=list)
    lapsed: list[str] = field(default_factory=list)


def compare(desk: Desk) -> Found:
    """Read one snapshot and compare; writes nothing."""
    settings = desk.settings
    with snapshot(desk.warehouse) as snap:
        table = current_table(desk.warehouse, settings, snap)
        ranked = ranked_cells(snap, settings, table)
        terms = store.limits(settings)
        evidence = read_evidence(snap, router_parameters(settings).evidence_max_age, terms.slo_s)
        proposals, held = differences(ranked, table, evidence, terms)
        return Found(proposals, held, table, snap.as_of)


def write(tx: Transaction, desk: Desk, actor: Actor, found: Found) -> Told:
    """Expire what is overdue, propose, revise or supersede, all in the caller's transaction.

    What a guardrail holds back is added to `found.held` with its reason.
    """
    terms, now = store.limits(desk.settings), found.as_of
    events = store.all_events(tx)
    known = store.states(events)
    told = Told()
    for state in guardrails.overdue(known, now):
        store.append(tx, actor, state.id, lifecycle.decide(state, Command("expire"), now=now))
        (told.lapsed if state.unclaimed else told.expired).append(state.id)
    open_ones = {tuple(s.content["group"]): s for s in known if _open(s) and s.id not in told.expired}
    count = len(known) + ledger.lost(tx)  # an id that a lost event may have named is never given again
    for proposal in found.proposals:
        existing = open_ones.get(proposal.group)
        why = _held_back(proposal, existing, known, found.table, events, terms, now)
        if why is not None:
            found.held.append(Held(proposal.content["title"], tuple(proposal.keys), why))
            continue
        open_ones.pop(proposal.group, None)
        if existing is not None and existing.content["evidence_hash"] == proposal.evidence_hash:
            told.unchanged.append(existing.id)
            begin_shadow(tx, desk, actor, existing.id, now)
            continue
        count += existing is None
        rec_id = existing.id if existing else f"R-{count:04d}"
        store.append(tx, actor, rec_id, [_proposed(proposal, existing)])
        begin_shadow(tx, desk, actor, rec_id, now)
        (told.revised if existing else told.proposed).append(rec_id)
    for state in open_ones.values():
        reason = next((h.reason for h in found.held if set(h.cells) & set(state.routes)), None)
        command = Command("supersede", reason=reason or "the ranking no longer asks for this change")
        store.append(tx, actor, state.id, lifecycle.decide(state, command, now=now))
        told.superseded.append(state.id)
    _store_policy(tx, router_parameters(desk.settings), now)
    return told


def _open(state: RecState) -> bool:
    """Whether its content may still change: nobody has decided, or nobody has collected what was decided."""
    return state.state in UNDECIDED or state.uncollected


def begin_shadow(tx: Transaction, desk: Desk, actor: Actor, rec_id: str, now: datetime) -> None:
    """Store the configured margins where the desk shadows by itself and nobody has set other ones."""
    state, _ = store.one(tx, rec_id)
    told = margins.configured(desk.settings)
    mine = state.shadow is None or (state.shadow.person is None and state.shadow.margins_sha256 != margins.digest(told))
    if not desk.settings.approval_policy.auto_shadow or not _open(state) or not mine:
        return
    mix = fixed_mix(tx, desk.settings, state.content, now)
    command = Command("shadow", revision=state.revision, data=margins.shadow_data(told, None, mix))
    store.append(tx, actor, rec_id, lifecycle.decide(state, command, now=now))


def _held_back(
    proposal: Proposal,
    existing: RecState | None,
    known: Sequence[RecState],
    table: Table,
    events: Sequence[ledger.Event],
    terms: guardrails.Limits,
    now: datetime,
) -> str | None:
    """Why a guardrail keeps this proposal back. The day's budget holds back only what is not on the desk yet."""
    return (
        guardrails.flight_hold(proposal.keys, [s for s in known if existing is None or s.id != existing.id])
        or guardrails.dwell_hold(proposal.keys, table, terms, now)
        or guardrails.repeat_hold(proposal.evidence_hash, proposal.group, known)
        or guardrails.backoff_hold(proposal.keys, known, terms, now)
        or (guardrails.budget_hold(events, len(proposal.keys), terms, now) if existing is None else None)
        or (guardrails.pool_hold(events, proposal.content, terms, now) if existing is None else None)
    )


def _proposed(proposal: Proposal, existing: RecState | None) -> Draft:
    content = json.loads(canonical_json(proposal.content))  # hash what is stored, not what was computed
    kept = State.SHADOWING if existing is not None and existing.shadow is not None else State.PROPOSED
    body: dict[str, Any] = {"state": kept.value, "content": content, "content_hash": content_hash(content)}
    if existing is not None:
        body["replaces_content_hash"] = existing.content_hash
    return Draft(f"{PREFIX}proposed", body, existing.revision + 1 if existing else 1)


def _store_policy(tx: Transaction, parameters: Parameters, now: datetime) -> None:
    policy_id = parameters.policy_id()
    if tx.query("SELECT 1 FROM core.policy_version WHERE policy_id = $id", {"id": policy_id}).height:
        return
    row = {
        "policy_id": policy_id,
        "name": parameters.name,
        "parameters": canonical_json(parameters.describe()),
        "code_sha256": code_sha256(),
        "known_from": now,
    }
    schema = {c.name: c.polars for c in columns("core.policy_version")}
    tx.append("core.policy_version", pl.DataFrame([row], schema=schema, orient="row"))


def withdraw_sample(tx: Transaction, actor: Actor, now: datetime) -> list[str]:
    """Withdraw every recommendation made from sample data; what is in force already is rolled back.

    Newest first, so that a target undoes changes in the order in which they lie on each other.
    """
    withdrawn = []
    reason = "the sample data it was made from was removed"
    for state in reversed(store.states(store.all_events(tx))):
        if not state.content["is_sample"] or state.pending is not None:
            continue
        if state.state is State.FAILED and state.closed:  # by its gate: nothing of it reached a target
            continue
        if state.state in UNDECIDED:
            name = "supersede"
        elif state.state in HANDED_OVER | {State.APPROVED}:
            name = "rollback"
        else:
            continue
        command = Command(name, revision=state.revision, reason=reason)
        store.append(tx, actor, state.id, lifecycle.decide(state, command, now=now))
        withdrawn.append(state.id)
    return sorted(withdrawn)
