"""What each shadowing policy would have chosen for a logged request, from the snapshot of that request's instant.

Requests are grouped by stretches of time in which nothing that a decision reads began or ceased to hold, and within
them by question: equal questions on equal knowledge have one answer, so a hundred thousand requests are a few
thousand decisions.
"""

from __future__ import annotations

import bisect
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import polars as pl

from policies.router import Candidates, Excluded, Figures, Parameters, Ranking, Request, Scored, load, rank_candidates
from policies.router.candidates import Snapshot
from policies.shadow.requests import NO_TIER, Defaults, questions, sql_text

SHOWN_EXCLUDED = 40
OTHERS = "(others)"


@dataclass(frozen=True)
class Candidate:
    """A recommendation as a policy: `to` in its cells, where `to` is eligible; elsewhere it changes nothing."""

    policy_id: str
    recommendation_id: str
    control: str | None
    to: str
    cells: frozenset[str]


@dataclass(frozen=True)
class Panel:
    """Who is asked. standing: whether the measured router itself is, too."""

    parameters: Parameters
    access: frozenset[str]
    candidates: Sequence[Candidate] = ()
    standing: bool = True


@dataclass
class Known:
    """What a snapshot says, read once for all requests of its stretch of time."""

    candidates: Candidates
    per_run: Mapping[tuple[str, str], float | None]  # successes per reference run of an offer
    steps: Sequence[int]  # required context tokens from which on another answer is possible
    rankings: dict[tuple[Any, ...], Answer] = field(default_factory=dict)

    @property
    def tiers(self) -> dict[str, int | None]:
        return dict(self.candidates.offers.select("offer_id", "tier").iter_rows())


@dataclass(frozen=True)
class Answer:
    """A ranking, and what every row made of it shares."""

    ranking: Ranking
    figures: Mapping[str, Figures]
    eligible: str
    excluded: str
    by_offer: Mapping[str, Scored | Excluded]


def decide(
    requests: pl.DataFrame,
    at: Callable[[datetime], Snapshot],
    instants: Sequence[datetime],
    panel: Panel,
    defaults: Defaults,
    now: datetime,
) -> Iterator[dict[str, Any]]:
    """Rows of core.shadow_decision (without what a load stamps) for `requests` (see `requests.read`).

    `at` opens a snapshot of an instant; `instants` are those of `requests.instants`. Pure: the same requests and the
    same past give the same rows, whenever they are asked.
    """
    for as_of, group in _stretches(requests, instants):
        known = know(at(as_of), panel.parameters)
        for row in questions(group, known.tiers, defaults).iter_rows(named=True):
            yield from _rows(row, known, panel, as_of, now)


def know(snapshot: Snapshot, parameters: Parameters) -> Known:
    """Read everything that decisions as of a snapshot need: four queries."""
    candidates = load(snapshot, parameters)
    told = snapshot.sql(sql_text("success.sql"), fresh_after=snapshot.as_of - parameters.evidence_max_age)
    effective = candidates.offers["effective_context_tokens"].drop_nulls().to_list()
    reaches = {t.min_prompt_tokens for by in candidates.prices.values() for tiers in by.values() for t in tiers}
    return Known(
        candidates,
        {(provider, offer): rate for provider, offer, rate in told.iter_rows()},
        sorted({*(int(tokens) + 1 for tokens in effective), *reaches}),
    )


def explain(request: Mapping[str, Any], known: Known, panel: Panel) -> Ranking | None:
    """The whole ranking behind a decision on `request` (a row of `requests.questions`); None without a tier."""
    if request["tier"] == NO_TIER:
        return None
    return rank_candidates(known.candidates, _question(request, panel), panel.parameters, request["incumbent"])


def _stretches(requests: pl.DataFrame, instants: Sequence[datetime]) -> Iterator[tuple[datetime, pl.DataFrame]]:
    """(the instant to read, the requests for which that snapshot is the one of their own instant)."""
    places = [bisect.bisect_right(instants, at) for at in requests["asked_at"]]
    placed = requests.with_columns(pl.Series("place_", places, dtype=pl.Int64))
    for group in placed.partition_by("place_", maintain_order=True):
        number = int(group["place_"][0])
        first: datetime = instants[number - 1] if number else min(group["asked_at"])
        yield first, group.drop("place_")


def _rows(
    request: Mapping[str, Any], known: Known, panel: Panel, as_of: datetime, now: datetime
) -> Iterator[dict[str, Any]]:
    answer = None if request["tier"] == NO_TIER else _answer(request, known, panel)
    shared = _shared(request, known, answer, as_of, now)
    if panel.standing:
        yield shared | _standing(request, known, panel, answer)
    for candidate in panel.candidates:
        if request["cell"] in candidate.cells and answer is not None:
            yield shared | _candidate(request, known, candidate, answer)


def _question(request: Mapping[str, Any], panel: Panel) -> Request:
    tags = frozenset(t.strip() for t in (request["residency"] or "").split(",") if t.strip())
    return Request(request["category"], request["tier"], request["needed"], request["latency"], tags, panel.access)


def _answer(request: Mapping[str, Any], known: Known, panel: Panel) -> Answer:
    band = bisect.bisect_right(known.steps, request["needed"])
    key = (request["category"], request["tier"], request["latency"], request["residency"], band)
    found = known.rankings.get(key)
    if found is None:
        ranking = rank_candidates(known.candidates, _question(request, panel), panel.parameters)
        sides: tuple[Scored | Excluded, ...] = (*ranking.excluded, *reversed(ranking.eligible))
        found = known.rankings[key] = Answer(
            ranking,
            {s.offer_id: s.figures for s in sides},
            json.dumps([s.offer_id for s in ranking.eligible]),
            json.dumps(excluded_codes(ranking)),
            {s.offer_id: s for s in sides},
        )
    return found


