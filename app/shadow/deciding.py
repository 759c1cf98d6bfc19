"""Asking the shadowing policies about logged requests, round by round, and keeping what they would have chosen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import polars as pl

from app.operations.routing import router_parameters
from app.recommendations import store
from app.shadow.mixes import defaults
from policies.recommend.state import RecState, State, cell_key
from policies.router import Parameters, code_sha256
from policies.shadow.decide import Candidate, Panel, decide
from policies.shadow.requests import Scope, instants, read, sql_text
from warehouse.clock import utcnow
from warehouse.engine import Transaction
from warehouse.ids import canonical_json, content_hash, uuid7
from warehouse.loads import load
from warehouse.snapshots import Snapshot
from warehouse.tables import columns, frame

if TYPE_CHECKING:
    from app.desk import Desk
    from app.settings import Settings

SOURCE, SAMPLE_SOURCE = "desk:shadow", "sample:shadow"
SHADOWING = frozenset({State.SHADOWING, State.READY, State.OBSERVING})


@dataclass(frozen=True)
class Round:
    """What a round did: rows written, requests asked about, questions left, and which policies were asked."""

    written: int
    asked: int
    left: int
    policies: int


def candidate_of(state: RecState, parameters: Parameters) -> Candidate:
    """A recommendation as a policy. Its id changes with its cells and with the router's parameters."""
    content = state.content
    cells = frozenset(cell_key(c) for c in content["cells"])
    policy_id = content_hash(policy_parameters(state, parameters))
    return Candidate(policy_id, state.id, content["from"], content["to"], cells)


def policy_parameters(state: RecState, parameters: Parameters) -> dict[str, Any]:
    """What a recommendation is as a policy, as stored in core.policy_version."""
    content = state.content
    return {
        "recommendation_id": state.id,
        "from": content["from"],
        "to": content["to"],
        "cells": sorted(cell_key(c) for c in content["cells"]),
        "router": parameters.policy_id(),
    }


def shadowing(states: Iterable[RecState]) -> list[RecState]:
    return [s for s in states if s.state in SHADOWING and s.pending is None]


def decide_round(desk: Desk, most: int, now: datetime | None = None) -> Round:
    """Ask every shadowing policy about at most `most` logged requests each; oldest first. Raises PolicyError."""
    settings = desk.settings
    parameters = router_parameters(settings)
    now = now or utcnow()
    standing = parameters.policy_id()
    with desk.warehouse.reading() as reader:
        states = shadowing(store.states(store.all_events(reader)))
        candidates = [candidate_of(s, parameters) for s in states]
        snap = Snapshot(reader, now)
        points = instants(snap, parameters.evidence_max_age)
        rows: list[dict[str, Any]] = []
        sample: set[str] = set()
        asked: set[str] = set()
        for scope, panel in _turns(settings, parameters, standing, candidates, most, now):
            requests = read(snap, scope)
            asked |= set(requests["request_id"])
            sample |= set(requests.filter(pl.col("source_id").str.starts_with("sample:"))["request_id"])
            rows += decide(requests, lambda at: Snapshot(reader, at), points, panel, defaults(settings), now)
    written = _write(desk, rows, sample, now)
    with desk.warehouse.transaction() as tx:
        for state, candidate in zip(states, candidates, strict=True):
            _store_policy(tx, candidate.policy_id, state.id, policy_parameters(state, parameters), now)
        _store_policy(tx, standing, parameters.name, parameters.describe(), now)
    return Round(written, len(asked), left(desk, now), 1 + len(candidates))


def left(desk: Desk, now: datetime | None = None) -> int:
    """Questions that are still to be asked: logged requests, times the policies that have not answered them.

    A request that the router has not placed in a cell yet counts once.
    """
    settings, now = desk.settings, now or utcnow()
    parameters = router_parameters(settings)
    standing = parameters.policy_id()
    text = f"SELECT count(*) AS n FROM ({sql_text('requests.sql')})"
    with desk.warehouse.reading() as reader:
        states = shadowing(store.states(store.all_events(reader)))
        candidates = [candidate_of(s, parameters) for s in states]
        snap = Snapshot(reader, now)
        told = 0
        for scope, _ in _turns(settings, parameters, standing, candidates, 1_000_000_000, now):
            told += int(
                snap.sql(
                    text,
                    since=scope.since,
                    share=scope.share,
                    most=scope.most,
                    policy_id=scope.policy_id,
                    standing=scope.standing,
                    cells=None if scope.cells is None else list(scope.cells),
                    request_id=None,
                ).item()
            )
    return told


def _turns(
    settings: Settings, parameters: Parameters, standing: str, candidates: list[Candidate], most: int, now: datetime
) -> Iterable[tuple[Scope, Panel]]:
    """Whom to ask about what: all about requests that are new to the router, then each about those of its cells."""
    access = frozenset(settings.policy.allowed_access)
    since, share = now - timedelta(seconds=settings.shadow.max_age), settings.shadow.sample_share
    yield Scope(since, share, most, policy_id=standing), Panel(parameters, access, candidates)
    for candidate in candidates:
        scope = Scope(since, share, most, candidate.policy_id, standing, sorted(candidate.cells))
        yield scope, Panel(parameters, access, [candidate], standing=False)


def _write(desk: Desk, rows: list[dict[str, Any]], sample: set[str], now: datetime) -> int:
    if not rows:
        return 0
    told = frame("core.shadow_decision", rows)
    ours = pl.col("request_id").is_in(list(sample))
    written = 0
    with desk.warehouse.transaction() as tx:
        for source, part in ((SAMPLE_SOURCE, told.filter(ours)), (SOURCE, told.filter(~ours))):
            if part.height:
                done = load(tx, "core.shadow_decision", part, source_id=source, run_id=uuid7(), known_from=now)
                written += done.loaded
    return written


def _store_policy(tx: Transaction, policy_id: str, name: str, parameters: dict[str, Any], now: datetime) -> None:
    if tx.query("SELECT 1 FROM core.policy_version WHERE policy_id = $id", {"id": policy_id}).height:
        return
    row = {
        "policy_id": policy_id,
        "name": name,
        "parameters": canonical_json(parameters),
        "code_sha256": code_sha256(),
        "known_from": now,
    }
    schema = {c.name: c.polars for c in columns("core.policy_version")}
    tx.append("core.policy_version", pl.DataFrame([row], schema=schema, orient="row"))
