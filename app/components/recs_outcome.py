"""Promise against outcome, figure by figure; what a target reported and what the desk measured itself stand apart.

A report of a target is held against the reference runs of the promise; the desk's own measurement against the
incumbent's own traffic before the change. The words of each table say which.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape
from typing import Any

from app.components.format import MISSING, age, count, instant, interval, parse_instant, percent, points, quantity
from app.components.marks import chip_html, evidence_html
from app.components.shapes import table_html

DESK = "desk"
_Z = 1.959963984540054
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
    content = told["content"]
    judgement = outcome.get("judgement") or {}
    rows = [_success(content, outcome, judgement)]
    rows += [r for m in _METRICS if (r := _metric(content, outcome, judgement, *m)) is not None]
    rows += _over_slo(outcome, judgement)
    against = "against the incumbent before" if _before(content, outcome) else "against its reference runs"
    return table_html(("", "promised", "measured", against, "verdict"), rows)


def _before(content: Mapping[str, Any], outcome: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The incumbent's own traffic, which the desk measures against; None for reports of targets."""
    found: Mapping[str, Any] | None = content.get("baseline") if is_own(outcome) else None
    return found


def _success(content: Mapping[str, Any], outcome: Mapping[str, Any], judgement: Mapping[str, Any]) -> tuple[str, ...]:
    measured = outcome.get("measured") or {}
    difference = (content["promise"].get("success") or {}).get("difference")
    promised = MISSING
    if difference is not None:
        ends = f"{points(difference['low'])} … {points(difference['high'])}"
        promised = f"{points(difference['value'])}{_small(ends)}"
    rate, required = judgement.get("success_rate"), judgement.get("required_success_rate")
    if rate is None:
        return "success rate", promised, MISSING, MISSING, _verdict("not judged")
    low, high = judgement.get("success_interval") or (None, None)
    span = interval(100 * low, 100 * high, "%") if low is not None and high is not None else "no interval"
    n = f"{count(measured.get('successes'))} of {count(measured.get('attempts'))}"
    shown = f"{percent(rate)} {evidence_html('measured')}{_small(f'{span}, {n}')}"
    verdict = "INCONCLUSIVE"
    if high is not None and required is not None and high < required:
        verdict = "FAILED"
    elif low is not None and required is not None and low >= required:
        verdict = "SUCCEEDED"
    return "success rate", promised, shown, f"at least {percent(required)} required", _verdict(verdict)


def _metric(
    content: Mapping[str, Any],
    outcome: Mapping[str, Any],
    judgement: Mapping[str, Any],
    name: str,
    words: str,
    unit: str,
) -> tuple[str, ...] | None:
    promise = content["promise"]
    metric = promise["metrics"].get(name)
    if metric is None:
        return None
    per = promise.get("per", "success")
    promised = MISSING
    if metric["difference"] is not None:
        promised = f"{percent(metric['difference'], signed=True)}{_small(_ends(metric['interval'], 0.0))}"
    value, cls, span = _measured(outcome, name, per)
    before = _before(content, outcome)
    reference = ((before or {}).get("figures") or {}).get(name) if before else metric["from"]
    shown = against = MISSING
    if value is not None:
        ends = interval(span[0], span[1], unit) if span else "no interval of its own"
        shown = f"{quantity(value, unit)} {evidence_html(cls)}{_small(ends)}"
        against = _against(value, cls, reference)
    verdict = "not judged"
    if judgement.get("metric") == name and judgement.get("ratio") is not None:
        verdict = _ratio_verdict(judgement)
        change = percent(judgement["ratio"] - 1, signed=True)
        against = f"{change}{_small(_ends(judgement.get('interval'), 1.0))}{_as_it_came(judgement)}"
    return words.format(per=per), promised, shown, against, _verdict(verdict)


def _as_it_came(judgement: Mapping[str, Any]) -> str:
    """The change without the mix, where it is told at one."""
    plain, strata = judgement.get("unstandardised_ratio"), judgement.get("mix_strata") or 0
    if plain is None or strata < 2:
        return ""
    return _small(f"at the incumbent's mix; {percent(plain - 1, signed=True)} as it came")


