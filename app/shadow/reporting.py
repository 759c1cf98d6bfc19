"""What shadows say: per policy, per recommendation, and about one request."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import polars as pl

from app.errors import NotFound
from app.operations.plain import plain, plain_rows
from app.operations.routing import router_parameters
from app.recommendations import store
from app.shadow.deciding import SHADOWING, candidate_of, left, shadowing
from app.shadow.mixes import defaults
from policies.recommend.state import RecState
from policies.router import Parameters
from policies.shadow.decide import Panel, explain, know
from policies.shadow.requests import Scope, questions, read
from policies.shadow.worth import agreement, differences, worth
from warehouse.clock import iso, utcnow
from warehouse.engine import Transaction
from warehouse.snapshots import Snapshot

if TYPE_CHECKING:
    from app.desk import Desk
    from app.settings import Settings

ROUTER = "router"
_LONG_AGO = datetime(1970, 1, 1)

_PER_POLICY = """
SELECT policy_id, count(*) AS decided, count(*) FILTER (agrees) AS agree, count(*) FILTER (fallback) AS fallback,
  count(*) FILTER (chosen IS NULL) AS handed_back, count(*) FILTER (tier = 0) AS without_tier,
  max(decided_at) AS last_decided_at, max(requested_at) AS last_requested_at
