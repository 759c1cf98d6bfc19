"""Proposals: where the ranked table differs from the incumbent one, grouped into changes a person can judge.

Pure: everything comes in, nothing is written. One proposal per (tier, latency, from, to).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from importlib import resources
from typing import Any

from policies.recommend.guardrails import Limits, gain_hold
from policies.recommend.promise import Run, primary_metric, promise
from policies.recommend.state import cell_key
from policies.recommend.table import Table
from policies.recommend.traffic import Traffic, identity, read_traffic
from policies.recommend.words import summary
from policies.router import Excluded, Figures, Ranking, Scored
from policies.router.candidates import Snapshot
from warehouse.clock import iso, parse_utc
from warehouse.ids import content_hash

# What differs from one refresh to the next although nothing has changed.
VOLATILE = frozenset(
    {"as_of", "snapshot_digest", "table_version", "ages", "expires_at", "traffic", "baseline", "evidence_hash"}
)
_SOFT_CODES = frozenset({"unpriced", "evidence"})  # lack of knowledge about the incumbent, not a hard constraint
_SHOWN_EXCLUDED = 40
_BEFORE = timedelta(days=7)  # of the incumbent's own traffic

RankedCells = Mapping[tuple[str, int, str], Ranking]  # category, tier, latency
RunsOf = Mapping[tuple[str, str], Sequence[Run]]  # provider, offer_id


@dataclass(frozen=True)
class Evidence:
    """What the promise is made from, read through one snapshot."""

    runs: RunsOf
    requests_7d: Mapping[str, int]  # billed organic requests per offer
    ages: Mapping[str, str]  # kind of evidence -> newest instant (ISO, UTC)
    identity: Callable[[Sequence[str]], Mapping[str, Sequence[str]]] = lambda offers: {}  # see traffic.identity
    baseline: Callable[[str], Traffic | None] = lambda offer: None  # an offer's own traffic before


@dataclass(frozen=True)
class Proposal:
    group: tuple[int, str, str | None, str]  # tier, latency, from, to
    content: dict[str, Any]

    @property
    def keys(self) -> list[str]:
        return [cell_key(c) for c in self.content["cells"]]

    @property
    def evidence_hash(self) -> str:
        return str(self.content["evidence_hash"])


@dataclass(frozen=True)
class Held:
    """A difference that is not proposed, and why."""

    title: str
    cells: tuple[str, ...]
    reason: str

    def to_dict(self) -> dict[str, Any]:
        return {"title": self.title, "cells": list(self.cells), "reason": self.reason}


@dataclass
class _Group:
    cells: list[dict[str, Any]] = field(default_factory=list)
    rankings: list[Ranking] = field(default_factory=list)


def read_evidence(snapshot: Snapshot, evidence_max_age: timedelta, slo_s: float | None = None) -> Evidence:
    """Reference runs, recent traffic and the age of each kind of evidence: three queries, more where asked."""
    folder = resources.files("policies.recommend.sql")

    def sql(name: str) -> str:
        return (folder / name).read_text(encoding="utf-8")

    runs: dict[tuple[str, str], list[Run]] = {}
    frame = snapshot.sql(sql("evidence.sql"), fresh_after=snapshot.as_of - evidence_max_age)
    for row in frame.iter_rows(named=True):
        fields = {name: row[name] for name in Run.__dataclass_fields__}
        runs.setdefault((row["provider"], row["offer_id"]), []).append(Run(**fields))
    since = snapshot.as_of - _BEFORE
    traffic = snapshot.sql(sql("traffic.sql"), since=snapshot.as_of - timedelta(days=7))
    ages = snapshot.sql(sql("ages.sql"))
    return Evidence(
        runs=runs,
        requests_7d=dict(traffic.select("offer_id", "requests").iter_rows()),
        ages={what: iso(at) for what, at in ages.iter_rows() if at is not None},
        identity=cache(lambda offers: identity(snapshot, offers)),
        baseline=cache(lambda offer: read_traffic(snapshot, [offer], since, snapshot.as_of, slo_s)[offer]),
    )


def differences(
    ranked: RankedCells, table: Table, evidence: Evidence, limits: Limits
) -> tuple[list[Proposal], list[Held]]:
    """Every difference between `table` and `ranked`: proposals, and what is held back with the reason.

    Cells that the table does not have are not routed by this desk and are left alone.
    """
    groups: dict[tuple[int, str, str | None, str], _Group] = {}
    held: list[Held] = []
    for (category, tier, latency), ranking in sorted(ranked.items()):
        key = cell_key({"category": category, "tier": tier, "latency": latency})
        route = table.routes.get(key)
        chosen = ranking.chosen
        if route is None:
            continue
        if chosen is None:
            if route.offer_id is not None:
                why = ranking.hand_back.message if ranking.hand_back else "no offer fits"
                held.append(Held(f"tier {tier}: {route.offer_id} -> none", (key,), why))
            continue
        if chosen.offer_id == route.offer_id:
            continue
        group = groups.setdefault((tier, latency, route.offer_id, chosen.offer_id), _Group())
        group.cells.append(_cell(category, tier, latency, route.offer_id, chosen, ranking))
        group.rankings.append(ranking)
    proposals: list[Proposal] = []
    for key_, group in sorted(groups.items(), key=lambda item: str(item[0])):
        content = _content(key_, group, table, evidence, limits)
        reason = _hold(content, group.rankings[0], limits)
        if reason:
            held.append(Held(content["title"], tuple(cell_key(c) for c in content["cells"]), reason))
        else:
            proposals.append(Proposal(key_, content))
    return proposals, held


def _hold(content: Mapping[str, Any], ranking: Ranking, limits: Limits) -> str | None:
    if content["incumbent_ineligible"]:
        return None
    if ranking.fallback:
        return f"no measured evidence decides: {ranking.fallback_reason}"
    return gain_hold(content["promise"], limits)


def _cell(category: str, tier: int, latency: str, old: str | None, chosen: Scored, ranking: Ranking) -> dict[str, Any]:
    before = next((s for s in ranking.eligible if s.offer_id == old), None)
    figures = _figures(ranking, old)
    return {
        "category": category,
        "tier": tier,
        "latency": latency,
        "from": old,
        "to": chosen.offer_id,
        "score_from": before.score if before else None,
        "score_to": chosen.score,
        "proficiency_from": figures.proficiency if figures else None,
        "proficiency_to": chosen.figures.proficiency,
    }


def _figures(ranking: Ranking, offer: str | None) -> Figures | None:
    sides: tuple[Scored | Excluded, ...] = (*ranking.eligible, *ranking.excluded)
    return next((s.figures for s in sides if s.offer_id == offer), None)


def _ineligible(ranking: Ranking, offer: str | None) -> str | None:
    """Why a hard constraint keeps the incumbent out; None where it may stay or only evidence is missing."""
    if offer is None:
        return None
    out = next((e for e in ranking.excluded if e.offer_id == offer), None)
    if out is None:
        return None if _figures(ranking, offer) else f"{offer} is in no catalog"
    hard = [r.text for r in out.reasons if r.code not in _SOFT_CODES]
    return f"{offer} is no longer eligible: {'; '.join(hard)}" if hard else None


def _content(
    key: tuple[int, str, str | None, str], group: _Group, table: Table, evidence: Evidence, limits: Limits
) -> dict[str, Any]:
    tier, latency, old, new = key
    ranking = group.rankings[0]
    chosen = ranking.chosen
    assert chosen is not None
    before = _figures(ranking, old)
    sides = {
        "from": list(evidence.runs.get((before.provider, old), ())) if before and old else [],
        "to": list(evidence.runs.get((chosen.figures.provider, new), ())),
    }
    told = promise(sides["from"], sides["to"])
    told["primary"] = primary_metric(told, limits.min_gain)
    told["proficiency"] = _proficiency(group.cells)
    ineligible = _ineligible(ranking, old)
    sources = {r.source_id for r in (*sides["from"], *sides["to"])} | {chosen.figures.source_id}
    sources |= {before.source_id} if before else set()
    suffix = "" if latency == "interactive" else f" ({latency})"
    content: dict[str, Any] = {
        "title": f"tier {tier}{suffix}: {old or 'none'} -> {new}",
        "group": list(key),
        "tier": tier,
        "latency": latency,
        "from": old,
        "to": new,
        "cells": group.cells,
        "targets": list(limits.targets),
        "governance": limits.governance.to_dict(),
        "incumbent_basis": table.basis,
        "incumbent_ineligible": ineligible,
        "promise": told,
        "rests_on": {
            what: content_hash(rows)
            for what, rows in evidence.identity(tuple(o for o in (old, new) if o is not None)).items()
        },
        "baseline": _baseline(evidence, old),
        "why": _why(ineligible, group, chosen, ranking),
        "warnings": list(chosen.warnings),
        "undo": f"Rolling back restores {old or 'no route'} in {_cells(len(group.cells))} "
        "on every target that received the change.",
        "runners_up": [{"offer_id": s.offer_id, "score": s.score} for s in ranking.eligible[1:6]],
        "excluded": _excluded(ranking),
        "excluded_counts": dict(sorted(Counter(e.first_reason.code for e in ranking.excluded).items())),
        "policy_id": ranking.policy_id,
        "policy_name": ranking.policy_name,
        "basis": ranking.basis,
        "is_sample": any(s.startswith("sample:") for s in sources),
        "sources": sorted(sources),
        "as_of": iso(ranking.as_of),
        "snapshot_digest": ranking.snapshot_digest,
        "table_version": table.version,
        "ages": dict(evidence.ages),
        "traffic": {"offer_id": old, "requests_7d": evidence.requests_7d.get(old) if old else None},
        "expires_at": iso(ranking.as_of + limits.expires_after),
    }
    content["summary"] = summary(content)
    content["evidence_hash"] = content_hash({k: v for k, v in content.items() if k not in VOLATILE})
    return content


def _baseline(evidence: Evidence, old: str | None) -> dict[str, Any] | None:
    """The incumbent's own traffic before the change, frozen: what the desk's measurement is held against."""
    found = evidence.baseline(old) if old is not None else None
    return found.to_dict() if found is not None and found.requests else None


def _cells(n: int) -> str:
    return "1 cell" if n == 1 else f"{n} cells"


def _proficiency(cells: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Mean over the cells; None where any cell is unknown on that side."""

    def mean(side: str) -> float | None:
        known = [c[side] for c in cells if c[side] is not None]
        return sum(known) / len(known) if len(known) == len(cells) else None

    old, new = mean("proficiency_from"), mean("proficiency_to")
    return {"from": old, "to": new, "difference": None if old is None or new is None else new - old}


def _why(ineligible: str | None, group: _Group, chosen: Scored, ranking: Ranking) -> list[str]:
    why = [ineligible] if ineligible else []
    scored = [c for c in group.cells if c["score_from"] is not None]
    if scored:
        first = scored[0]
        why.append(
            f"{chosen.offer_id} scores {first['score_to']:.3f} against {first['score_from']:.3f} "
            f"in {first['category']} (basis {ranking.basis})"
        )
    if ranking.fallback and ranking.fallback_reason:
        why.append(ranking.fallback_reason)
    return why


def _excluded(ranking: Ranking) -> list[dict[str, Any]]:
    """The excluded that could have mattered: a declared tier or evidence; the rest is in the counts."""
    relevant = [e for e in ranking.excluded if e.figures.tier is not None or e.figures.n > 0]
    return [{"offer_id": e.offer_id, "reasons": [r.text for r in e.reasons]} for e in relevant[:_SHOWN_EXCLUDED]]


def expires_at(content: Mapping[str, Any]) -> datetime:
    return parse_utc(content["expires_at"], what="expires_at", assume_utc=True)
