"""What may be compared with what.

Tokens per joule say how well a *model* is served. A smaller model makes more of them, and other ones: between models
of different size or training the figure compares answers that nobody would exchange. So it is refused, unless quality
is controlled for, in one of two ways:

    same logical model   every side serves the same logical models in the same shares: tokens per joule
    same outcomes        every side was judged on one and the same set of outcomes: joules per successful request
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from policies.fleet.errors import ComparisonRefused
from policies.fleet.queueing.pools import FleetResult, PoolResult, plain
from warehouse.evidence import EvidenceClass, weakest

_SHARE = 1e-6


class Basis(StrEnum):
    SAME_MODEL = "same_logical_model"
    SAME_OUTCOMES = "same_outcomes"


@dataclass(frozen=True)
class Side:
    """One side of a comparison.

    models        logical model -> share of the requests that it answers
    outcome_set   identifies the outcomes that success was judged on (their content hash), where it was
    load          identifies the requests that were served, where that is known; sides that tell must agree
    """

    name: str
    models: Mapping[str, float]
    evidence_class: EvidenceClass
    tokens_per_j: float | None = None
    j_per_success: float | None = None
    outcome_set: str | None = None
    load: str | None = None


@dataclass(frozen=True)
class Compared:
    """`change` is relative to the first side, `better` whether that is an improvement on it (None: the same)."""

    name: str
    value: float
    change: float
    better: bool | None


@dataclass(frozen=True)
class Comparison:
    basis: Basis
    metric: str  # tokens_per_j | j_per_success
    unit: str
    higher_is_better: bool
    evidence_class: EvidenceClass  # weakest of the sides
    sides: tuple[Compared, ...] = field(default=())

    @property
    def words(self) -> str:
        how = "the same logical models" if self.basis is Basis.SAME_MODEL else "one set of outcomes"
        return f"{self.metric} on {how}; {self.evidence_class}"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        found: dict[str, Any] = plain({**asdict(self), "words": self.words})
        return found


def side(result: PoolResult | FleetResult, *, load: str | None = None) -> Side:
    """What queueing says of a pool or fleet, as a side."""
    models = result.models if isinstance(result, FleetResult) else {result.logical_model: 1.0}
    name = result.name if isinstance(result, FleetResult) else result.pool
    return Side(name, models, EvidenceClass(result.evidence_class), result.tokens_per_j, load=load)


def compare(sides: Sequence[Side]) -> Comparison:
    """The sides against the first of them. Raises ComparisonRefused where quality is not controlled for."""
    if len(sides) < 2:
        raise ComparisonRefused("a comparison of fewer than two sides.", fix="name two or more")
    told = {s.load for s in sides if s.load is not None}
    if len(told) > 1:
        raise ComparisonRefused(
            f"{_names(sides)} served different requests.", fix="give every side the same list of requests"
        )
    if all(_same(s.models, sides[0].models) for s in sides):
        values = [s.tokens_per_j for s in sides]
        if all(_known(v) for v in values):
            return _made(sides, Basis.SAME_MODEL, "tokens_per_j", "tok/J", values, higher=True)
    outcomes = {s.outcome_set for s in sides}
    success = [s.j_per_success for s in sides]
    if len(outcomes) == 1 and None not in outcomes and all(_known(v) for v in success):
        return _made(sides, Basis.SAME_OUTCOMES, "j_per_success", "J", success, higher=False)
    raise ComparisonRefused(
        f"tokens per joule of {_names(sides)} do not compare: they serve {_models(sides)}, and quality is not "
        "controlled for.",
        fix="serve the same logical model on every side, or compare joules per success on one set of outcomes",
    )


def check_models(models: Sequence[Mapping[str, float]], names: Sequence[str]) -> None:
    """Raises ComparisonRefused where tokens per joule of fleets with these shares of models must not stand side by
    side; for tables and charts that rank without `compare`."""
    if any(not _same(m, models[0]) for m in models):
        told = "; ".join(f"{n}: {_mix(m)}" for n, m in zip(names, models, strict=True))
        raise ComparisonRefused(
            f"tokens per joule of different logical models do not compare ({told}).",
            fix="serve the same logical model on every side, or compare joules per success on one set of outcomes",
        )


def _made(
    sides: Sequence[Side], basis: Basis, metric: str, unit: str, values: Sequence[float | None], *, higher: bool
) -> Comparison:
    known = [float(v) for v in values if v is not None]
    evidence = weakest(s.evidence_class for s in sides)
    assert evidence is not None  # there are sides
    rows = []
    for s, value in zip(sides, known, strict=True):
        change = value / known[0] - 1
        rows.append(Compared(s.name, value, change, None if change == 0 else (change > 0) == higher))
    return Comparison(basis, metric, unit, higher, evidence, tuple(rows))


def _same(a: Mapping[str, float], b: Mapping[str, float]) -> bool:
    left, right = _plain(a), _plain(b)
    return left.keys() == right.keys() and all(abs(left[k] - right[k]) <= _SHARE for k in left)


def _plain(models: Mapping[str, float]) -> dict[str, float]:
    """Models that answer anything, by their names in lower case."""
    found: dict[str, float] = {}
    for name, share in models.items():
        if share > _SHARE:
            found[name.strip().lower()] = found.get(name.strip().lower(), 0.0) + share
    return found


def _known(value: float | None) -> bool:
    return value is not None and math.isfinite(value) and value > 0


def _names(sides: Sequence[Side]) -> str:
    return ", ".join(s.name for s in sides)


def _models(sides: Sequence[Side]) -> str:
    return "; ".join(f"{s.name}: {_mix(s.models)}" for s in sides)


def _mix(models: Mapping[str, float]) -> str:
    return ", ".join(f"{share:.0%} {name}" for name, share in sorted(models.items()))