FROM core.shadow_decision WHERE list_contains($ids, policy_id) GROUP BY policy_id
"""
_GATES = """
SELECT gate_id, revision, stage, margins_sha256, evidence_kind, judged_at, verdict, n, planned_n, report
FROM core.gate_report WHERE recommendation_id = $id ORDER BY judged_at DESC, gate_id DESC
"""


def status(desk: Desk) -> dict[str, Any]:
    """Every shadowing policy and every recommendation with a shadow: how far, what it says so far."""
    settings, now = desk.settings, utcnow()
    parameters = router_parameters(settings)
    with desk.warehouse.reading() as reader:
        states = store.states(store.all_events(reader))
        asked = shadowing(states)
        ids = {ROUTER: parameters.policy_id(), **{s.id: candidate_of(s, parameters).policy_id for s in asked}}
        found = reader.query(_PER_POLICY, {"ids": list(ids.values())})
        rows = {r["policy_id"]: r for r in plain_rows(found)}
        snap = Snapshot(reader, now)
        recommendations = [_progress(snap, settings, s) for s in reversed(states) if s.shadow and not s.closed]
        logged = read_count(snap, settings, now)
    policies = [
        {"name": name, "policy_id": policy_id, **_counts(rows.get(policy_id))} for name, policy_id in ids.items()
    ]
    return {
        "as_of": iso(now),
        "sample_share": settings.shadow.sample_share,
        "max_age_s": settings.shadow.max_age,
        "logged": logged,
        "left": left(desk, now),
        "category_of_unlabelled": settings.shadow.category,
        "policies": policies,
        "recommendations": recommendations,
    }


def read_count(snap: Snapshot, settings: Settings, now: datetime) -> dict[str, int]:
    """Logged requests within the age that is shadowed: all, those in the declared sample, those with a label."""
    since = now - timedelta(seconds=settings.shadow.max_age)
    requests = read(snap, Scope(since))
    sampled = read(snap, Scope(since, settings.shadow.sample_share)).height
    return {"requests": requests.height, "sampled": sampled, "labelled": int(requests["labelled"].sum())}


def _counts(row: dict[str, Any] | None) -> dict[str, Any]:
    counts = ("decided", "agree", "fallback", "handed_back", "without_tier")
    none: dict[str, Any] = {**dict.fromkeys(counts, 0), "last_decided_at": None, "last_requested_at": None}
    told = {k: v for k, v in (row or none).items() if k != "policy_id"}
    return told | {"agree_share": told["agree"] / told["decided"] if told["decided"] else None}


def _progress(snap: Snapshot, settings: Settings, state: RecState) -> dict[str, Any]:
    assert state.shadow is not None
    from app.recommendations import gate  # brings numba and scipy, which only pairs need

    stage = gate.stage_of(state)
    said = state.verdicts.get(stage or state.stage.name) or state.gate
    seen = gate.look(snap, settings, state) if stage is not None else None
    return {
        "id": state.id,
        "title": state.content["title"],
        "state": state.state.value,
        "label": state.label,
        "stage": stage,
        "shadowing": state.state in SHADOWING,
        "started_at": iso(state.shadow.started_at),
        "margins_sha256": state.shadow.margins_sha256,
        "margins_by": state.shadow.person or "configuration",
        "mix_basis": state.shadow.mix_basis,
        "evidence_kind": seen.kind.value if seen is not None and seen.pairs.height else None,
        "pairs": seen.pairs.height if seen is not None else None,
        "n": seen.n if seen is not None else (said.n if said else None),
        "planned_n": state.shadow.planned_n,
        "verdict": said.verdict if said else None,
        "why": said.why if said else None,
        "judged_at": iso(said.at) if said else None,
        "gate_id": said.gate_id if said else None,
    }


def report(desk: Desk, name: str) -> dict[str, Any]:
    """Agreement, differences and their worth for one policy: a recommendation id, or `router`."""
    settings, now = desk.settings, utcnow()
    parameters = router_parameters(settings)
    with desk.warehouse.reading() as reader:
        policy_id, state = _policy(reader, parameters, name)
        decisions = reader.query(
            "SELECT * FROM core.shadow_decision WHERE policy_id = $id ORDER BY requested_at, request_id",
            {"id": policy_id},
        )
        mix = dict(state.shadow.mix) if state and state.shadow and state.shadow.mix else None
        gates = _gates(reader, name) if state is not None else []
        progress = _progress(Snapshot(reader, now), settings, state) if state and state.shadow else None
    known = decisions.filter(pl.col("tier") > 0)
    return {
        "id": name,
        "policy_id": policy_id,
        "as_of": iso(now),
        "title": state.content["title"] if state else "the measured router",
        "agreement": plain(agreement(decisions)),
        "differences": plain(differences(known)),
        "worth": plain(worth(known, mix)),
        "mix": mix,
        "mix_basis": state.shadow.mix_basis if state and state.shadow else None,
        "fallbacks": _reasons(decisions),
        "newest": plain_rows(decisions.tail(20).select("request_id", "requested_at", "incumbent", "chosen", "agrees")),
        "shadow": progress,
        "gate": gates[0] if gates else None,
        "gates": [{k: v for k, v in g.items() if k != "report"} for g in gates],
    }


def _policy(reader: Transaction, parameters: Parameters, name: str) -> tuple[str, RecState | None]:
    if name == ROUTER:
        return parameters.policy_id(), None
    state, _ = store.one(reader, name)
    return candidate_of(state, parameters).policy_id, state


def _gates(reader: Transaction, rec_id: str) -> list[dict[str, Any]]:
    return [row | {"report": json.loads(row["report"])} for row in plain_rows(reader.query(_GATES, {"id": rec_id}))]


def _reasons(decisions: pl.DataFrame) -> list[dict[str, Any]]:
    """Why policies fell back or handed back, most frequent first."""
    told = decisions.filter(pl.col("fallback_reason").is_not_null())
    return (
        told.group_by("fallback_reason")
        .len("n")
        .sort("n", "fallback_reason", descending=[True, False])
        .head(10)
        .to_dicts()
    )


def one_request(desk: Desk, request_id: str) -> dict[str, Any]:
    """Everything about one logged request: what it was, what each policy would have done, and the whole ranking.

    The ranking is worked out again from the snapshot of then; `reproduced` says whether it is what was written down.
    """
    settings = desk.settings
    parameters = router_parameters(settings)
    panel = Panel(parameters, frozenset(settings.policy.allowed_access))
    with desk.warehouse.reading() as reader:
        snap = Snapshot(reader, utcnow())
        requests = read(snap, Scope(_LONG_AGO, request_id=request_id))
        if requests.is_empty():
            raise NotFound(
                f"There is no logged request {request_id!r}.",
                fix="give provider/account/usage_key, as `joulebook shadow report` lists them",
            )
        decisions = reader.query(
            "SELECT d.*, p.name AS policy_name FROM core.shadow_decision d "
            "LEFT JOIN core.policy_version p USING (policy_id) WHERE request_id = $id ORDER BY decided_at, policy_id",
            {"id": request_id},
        )
        own = decisions.filter(pl.col("policy_id") == parameters.policy_id())
        as_of = own["as_of"][0] if own.height else requests["asked_at"][0]
        known = know(Snapshot(reader, as_of), parameters)
        asked = questions(requests, known.tiers, defaults(settings)).row(0, named=True)
        ranking = explain(asked, known, panel)
        pairs = reader.query(
            "SELECT * FROM core.shadow_pair WHERE request_id = $id ORDER BY observed_at", {"id": request_id}
        )
    told = ranking.to_dict() if ranking is not None else None
    return {
        "request": plain({k: v for k, v in asked.items() if k not in ("needed",)})
        | {"context_tokens": asked["needed"]},
        "decisions": [_decision(row) for row in plain_rows(decisions)],
        "as_of": iso(as_of),
        "ranking": told,
        "note": None if ranking is not None else f"the tier that {asked['incumbent']} serves is not declared",
        "reproduced": _reproduced(own, told),
        "pairs": plain_rows(pairs),
    }


def _decision(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"eligible": json.loads(row["eligible"]), "excluded": json.loads(row["excluded"])}


def _reproduced(own: pl.DataFrame, ranking: dict[str, Any] | None) -> bool | None:
    """None: the present router has not been asked about it."""
    if own.is_empty():
        return None
    if ranking is None:
        return own["chosen"][0] is None
    return bool(own["chosen"][0] == ranking["chosen"] and own["snapshot_digest"][0] == ranking["snapshot_digest"])
