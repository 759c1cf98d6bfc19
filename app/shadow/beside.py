"""What weaker evidence says, told beside a verdict and never part of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from app.operations.routing import router_parameters
from app.shadow.evidence import PAIRED, evidence_of, first_runs, usable
from app.shadow.mixes import defaults
from policies.proof.errors import ProofError
from policies.proof.evidence import Ready, finite_or_none
from policies.proof.gate import judge
from policies.proof.margins import Margins, OutcomeKind
from policies.proof.offpolicy import Logged, cross_fitted, evaluate, ready_rate, ready_ratio
from policies.recommend.state import RecState, cell_key
from policies.router import load
from policies.shadow.requests import Scope, questions, read
from warehouse.errors import IncomparableObservations
from warehouse.evidence import one_class
from warehouse.snapshots import Snapshot

if TYPE_CHECKING:
    from app.settings import Settings

NO_PROPENSITY = (
    "not identifiable: no propensity was logged for a request in its cells; replay the requests, or let the router "
    "explore with at least 1 % and import its labels (kind request-labels)"
)
_AMOUNTS = {"energy": "energy_j", "usd": "billed_cost_usd", "carbon": "carbon_g"}


def weaker(
    snap: Snapshot, settings: Settings, state: RecState, pairs: pl.DataFrame, judged: OutcomeKind
) -> list[dict[str, Any]]:
    """Every kind of evidence but the judged one, strongest first."""
    told = [_pairs(pairs, kind, state) for kind in PAIRED if kind is not judged and first_runs(pairs, kind).height]
    return [*told, _reference(state.content), _off_policy(snap, settings, state)]


def _pairs(pairs: pl.DataFrame, kind: OutcomeKind, state: RecState) -> dict[str, Any]:
    assert state.shadow is not None
    margins = Margins.from_dict({**state.shadow.margins, "constraints": ()})
    found = judge(evidence_of(pairs, kind, mix=state.shadow.mix), margins)
    return {
        "kind": kind.value,
        "n": usable(first_runs(pairs, kind)),
        "words": f"{found.words}; it counts for nothing beside stronger evidence",
        "figures": [
            {k: c.to_dict()[k] for k in ("name", "estimate", "low", "high", "unit", "evidence_class", "n")}
            for c in found.checks
            if c.estimate is not None and not c.name.startswith("constraint:")
        ],
    }


def _reference(content: Mapping[str, Any]) -> dict[str, Any]:
    """The promise: runs of a fixed workload, not of these requests."""
    metrics = content["promise"]["metrics"]
    named = {"energy": "energy_j", "usd": "billed_cost_usd", "carbon": "carbon_g"}
    figures = [
        {
            "name": name,
            "estimate": None if m["difference"] is None else 1 + m["difference"],
            "low": 1 + m["interval"][0] if m["interval"] else None,
            "high": 1 + m["interval"][1] if m["interval"] else None,
            "unit": "ratio",
            "evidence_class": m["to"]["evidence_class"],
            "n": min(m["from"]["n"], m["to"]["n"]),
        }
        for name, m in ((name, metrics[column]) for name, column in named.items())
    ]
    n = min((f["n"] for f in figures), default=0)
    words = f"{n} runs of the reference workload on each side: another workload, so it promises and does not prove"
    return {"kind": OutcomeKind.REFERENCE_WORKLOAD.value, "n": n, "words": words, "figures": figures}


def _off_policy(snap: Snapshot, settings: Settings, state: RecState) -> dict[str, Any]:
    """The candidate against what was logged, from logged choices with their propensities."""
    told = {"kind": OutcomeKind.OFF_POLICY.value, "n": 0, "words": NO_PROPENSITY, "figures": []}
    since = snap.as_of - timedelta(seconds=settings.shadow.max_age)
    logged = _logged_rows(snap, settings, state, since)
    if logged.is_empty():
        return told
    try:
        return told | {"n": logged.height} | _evaluated(logged, state.content["to"])
    except (ProofError, IncomparableObservations) as wrong:
        return told | {"n": logged.height, "words": f"not identifiable: {wrong}"}


def _logged_rows(snap: Snapshot, settings: Settings, state: RecState, since: datetime) -> pl.DataFrame:
    requests = read(snap, Scope(since)).filter(pl.col("propensity").is_not_null() & pl.col("successes").is_not_null())
    if requests.is_empty():
        return requests
    offers = load(snap, router_parameters(settings)).offers
    asked = questions(requests, dict(offers.select("offer_id", "tier").iter_rows()), defaults(settings))
    return asked.filter(pl.col("cell").is_in([cell_key(c) for c in state.content["cells"]]))


def _evaluated(rows: pl.DataFrame, to: str) -> dict[str, Any]:
    told: list[dict[str, float]] = [json.loads(p) if p else {} for p in rows["propensities"]]
    arms = sorted({*rows["incumbent"], to, *(name for one in told for name in one)})
    place = {name: i for i, name in enumerate(arms)}
    action = np.array([place[name] for name in rows["incumbent"]], dtype=np.int64)
    target = np.zeros((rows.height, len(arms)))
    target[:, place[to]] = 1.0
    logging = None
    if all(told):
        logging = np.array([[one.get(name, 0.0) for name in arms] for one in told])
    logged = Logged(action, rows["propensity"].to_numpy(), target, logging)
    success = (rows["successes"] > 0).cast(pl.Float64).to_numpy()
    modelled = cross_fitted(action, success, rows["stratum"].to_numpy(), len(arms))
    rate = evaluate(logged, success, modelled)
    found: dict[str, Ready] = {"success": ready_rate(rate)}
    for name, column in _AMOUNTS.items():
        told_of = rows[column].is_not_null().to_numpy()
        if told_of.all():
            cls = _class(rows, name)
            found[name] = ready_ratio(logged, rows[column].cast(pl.Float64).to_numpy(), success, cls)
    words = rate.overlap.why or "; ".join(
        f"{name} {r.estimate:.3f} ({r.low:.3f} to {r.high:.3f})" for name, r in found.items() if r.estimate is not None
    )
    return {
        "words": words or "clipping or the estimator decides the value",
        "ess": rate.overlap.ess,
        "ess_share": rate.overlap.ess_share,
        "max_weight": rate.overlap.max_weight,
        "sensitive": rate.sensitive,
        "estimators": [vars(e) for e in rate.estimates],
        "clipping": [list(c) for c in rate.clipping],
        "figures": [
            {
                "name": name,
                "estimate": r.estimate,
                "low": finite_or_none(r.low) if r.identifiable else None,
                "high": finite_or_none(r.high) if r.identifiable else None,
                "unit": "share" if name == "success" else "ratio",
                "evidence_class": r.evidence_class,
                "n": r.n,
                "why": r.why or None,
            }
            for name, r in found.items()
        ],
    }


def _class(rows: pl.DataFrame, name: str) -> str:
    if name == "usd":
        return "measured"
    column = "evidence_class" if name == "energy" else "carbon_evidence_class"
    found = one_class(rows[column].drop_nulls(), what=name)
    return found.value if found else "unknown"
