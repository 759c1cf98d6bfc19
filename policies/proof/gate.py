"""The gate: PASS, FAIL or INCONCLUSIVE on margins that were stored before the shadow started.

Every check must pass (intersection-union test: no correction). FAIL only where harm is shown. No data, NaN, an
aborted shadow, too few requests, mixed evidence or different meters are INCONCLUSIVE: they promote nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from policies.proof import figures
from policies.proof.checks import Bound, Case, Check, Mode, Ruling, constraint_checks, guarded, judged
from policies.proof.errors import EvidenceMixed, NoData, ProofError
from policies.proof.evidence import Amounts, Both, Evidence, Ready, complete
from policies.proof.margins import Margins, OutcomeKind, one_kind
from policies.proof.multiple import BestOf, Warned, best_of, drill_down, p_harm, simultaneous
from policies.proof.rates import is_binary

RATIOS = {"energy": "J per success", "usd": "USD per success", "carbon": "gCO2eq per success"}


@dataclass(frozen=True)
class Verdict:
    """verdict: of all checks together. stop: monitoring shows harm, so the change should end now.

    warnings: categories in which the candidate stands out as worse (BH); they decide nothing. n of planned_n is the
    least of the checks. confidence: of two-sided intervals after the correction for `comparisons` candidates.
    """

    verdict: Ruling
    checks: tuple[Check, ...]
    words: str
    mode: Mode
    kind: OutcomeKind | None
    n: int
    planned_n: int
    confidence: float
    comparisons: int
    stop: bool
    warnings: tuple[Warned, ...]

    def check(self, name: str) -> Check | None:
        return next((c for c in self.checks if c.name == name), None)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for storing and showing."""
        told = {k: v for k, v in vars(self).items() if k not in ("checks", "warnings")}
        told |= {"verdict": self.verdict.value, "mode": self.mode.value, "kind": self.kind.value if self.kind else None}
        return told | {
            "checks": [c.to_dict() for c in self.checks],
            "warnings": [asdict(w) for w in self.warnings],
        }


@dataclass(frozen=True)
class BestVerdict:
    """The gate of the best of K candidates, corrected for the choice; `best` tells the held-out and shrunken gain."""

    name: str
    verdict: Verdict
    best: BestOf


def judge(evidence: Evidence, margins: Margins, *, mode: Mode = Mode.FIXED, comparisons: int = 1) -> Verdict:
    """The verdict on `evidence`. Pure: the same inputs give the same verdict.

    comparisons: how many candidates were looked at to choose this one; each bound then holds at the confidence that
    Holm's first step asks for. Mode.MONITOR may be called at every look: FAIL (`stop`) as soon as harm is shown, PASS
    only from the planned n on; P95 has no sequence and is left out. Raises ValuesInvalid for comparisons below 1.
    """
    mode = Mode(mode)
    level = simultaneous(margins.confidence, comparisons)
    kind, blocked = _kind(evidence, margins)
    case = Case(evidence, margins, kind or OutcomeKind.OFF_POLICY, level, mode)
    hard = constraint_checks(case)
    soft = _figures(case) if kind else []
    if blocked:
        soft = [replace(c, verdict=Ruling.INCONCLUSIVE) for c in soft]
    checks = (*hard, *soft)
    ruling = _together(checks, blocked)
    judged_n = [c.n for c in soft if c.low is not None]
    return Verdict(
        verdict=ruling,
        checks=checks,
        words=_words(ruling, checks, blocked, margins, kind),
        mode=mode,
        kind=kind,
        n=min(judged_n, default=0),
        planned_n=margins.n,
        confidence=level,
        comparisons=comparisons,
        stop=mode is Mode.MONITOR and ruling is Ruling.FAIL,
        warnings=_warnings(evidence, kind),
    )


