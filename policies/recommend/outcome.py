"""The verdict on a reported outcome: against the frozen promise, on the same estimand.

Three verdicts. Missing data, NaN, an aborted window, too few successes or an undecided interval is
INCONCLUSIVE, never a pass: no data must never promote a change.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

from policies.recommend.errors import OutcomeInvalid
from policies.recommend.figures import success_difference, wilson_bounds
from policies.recommend.standardised import AtMix, Strata, at_mix, rates
from policies.recommend.standardised import ratio as ratio_at
from policies.router.score import t_975
from warehouse.clock import iso
from warehouse.evidence import EvidenceClass, grams_class

MIN_SUCCESSES = 30  # below it neither the ratio nor the rate is near its limiting distribution


_AMOUNTS = (
    "attempts", "successes", "n", "energy_j", "billed_cost_usd", "carbon_g", "relative_uncertainty",
    "latency_n", "over_slo",
)  # fmt: skip


class Verdict(StrEnum):
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    INCONCLUSIVE = "INCONCLUSIVE"


@dataclass(frozen=True)
class Outcome:
    """Totals over all attempts of a window after actuation (cumulative: a later report replaces an earlier one).

    energy_j is the sum over failed and repeated attempts too. None is unknown. Raises OutcomeInvalid for
    numbers that contradict themselves; NaN and infinity are unknown, not invalid.
    """

    window_start_at: datetime
    window_end_at: datetime
    attempts: int | None
    successes: int | None
    energy_j: float | None
    evidence_class: str  # of energy_j
    n: int | None = None  # requests of the window; the attempts where unknown
    billed_cost_usd: Decimal | None = None
    carbon_g: float | None = None
    carbon_evidence_class: str | None = None  # of carbon_g; needed with it, never stronger than evidence_class
    relative_uncertainty: float | None = None  # one standard deviation of energy_j / energy_j
    aborted: bool = False
    slo_s: float | None = None  # the latency that `over_slo` of `latency_n` requests exceeded
    latency_n: int | None = None
    over_slo: int | None = None

    def __post_init__(self) -> None:
        if self.evidence_class not in set(EvidenceClass):
            raise OutcomeInvalid(
                f"evidence_class is {self.evidence_class!r}.", fix=f"use one of {', '.join(EvidenceClass)}"
            )
        if self.window_end_at <= self.window_start_at:
            raise OutcomeInvalid(
                f"window_end_at {self.window_end_at} is not after window_start_at {self.window_start_at}.",
                fix="give a half-open window [start, end)",
            )
        for name in _AMOUNTS:
            value = getattr(self, name)
            if value is not None and not math.isfinite(value):
                object.__setattr__(self, name, None)
            elif value is not None and value < 0:
                raise OutcomeInvalid(f"{name} is {value}, below 0.", fix="leave out what is unknown")
        if self.attempts is not None and self.successes is not None and self.successes > self.attempts:
            raise OutcomeInvalid(
                f"successes {self.successes} exceed attempts {self.attempts}.", fix="count every attempt"
            )
        if (self.over_slo or 0) > (self.latency_n or 0):
            raise OutcomeInvalid(
                f"over_slo {self.over_slo} exceeds latency_n {self.latency_n}.",
                fix="count every request with a latency",
            )
        self._check_grams()

    def _check_grams(self) -> None:
        cls = self.carbon_evidence_class
        if self.carbon_g is None:  # unknown grams have no class
            object.__setattr__(self, "carbon_evidence_class", None)
            return
        if cls not in set(EvidenceClass):
            raise OutcomeInvalid(
                f"carbon_g came with carbon_evidence_class {cls!r}.",
                fix=f"say what the grams are: one of {', '.join(EvidenceClass)}; or leave them out",
            )
        if grams_class(self.evidence_class, cls) != cls:
            raise OutcomeInvalid(
                f"carbon_evidence_class {cls} is stronger than evidence_class {self.evidence_class}.",
                fix="grams are energy x grid intensity: give the weaker of the two classes",
            )

    def to_dict(self) -> dict[str, Any]:
        told = asdict(self)
        if self.billed_cost_usd is not None:
            told["billed_cost_usd"] = format(self.billed_cost_usd, "f")
        return {k: iso(v) if isinstance(v, datetime) else v for k, v in told.items()}


@dataclass(frozen=True)
class Judgement:
    """`ratio` is outcome / incumbent of the primary metric with its 95 % interval; `why` is one sentence."""

    verdict: Verdict
    why: str
    metric: str | None = None
    value: float | None = None
    incumbent: float | None = None
    ratio: float | None = None
    interval: tuple[float, float] | None = None
    success_rate: float | None = None
    success_interval: tuple[float, float] | None = None
    required_success_rate: float | None = None
    over_slo_share: float | None = None
    allowed_over_slo_share: float | None = None
    confidence: float = 0.95
    unstandardised_ratio: float | None = None  # beside a `ratio` at the mix
    mix_strata: int | None = None  # strata of the mix that the figures are of; None: they are of no mix
    mix_coverage: float | None = None  # share of the candidate's requests in strata of the mix
    mix_missing: tuple[str, ...] = ()  # strata of the mix without a request of the candidate

    def to_dict(self) -> dict[str, Any]:
        told = asdict(self)
        return {k: list(v) if isinstance(v, tuple) else v for k, v in told.items() if k != "verdict"} | {
            "verdict": self.verdict.value
        }


@dataclass(frozen=True)
class Terms:
    """What an outcome is held to beside its promise.

    `slo_s` None: no latency is judged. `baseline`: the incumbent's own traffic before (Traffic.to_dict), None where it
    had none. `own`: traffic is held against that traffic, as the desk measures it; else against the reference runs of
    the promise, as targets report.
    `strata`: the candidate's own traffic by stratum; with it both are compared at the mix of `baseline`, where at least
    `min_coverage` of the candidate's requests lie in its strata.
    `look`: which look at growing data this is. Look k of a row takes 6 / (pi k)^2 of the 5 % error, so that all looks
    together take no more (a union bound); None: a single report.
    """

    success_margin: float
    slo_s: float | None = None
    over_slo_margin: float = 0.02
    baseline: Mapping[str, Any] | None = None
    own: bool = False
    look: int | None = None
    strata: Strata | None = None
    min_coverage: float = 0.95

    @property
    def alpha(self) -> float:
        return 0.05 if self.look is None else 0.05 * 6 / (math.pi * self.look) ** 2


def judge(outcome: Outcome, content: Mapping[str, Any], terms: Terms, *, actuated_at: datetime) -> Judgement:
    """Compare `outcome` with the incumbent's figure in the frozen `content` of a recommendation.

    SUCCEEDED needs all: the interval of the ratio below 1, the lower bound of the success rate (Wilson, one-sided) at
    or above the incumbent's rate minus the margin, and where an SLO is set the upper bound of the share over it at or
    below the allowed one. FAILED: one of them lies wholly on the wrong side. Where the incumbent's success rate is
    unknown it counts as 1: the strictest reference there is.

    Traffic is held against traffic at one mix. Where too few of the candidate's requests lie in it, both are held
    against each other as they come: harm to success or latency still shows, and nothing succeeds.
    """
    attempts, successes = outcome.attempts, outcome.successes
    missing = _missing(outcome, actuated_at)
    if missing or attempts is None or successes is None:
        return Judgement(Verdict.INCONCLUSIVE, missing or "attempts or successes are unknown")

    told, z = content["promise"], _one_sided(terms)
    before = terms.baseline if terms.own else None
    both = at_mix(terms.strata, before.get("strata")) if before is not None else None
    inside = both if both is not None and both.covered >= terms.min_coverage else None
    known_rate = told["success"]["from"]["rate"] if before is None else before["success_rate"]
    rate = successes / attempts
    low, high = wilson_bounds(successes, attempts, z)
    if before is not None and known_rate is not None:  # the incumbent's rate is a sample, too
        n0, s0 = before["attempts_told"], before["successes"]
        gap = success_difference(successes, attempts, s0, n0, z)
        if inside is not None:
            found = rates(inside.after, inside.before, inside.shares, "successes", "attempts_told", z)
            rate = rate if found.after is None else found.after
            known_rate, gap = known_rate if found.before is None else found.before, (found.low, found.high)
        low, high = known_rate + gap[0], known_rate + gap[1]
    required = (1.0 if known_rate is None else known_rate) - terms.success_margin
    facts: dict[str, Any] = {
        "success_rate": rate, "success_interval": (low, high), "required_success_rate": required,
        "confidence": 1 - terms.alpha, **_mix_facts(both, inside),
    }  # fmt: skip
    if high < required:
        why = f"success rate {rate:.1%} (at most {high:.1%}) is below the {required:.1%} required"
        return Judgement(Verdict.FAILED, why, **facts)
    unsettled = None
    if low < required:
        needed = f"the {required:.1%} required"
        unsettled = f"success rate {rate:.1%} of {attempts} attempts (at least {low:.1%}) does not settle {needed}"
    late, open_ = _latency(outcome, terms, z, facts, inside)
    if late:
        return Judgement(Verdict.FAILED, late, **facts)
    unsettled = unsettled or open_
    if both is not None and inside is None:
        why = (
            f"{both.covered:.0%} of its requests lie in the categories and sizes that the incumbent had before, and "
            f"{terms.min_coverage:.0%} are asked: they cannot be compared at one mix"
        )
        return Judgement(Verdict.INCONCLUSIVE, why, **facts)

    metric = told.get("primary")
    if metric is None:  # the incumbent was no longer eligible: only harm is to be ruled out
        if unsettled is None:
            return Judgement(Verdict.SUCCEEDED, f"success rate is at least {low:.1%}", **facts)
        return Judgement(Verdict.INCONCLUSIVE, unsettled, **facts)
    return _with_ratio(outcome, told, metric, unsettled, facts, terms, inside)


def _mix_facts(both: AtMix | None, inside: AtMix | None) -> dict[str, Any]:
    if both is None:
        return {}
    if inside is None:
        return {"mix_coverage": both.covered}
    return {"mix_strata": len(both.shares), "mix_coverage": both.covered, "mix_missing": both.missing}


def _one_sided(terms: Terms) -> float:
    if terms.look is None:
        return 1.6448536269514722
    from scipy.stats import norm  # loaded where it is needed: it takes a while

    return float(norm.ppf(1 - terms.alpha))


def _two_sided(terms: Terms, degrees: int) -> tuple[float, float]:
    """(Student's t, normal) quantiles of the two-sided interval."""
    if terms.look is None:
        return t_975(degrees), 1.959963984540054
    from scipy.stats import norm, t

    return float(t.ppf(1 - terms.alpha / 2, max(1, degrees))), float(norm.ppf(1 - terms.alpha / 2))


def _latency(
    outcome: Outcome, terms: Terms, z: float, facts: dict[str, Any], inside: AtMix | None
) -> tuple[str | None, str | None]:
    """(how the SLO is breached, why that is not settled); both None where it holds or none is set."""
    if terms.slo_s is None:
        return None, None
    told = terms.baseline or {}
    before = told.get("over_share") if told.get("slo_s") == terms.slo_s else None
    if outcome.over_slo is None or not outcome.latency_n or outcome.slo_s != terms.slo_s:
        return None, f"no latency tells the share of requests over {terms.slo_s:g} s"
    share = outcome.over_slo / outcome.latency_n
    found = None
    if inside is not None and before is not None:
        found = rates(inside.after, inside.before, inside.shares, "over_slo", "latency_n", z)
        share = share if found.after is None else found.after
        before = before if found.before is None else found.before
    facts["over_slo_share"] = share
    if before is None:
        return None, f"the incumbent's share of requests over {terms.slo_s:g} s is unknown"
    allowed = before + terms.over_slo_margin
    n0, s0 = told["latency_n"], told["over_slo"]
    gap = success_difference(outcome.over_slo, outcome.latency_n, s0, n0, z)
    low, high = (before + d for d in (gap if found is None else (found.low, found.high)))
    facts["allowed_over_slo_share"] = allowed
    shown = f"{share:.1%} of {outcome.latency_n} requests took longer than {terms.slo_s:g} s"
    if low > allowed:
        return f"{shown} (at least {low:.1%}), and {allowed:.1%} are allowed", None
    return None, (f"{shown} (at most {high:.1%}), which does not settle {allowed:.1%}" if high > allowed else None)


def _with_ratio(
    outcome: Outcome,
    told: Mapping[str, Any],
    metric: str,
    unsettled: str | None,
    facts: dict[str, Any],
    terms: Terms,
    inside: AtMix | None,
) -> Judgement:
    facts["metric"] = metric
    figures = (terms.baseline or {}).get("figures", {})
    reference = figures.get(metric) if terms.own else told["metrics"][metric]["from"]
    if reference is None:
        why = f"the incumbent had no traffic of its own before the change, so {metric} has nothing to be compared with"
        return Judgement(Verdict.INCONCLUSIVE, why, **facts)
    per = "success" if terms.own else told["per"]
    incumbent, expected_class = reference["value"], reference["evidence_class"]
    amount = getattr(outcome, metric)
    facts["metric"] = metric
    if incumbent is None or incumbent <= 0:
        return Judgement(Verdict.INCONCLUSIVE, f"the incumbent has no {metric} to compare with", **facts)
    if amount is None or amount == 0:
        return Judgement(Verdict.INCONCLUSIVE, f"{metric} of the window is unknown", **facts)
    if metric == "energy_j" and outcome.evidence_class != expected_class:
        why = f"the promise is {expected_class}, the outcome {outcome.evidence_class}: they cannot be compared"
        return Judgement(Verdict.INCONCLUSIVE, why, **facts)
    requests = outcome.attempts if outcome.n is None else outcome.n
    units = outcome.successes if per == "success" else requests
    value = float(amount) / float(units or 1)
    se, n, own_se = reference["se_log"], reference["n"], outcome.relative_uncertainty or 0.0
    as_it_came = value / incumbent
    if inside is not None:
        after, before = (ratio_at(side, inside.shares, metric) for side in (inside.after, inside.before))
        note = after.note or before.note
        if after.value is None or before.value is None or after.se_log is None:
            why = f"{metric} cannot be told at the mix of the incumbent's requests: {note}"
            return Judgement(Verdict.INCONCLUSIVE, why, **facts, unstandardised_ratio=as_it_came)
        value, incumbent, se, n, own_se = after.value, before.value, before.se_log, before.n, after.se_log
        facts["unstandardised_ratio"] = as_it_came
    ratio = value / incumbent
    facts |= {"value": value, "incumbent": incumbent, "ratio": ratio}
    if se is None:
        return Judgement(Verdict.INCONCLUSIVE, f"the incumbent's {metric} has no interval", **facts)
    t, z = _two_sided(terms, n - 1)
    half = math.hypot(t * se, z * own_se)
    low, high = ratio * math.exp(-half), ratio * math.exp(half)
    facts["interval"] = (low, high)
    level = f"{100 * (1 - terms.alpha):.3g} %"
    shown = f"{metric}/{per} is {ratio:.3f} of the incumbent's ({level} {low:.3f} to {high:.3f})"
    if inside is not None and len(inside.shares) > 1:
        shown += f" at its mix of {len(inside.shares)} categories and sizes, {as_it_came:.3f} as it came"
    if low > 1:
        return Judgement(Verdict.FAILED, f"{shown}: more, not less", **facts)
    if high >= 1:
        return Judgement(Verdict.INCONCLUSIVE, f"{shown}, which does not exclude 1", **facts)
    if unsettled is not None:
        return Judgement(Verdict.INCONCLUSIVE, f"{shown}, but {unsettled}", **facts)
    return Judgement(Verdict.SUCCEEDED, shown, **facts)


def _missing(outcome: Outcome, actuated_at: datetime) -> str | None:
    if outcome.aborted:
        return "the window was aborted"
    if outcome.window_start_at < actuated_at:
        return f"the window starts before the change was in force ({actuated_at:%Y-%m-%d %H:%M:%S} UTC)"
    if outcome.n == 0:
        return "no requests were made"
    if not outcome.attempts:
        return "no attempts were made" if outcome.attempts == 0 else "attempts are unknown"
    if outcome.successes is None:
        return "successes are unknown"
    if outcome.successes < MIN_SUCCESSES:
        return f"{outcome.successes} successes are too few; {MIN_SUCCESSES} are needed"
    return None
