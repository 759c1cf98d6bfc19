"""Promise against outcome, figure by figure; what a target reported and what the desk measured itself stand apart."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from app.components.format import MISSING, age, count, instant, interval, parse_instant, percent, points, quantity
from app.components.marks import chip_html, evidence_html
from app.components.shapes import table_html

DESK = "desk"
_METRICS = (
    ("energy_j", "J per {per}", "J"),
    ("billed_cost_usd", "USD per {per}", "USD"),
    ("carbon_g", "gCO2e per {per}", "g"),
)


def is_own(outcome: Mapping[str, Any]) -> bool:
    """Whether the desk measured it itself, from logged requests."""
    return outcome.get("by") == DESK


def latest(told: Mapping[str, Any]) -> tuple[Mapping[str, Any] | None, list[Mapping[str, Any]]]:
    """The desk's own last measurement, and the last report of each target."""
    own, reports = None, {}
    for outcome in told.get("outcomes") or []:
        if is_own(outcome):
            own = outcome
        else:
            reports[outcome.get("by") or outcome.get("target")] = outcome
    return own, list(reports.values())


def table(told: Mapping[str, Any], outcome: Mapping[str, Any]) -> str:
    """promise | measured | verdict, with intervals where there are any."""
    promise, measured = told["content"]["promise"], outcome.get("measured") or {}
    judgement = outcome.get("judgement") or {}
    rows = [_success(promise, measured, judgement)]
    rows += [r for m in _METRICS if (r := _metric(promise, measured, judgement, *m)) is not None]
    return table_html(("", "promised", "measured", "against the incumbent's reference", "verdict"), rows)


def _success(promise: Mapping[str, Any], measured: Mapping[str, Any], judgement: Mapping[str, Any]) -> tuple[str, ...]:
    success = promise.get("success") or {}
    difference = success.get("difference")
    promised = MISSING
    if difference is not None:
        ends = f"{points(difference['low'])} … {points(difference['high'])}"
        promised = f"{points(difference['value'])}{_small(ends)}"
    rate, attempts = judgement.get("success_rate"), measured.get("attempts")
    shown = MISSING
    if rate is not None:
        n = f"{count(measured.get('successes'))} of {count(attempts)}"
        span = _span(judgement.get("success_interval"))
        shown = f"{percent(rate)} {evidence_html('measured')}{_small(f'{span}, {n}')}"
    required = judgement.get("required_success_rate")
    against, verdict = MISSING, "not judged"
    if required is not None and rate is not None:
        against = f"at least {percent(required)} required"
        low, high = judgement.get("success_interval") or (None, None)
        verdict = "FAILED" if high is not None and high < required else "INCONCLUSIVE"
        verdict = "SUCCEEDED" if low is not None and low >= required else verdict
    return "success rate", promised, shown, against, _verdict(verdict)


def _metric(
    promise: Mapping[str, Any],
    measured: Mapping[str, Any],
    judgement: Mapping[str, Any],
    name: str,
    words: str,
    unit: str,
) -> tuple[str, ...] | None:
    metric = promise["metrics"].get(name)
    if metric is None:
        return None
    per = promise.get("per", "success")
    promised = MISSING
    if metric["difference"] is not None:
        span = metric["interval"]
        ends = f"{percent(span[0], signed=True)} … {percent(span[1], signed=True)}" if span else "no interval"
        promised = f"{percent(metric['difference'], signed=True)}{_small(ends)}"
    total = measured.get(name)
    units = measured.get("successes") if per == "success" else measured.get("n") or measured.get("attempts")
    shown, against, verdict = MISSING, MISSING, "not judged"
    cls = _class(measured, name)
    if total is not None and units:
        value = float(total) / float(units)
        shown = f"{quantity(value, unit)} {evidence_html(cls)}"
        incumbent = metric["from"]["value"]
        if incumbent and cls == metric["from"]["evidence_class"]:
            against = percent(value / incumbent - 1, signed=True)
        elif incumbent:
            against = f"{cls} against {metric['from']['evidence_class']}: not comparable"
    if judgement.get("metric") == name and judgement.get("ratio") is not None:
        verdict = _ratio_verdict(judgement)
        span = judgement.get("interval")
        ends = f"{percent(span[0] - 1, signed=True)} … {percent(span[1] - 1, signed=True)}" if span else "no interval"
        against = f"{percent(judgement['ratio'] - 1, signed=True)}{_small(ends)}"
    return words.format(per=per), promised, shown, against, _verdict(verdict)


def _class(measured: Mapping[str, Any], name: str) -> str | None:
    if name == "billed_cost_usd":
        return "measured"
    found: str | None = measured.get("evidence_class" if name == "energy_j" else "carbon_evidence_class")
    return found


def _ratio_verdict(judgement: Mapping[str, Any]) -> str:
    span = judgement.get("interval")
    if not span:
        return "INCONCLUSIVE"
    if span[0] > 1:
        return "FAILED"
    return "SUCCEEDED" if span[1] < 1 else "INCONCLUSIVE"


def _verdict(word: str) -> str:
    return chip_html(word) if word != "not judged" else f'<span class="jb-muted jb-small">{word}</span>'


def _small(text: str) -> str:
    return f'<br><span class="jb-small jb-muted">{escape(text)}</span>'


def _span(ends: Any) -> str:
    return interval(100 * ends[0], 100 * ends[1], "%") if ends else "no interval"


def head_html(outcome: Mapping[str, Any]) -> str:
    """Whose measurement it is, of which window, and the verdict in one sentence."""
    measured = outcome.get("measured") or {}
    start, end = (parse_instant(measured.get(f"window_{name}_at")) for name in ("start", "end"))
    who = "measured by this desk, from logged requests" if is_own(outcome) else f"reported by {outcome.get('by')}"
    window = "" if end is None else f" · {instant(start)} to {instant(end)}, {age(end)} old"
    why = outcome.get("why") or "not judged"
    return (
        f"{chip_html(outcome.get('verdict') or 'not judged')} {escape(str(why))}<br>"
        f'<span class="jb-small jb-muted">{escape(who + window)}</span>'
    )
