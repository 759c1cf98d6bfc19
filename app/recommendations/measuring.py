"""The desk's own measurement of what is carried out: organic traffic of the candidate, against the incumbent's before.

A look is taken when the attempts have doubled since the last one, so that looking often does not alarm often; each look
is an outcome event. What cannot be measured is said once, after an hour.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from app.operations import Actor
from app.recommendations import store
from policies.recommend import lifecycle
from policies.recommend.errors import OutcomeInvalid
from policies.recommend.lifecycle import DESK, Command
from policies.recommend.outcome import MIN_SUCCESSES, Judgement, Outcome, Terms, Verdict, judge
from policies.recommend.state import RecState, State
from policies.recommend.traffic import Traffic, read_traffic
from warehouse.clock import iso, utcnow
from warehouse.engine import Transaction
from warehouse.evidence import EvidenceClass, grams_class
from warehouse.snapshots import Snapshot, snapshot

if TYPE_CHECKING:
    from app.desk import Desk
    from app.settings import Settings

FIRST_WORD_AFTER = timedelta(hours=1)
GROWN = 2  # times as many attempts make another look
WAITING = "WAITING"


def terms(state: RecState, settings: Settings, *, own: bool = False, look: int | None = None) -> Terms:
    """What an outcome is held to: the margins that were stored and approved, else the configured ones."""
    margins: Mapping[str, Any] = state.shadow.margins if state.shadow else settings.shadow.margins.model_dump()
    success = margins["success_margin"] if state.shadow else settings.guardrails.success_margin
    return Terms(
        success_margin=success,
        slo_s=margins.get("slo_s"),
        over_slo_margin=margins.get("over_slo_margin") or 0.0,
        baseline=state.content.get("baseline"),
        own=own,
        look=look,
    )


@dataclass(frozen=True)
class Looked:
    """One look. `verdict` WAITING: no look is due, and `why` says for what."""

    verdict: str
    why: str
    traffic: Traffic | None = None
    judged: Judgement | None = None
    outcome: Outcome | None = None


def measure_all(desk: Desk, actor: Actor, only: str | None = None) -> list[dict[str, Any]]:
    """Measure what every target carries (or `only` one) and write what a look found."""
    told, now = [], utcnow()
    with snapshot(desk.warehouse, now) as snap, desk.warehouse.transaction() as tx:
        for state in store.states(store.all_events(tx)):
            if (only is not None and state.id != only) or state.state is not State.OBSERVING or state.pending:
                continue
            found = look(snap, state, desk.settings, now)
            if found.judged is not None:
                _write(tx, actor, state, found, now)
            told.append(_told(state, found))
    return told


def _told(state: RecState, found: Looked) -> dict[str, Any]:
    return {
        "id": state.id,
        "stage": state.stage.name,
        "since": iso(state.stage_since) if state.stage_since else None,
        "verdict": found.verdict,
        "why": found.why,
        "written": found.judged is not None,
        "judgement": found.judged.to_dict() if found.judged else None,
        "traffic": found.traffic.to_dict() if found.traffic else None,
    }


def look(snap: Snapshot, state: RecState, settings: Settings, now: datetime) -> Looked:
    """Measure one recommendation whose targets all carry the present stage."""
    since = state.stage_since or state.changed_at
    before = [o for o in state.outcomes if o.get("by") == DESK and o.get("stage") == state.stage.name]
    held = terms(state, settings, own=True, look=len(before) + 1)
    traffic = read_traffic(snap, [state.content["to"]], since, now, held.slo_s)[state.content["to"]]
    waits = _waits(traffic, before, since, now)
    if waits is not None:
        return Looked(WAITING, waits, traffic)
    primary = state.content["promise"].get("primary") or "energy_j"
    try:
        outcome = outcome_of(traffic, primary, _coverage(state, settings))
        held = replace(held, strata=traffic.strata, min_coverage=_coverage(state, settings))
        judged = judge(outcome, state.content, held, actuated_at=since)
    except (Unmeasurable, OutcomeInvalid) as error:
        outcome, judged = None, Judgement(Verdict.INCONCLUSIVE, str(error))
    return Looked(judged.verdict.value, judged.why, traffic, judged, outcome)


def _coverage(state: RecState, settings: Settings) -> float:
    return float(state.shadow.margins["min_coverage"] if state.shadow else settings.shadow.margins.min_coverage)


def _waits(traffic: Traffic, before: list[Mapping[str, Any]], since: datetime, now: datetime) -> str | None:
    """What the next look waits for; None: it is due."""
    seen = traffic.attempts
    if not before:
        if (traffic.successes or 0) >= MIN_SUCCESSES or now - since >= FIRST_WORD_AFTER:
            return None
        return f"{traffic.successes or 0} of {MIN_SUCCESSES} successes since {since:%Y-%m-%d %H:%M} UTC"
    last = before[-1]["traffic"]["attempts"]
    wanted = max(MIN_SUCCESSES, GROWN * last)
    return None if seen >= wanted else f"{seen} of {wanted} attempts for the next look"


class Unmeasurable(Exception):
    """The traffic does not tell what the promise was about; the message says what is missing."""


def outcome_of(traffic: Traffic, primary: str, min_coverage: float) -> Outcome:
    """The traffic as an outcome. A metric that most requests tell is scaled up to all; raises Unmeasurable."""
    if not traffic.requests:
        since = f"{traffic.since:%Y-%m-%d %H:%M} UTC"
        raise Unmeasurable(f"no organic request of {traffic.offer} was billed since {since}")
    if traffic.successes is None or not traffic.attempts_told:
        raise Unmeasurable(f"no source tells whether requests of {traffic.offer} succeeded")
    main = traffic.figures[primary]
    if main.value is None:
        raise Unmeasurable(f"{primary} cannot be measured: {main.note}")
    if (main.coverage or 0.0) < min_coverage:
        raise Unmeasurable(
            f"{primary} is told for {main.coverage or 0:.0%} of the requests, and {min_coverage:.0%} are asked"
        )
    sums = {name: None if f.value is None else f.value * traffic.successes for name, f in traffic.figures.items()}
    dollars, energy, carbon = sums["billed_cost_usd"], traffic.figures["energy_j"], traffic.figures["carbon_g"]
    # Grams that claim more than the joules behind them are no figure; the joules are one all the same.
    grams = (
        energy.evidence_class is not None
        and carbon.evidence_class is not None
        and grams_class(energy.evidence_class, carbon.evidence_class) == carbon.evidence_class
    )
    return Outcome(
        window_start_at=traffic.since,
        window_end_at=traffic.until,
        attempts=traffic.attempts_told,
        successes=traffic.successes,
        n=traffic.requests,
        energy_j=sums["energy_j"],
        evidence_class=energy.evidence_class or EvidenceClass.MODELED.value,
        billed_cost_usd=None if dollars is None else Decimal(str(round(dollars, 12))),
        carbon_g=sums["carbon_g"] if grams else None,
        carbon_evidence_class=carbon.evidence_class if grams else None,
        relative_uncertainty=main.se_log,  # that of what is judged
        slo_s=traffic.slo_s,
        latency_n=traffic.latency_n,
        over_slo=traffic.over_slo if traffic.latency_n else None,
    )


def _write(tx: Transaction, actor: Actor, state: RecState, found: Looked, now: datetime) -> None:
    assert found.judged is not None and found.traffic is not None
    data = {
        "measured": found.outcome.to_dict() if found.outcome else None,
        "traffic": found.traffic.to_dict(),
        "verdict": found.judged.verdict.value,
        "why": f"{found.judged.why}; organic traffic of {found.traffic.offer}, all of it, because a bill does not say "
        "which cell asked",
        "judgement": found.judged.to_dict(),
    }
    command = Command("measure", revision=state.revision, data=data)
    store.append(tx, actor, state.id, lifecycle.decide(state, command, now=now))