def judge_best(candidates: Mapping[str, Evidence], margins: Margins, *, mode: Mode = Mode.FIXED) -> BestVerdict:
    """The candidate of the least J per success, judged at the confidence of K looks.

    All candidates answer the same requests as one control, so only paired evidence is taken. Raises EvidenceMixed for
    other kinds, NoData where no candidate tells energy and success.
    """
    if not candidates:
        raise NoData("there is no candidate.", fix="name at least one")
    kinds = {one_kind(e.kind) for e in candidates.values()}
    if len(kinds) > 1 or not next(iter(kinds)).paired:
        raise EvidenceMixed("the best of several needs one kind of pairs.", fix="replay all on the same requests")
    arms, control = _arms(candidates)
    limit = margins.energy_limit or 1.0
    level = margins.confidence
    found = best_of(arms, control, limit=limit, confidence=level, seed=margins.seed)
    verdict = judge(candidates[found.name], margins, mode=mode, comparisons=len(candidates))
    return BestVerdict(found.name, verdict, found)


def _arms(candidates: Mapping[str, Evidence]) -> tuple[dict[str, tuple[Any, Any]], tuple[Any, Any]]:
    columns = {}
    for name, evidence in candidates.items():
        if evidence.energy_j is None or not isinstance(evidence.success, Both):
            raise NoData(f"{name} does not tell energy and success per request.", fix="leave it out, or replay it")
        columns[name] = (evidence.energy_j, evidence.success)
    sides = [x for e, s in columns.values() for x in (e.candidate, e.control, s.candidate, s.control)]
    whole = [np.asarray(x, dtype=np.float64) for x in sides]
    if len({x.size for x in whole}) > 1:
        raise EvidenceMixed("the candidates answered different requests.", fix="replay all on the same requests")
    energies = [np.asarray(e.control, dtype=np.float64) for e, _ in columns.values()]
    if any(not np.array_equal(energies[0], other, equal_nan=True) for other in energies[1:]):
        raise EvidenceMixed("the candidates have different controls.", fix="compare all with one control")
    known = ~np.isnan(np.column_stack(whole)).any(axis=1)
    if not known.any():
        raise NoData("no request is told by all candidates.", fix="replay all on the same requests")

    def cut(x: Any) -> Any:
        return np.asarray(x, dtype=np.float64)[known]

    energy, success = next(iter(columns.values()))
    return (
        {name: (cut(e.candidate), cut(s.candidate)) for name, (e, s) in columns.items()},
        (cut(energy.control), cut(success.control)),
    )


def _kind(evidence: Evidence, margins: Margins) -> tuple[OutcomeKind | None, list[str]]:
    """The one kind of outcome evidence, and every reason why nothing can be concluded from it."""
    blocked = []
    if evidence.aborted is not None:
        blocked.append(f"the shadow was aborted{f': {evidence.aborted}' if evidence.aborted else ''}")
    try:
        kind = one_kind(evidence.kind)
    except ProofError as wrong:
        return None, [*blocked, wrong.message]
    if kind.strength < margins.weakest_kind.strength:
        blocked.append(f"{kind} is weaker evidence than the {margins.weakest_kind} asked for")
    if not kind.paired and evidence.mix is not None and kind is not OutcomeKind.OFF_POLICY:
        blocked.append("a reference mix needs pairs: a reference workload is its own mix")
    return kind, blocked


def _figures(case: Case) -> list[Check]:
    m = case.margins
    checks = [_rate(case, "success", -m.success_margin, below=False)]
    if m.slo_s is not None:
        checks.append(_rate(case, "over_slo", m.over_slo_margin, below=True))
    if case.mode is Mode.FIXED and case.kind is not OutcomeKind.OFF_POLICY:
        checks += _p95(case)
    limits = {
        "energy": m.energy_limit,
        "usd": None if m.usd_margin is None else 1 + m.usd_margin,
        "carbon": None if m.carbon_margin is None else 1 + m.carbon_margin,
    }
    return checks + [_ratio(case, name, limit) for name, limit in limits.items() if limit is not None]


def _rate(case: Case, name: str, margin: float, *, below: bool) -> Check:
    def work() -> Check:
        if case.kind is OutcomeKind.OFF_POLICY:
            bound, cls = _ready(case, name)
        else:
            slo = case.margins.slo_s
            bound = figures.success_bound(case) if name == "success" else figures.over_slo_bound(case, slo or math.inf)
            cls = case.kind.value
        return judged(name, bound, margin, below=below, unit="share", case=case, evidence_class=cls)

    return guarded(name, margin, "share", work)