def excluded_codes(ranking: Ranking) -> dict[str, Any]:
    """offer -> codes of its reasons; those that were never in question are counted by their first reason."""
    relevant = [e for e in ranking.excluded if e.figures.tier is not None or e.figures.n > 0][:SHOWN_EXCLUDED]
    named: dict[str, Any] = {e.offer_id: [r.code for r in e.reasons] for e in relevant}
    others = Counter(e.first_reason.code for e in ranking.excluded if e.offer_id not in named)
    return named | ({OTHERS: dict(sorted(others.items()))} if others else {})


def _shared(
    request: Mapping[str, Any], known: Known, answer: Answer | None, as_of: datetime, now: datetime
) -> dict[str, Any]:
    told = {name: request[name] for name in ("request_id", "requested_at", "category", "tier", "latency", "size_band")}
    context = request["required_context_tokens"]
    return told | {
        "decided_at": now,
        "as_of": as_of,
        "snapshot_digest": known.candidates.inputs_digest,
        "context_tokens": request["prompt_tokens"] if context is None else context,
        "incumbent": request["incumbent"],
        "propensity": request["propensity"],
        "eligible": answer.eligible if answer else "[]",
        "excluded": answer.excluded if answer else "{}",
    }


def _standing(request: Mapping[str, Any], known: Known, panel: Panel, answer: Answer | None) -> dict[str, Any]:
    if answer is None:
        why = f"the tier that {request['incumbent']} serves is not declared; declare it under [policy.tiers]"
        return _chosen(panel.parameters.policy_id(), None, request, None, known, None, fallback=True, why=why)
    ranking = answer.ranking
    chosen = _tie_to(request["incumbent"], ranking)
    handed_back = ranking.hand_back.message if ranking.hand_back else None
    reason = ranking.fallback_reason or handed_back
    return _chosen(ranking.policy_id, None, request, chosen, known, answer, fallback=ranking.fallback, why=reason)


def _tie_to(incumbent: str | None, ranking: Ranking) -> str | None:
    """The best of the ranking; among equals the incumbent, as the router itself decides."""
    best = ranking.eligible[0].score if ranking.eligible else None
    tied = [s.offer_id for s in ranking.eligible if s.score == best]
    return incumbent if incumbent in tied else ranking.chosen_offer_id


def _candidate(request: Mapping[str, Any], known: Known, candidate: Candidate, answer: Answer) -> dict[str, Any]:
    to = candidate.to
    side = answer.by_offer.get(to)
    out = f"{to} is in no catalog of that instant" if side is None else None
    if isinstance(side, Excluded):
        out = f"{to} is excluded: {'; '.join(r.text for r in side.reasons)}"
    chosen = to if out is None else candidate.control
    row: dict[str, Any] = _chosen(
        candidate.policy_id,
        candidate.recommendation_id,
        request,
        chosen,
        known,
        answer,
        fallback=out is not None,
        why=out,
    )
    if isinstance(side, Excluded):  # a long list of excluded offers must not cut off the one that is asked about
        row["excluded"] = json.dumps({to: [r.code for r in side.reasons]} | json.loads(answer.excluded))
    return row


def _chosen(
    policy_id: str,
    recommendation_id: str | None,
    request: Mapping[str, Any],
    chosen: str | None,
    known: Known,
    answer: Answer | None,
    *,
    fallback: bool,
    why: str | None,
) -> dict[str, Any]:
    expected, served = (_expected(answer, offer, known) for offer in (chosen, request["incumbent"]))
    for figure, cls in (("energy_j", "energy_evidence_class"), ("carbon_g", "carbon_evidence_class")):
        if None is not expected[cls] != served[cls]:  # figures of different evidence classes are never compared
            served[figure] = None
    return {
        "policy_id": policy_id,
        "recommendation_id": recommendation_id,
        "chosen": chosen,
        "agrees": chosen is not None and chosen == request["incumbent"],
        "fallback": fallback,
        "fallback_reason": why,
        **{f"expected_{name}": value for name, value in expected.items()},
        **{f"incumbent_{name}": served[name] for name in ("energy_j", "cost_usd", "carbon_g")},
    }


_NOTHING: dict[str, Any] = dict.fromkeys(
    ("energy_j", "energy_low_j", "energy_high_j", "energy_evidence_class", "cost_usd", "carbon_g",
     "carbon_evidence_class")
)  # fmt: skip


def _expected(answer: Answer | None, offer: str | None, known: Known) -> dict[str, Any]:
    """Per success by the reference workload of `offer`; everything None where that is not known."""
    figures = answer.figures.get(offer) if answer is not None and offer is not None else None
    rate = known.per_run.get((figures.provider, figures.offer_id)) if figures is not None else None
    if figures is None or not rate:
        return dict(_NOTHING)
    interval = figures.energy_interval_j
    billed = figures.billed_cost_usd
    return {
        "energy_j": _per(figures.energy_j, rate),
        "energy_low_j": _per(interval.low, rate) if interval else None,
        "energy_high_j": _per(interval.high, rate) if interval else None,
        "energy_evidence_class": figures.evidence_class if figures.energy_j is not None else None,
        "cost_usd": float(billed) / rate if billed is not None else None,
        "carbon_g": _per(figures.carbon_g, rate),
        "carbon_evidence_class": figures.carbon_evidence_class if figures.carbon_g is not None else None,
    }


def _per(value: float | None, rate: float) -> float | None:
    return None if value is None else value / rate
