"""What an offer's own traffic took, per success, over a window: the estimand of a promise, measured on real requests.

Totals, and the same apart for each stratum of category and size band, so that it can be compared at one mix: see
standardised.py.

R = sum(x) / sum(successes) over all attempts of the rows that tell both; se of log R by the delta method from sums
(psi_i = x_i / mean(x) - s_i / mean(s); they sum to 0). A bill names the offer, not the cell that asked for it, so this
is all organic traffic of the offer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from importlib import resources
from typing import Any

from policies.proof.bands import SIZE_BAND_EDGES, size_band
from policies.router.candidates import Snapshot
from warehouse.clock import iso
from warehouse.errors import IncomparableObservations
from warehouse.evidence import EvidenceClass, one_class

UNITS = {"energy_j": "J/success", "billed_cost_usd": "USD/success", "carbon_g": "gCO2eq/success"}
UNKNOWN = "unknown"  # category or size band that nothing tells
# n rows that tell metric x and successes s; the sums of x, s, x^2, s^2 and x s over them
PARTS = ("n", "sum", "units", "squares", "unit_squares", "products")
_LETTERS = {"energy_j": "e", "billed_cost_usd": "b", "carbon_g": "c"}


@dataclass(frozen=True)
class Figure:
    """One metric per success. `total` and `units` are of the rows that tell both; `note`: why `value` is unknown.

    `coverage`: share of the requests that tell the metric.
    """

    unit: str
    value: float | None
    se_log: float | None
    n: int
    total: float | None
    units: float | None
    coverage: float | None
    evidence_class: str | None
    note: str | None


@dataclass(frozen=True)
class Traffic:
    """Organic traffic of one offer in [since, until). None: unknown; `over_slo` counts requests over `slo_s`."""

    offer: str
    since: datetime
    until: datetime
    requests: int
    attempts: int
    attempts_told: int | None  # of the rows that tell success
    successes: int | None
    figures: Mapping[str, Figure] = field(default_factory=dict)
    slo_s: float | None = None
    latency_n: int | None = None
    over_slo: int | None = None
    strata: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # `category|size band` -> sums

    @property
    def success_rate(self) -> float | None:
        return None if self.successes is None or not self.attempts_told else self.successes / self.attempts_told

    @property
    def over_share(self) -> float | None:
        return None if self.slo_s is None or not self.latency_n else (self.over_slo or 0) / self.latency_n

    def to_dict(self) -> dict[str, Any]:
        told = {k: iso(v) if isinstance(v, datetime) else v for k, v in vars(self).items() if k != "figures"}
        rates = {"success_rate": self.success_rate, "over_share": self.over_share}
        return {**told, **rates, "figures": {name: asdict(f) for name, f in self.figures.items()}}


def read_traffic(
    snapshot: Snapshot, offers: Sequence[str], since: datetime, until: datetime, slo_s: float | None = None
) -> dict[str, Traffic]:
    """The traffic of each offer; one that nobody asked for anything has zero requests."""

    text = (resources.files("policies.recommend.sql") / "organic.sql").read_text(encoding="utf-8")
    edges = list(SIZE_BAND_EDGES)
    frame = snapshot.sql(text, offers=sorted(offers), since=since, until=until, slo_s=slo_s, edges=edges)
    bands = [size_band(tokens) for tokens in (0, *edges)]
    rows: dict[str, dict[str, dict[str, Any]]] = {}
    for row in frame.iter_rows(named=True):
        band = UNKNOWN if row["band"] is None else bands[row["band"]]
        rows.setdefault(row["offer_id"], {})[f"{row['category'] or UNKNOWN}|{band}"] = row
    return {offer: _traffic(offer, rows.get(offer, {}), since, until, slo_s) for offer in offers}


def _traffic(
    offer: str, strata: Mapping[str, Mapping[str, Any]], since: datetime, until: datetime, slo_s: float | None
) -> Traffic:
    if not strata:
        return Traffic(offer, since, until, 0, 0, None, None, {}, slo_s)
    row = _together(list(strata.values()))
    requests = int(row["requests"] or 0)
    return Traffic(
        offer=offer,
        since=since,
        until=until,
        requests=requests,
        attempts=int(row["attempts"] or 0),
        attempts_told=row["attempts_told"],
        successes=row["successes"],
        figures={name: _figure(name, row, requests) for name in UNITS},
        slo_s=slo_s,
        latency_n=row["latency_n"],
        over_slo=None if slo_s is None else int(row["over_slo"] or 0),
        strata={name: _sums(own, slo_s) for name, own in sorted(strata.items())},
    )


def _together(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The sums of several strata; NULL where no stratum tells it."""
    found: dict[str, Any] = {}
    for name in rows[0].keys() - {"offer_id", "category", "band"}:
        known = [row[name] for row in rows if row[name] is not None]
        if name.endswith("_classes"):
            found[name] = ",".join(known) or None
        else:
            found[name] = None if not known else math.fsum(known) if isinstance(known[0], float) else sum(known)
    return found


def _sums(row: Mapping[str, Any], slo_s: float | None) -> dict[str, Any]:
    """One stratum, as it is kept in the ledger: counts, and per metric what standardised.py needs."""
    metrics = {
        name: {part: row[f"{letter}_{part}"] for part in PARTS}
        for name, letter in _LETTERS.items()
        if row[f"{letter}_n"]
    }
    counts = {name: row[name] or 0 for name in ("requests", "attempts_told", "successes", "latency_n")}
    return {**counts, "over_slo": 0 if slo_s is None else row["over_slo"] or 0, "metrics": metrics}


def _figure(name: str, row: Mapping[str, Any], requests: int) -> Figure:
    letter = _LETTERS[name]
    n, total, units = int(row[f"{letter}_n"] or 0), row[f"{letter}_sum"], row[f"{letter}_units"]
    told = row[f"{letter}_requests"] or 0
    note, cls = None, EvidenceClass.MEASURED.value if name == "billed_cost_usd" else None
    if name != "billed_cost_usd":  # a bill is a document, not a reading
        try:
            one = one_class(filter(None, (row[f"{letter}_classes"] or "").split(",")), what=name)
            cls = one.value if one else None
        except IncomparableObservations as mixed:
            note = mixed.message
    if note is None and (not n or total is None):
        note = f"no request tells {name} and success"
    if note is None and not units:
        note = "no request succeeded"
    value = total / units if note is None else None
    if value is not None and value <= 0:
        value, note = None, f"{name} of every request is 0"
    se = _se_log(letter, row, n, total, units) if value is not None else None
    return Figure(UNITS[name], value, se, n, total, units, told / requests if requests else None, cls, note)


def _se_log(letter: str, row: Mapping[str, Any], n: int, total: float, units: float) -> float | None:
    if n < 2:
        return None
    x, s = total / n, units / n
    squares = (
        row[f"{letter}_squares"] / x**2 - 2 * row[f"{letter}_products"] / (x * s) + row[f"{letter}_unit_squares"] / s**2
    )
    return math.sqrt(max(0.0, squares) / (n - 1) / n)


def identity(snapshot: Snapshot, offers: Sequence[str]) -> dict[str, list[str]]:
    """The catalog, price and tariff rows that a change between these offers rests on, as text."""
    text = (resources.files("policies.recommend.sql") / "identity.sql").read_text(encoding="utf-8")
    found: dict[str, list[str]] = {"catalog": [], "price": [], "tariff": []}
    for what, offer, told in snapshot.sql(text, offers=sorted(offers)).iter_rows():
        found[what].append(f"{offer or ''}|{told}")
    return found
