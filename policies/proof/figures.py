"""Bounds of the figures that a gate judges: which method is used when, fixed before the data are seen."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from policies.proof import quantiles, ratios, sequences, strata, strata_looks
from policies.proof.checked import Floats, Interval
from policies.proof.checks import Bound, Case
from policies.proof.errors import EvidenceMixed, NoData, ValuesInvalid
from policies.proof.evidence import Amounts, Both, Columns, complete
from policies.proof.intervals import fieller_g, log_ratio, ratio_delta
from policies.proof.rates import (
    Pairs,
    difference_independent,
    graded_difference,
    is_binary,
    pairs,
    tango_clustered,
)
from policies.proof.uncertainty import widened

NO_MIX = "of the requests as they came: at a reference mix there is no {}"  # told, so that nobody reads it as one
Arms = tuple[Floats, Floats, Floats, Floats]  # amounts and successes of the candidate, those of the control
DELTA_G = 0.05  # Fieller's g above which the delta method is not trusted


def success_bound(case: Case) -> Bound:
    """Difference of success rates, candidate minus control."""
    success = case.evidence.success
    if success is None:
        raise NoData("success is not told.", fix="record the outcome of every request")
    if isinstance(success, Pairs):
        if not case.paired or case.monitored:
            raise NoData("a table of counts has no order and no arms.", fix="give success per request")
        if not success.n:
            raise NoData("there is no request.", fix="wait for evidence: no data bounds nothing")
        return Bound(success.difference, success.tango(case.level), success.n, "Tango score interval",
                     ("Newcombe's interval", success.newcombe(case.level)))  # fmt: skip
    return rate_bound(case, complete(case.evidence, [success], paired=case.paired))


def over_slo_bound(case: Case, slo_s: float) -> Bound:
    """Difference of the shares of requests over the SLO."""
    told = complete(case.evidence, [_latency(case)], paired=case.paired, endless=True)
    over = [(side[0] > slo_s).astype(np.float64) for side in (told.one, told.zero)]
    return rate_bound(case, Columns((over[0],), (over[1],), told.clusters, told.strata, told.asked, told.coverage))


def rate_bound(case: Case, told: Columns) -> Bound:
    """Tango for pairs (in clusters at the effective n; at a mix by MOVER), Newcombe for independent samples."""
    one, zero = told.one[0], told.zero[0]
    _need_rows(told)
    _need_clusters(case, told)
    if one.max() > 1 or zero.max() > 1:
        raise ValuesInvalid(f"a success is {max(one.max(), zero.max())}.", fix="give 0 or 1, or a share between")
    estimate = float(one.mean() - zero.mean())
    binary = is_binary(one) and is_binary(zero)
    if not case.paired:
        return _independent(case, told, estimate, binary)
    if case.monitored and _mix(case, told):
        found = strata_looks.difference_sequence_standardised(
            one, zero, _labels(told), case.evidence.mix or {}, case.margins.n, case.level, clusters=told.clusters
        )
        return _at_mix(found, told, "confidence sequence at the reference mix", _plain_pp(estimate))
    if case.monitored:
        effect = 1.0 if told.clusters is None else ratios.design_effect(one - zero, told.clusters)
        interval = sequences.difference_sequence(one, zero, case.margins.n, case.level, design_effect=effect)
        return Bound(estimate, interval, told.n, "confidence sequence", coverage=told.coverage)
    if not binary:
        if told.clusters is not None or _mix(case, told):
            raise EvidenceMixed("graded success has clusters or a mix.", fix="give 0 or 1 per request")
        return Bound(estimate, graded_difference(one, zero, case.level), told.n, "paired t, graded success",
                     coverage=told.coverage)  # fmt: skip
    if _mix(case, told):
        return _standardised_rate(case, told)
    table = pairs(one, zero)
    second = ("Newcombe's interval", table.newcombe(case.level))
    if told.clusters is None:
        return Bound(estimate, table.tango(case.level), told.n, "Tango score interval", second, told.coverage)
    interval, effective = tango_clustered(one, zero, told.clusters, case.level)
    note = f"clusters leave {effective:.0f} effective pairs"
    method = "Tango score interval, clustered"
    return Bound(estimate, interval, told.n, method, coverage=told.coverage, note=note)


def p95_bound(case: Case) -> Bound:
    """Ratio of the P95 latencies, candidate over control."""
    told = complete(case.evidence, [_latency(case)], paired=case.paired, endless=True)
    _need_rows(told)
    _need_clusters(case, told)
    one, zero = told.one[0], told.zero[0]
    q1, q0 = quantiles.quantile(one, 0.95), quantiles.quantile(zero, 0.95)
    interval = quantiles.quantile_contrast(
        one, zero, 0.95, case.level, relative=True, paired=case.paired, clusters=told.clusters,
        resamples=case.margins.resamples, seed=case.margins.seed,
    )  # fmt: skip
    estimate = q1 / q0 if q0 > 0 and math.isfinite(q1) and math.isfinite(q0) else None
    method = f"{'paired ' if case.paired else ''}percentile bootstrap{'' if told.clusters is None else ' of clusters'}"
    note = _joined(_tail_note(told.n), NO_MIX.format("interval of a P95") if _mix(case, told) else "")
    return Bound(estimate, interval, told.n, method, coverage=told.coverage, note=note)


def p95_limit_bound(case: Case) -> Bound:
    """P95 latency of the candidate in seconds, by order statistics."""
    told = complete(case.evidence, [_latency(case)], paired=case.paired, endless=True)
    _need_rows(told)
    if told.clusters is not None:
        raise EvidenceMixed("order statistics need independent requests, these have clusters.", fix="judge p95_margin")
    estimate = quantiles.quantile(told.one[0], 0.95)
    interval = quantiles.quantile_interval(told.one[0], 0.95, case.level)
    n = told.one[0].size
    note = _joined(_tail_note(n), NO_MIX.format("interval of a P95") if _mix(case, told) else "")
    return Bound(estimate, interval, n, "order statistics", coverage=told.coverage, note=note)


def ratio_bound(case: Case, amounts: Amounts) -> Bound:
    """Ratio of amounts per success, candidate over control, over all attempts."""
    success = case.evidence.success
    if success is None or isinstance(success, Pairs):
        raise NoData("success per request is not told.", fix="give success per request beside the amounts")
    told = complete(case.evidence, [amounts, success], paired=case.paired)
    _need_rows(told)
    _need_clusters(case, told)
    (e1, s1), (e0, s0) = told.one, told.zero
    if not (e1.sum() and s1.sum() and e0.sum() and s0.sum()):
        raise NoData("a total is 0, so that no ratio exists.", fix="give NaN, not 0, for what is unknown")
    estimate = float((e1.sum() / s1.sum()) / (e0.sum() / s0.sum()))
    bound = _ratio(case, told, estimate)
    if math.isinf(bound.interval[1]):
        bound = replace(bound, unbounded="the ratio has no upper end")
    if not amounts.systematic or bound.estimate is None:
        return bound
    interval = widened(bound.estimate, bound.interval, amounts.systematic, case.level)
    second = bound.second
    if second is not None:
        second = second[0], widened(bound.estimate, second[1], amounts.systematic, case.level)
    note = f"systematic {amounts.systematic:.1%} added"
    return replace(bound, interval=interval, second=second, note=_joined(bound.note, note))


def _ratio(case: Case, told: Columns, estimate: float) -> Bound:
    arms = (told.one[0], told.one[1], told.zero[0], told.zero[1])
    if case.monitored and case.paired:
        return _ratio_sequence(case, told, estimate, arms)
    if case.monitored:
        raise EvidenceMixed("monitoring needs pairs.", fix="judge a reference workload once, at its planned n")
    if _mix(case, told):
        return _standardised_ratio(case, told, estimate, arms)
    few = min(arms[1].sum(), arms[3].sum()) < case.margins.min_successes
    unsure = max(fieller_g(arms[1], case.level), fieller_g(arms[3], case.level)) > DELTA_G
    method, interval = _ratio_interval(case, told, arms, few or unsure)
    boot = ratios.ratio_bootstrap(
        *arms, case.level, clusters=told.clusters, paired=case.paired,
        resamples=case.margins.resamples, seed=case.margins.seed,
    )  # fmt: skip
    note = "no spread between requests: is this a constant?" if interval[0] == interval[1] else ""
    return Bound(estimate, interval, told.n, method, ("the bootstrap", boot), told.coverage, note)


def _ratio_interval(case: Case, told: Columns, arms: Arms, fieller: bool) -> tuple[str, Interval]:
    if fieller and told.clusters is not None:
        return "few successes in clusters", ratios.UNBOUNDED
    if fieller:
        return "Fieller", ratios.ratio_fieller(*arms, case.level, paired=case.paired)
    if told.clusters is not None:
        return "delta on the log ratio, clustered", ratios.ratio_clustered(*arms, told.clusters, case.level)
    if case.paired:
        return "paired delta on the log ratio", ratio_delta(*arms, case.level)
    return "delta on the log ratio, independent samples", ratios.ratio_independent(*arms, case.level)


def _standardised_ratio(case: Case, told: Columns, estimate: float, arms: Arms) -> Bound:
    labels, mix, clusters = _labels(told), case.evidence.mix or {}, told.clusters
    found = strata.ratio_standardised(*arms, labels, mix, case.level, clusters=clusters)
    method = "delta at the reference mix"
    if found.g > DELTA_G or min(arms[1].sum(), arms[3].sum()) < case.margins.min_successes:
        method = "Fieller at the reference mix"
        found = strata.ratio_standardised(*arms, labels, mix, case.level, clusters=clusters, fieller=True)
        if clusters is not None:
            method, found = "few successes in clusters", replace(found, low=0.0, high=math.inf)
    boot = strata_looks.ratio_bootstrap_standardised(
        *arms, labels, mix, case.level, clusters=clusters,
        resamples=case.margins.resamples, seed=case.margins.seed,
    )  # fmt: skip
    return _at_mix(found, told, method, f"unstandardised {estimate:.3f}", ("the bootstrap", boot))


def _ratio_sequence(case: Case, told: Columns, estimate: float, arms: Arms) -> Bound:
    if _mix(case, told):
        standard = strata_looks.log_ratio_sequence_standardised(
            *arms, _labels(told), case.evidence.mix or {}, case.margins.n, case.level, clusters=told.clusters
        )
        method = "confidence sequence of the log ratio at the reference mix"
        return _at_mix(standard, told, method, f"unstandardised {estimate:.3f}")
    found = log_ratio(*arms)
    effect = 1.0 if told.clusters is None or found is None else ratios.design_effect(found[1], told.clusters)
    interval = sequences.log_ratio_sequence(*arms, case.margins.n, case.level, design_effect=effect)
    return Bound(estimate, interval, told.n, "confidence sequence of the log ratio", coverage=told.coverage)


def _independent(case: Case, told: Columns, estimate: float, binary: bool) -> Bound:
    one, zero = told.one[0], told.zero[0]
    if case.monitored:
        raise EvidenceMixed("monitoring needs pairs.", fix="judge a reference workload once, at its planned n")
    if binary:
        interval = difference_independent(float(one.sum()), one.size, float(zero.sum()), zero.size, case.level)
        return Bound(estimate, interval, told.n, "Newcombe's interval, independent samples", coverage=told.coverage)
    if told.n < 2 or not (one.std() or zero.std()):
        raise NoData("graded success does not vary.", fix="give more runs")
    from scipy import stats  # half a second: not at every start

    found = stats.ttest_ind(one, zero, equal_var=False).confidence_interval(case.level)
    return Bound(estimate, (float(found.low), float(found.high)), told.n, "Welch's t, graded success",
                 coverage=told.coverage)  # fmt: skip


def _standardised_rate(case: Case, told: Columns) -> Bound:
    one, zero = told.one[0], told.zero[0]
    found = strata.difference_standardised(
        one, zero, _labels(told), case.evidence.mix or {}, case.level, clusters=told.clusters
    )
    return _at_mix(found, told, "Tango per stratum, joined by MOVER", _plain_pp(float(one.mean() - zero.mean())))


def _at_mix(
    found: strata.Standardised, told: Columns, method: str, plain: str, second: tuple[str, Interval] | None = None
) -> Bound:
    interval = found.low, found.high
    return Bound(found.estimate, interval, found.n, method, second, told.coverage, _mix_note(found, plain))


def _plain_pp(estimate: float) -> str:
    return f"unstandardised {100 * estimate:+.2f} pp"


def _mix(case: Case, told: Columns) -> bool:
    return case.evidence.mix is not None and told.strata is not None


def _labels(told: Columns) -> list[str]:
    return [] if told.strata is None else [str(name) for name in told.strata]


def _mix_note(found: strata.Standardised, plain: str) -> str:
    words = [plain]
    if found.missing:
        words.append(f"no request in {', '.join(found.missing)}: {found.covered:.0%} of the mix is covered")
    if found.thin:
        words.append(f"one request alone in {', '.join(found.thin)}")
    if found.unused:
        words.append(f"{found.unused} requests lie outside the mix")
    return "; ".join(words)


def _need_rows(told: Columns) -> None:
    if not told.n:
        raise NoData("no request tells it on both sides.", fix="wait for evidence: no data bounds nothing")


def _need_clusters(case: Case, told: Columns) -> None:
    if told.clusters is None:
        return
    groups = len(np.unique(told.clusters))
    if groups < case.margins.min_clusters:
        raise NoData(f"{groups} clusters are too few.", fix=f"collect at least {case.margins.min_clusters}")


def _latency(case: Case) -> Both:
    if case.evidence.latency_s is None:
        raise NoData("latency is not told.", fix="record the latency of every request, inf where it never answered")
    return case.evidence.latency_s


def _tail_note(n: int) -> str:
    return "" if n >= quantiles.ASKED_N else f"P95 from {n} requests; {quantiles.ASKED_N:,} are asked for"


def _joined(*words: str) -> str:
    return "; ".join(word for word in words if word)