def _measured(
    outcome: Mapping[str, Any], name: str, per: str
) -> tuple[float | None, str | None, tuple[float, float] | None]:
    """Value per success, evidence class, and interval where the requests themselves were seen."""
    figure = ((outcome.get("traffic") or {}).get("figures") or {}).get(name)
    if figure is not None:
        value, se = figure["value"], figure["se_log"]
        if value is None or se is None:
            return value, figure["evidence_class"], None
        return value, figure["evidence_class"], (value * math.exp(-_Z * se), value * math.exp(_Z * se))
    measured = outcome.get("measured") or {}
    total = measured.get(name)
    units = measured.get("successes") if per == "success" else measured.get("n") or measured.get("attempts")
    cls = {"billed_cost_usd": "measured", "energy_j": measured.get("evidence_class")}.get(
        name, measured.get("carbon_evidence_class")
    )
    return (float(total) / float(units) if total is not None and units else None), cls, None


def _against(value: float, cls: str | None, reference: Mapping[str, Any] | None) -> str:
    if not reference or not reference.get("value"):
        return "the incumbent's figure is unknown"
    if cls != reference["evidence_class"]:
        return escape(f"{cls} against {reference['evidence_class']}: not comparable")
    return f"{percent(value / reference['value'] - 1, signed=True)}{_small('not judged, so no interval')}"


def _over_slo(outcome: Mapping[str, Any], judgement: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Latency, where an SLO is set."""
    measured = outcome.get("measured") or {}
    share = judgement.get("over_slo_share")
    if measured.get("slo_s") is None or share is None:
        return []
    allowed = judgement.get("allowed_over_slo_share")
    n = f"{count(measured.get('over_slo'))} of {count(measured.get('latency_n'))}"
    slow = allowed is not None and share > allowed
    shown = f"{percent(share)} {evidence_html('measured')}{_small(n)}"
    name = f"slower than {quantity(measured['slo_s'], 's')}"
    against = MISSING if allowed is None else f"at most {percent(allowed)} allowed"
    return [(name, MISSING, shown, against, _verdict("INCONCLUSIVE" if slow else "within"))]


def _ratio_verdict(judgement: Mapping[str, Any]) -> str:
    span = judgement.get("interval")
    if not span:
        return "INCONCLUSIVE"
    if span[0] > 1:
        return "FAILED"
    return "SUCCEEDED" if span[1] < 1 else "INCONCLUSIVE"


def _ends(span: Any, shift: float) -> str:
    if not span:
        return "no interval"
    return " … ".join(percent(end - shift, signed=True) for end in span)


_WORDS = {"SUCCEEDED": ("ok", "kept"), "FAILED": ("bad", "broken"), "INCONCLUSIVE": ("warn", "undecided")}


def _verdict(word: str) -> str:
    look, shown = _WORDS.get(word, ("unknown", word))
    return f'<span class="jb-chip {look}"><i aria-hidden="true"></i>{escape(shown)}</span>'


def _small(text: str) -> str:
    return f'<br><span class="jb-small jb-muted">{escape(text)}</span>'


def head_html(outcome: Mapping[str, Any]) -> str:
    """Whose measurement it is, of which window, and the verdict in one sentence."""
    seen = outcome.get("measured") or {}
    traffic = outcome.get("traffic") or {}
    start = parse_instant(seen.get("window_start_at") or traffic.get("since"))
    end = parse_instant(seen.get("window_end_at") or traffic.get("until"))
    who = "measured by this desk, from logged requests" if is_own(outcome) else f"reported by {outcome.get('by')}"
    window = "" if end is None else f" · {instant(start)} to {instant(end)}, {age(end)} old"
    look = outcome.get("look") or (outcome.get("judgement") or {}).get("confidence")
    sure = f" · intervals of {look:.2%}" if isinstance(look, float) and look != 0.95 else ""
    return (
        f"{chip_html(outcome.get('verdict') or 'not judged')} {escape(str(outcome.get('why') or 'not judged'))}<br>"
        f'<span class="jb-small jb-muted">{escape(who + window + sure)}</span>'
    )
