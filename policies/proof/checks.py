"""The checks of a gate, one function per figure: an interval against a margin, and what it says in words.

PASS and FAIL need the whole interval on one side of the margin; anything else, and all that is missing, is
INCONCLUSIVE. "Not significant" never passes, and fails nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from policies.proof.checked import Interval
from policies.proof.errors import ProofError
from policies.proof.evidence import Constraint, Evidence, check_counts, finite_or_none
from policies.proof.margins import Margins, OutcomeKind
from policies.proof.rates import n_without_violation, violations_upper
from warehouse.errors import IncomparableObservations


class Ruling(StrEnum):
    PASS = "PASS"  # noqa: S105 - a verdict
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"


class Mode(StrEnum):
    FIXED = "fixed"  # one look, at the planned n
    MONITOR = "monitor"  # any number of looks, by a confidence sequence: to stop early for harm


@dataclass(frozen=True)
class Check:
    """One figure against its margin. low..high: the interval of `estimate`, both None where nothing is bounded.

    margin: what the interval must lie below or above, in the estimate's unit. second_*: the other method and its
    interval, which never decides. evidence_class: of the amount; for rates and latency the kind of outcome evidence.
    """

    name: str
    estimate: float | None
    low: float | None
    high: float | None
    margin: float
    verdict: Ruling
    n: int
    method: str
    evidence_class: str | None
    words: str
    unit: str = ""
    coverage: float | None = None
    second_method: str | None = None
    second_low: float | None = None
    second_high: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values; open ends are None."""
        told = asdict(self) | {"verdict": self.verdict.value}
        return {k: finite_or_none(v) if isinstance(v, float) else v for k, v in told.items()}


@dataclass(frozen=True)
class Case:
    """What every check is given. level: confidence of two-sided intervals, after the correction for candidates."""

    evidence: Evidence
    margins: Margins
    kind: OutcomeKind
    level: float
    mode: Mode

    @property
    def paired(self) -> bool:
        return self.kind.paired

    @property
    def monitored(self) -> bool:
        return self.mode is Mode.MONITOR


@dataclass(frozen=True)
class Bound:
    """An interval by a named method, and by a second one that only warns."""

    estimate: float | None
    interval: Interval
    n: int
    method: str
    second: tuple[str, Interval] | None = None
    coverage: float = 1.0
    note: str = ""
    unbounded: str = ""  # why an end is open, so that nothing is settled


def settle(interval: Interval, margin: float, *, below: bool) -> Ruling:
    """PASS: the whole interval lies on the good side of `margin`; FAIL: on the other; else INCONCLUSIVE."""
    low, high = interval
    if math.isnan(low) or math.isnan(high) or low > high:
        return Ruling.INCONCLUSIVE
    if (high < margin) if below else (low > margin):
        return Ruling.PASS
    if (low > margin) if below else (high < margin):
        return Ruling.FAIL
    return Ruling.INCONCLUSIVE


def judged(name: str, bound: Bound, margin: float, *, below: bool, unit: str, case: Case, evidence_class: str) -> Check:
    """The check of one bound: margins, coverage, planned n, and the second method told where it disagrees."""
    ruling = settle(bound.interval, margin, below=below)
    words = [_sentence(bound, margin, below, unit, case.level)]
    if bound.note:
        words.append(bound.note)
    if bound.second is not None:
        method, interval = bound.second
        other = settle(interval, margin, below=below)
        if other is not ruling:
            words.append(f"{method} says {other} ({span(interval, unit)})")
            if Ruling.INCONCLUSIVE not in (other, ruling):
                ruling = Ruling.INCONCLUSIVE
    if bound.unbounded:
        ruling = Ruling.INCONCLUSIVE
        words.append(bound.unbounded)
    if bound.coverage < case.margins.min_coverage - 1e-12:
        ruling = Ruling.INCONCLUSIVE
        words.append(f"only {bound.coverage:.1%} of the requests tell it, {case.margins.min_coverage:.1%} are needed")
    if bound.n + 1e-6 < case.margins.n * bound.coverage and not (case.monitored and ruling is Ruling.FAIL):
        ruling = Ruling.INCONCLUSIVE
        words.append(f"{bound.n} of {case.margins.n} planned requests are there")
    second = bound.second or (None, (None, None))
    return Check(
        name=name,
        estimate=bound.estimate,
        low=bound.interval[0],
        high=bound.interval[1],
        margin=margin,
        verdict=ruling,
        n=bound.n,
        method=bound.method,
        evidence_class=evidence_class,
        words="; ".join(words),
        unit=unit,
        coverage=bound.coverage,
        second_method=second[0],
        second_low=second[1][0],
        second_high=second[1][1],
    )


