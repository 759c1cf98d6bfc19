"""Tariffs reconstructed from single requests: rate, flex multiplier and ceiling -> core.tariff rows. Pure.

A request is billed min(rate x charged kWh, multiple x list token price). So the rate of a day is the value of
cost / kWh that most requests of the standard tier agree on; requests below it were bound by the ceiling,
and cost / list price of those is the multiple; cost / kWh of flex requests over the rate is the flex multiplier.

Each is told only where the bill identifies it: a rate needs three requests of a day that agree and are
half of it or more; a multiplier, two flex requests likewise; a multiple, two bound requests that agree, no
bound one that does not, and no unbound request above it. Costs are rounded by who bills them, so two
amounts agree within half a percent plus half a unit of the last digit that the bill uses.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import polars as pl

from ingest.billing.tariffs import SAME_RATE, Reconstruction
from ingest.fields import J_PER_KWH, money
from warehouse.evidence import EvidenceClass
from warehouse.tables import frame

COLUMNS = (
    "provider", "account", "service_tier", "period_start_at", "period_end_at", "billed_cost_usd", "energy_j",
    "energy_charged_j", "list_cost_usd",
)  # fmt: skip
FEWEST, FEWEST_FLEX, FEWEST_BOUND = 3, 2, 2
_FINEST = 12  # digits behind the point that the warehouse keeps


@dataclass(frozen=True)
class Billed:
    """One request: cost in USD, charged kWh (consumed x multiplier of flex where that is told), list cost."""

    start_at: datetime
    end_at: datetime
    cost: Decimal
    kwh: Decimal
    charged_kwh: Decimal | None  # as the bill tells it
    list_cost: Decimal | None
    flex: bool

    @property
    def per_kwh(self) -> Decimal:
        return self.cost / (self.charged_kwh or self.kwh)


def billed(row: dict[str, Any]) -> Billed | None:
    """A usage row that tells cost and energy; None otherwise."""
    cost, joules = row["billed_cost_usd"], row["energy_j"]
    if cost is None or cost <= 0 or not joules or joules <= 0:
        return None
    charged = row["energy_charged_j"]
    return Billed(
        row["period_start_at"],
        row["period_end_at"],
        cost,
        Decimal(str(joules)) / J_PER_KWH,
        Decimal(str(charged)) / J_PER_KWH if charged else None,
        row["list_cost_usd"],
        row["service_tier"] == "flex",
    )


def cost_step(costs: Iterable[Decimal]) -> Decimal:
    """The unit of the last digit that any of `costs` uses."""
    digits = max((-int(c.normalize().as_tuple().exponent) for c in costs), default=0)
    return Decimal(1).scaleb(-min(_FINEST, max(0, digits)))


def agree(told: Decimal, rule: Decimal, step: Decimal) -> bool:
    """Whether a billed amount is what the rule says, as far as a rounded amount can tell."""
    return abs(told - rule) <= SAME_RATE * max(told, rule) + step / 2


def reconstruct_requests(usage: pl.DataFrame) -> Reconstruction:
    """Rules of every (provider, account) in `usage`: rows of core.usage of grain request, with list costs."""
    accounts: dict[tuple[str, str], list[Billed]] = defaultdict(list)
    for row in usage.select(COLUMNS).sort("period_start_at").iter_rows(named=True):
        found = billed(row)
        if found is not None:
            accounts[row["provider"], row["account"]].append(found)
    rules: list[dict[str, Any]] = []
    notes: list[str] = []
    for (provider, account), requests in sorted(accounts.items()):
        for rule in _rules(requests, notes):
            rules.append({"provider": provider, "account": account, **rule})
    return Reconstruction(frame("core.tariff", rules), tuple(notes))


def _rules(requests: list[Billed], notes: list[str]) -> list[dict[str, Any]]:
    step = cost_step(r.cost for r in requests)
    groups = _groups(requests, step)
    if not groups:
        notes.append(f"{len(requests)} requests agree on no rate per kWh: in no tariff rule")
    rules = []
    for place, (rate, own) in enumerate(groups):
        last = place == len(groups) - 1
        flex = _flex_multiplier(own, rate)
        multiple, why = _ceiling(own, rate, flex, step)
        if why:
            notes.append(why)
        explained = [(r, e) for r in own if (e := expected(r, rate, flex, multiple)) and agree(r.cost, e, step)]
        rules.append(
            {
                "valid_from": own[0].start_at,
                "valid_to": None if last else own[-1].end_at,
                "usd_per_kwh": money(rate.quantize(Decimal("1e-9"))),
                "flex_multiplier": None if flex is None else round(float(flex), 9),
                "list_price_ceiling_multiple": None if multiple is None else round(float(multiple), 9),
                "basis": "reconstructed",
                "evidence_class": EvidenceClass.ALLOCATED.value,
                "n": len(explained),
                "residual_relative": max((float(abs(r.cost - e) / r.cost) for r, e in explained), default=None),
            }
        )
    return rules


def expected(request: Billed, rate: Decimal, flex: Decimal | None, multiple: Decimal | None) -> Decimal | None:
    """min(rate x charged kWh, multiple x list cost) in USD; None for flex whose multiplier is not known."""
    by_energy = _by_energy(request, rate, flex)
    if by_energy is None or multiple is None or request.list_cost is None:
        return by_energy
    return min(by_energy, multiple * request.list_cost)


def _by_energy(request: Billed, rate: Decimal, flex: Decimal | None) -> Decimal | None:
    if request.charged_kwh is not None:
        return rate * request.charged_kwh
    if request.flex:
        return None if flex is None else rate * request.kwh * flex
    return rate * request.kwh


def _groups(requests: list[Billed], step: Decimal) -> list[tuple[Decimal, list[Billed]]]:
    """Spans of one rate with all requests in them; a day that tells no rate belongs to the rule before it."""
    days: dict[date, list[Billed]] = defaultdict(list)
    for request in requests:
        days[request.start_at.date()].append(request)
    spans: list[tuple[list[Billed], list[Billed]]] = []  # agreeing requests, all requests
    waiting: list[Billed] = []
    for day in sorted(days):
        told = _mode([r for r in days[day] if not r.flex or r.charged_kwh is not None])
        if not told:
            (spans[-1][1] if spans else waiting).extend(days[day])
        elif spans and agree(_rate(told), _rate(spans[-1][0]), Decimal(0)):
            spans[-1][0].extend(told)
            spans[-1][1].extend(days[day])
        else:
            spans.append((told, [*waiting, *days[day]]))
            waiting = []
    if not spans:  # too few a day: all of them together
        told = _mode([r for r in requests if not r.flex or r.charged_kwh is not None])
        spans = [(told, requests)] if told else []
    return [(_rate(told), own) for told, own in spans]


def _mode(requests: Sequence[Billed], fewest: int = FEWEST) -> list[Billed]:
    """The largest set whose cost per kWh lies within half a percent; empty where it says too little."""
    ordered = sorted(requests, key=lambda r: r.per_kwh)
    best: list[Billed] = []
    low = 0
    for high, request in enumerate(ordered):
        while request.per_kwh - ordered[low].per_kwh > SAME_RATE * request.per_kwh:
            low += 1
        if high - low + 1 >= max(1, len(best)):
            best = ordered[low : high + 1]
    return best if len(best) >= fewest and 2 * len(best) >= len(requests) else []


def _rate(requests: Sequence[Billed]) -> Decimal:
    kwh = sum((r.charged_kwh or r.kwh for r in requests), Decimal(0))
    return sum((r.cost for r in requests), Decimal(0)) / kwh


def _flex_multiplier(requests: Sequence[Billed], rate: Decimal) -> Decimal | None:
    flex = [r for r in requests if r.flex]
    told = [r for r in flex if r.charged_kwh is not None]
    if told:
        ratios = [r.charged_kwh / r.kwh for r in told if r.charged_kwh is not None]
        same = all(agree(q, ratios[0], Decimal(0)) for q in ratios)
        return sum(ratios, Decimal(0)) / len(ratios) if same else None
    agreeing = _mode(flex, FEWEST_FLEX)
    return _rate(agreeing) / rate if agreeing else None


def _ceiling(
    requests: Sequence[Billed], rate: Decimal, flex: Decimal | None, step: Decimal
) -> tuple[Decimal | None, str | None]:
    """The multiple of the list price that bound requests were billed at, or None and why not."""
    bound: list[tuple[Billed, Decimal]] = []
    free: list[tuple[Billed, Decimal]] = []
    for request in requests:
        told = _by_energy(request, rate, flex)
        if told is None or not request.list_cost:
            continue
        below = request.cost < told and not agree(request.cost, told, step)
        (bound if below else free).append((request, request.list_cost))
    if not bound:
        return None, None
    multiple = sum((r.cost for r, _ in bound), Decimal(0)) / sum((c for _, c in bound), Decimal(0))
    if len(bound) < FEWEST_BOUND:
        return None, f"one request was billed {multiple:.6g} x its list price; one does not tell a ceiling"
    odd = [r for r, c in bound if not agree(r.cost, multiple * c, step)]
    if odd:
        return None, f"{len(bound)} requests were billed below the rate, at no common multiple of their list price"
    above = [r for r, c in free if r.cost > multiple * c and not agree(r.cost, multiple * c, step)]
    if above:
        return None, f"{len(above)} requests were billed above {multiple:.6g} x their list price: it is no ceiling"
    return multiple, None


def flex_multiplier_of_totals(consumed_kwh: Decimal, charged_kwh: Decimal, flex_kwh: Decimal) -> Decimal | None:
    """M of charged = (consumed - flex) + M x flex, from the provider's own totals; None without flex energy."""
    return (charged_kwh - (consumed_kwh - flex_kwh)) / flex_kwh if flex_kwh > 0 else None
