"""Ranking: a pure function of a snapshot, a request and parameters; it reads once and writes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import polars as pl

from policies.router.candidates import Candidates, Snapshot, load
from policies.router.filters import CONTEXT, EVIDENCE, ORDER, UNPRICED, Reason, passes, with_reasons
from policies.router.parameters import Basis, Parameters
from policies.router.ranking import Cell, Excluded, Figures, HandBack, Parts, Ranking, RoutingTable, Scored
from policies.router.request import CATEGORIES, TIERS, Latency, Request
from policies.router.score import Interval, lognormal_mean_interval, with_score
from warehouse.evidence import EvidenceClass, strongest_first

_HARD = tuple(code for code in ORDER if code not in (UNPRICED, EVIDENCE))


def rank(snapshot: Snapshot, request: Request, parameters: Parameters, incumbent: str | None = None) -> Ranking:
    """Eligible offers best first, the others with every reason. Ties go to the incumbent, then by offer id."""
    return rank_candidates(load(snapshot, parameters), request, parameters, incumbent)


def rank_candidates(
    candidates: Candidates, request: Request, parameters: Parameters, incumbent: str | None = None
) -> Ranking:
    """`rank` over candidates that were read before."""
    return _Filtered(candidates, request, parameters).ranking(request.category, incumbent)


def routing_table(
    snapshot: Snapshot,
    parameters: Parameters,
    categories: Iterable[str] = CATEGORIES,
    tiers: Iterable[int] = TIERS,
    latency: str = Latency.INTERACTIVE,
    incumbent_table: Mapping[Cell, str | None] | None = None,
    *,
    required_context_tokens: int = 8192,
    residency: frozenset[str] = frozenset(),
    authorized_access: frozenset[str] = frozenset({"open"}),
) -> RoutingTable:
    """A decision per (category, tier). The snapshot is read once; the filters run once per tier."""
    candidates = load(snapshot, parameters)
    wanted = list(categories)
    decisions: dict[Cell, Ranking] = {}
    for tier in tiers:
        if not wanted:
            break
        request = Request(wanted[0], tier, required_context_tokens, latency, residency, authorized_access)
        filtered = _Filtered(candidates, request, parameters)
        for category in wanted:
            decisions[category, tier] = filtered.ranking(category, (incumbent_table or {}).get((category, tier)))
    return RoutingTable({cell: decisions[cell] for cell in sorted(decisions)})


class _Filtered:
    """The part of a decision that does not depend on the category: filters, basis and the excluded."""

    def __init__(self, candidates: Candidates, request: Request, parameters: Parameters) -> None:
        self.candidates, self.request, self.parameters = candidates, request, parameters
        self.policy_id = parameters.policy_id()
        self.basis = parameters.basis
        self.fallback_reason: str | None = None
        self.frame = with_reasons(candidates, request, parameters, self.basis)
        if self.basis is Basis.MEASURED:
            self.fallback_reason = self._why_fall_back()
            if self.fallback_reason:
                self.basis = Basis.LIST_PRICE
                self.frame = with_reasons(candidates, request, parameters, self.basis)
        self.eligible = self.frame.filter(passes())
        self.excluded = tuple(
            Excluded(self._figures(row, None), _reasons(row))
            for row in self.frame.filter(~passes()).sort("offer_id", "provider").iter_rows(named=True)
        )
        self.hand_back = None if self.eligible.height else self._hand_back()

    def ranking(self, category: str, incumbent: str | None) -> Ranking:
        request, parameters = self.request, self.parameters
        return Ranking(
            request=replace(request, category=category),
            as_of=self.candidates.as_of,
            policy_id=self.policy_id,
            policy_name=parameters.name,
            snapshot_digest=self.candidates.inputs_digest,
            basis=self.basis.value,
            fallback=self.fallback_reason is not None,
            fallback_reason=self.fallback_reason,
            seed=parameters.seed,
            incumbent=incumbent,
            eligible=self._scored(category, incumbent),
            excluded=self._excluded(category),
            hand_back=self.hand_back,
        )

    def _excluded(self, category: str) -> tuple[Excluded, ...]:
        """The excluded with their proficiency in `category`; the rest of them is the same in every category."""
        proficiency_of = self.candidates.proficiency_of
        known = [proficiency_of(e.figures.offer_id, e.figures.base_model, category) for e in self.excluded]
        if not any(p is not None for p in known):
            return self.excluded
        return tuple(
            replace(e, figures=replace(e.figures, proficiency=p)) for e, p in zip(self.excluded, known, strict=True)
        )

    def _scored(self, category: str, incumbent: str | None) -> tuple[Scored, ...]:
        known = [
            self.candidates.proficiency_of(offer, base, category)
            for offer, base in self.eligible.select("offer_id", "base_model").iter_rows()
        ]
        # The list-price basis is oblivious to energy: no carbon figure enters it, every eco part is neutral.
        carbon = pl.col("carbon_g") if self.basis is Basis.MEASURED else pl.lit(None, dtype=pl.Float64)
        frame = self.eligible.with_columns(
            pl.Series("proficiency", known, dtype=pl.Float64), cost=pl.col("cost_usd").cast(pl.Float64), carbon=carbon
        )
        ordered = (
            with_score(frame, self.parameters)
            .with_columns(challenger=pl.col("offer_id") != pl.lit(incumbent or ""))
            .sort("score", "challenger", "offer_id", "provider", descending=[True, False, False, False])
        )
        best_carbon = self._strongest_carbon_class()
        return tuple(
            Scored(
                self._figures(row, row["proficiency"]),
                row["score"],
                Parts(row["cost_score"], row["eco_score"], row["prof_score"]),
                _warnings(row, best_carbon),
            )
            for row in ordered.iter_rows(named=True)
        )

    def _strongest_carbon_class(self) -> EvidenceClass | None:
        """Of the carbon figures that are scored against each other; None where none is."""
        if self.basis is not Basis.MEASURED:
            return None
        return next(iter(strongest_first(self.eligible["carbon_evidence_class"].drop_nulls())), None)

    def _why_fall_back(self) -> str | None:
        """Why measured evidence cannot decide this request; None where it can, or where nobody fits anyway."""
        fit = self.frame.filter(passes(_HARD))
        if fit.is_empty() or fit.select(passes((UNPRICED, EVIDENCE)).any()).item():
            return None
        newest = fit["age_s"].min()
        days = self.parameters.evidence_max_age.total_seconds() / 86_400
        if fit["n"].max():
            why = "has a billed cost on its reference runs"
        else:
            why = f"has reference-workload evidence younger than {days:g} d"
            why += f" (newest is {newest / 86_400:.1f} d old)" if isinstance(newest, float) else " (none is known)"
        return f"none of the {fit.height} candidates that pass the other filters {why}; ranked by list price"

    def _hand_back(self) -> HandBack:
        first = Counter(e.first_reason.code for e in self.excluded)
        counts = tuple((code, first[code]) for code in ORDER if first[code])
        asked = self.request
        others = self.frame.filter(passes(tuple(code for code in ORDER if code != CONTEXT)))
        widest = others["effective_context_tokens"].max()
        if self.frame.is_empty():
            message = "No offer is known as of this instant. Load a catalog first."
        elif isinstance(widest, int):
            message = (
                f"No candidate holds {asked.required_context_tokens} tokens; the widest that fits otherwise holds "
                f"{widest}. Trim or summarize the context to that, nothing was truncated."
            )
        else:
            message = (
                f"No candidate fits tier {asked.tier}, {asked.latency} latency and "
                f"{asked.required_context_tokens} tokens: "
                + ", ".join(f"{n} excluded by {code}" for code, n in counts)
                + "."
            )
        return HandBack(message, counts)

    def _figures(self, row: Mapping[str, Any], proficiency: float | None) -> Figures:
        copied = {name: row[name] for name in _COPIED}
        return Figures(
            **copied,
            cost_interval_usd=_interval(row, "cost") if self.basis is Basis.MEASURED else None,
            carbon_interval_g=_interval(row, "carbon"),
            energy_interval_j=_interval(row, "energy"),
            proficiency=proficiency,
        )


_COPIED = tuple(
    name
    for name in Figures.__dataclass_fields__
    if name not in ("cost_interval_usd", "carbon_interval_g", "energy_interval_j", "proficiency")
)


def _interval(row: Mapping[str, Any], of: str) -> Interval | None:
    return lognormal_mean_interval(row[f"{of}_log_n"], row[f"{of}_log_mean"], row[f"{of}_log_sd"])


def _reasons(row: Mapping[str, Any]) -> tuple[Reason, ...]:
    return tuple(Reason(code, row[f"out_{code}"]) for code in ORDER if row[f"out_{code}"] is not None)


def _warnings(row: Mapping[str, Any], best_carbon: EvidenceClass | None) -> tuple[str, ...]:
    found = [] if row["expires_at"] is None else [f"expires on {row['expires_at']:%Y-%m-%d}"]
    told = strongest_first(row["carbon_classes"].split(", ") if row["carbon_classes"] else ())
    if len(told) > 1:
        found.append(f"gCO2e mixes evidence classes {', '.join(told)}: no carbon figure, its carbon part is neutral")
    elif told and best_carbon is not None and told[0] != best_carbon:
        found.append(f"gCO2e is {told[0]}, scored beside {best_carbon} figures of other offers")
    return tuple(found)