def guarded(name: str, margin: float, unit: str, work: Callable[[], Check]) -> Check:
    """The check, or INCONCLUSIVE with the reason where the evidence cannot be judged at all."""
    try:
        return work()
    except (ProofError, IncomparableObservations) as wrong:
        return unproved(name, margin, unit, str(wrong))


def unproved(name: str, margin: float, unit: str, words: str) -> Check:
    return Check(name, None, None, None, margin, Ruling.INCONCLUSIVE, 0, "none", None, words, unit)


def constraint_checks(case: Case) -> list[Check]:
    """Every hard constraint of the margins, and any other that was checked: zero violations."""
    given = {c.name: c for c in case.evidence.constraints}
    wanted = [*case.margins.constraints, *(name for name in given if name not in case.margins.constraints)]
    return [_constraint(name, given.get(name), case) for name in wanted]


def _constraint(name: str, constraint: Constraint | None, case: Case) -> Check:
    label, limit = f"constraint:{name}", case.margins.violation_rate
    if constraint is None or constraint.n == 0 or constraint.violations is None:
        return unproved(label, 0.0, "share", f"{name} was not checked")
    proved = constraint.proved

    def work() -> Check:
        check_counts(constraint)
        n, k = constraint.n, constraint.violations or 0
        # One-sided: only a high rate harms. Two-sided confidence would ask for more than 299 requests for 1 %.
        upper = k / n if proved else violations_upper(k, n, case.level)
        method = "proof over the eligible set" if proved else "exact upper bound, one-sided"
        check = Check(
            label, k / n, k / n if proved else 0.0, upper, 0.0 if proved else limit,
            Ruling.PASS, n, method, "proved" if proved else "sampled", "", "share",
        )  # fmt: skip
        if k:
            return replace(check, verdict=Ruling.FAIL, words=f"{k} of {n} decisions violate {name}: none is tolerated")
        if proved:
            return replace(check, words=f"all {n} decisions keep {name}")
        if upper <= limit:
            return replace(check, words=f"0 violations in {n}: the rate is at most {upper:.2%}")
        needed = n_without_violation(limit, case.level)
        words = f"0 violations in {n} still allow {upper:.2%}; {needed} are needed for {limit:.2%}"
        return replace(check, verdict=Ruling.INCONCLUSIVE, words=words)

    return guarded(label, limit, "share", work)


def span(interval: Interval, unit: str) -> str:
    """An interval in words, in the reader's unit."""
    low, high = interval
    if unit == "share":
        return f"{100 * low:+.2f} to {100 * high:+.2f} pp"
    told = "no upper end" if math.isinf(high) else f"{high:.3f}"
    return f"{low:.3f} to {told}{' s' if unit == 's' else ''}"


def _sentence(bound: Bound, margin: float, below: bool, unit: str, level: float) -> str:
    at = f"{100 * margin:+.2f} pp" if unit == "share" else f"{margin:.3f}{' s' if unit == 's' else ''}"
    value = "unknown" if bound.estimate is None else (
        f"{100 * bound.estimate:+.2f} pp" if unit == "share" else f"{bound.estimate:.3f}{' s' if unit == 's' else ''}"
    )  # fmt: skip
    side = "below" if below else "above"
    return f"{value} ({100 * level:.4g} % {span(bound.interval, unit)}), must lie {side} {at}"
