"""The gate at the desk: pairs of the warehouse -> evidence -> verdict -> a report and a move of the lifecycle.

Only pairs that were observed after the margins were stored count, and only those of exactly the two offers. Paired
replays are judged where there are any, mirrored requests otherwise: the two are never mixed.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from app.operations import Actor
from app.recommendations import store
from policies.proof.checks import Mode, Ruling
from policies.proof.evidence import Amounts, Both, Constraint, Evidence
from policies.proof.gate import Verdict, judge
from policies.proof.margins import HARD_CONSTRAINTS, Margins, OutcomeKind
from policies.recommend import lifecycle
from policies.recommend.governance import SHADOW
from policies.recommend.lifecycle import Command
from policies.recommend.state import UNDECIDED, RecState, State
from warehouse.clock import iso, utcnow
from warehouse.engine import Transaction
from warehouse.ids import canonical_json, uuid7
from warehouse.loads import load
from warehouse.snapshots import Snapshot, snapshot
from warehouse.tables import frame

if TYPE_CHECKING:
    from app.desk import Desk

SOURCE = "desk:gate"
_AGAIN_AT = 1.1  # an undecided verdict is written down again once the pairs have grown by a tenth

_PAIRS = """
SELECT * FROM core.shadow_pair
WHERE control_offer = $control AND candidate_offer = $candidate AND observed_at >= $since AND observed_at <= $until
  AND known_from <= $as_of
ORDER BY observed_at, pair_id, source_id
"""


def read_pairs(snap: Snapshot, state: RecState, until: datetime | None = None) -> pl.DataFrame:
    """Pairs that count for the present gate of `state`: of its two offers, from after its margins (or its stage)."""
    assert state.shadow is not None
    since = state.stage_since if state.state is State.OBSERVING and state.stage_since else state.shadow.started_at
    content = state.content
    return snap.sql(
        _PAIRS, control=content["from"], candidate=content["to"], since=since, until=until or datetime(9999, 1, 1)
    )


def evidence_of(pairs: pl.DataFrame, eligible: tuple[Constraint, ...]) -> Evidence:
    """What the gate is told. `eligible`: the proofs over the eligible set that the ranking made."""
    kinds = pairs["evidence_kind"].unique().to_list()
    strongest = next((k for k in OutcomeKind if k.value in kinds), OutcomeKind.PAIRED_REPLAY)
    used = pairs.filter((pl.col("evidence_kind") == strongest.value) & ~pl.col("aborted"))
    aborted = pairs.filter((pl.col("evidence_kind") == strongest.value) & pl.col("aborted")).height
    violations = used["violation"].drop_nulls()
    clusters = used["cluster"]
    return Evidence(
        kind=strongest.value,
        success=_both(used, "success"),
        latency_s=_both(used, "latency_s") if _told(used, "latency_s") else None,
        energy_j=_amounts(used, "energy_j", used["evidence_class"], used["meter_class"]),
        usd=_amounts(used, "cost_usd", pl.repeat("measured", used.height, eager=True), _bill(used)),
        carbon_g=_amounts(used, "carbon_g", used["carbon_evidence_class"], used["meter_class"]),
        constraints=(*eligible, Constraint("sampled", used.height, violations.len(), proved=False)),
        clusters=_labels(clusters) if clusters.null_count() < used.height else None,
        category=[str(c) for c in used["category"]],
        aborted=f"{aborted} of {aborted + used.height} pairs were aborted" if aborted > used.height else None,
    )


def _both(pairs: pl.DataFrame, name: str) -> Both:
    return Both(*(_floats(pairs[f"{arm}_{name}"]) for arm in ("candidate", "control")))


def _told(pairs: pl.DataFrame, name: str) -> bool:
    return pairs[f"candidate_{name}"].null_count() < pairs.height


def _amounts(pairs: pl.DataFrame, name: str, classes: pl.Series, meters: pl.Series) -> Amounts | None:
    if not pairs.height or not _told(pairs, name):
        return None
    told = [None if c is None else str(c) for c in classes]
    kind = [str(c) for c in told if c is not None]
    meter = [None if m is None else str(m) for m in meters]
    candidate, control = (_floats(pairs[f"{arm}_{name}"]) for arm in ("candidate", "control"))
    return Amounts(candidate, control, kind, kind, meter, meter)


def _bill(pairs: pl.DataFrame) -> pl.Series:
    return pl.repeat("bill", pairs.height, eager=True)


def _floats(values: pl.Series) -> np.ndarray[Any, np.dtype[np.float64]]:
    return values.cast(pl.Float64).fill_null(float("nan")).to_numpy()


def _labels(values: pl.Series) -> np.ndarray[Any, Any]:
    """A pair without a cluster is one by itself."""
    alone = pl.int_range(values.len(), eager=True).cast(pl.String)
    return values.fill_null("pair " + alone).to_numpy()


def verdict_of(snap: Snapshot, state: RecState, *, monitor: bool) -> tuple[Verdict, pl.DataFrame]:
    """The gate's verdict on what is known in `snap`; before the planned n only harm is looked for."""
    assert state.shadow is not None
    pairs = read_pairs(snap, state)
    margins = Margins.from_dict(state.shadow.margins)
    mode = Mode.MONITOR if monitor else Mode.FIXED
    return judge(evidence_of(pairs, proof_of_eligibility(state)), margins, mode=mode), pairs