def _p95(case: Case) -> list[Check]:
    m, cls, checks = case.margins, case.kind.value, []
    if m.p95_margin is not None:
        limit = 1 + m.p95_margin
        checks.append(
            guarded("p95", limit, "ratio", lambda: judged(
                "p95", figures.p95_bound(case), limit, below=True, unit="ratio", case=case, evidence_class=cls))
        )  # fmt: skip
    if m.p95_limit_s is not None:
        seconds = m.p95_limit_s
        checks.append(
            guarded("p95_limit", seconds, "s", lambda: judged(
                "p95_limit", figures.p95_limit_bound(case), seconds, below=True, unit="s", case=case,
                evidence_class=cls))
        )  # fmt: skip
    return checks


def _ratio(case: Case, name: str, limit: float) -> Check:
    def work() -> Check:
        if case.kind is OutcomeKind.OFF_POLICY:
            bound, cls = _ready(case, name)
        else:
            amounts = _amounts(case.evidence, name)
            cls = amounts.evidence_class(RATIOS[name]).value
            amounts.meter(RATIOS[name])
            bound = figures.ratio_bound(case, amounts)
        return judged(name, bound, limit, below=True, unit="ratio", case=case, evidence_class=cls)

    return guarded(name, limit, "ratio", work)


def _amounts(evidence: Evidence, name: str) -> Amounts:
    found = {"energy": evidence.energy_j, "usd": evidence.usd, "carbon": evidence.carbon_g}[name]
    if found is None:
        raise NoData(f"{RATIOS[name]} is not told.", fix="record it, or store margins that do not judge it")
    return found


def _ready(case: Case, name: str) -> tuple[Bound, str]:
    found: Ready | None = case.evidence.ready.get(name)
    if case.mode is Mode.MONITOR:
        raise EvidenceMixed("monitoring needs pairs.", fix="judge off-policy estimates once, at their planned n")
    if found is None:
        raise NoData(f"{name} is not estimated.", fix="evaluate it off-policy, or replay the requests")
    if not found.identifiable:
        raise NoData(f"{name}: {found.why or 'not identifiable'}.", fix="replay the requests, or explore")
    return Bound(found.estimate, (found.low, found.high), found.n, found.method), found.evidence_class


def _together(checks: tuple[Check, ...], blocked: list[str]) -> Ruling:
    rulings = {c.verdict for c in checks}
    if Ruling.FAIL in rulings:  # where all is blocked only a violated hard constraint is left to fail
        return Ruling.FAIL
    if blocked or not checks or Ruling.INCONCLUSIVE in rulings:
        return Ruling.INCONCLUSIVE
    return Ruling.PASS


def _words(
    ruling: Ruling, checks: tuple[Check, ...], blocked: list[str], margins: Margins, kind: OutcomeKind | None
) -> str:
    if ruling is Ruling.PASS:
        return f"all {len(checks)} checks pass on {kind} evidence"
    reasons = [f"{c.name}: {c.words}" for c in checks if c.verdict is ruling]
    if ruling is Ruling.INCONCLUSIVE and blocked:
        return "; ".join(blocked)
    more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    return f"{reasons[0]}{more}" if reasons else "nothing was checked"


def _warnings(evidence: Evidence, kind: OutcomeKind | None) -> tuple[Warned, ...]:
    success, category = evidence.success, evidence.category
    if category is None or kind is None or not kind.paired or not isinstance(success, Both):
        return ()
    labels = np.asarray(category)
    try:
        told = complete(replace(evidence, clusters=None, strata=list(labels)), [success], paired=True)
    except ProofError:
        return ()
    one, zero = told.one[0], told.zero[0]
    if told.strata is None or not one.size or not (is_binary(one) and is_binary(zero)):
        return ()
    names = sorted({str(name) for name in told.strata})
    rows = {name: told.strata == name for name in names}
    return tuple(w for w in drill_down({n: p_harm(one[r], zero[r]) for n, r in rows.items()}) if w.warned)
