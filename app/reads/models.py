"""The decision table of one question, where list order and bill order disagree, and what other weights would flip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from policies.router import Parameters, Ranking, Request, Scored, rank, routing_table
from warehouse.engine import Warehouse
from warehouse.snapshots import snapshot

CellKey = tuple[str, int]


def decision(warehouse: Warehouse, request: Request, parameters: Parameters, incumbent: str | None) -> Ranking:
    """Eligible offers best first, the excluded with every reason, as of now."""
    with snapshot(warehouse) as snap:
        return rank(snap, request, parameters, incumbent)


@dataclass(frozen=True)
class Inversion:
    """`offer` lists below `other` and yet is billed `bill_ratio` times as much per reference run."""

    offer: str
    other: str
    list_ratio: float  # list(offer) / list(other), below 1
    bill_ratio: float  # bill(offer) / bill(other), above 1


def inversions(offers: Sequence[Scored]) -> dict[str, list[Inversion]]:
    """Pairs that list price and bill order differently, by the offer that only looks cheaper; worst first."""
    found: dict[str, list[Inversion]] = {}
    for a in offers:
        for b in offers:
            fa, fb = a.figures, b.figures
            known = fa.list_cost_usd, fb.list_cost_usd, fa.billed_cost_usd, fb.billed_cost_usd
            if a is b or any(v is None or v <= 0 for v in known):
                continue
            list_a, list_b, bill_a, bill_b = (float(v) for v in known if v is not None)
            if list_a < list_b and bill_a > bill_b:
                found.setdefault(a.offer_id, []).append(
                    Inversion(a.offer_id, b.offer_id, list_a / list_b, bill_a / bill_b)
                )
    return {k: sorted(v, key=lambda i: (-i.bill_ratio, i.other)) for k, v in found.items()}


def table_cells(
    warehouse: Warehouse, parameters: Parameters, latency: str, context_tokens: int, access: frozenset[str]
) -> dict[CellKey, str | None]:
    """The offer that each (category, tier) would go to under `parameters`."""
    with snapshot(warehouse) as snap:
        decided = routing_table(
            snap, parameters, latency=latency, required_context_tokens=context_tokens, authorized_access=access
        )
    return decided.cells


def flips(
    before: Mapping[CellKey, str | None], after: Mapping[CellKey, str | None]
) -> dict[CellKey, tuple[str | None, str | None]]:
    """Cells whose choice differs: (with the configured weights, with the other ones)."""
    return {cell: (before.get(cell), to) for cell, to in after.items() if before.get(cell) != to}