def proof_of_eligibility(state: RecState) -> tuple[Constraint, ...]:
    """The candidate passed every hard constraint of every cell: the ranking chose it from the eligible set."""
    cells = state.content["cells"]
    outside = sum(c["score_to"] is None for c in cells)
    return tuple(Constraint(name, len(cells), outside, proved=True) for name in HARD_CONSTRAINTS)


def run_gate(tx: Transaction, desk: Desk, actor: Actor, state: RecState, snap: Snapshot, now: datetime) -> str | None:
    """Judge `state` and write what came of it; the verdict, or None where nothing is to be judged or nothing is new."""
    if state.shadow is None or state.pending is not None:
        return None
    staged = state.state is State.OBSERVING and state.next_stage is not None
    if state.state not in UNDECIDED and not staged:
        return None
    stage = state.stage.name if staged else SHADOW
    before = state.verdicts.get(stage)
    planned = Margins.from_dict(state.shadow.margins).n
    enough = read_pairs(snap, state).filter(~pl.col("aborted")).height >= planned
    found, pairs = verdict_of(snap, state, monitor=not enough)
    over = (now - state.shadow.started_at).total_seconds() >= desk.settings.shadow.give_up_after
    if not enough and found.verdict is Ruling.PASS:  # a look before the plan is complete may only find harm
        return None
    complete = found.verdict is Ruling.INCONCLUSIVE and (enough or over)
    same = before is not None and before.verdict == found.verdict.value
    settled = same and (not complete or state.state is State.INCONCLUSIVE)
    if settled and before is not None and pairs.height < _AGAIN_AT * max(before.n, 1):
        return None
    if before is None and not pairs.height and not over:
        return None
    gate_id = uuid7()
    _store(tx, state, stage, gate_id, found, pairs, now)
    told = {
        "stage": stage,
        "verdict": found.verdict.value,
        "gate_id": gate_id,
        "why": found.words,
        "n": pairs.height,
        "planned_n": planned,
        "complete": complete,
    }
    command = Command("judge", revision=state.revision, data=told)
    store.append(tx, actor, state.id, lifecycle.decide(state, command, now=now))
    return found.verdict.value


def _store(
    tx: Transaction, state: RecState, stage: str, gate_id: str, found: Verdict, pairs: pl.DataFrame, now: datetime
) -> None:
    assert state.shadow is not None
    row = {
        "gate_id": gate_id,
        "recommendation_id": state.id,
        "revision": state.revision,
        "content_hash": state.content_hash,
        "stage": stage,
        "margins_sha256": state.shadow.margins_sha256,
        "evidence_kind": found.kind.value if found.kind and pairs.height else None,
        "judged_at": now,
        "verdict": found.verdict.value,
        "n": pairs.height,
        "planned_n": found.planned_n,
        "report": canonical_json({**found.to_dict(), "judged_at": iso(now), "margins": dict(state.shadow.margins)}),
    }
    told = frame("core.gate_report", [row])
    load(tx, "core.gate_report", told, source_id=SOURCE, run_id=gate_id, known_from=now)


def judge_all(desk: Desk, actor: Actor, only: str | None = None) -> dict[str, str]:
    """Judge every recommendation that waits for a gate (or `only` one); id -> verdict where it was written down."""
    found: dict[str, str] = {}
    now = utcnow()
    with snapshot(desk.warehouse) as snap, desk.warehouse.transaction() as tx:
        for state in store.states(store.all_events(tx)):
            if only is not None and state.id != only:
                continue
            verdict = run_gate(tx, desk, actor, state, snap, now)
            if verdict is not None:
                found[state.id] = verdict
    return found
