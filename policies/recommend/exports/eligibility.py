"""Proof that no backend outside the router's eligible set would receive traffic: frozen, and checked anew at export."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from policies.recommend.exports.errors import NotEligible
from policies.recommend.state import RecState
from policies.router import Excluded, Ranking, Scored
from warehouse.clock import iso

# Reasons that say the desk knows too little about the incumbent, not that a constraint forbids it.
_UNKNOWN = frozenset({"unpriced", "evidence"})


@dataclass(frozen=True)
class Proof:
    """The router's decisions by cell (`category/tier/latency`), as of now."""

    rankings: Mapping[str, Ranking]

    @property
    def as_of(self) -> datetime | None:
        return next((r.as_of for r in self.rankings.values()), None)

    @property
    def logical_models(self) -> dict[str, str]:
        """Base model of each offer, as the catalog names it."""
        told = {}
        for ranking in self.rankings.values():
            sides: tuple[Scored | Excluded, ...] = (*ranking.eligible, *ranking.excluded)
            told.update({side.offer_id: side.figures.base_model for side in sides})
        return told

    def check(self, state: RecState, *, partial: bool) -> None:
        """Refuse a change by which an ineligible backend would receive traffic. Raises NotEligible.

        The candidate must be eligible in every cell. In a stage that leaves traffic with the incumbent
        (`partial`) no hard constraint may keep that one out either.
        """
        for cell, key in zip(state.content["cells"], state.routes, strict=True):
            why = self.candidate(key, cell["to"])
            if why:
                raise NotEligible(
                    f"{cell['to']} is not in the eligible set of {key}: {why}.",
                    fix="refresh the recommendations; a rollback can still be exported",
                )
            why = self.incumbent(key, cell["from"]) if partial and cell["from"] is not None else None
            if why:
                raise NotEligible(
                    f"A share of {key} would stay with {cell['from']}, which is not eligible: {why}.",
                    fix="export the stage that moves all of it",
                )

    def candidate(self, key: str, offer: str) -> str | None:
        """Why `offer` is not in the eligible set of the cell; None where it is."""
        ranking = self.rankings.get(key)
        if ranking is None:
            return "the cell is not routed by this desk"
        return (
            None if any(s.offer_id == offer for s in ranking.eligible) else self._reasons(ranking, offer, frozenset())
        )

    def incumbent(self, key: str, offer: str) -> str | None:
        """Why a hard constraint keeps `offer` out; None where it may stay or only evidence is missing."""
        ranking = self.rankings.get(key)
        if ranking is None:
            return "the cell is not routed by this desk"
        return None if any(s.offer_id == offer for s in ranking.eligible) else self._reasons(ranking, offer, _UNKNOWN)

    @staticmethod
    def _reasons(ranking: Ranking, offer: str, mild: frozenset[str]) -> str | None:
        out = next((e for e in ranking.excluded if e.offer_id == offer), None)
        if out is None:
            return "it is in no catalog"
        return "; ".join(r.text for r in out.reasons if r.code not in mild) or None

    def warnings(self, state: RecState) -> tuple[str, ...]:
        """What the rollback would restore although it is not eligible."""
        found = []
        for cell, key in zip(state.content["cells"], state.routes, strict=True):
            why = self.incumbent(key, cell["from"]) if cell["from"] is not None else None
            if why:
                found.append(f"the rollback restores {cell['from']} in {key}, which is not eligible: {why}")
        return tuple(found)

    def to_dict(self, state: RecState) -> dict[str, Any]:
        """The proof as plain values: what was frozen at the proposal, and what the router says now."""
        content = state.content
        cells = {}
        for cell, key in zip(content["cells"], state.routes, strict=True):
            ranking = self.rankings.get(key)
            cells[key] = {
                "to": {"offer_id": cell["to"], "not_eligible": self.candidate(key, cell["to"])},
                "from": {
                    "offer_id": cell["from"],
                    "not_eligible": self.incumbent(key, cell["from"]) if cell["from"] is not None else None,
                },
                "eligible": [s.offer_id for s in ranking.eligible] if ranking else [],
            }
        first = next(iter(self.rankings.values()), None)
        return {
            "frozen": {
                "as_of": content["as_of"],
                "policy_id": content["policy_id"],
                "snapshot_digest": content["snapshot_digest"],
                "incumbent_ineligible": content.get("incumbent_ineligible"),
            },
            "checked": {
                "as_of": iso(first.as_of) if first else None,
                "policy_id": first.policy_id if first else None,
                "snapshot_digest": first.snapshot_digest if first else None,
                "cells": cells,
            },
        }
