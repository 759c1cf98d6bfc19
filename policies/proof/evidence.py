"""What a gate judges: per-request figures of candidate and control, or counts, each with its evidence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from policies.proof.checked import Floats, same_length
from policies.proof.errors import CountsInvalid, EvidenceMixed, NoData, ValuesInvalid
from policies.proof.rates import Pairs
from warehouse.evidence import EvidenceClass, one_class


@dataclass(frozen=True)
class Constraint:
    """A hard constraint. proved: checked for every one of the `n` decisions over their eligible sets; otherwise a
    sample of `n` was inspected. violations: how many of them broke it; None or n = 0 is no evidence."""

    name: str
    n: int
    violations: int | None
    proved: bool = True


@dataclass(frozen=True)
class Both:
    """One figure per request, of the candidate and of the control: (n,) each, in the same order where paired.

    NaN or None is unknown, never 0. A retry's and a failure's share belongs in it: all attempts of the request.
    """

    candidate: npt.ArrayLike
    control: npt.ArrayLike


@dataclass(frozen=True)
class Amounts(Both):
    """Joules, dollars or grams per request with their evidence.

    *_class: evidence class, one or one per request; *_meter: class of meter or method (`nvml`, `bill`, `rack PDU`),
    one or one per request, None unknown. systematic: relative standard uncertainty of the ratio that no number of
    requests removes (`policies.proof.uncertainty.contrast`).
    """

    candidate_class: str | Sequence[str]
    control_class: str | Sequence[str]
    candidate_meter: str | Sequence[str | None] | None
    control_meter: str | Sequence[str | None] | None
    systematic: float = 0.0

    def evidence_class(self, what: str) -> EvidenceClass:
        """The one class of both arms. Raises IncomparableObservations for several, NoData for none."""
        sides = _names(self.candidate_class), _names(self.control_class)
        named = {*sides[0], *sides[1]}
        found = None if None in named else one_class((str(name) for name in named), what=what)
        if found is None or not all(sides):
            raise NoData(f"{what} has no evidence class.", fix="say how the figure came to be")
        return found

    def meter(self, what: str) -> str:
        """The one class of meter of both arms. Raises EvidenceMixed where they differ or one is unknown."""
        sides = _names(self.candidate_meter), _names(self.control_meter)
        found = {*sides[0], *sides[1]}
        if not all(sides) or None in found:
            raise EvidenceMixed(f"{what} does not tell its meter.", fix="name the meter or method of both arms")
        if len(found) > 1:
            told = ", ".join(sorted(str(name) for name in found))
            raise EvidenceMixed(f"{what} was metered by {told}.", fix="measure both arms with one class of meter")
        return str(found.pop())


@dataclass(frozen=True)
class Ready:
    """A finished contrast, as off-policy evaluation gives it: a difference of rates, or a ratio of amounts per success.

    identifiable: False bounds nothing, and `why` says what is missing.
    """

    estimate: float | None
    low: float
    high: float
    n: int
    method: str
    evidence_class: str
    identifiable: bool = True
    why: str = ""


@dataclass(frozen=True)
class Evidence:
    """Everything a gate knows of one candidate against the control.

    kind: one kind of outcome evidence, or one per request (several are refused). success: 0/1 (or shares) per
    request, or a paired table alone. clusters, strata, category: labels of the requests, None where there are none;
    strata with `mix` standardise every figure. ready: figures by check name (`success`, `over_slo`, `energy`, `usd`,
    `carbon`) for off-policy evidence. aborted: the shadow ended early; why in words.
    """

    kind: str | Sequence[str]
    success: Both | Pairs | None = None
    latency_s: Both | None = None
    energy_j: Amounts | None = None
    usd: Amounts | None = None
    carbon_g: Amounts | None = None
    constraints: Sequence[Constraint] = ()
    clusters: npt.ArrayLike | None = None
    strata: Sequence[str] | None = None
    mix: Mapping[str, float] | None = None
    category: Sequence[str] | None = None
    ready: Mapping[str, Ready] = field(default_factory=dict)
    aborted: str | None = None


@dataclass(frozen=True)
class Columns:
    """Complete rows of some figures: `one` and `zero` per figure, labels cut to the same rows (paired only)."""

    one: tuple[Floats, ...]
    zero: tuple[Floats, ...]
    clusters: npt.NDArray[np.generic] | None
    strata: npt.NDArray[np.generic] | None
    asked: int  # requests before unknown figures were left out
    coverage: float

    @property
    def n(self) -> int:
        return min(self.one[0].size, self.zero[0].size)


def complete(evidence: Evidence, figures: Sequence[Both], *, paired: bool, endless: bool = False) -> Columns:
    """Requests that tell all of `figures` on both sides (or each side by itself where not paired).

    endless: infinity is a figure (the latency of a request that never answered). Raises ValuesInvalid for infinite or
    negative figures, LengthsDiffer, and NoData where nothing is left.
    """
    one = [unknown_as_nan(f.candidate, "candidate", endless=endless) for f in figures]
    zero = [unknown_as_nan(f.control, "control", endless=endless) for f in figures]
    same_length(**{f"candidate {i}": x for i, x in enumerate(one)})
    same_length(**{f"control {i}": x for i, x in enumerate(zero)})
    known1, known0 = _known(one), _known(zero)
    labels = {"clusters": evidence.clusters, "strata": evidence.strata}
    cut: dict[str, npt.NDArray[np.generic] | None] = dict.fromkeys(labels)
    if paired:
        same_length(candidate=one[0], control=zero[0])
        known1 = known0 = known1 & known0
        for name, values in labels.items():
            if values is not None:
                array = np.asarray(values)
                same_length(**{name: array, "requests": one[0]})
                cut[name] = array[known1]
    asked = min(known1.size, known0.size)
    if not asked:
        raise NoData("there is no request.", fix="wait for evidence: no data bounds nothing")
    return Columns(
        tuple(x[known1] for x in one),
        tuple(x[known0] for x in zero),
        cut["clusters"],
        cut["strata"],
        asked,
        float(min(known1.mean(), known0.mean())),
    )


def unknown_as_nan(values: npt.ArrayLike, name: str, *, endless: bool = False) -> Floats:
    """(n,) floats; None becomes NaN. Raises ValuesInvalid for infinity, negative figures or a wrong shape."""
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValuesInvalid(
            f"{name} holds something that is not a number.", fix="give one number per request"
        ) from None
    if array.ndim != 1:
        raise ValuesInvalid(f"{name} has {array.ndim} dimensions.", fix="give one number per request")
    bad = (array < 0) | (np.isinf(array) & (not endless))
    if bad.any():
        at = int(np.argmax(bad))
        raise ValuesInvalid(f"{name}[{at}] is {array[at]}.", fix="give finite numbers of at least 0, NaN where unknown")
    return array


def _known(columns: Sequence[Floats]) -> npt.NDArray[np.bool_]:
    known = np.ones(columns[0].size, dtype=np.bool_)
    for column in columns:
        known &= ~np.isnan(column)
    return known


def _names(value: str | Sequence[str | None] | None) -> tuple[str | None, ...]:
    if value is None or isinstance(value, str):
        return (value,)
    return tuple(dict.fromkeys(value))


def check_counts(constraint: Constraint) -> None:
    """Raises CountsInvalid where a constraint contradicts itself."""
    if constraint.n < 0 or (constraint.violations or 0) < 0 or (constraint.violations or 0) > constraint.n:
        raise CountsInvalid(
            f"{constraint.name}: {constraint.violations} violations in {constraint.n}.", fix="count violations among n"
        )


def finite_or_none(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
