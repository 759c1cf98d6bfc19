"""Which model: hard constraints first, then a score over measured cost, carbon and proficiency."""

from __future__ import annotations

from policies.router.candidates import Candidates, load, validate_references
from policies.router.filters import Reason
from policies.router.parameters import DECLARED_TIERS, Basis, Parameters, Weights, code_sha256
from policies.router.rank import rank, rank_candidates, routing_table
from policies.router.ranking import Excluded, Figures, HandBack, Parts, Ranking, RoutingTable, Scored
from policies.router.request import CATEGORIES, TIERS, Latency, Request
from policies.router.score import Interval

__all__ = [
    "CATEGORIES",
    "DECLARED_TIERS",
    "TIERS",
    "Basis",
    "Candidates",
    "Excluded",
    "Figures",
    "HandBack",
    "Interval",
    "Latency",
    "Parameters",
    "Parts",
    "Ranking",
    "Reason",
    "Request",
    "RoutingTable",
    "Scored",
    "Weights",
    "code_sha256",
    "load",
    "rank",
    "rank_candidates",
    "routing_table",
    "validate_references",
]
