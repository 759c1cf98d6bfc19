"""A gate as an operator reads it: the verdict, and each check as an interval drawn against its margin.

Everything that is drawn stands in the same row as text. HTML of spans, because the page takes no SVG.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from app.components.format import MISSING, NBSP, age, count, instant, parse_instant, percent, points, quantity
from app.components.marks import MARKS, evidence_html
from app.components.shapes import table_html

VERDICTS = {"PASS": ("ok", "pass"), "FAIL": ("bad", "fail"), "INCONCLUSIVE": ("warn", "inconclusive")}
KINDS = {
    "paired_replay": "paired replay: the same request, sent to both",
    "mirrored": "mirrored: a live request, copied to the candidate",
    "reference_workload": "reference workload: runs of a fixed workload on each side",
    "off_policy": "off-policy: weighted logs of another policy",
}
NAMES = {
    "success": "success rate, difference",
    "over_slo": "share over the SLO, difference",
    "p95": "P95 latency, relative",
    "p95_limit": "P95 latency of the candidate",
    "energy": "J per success, relative",
    "usd": "USD per success, relative",
    "carbon": "gCO2e per success, relative",
}
_CONSTRAINT = "constraint:"


def verdict_html(verdict: str | None, detail: str = "") -> str:
    """PASS, FAIL or INCONCLUSIVE as shape and word; a dash where nothing was judged."""
    look, word = VERDICTS.get(verdict or "", ("unknown", "not judged yet"))
    after = f" {escape(detail)}" if detail else ""
    return f'<span class="jb-chip {look}"><i aria-hidden="true"></i>{word}{after}</span>'


@dataclass(frozen=True)
class Row:
    """One check in what is drawn: its unit's numbers, the line of no change, and on which side it must lie.

    better: -1 the interval must lie below the margin, +1 above it. scale: what one unit is in words.
    """

    name: str
    verdict: str
    estimate: float | None
    low: float | None
    high: float | None
    margin: float
    neutral: float | None
    better: int
    unit: str
    n: int
    method: str
    evidence: str | None
    words: str
    coverage: float | None
    second: str


def rows(checks: Sequence[Mapping[str, Any]]) -> list[Row]:
    """The checks but the proved hard constraints that hold, which `constraints` tells in one line."""
    return [_row(c) for c in checks if not _is_proved(c) or c["verdict"] != "PASS"]


def _is_proved(check: Mapping[str, Any]) -> bool:
    return str(check["name"]).startswith(_CONSTRAINT) and check["evidence_class"] == "proved"


def constraints(checks: Sequence[Mapping[str, Any]]) -> str | None:
    """`0 of 256 decisions break authorization, residency, safety or context`; None where none was proved to hold."""
    held = [c for c in checks if _is_proved(c) and c["verdict"] == "PASS"]
    if not held:
        return None
    names = [str(c["name"]).removeprefix(_CONSTRAINT) for c in held]
    listed = " or ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]
    return f"0 of {count(min(c['n'] for c in held))} decisions break {listed}: proved over the eligible sets"


def _row(check: Mapping[str, Any]) -> Row:
    name, unit = str(check["name"]), check["unit"]
    ratio = unit == "ratio"
    shift = 1.0 if ratio else 0.0

    def moved(value: float | None) -> float | None:
        return None if value is None else value - shift

    second = ""
    if check.get("second_method"):
        ends = f"{told(moved(check['second_low']), unit)} … {told(moved(check['second_high']), unit)}"
        second = f"{check['second_method']}: {ends}"
    hard = name.startswith(_CONSTRAINT)
    return Row(
        name=f"hard constraint: {name.removeprefix(_CONSTRAINT)}" if hard else NAMES.get(name, name),
        verdict=check["verdict"],
        estimate=moved(check["estimate"]),
        low=moved(check["low"]),
        high=moved(check["high"]),
        margin=check["margin"] - shift,
        neutral=None if unit == "s" or hard else 0.0,
        better=1 if name == "success" else -1,
        unit="rate" if hard else unit,
        n=check["n"],
        method=check["method"],
        evidence=check["evidence_class"],
        words=check["words"],
        coverage=check["coverage"],
        second=second,
    )


def told(value: float | None, unit: str) -> str:
    """A figure of a check: a ratio as a change, a share as a difference in points, a rate as a share, seconds."""
    if value is None or not math.isfinite(value):
        return "open"
    if unit == "ratio":
        return percent(value, signed=True, decimals=1)
    if unit == "share":
        return points(value, 2)
    return percent(value, decimals=2) if unit == "rate" else quantity(value, unit)


def bar_html(row: Row) -> str:
    """The interval on its own axis: shaded where it must lie, a thick line for the margin, a thin one for no change."""
    if row.low is None and row.high is None:
        return '<span class="jb-muted jb-small">nothing is bounded</span>'
    known = [x for x in (row.low, row.high, row.estimate, row.margin, row.neutral) if x is not None]
    left, right = min(known), max(known)
    pad = (right - left) * 0.09 or 1.0
    left, right = left - pad, right + pad

    def at(x: float) -> float:
        return min(100.0, max(0.0, 100 * (x - left) / (right - left)))

    margin = at(row.margin)
    good = f"left:0;width:{margin:.2f}%" if row.better < 0 else f"left:{margin:.2f}%;right:0"
    low = 0.0 if row.low is None else at(row.low)
    high = 100.0 if row.high is None else at(row.high)
    ends = f"{' open-left' if row.low is None else ''}{' open-right' if row.high is None else ''}"
    neutral = "" if row.neutral is None else f'<s style="left:{at(row.neutral):.2f}%"></s>'
    # A very sure interval is a dot with two hairs: it must not vanish under its own point.
    point = "" if row.estimate is None else f'<b style="left:{at(row.estimate):.2f}%"></b>'
    side = "below" if row.better < 0 else "above"
    label = (
        f"{row.name}: {told(row.low, row.unit)} to {told(row.high, row.unit)}, must lie {side} "
        f"{told(row.margin, row.unit)}, {VERDICTS.get(row.verdict, ('', row.verdict))[1]}"
    )
    look = VERDICTS.get(row.verdict, ("unknown", ""))[0]
    return (
        f'<span class="jb-gatebar {look}" role="img" aria-label="{escape(label)}">'
        f'<i style="{good}"></i>{neutral}<s class="margin" style="left:{margin:.2f}%"></s>'
        f'<u class="{ends.strip()}" style="left:{low:.2f}%;width:{max(high - low, 0.4):.2f}%"></u>{point}</span>'
    )


def _evidence(row: Row) -> str:
    if row.evidence in MARKS:
        return evidence_html(row.evidence, word=True)
    word = (row.evidence or "missing").replace("_", " ")
    return f'<span class="jb-small jb-muted">{escape(word)}</span>'


def table(checks: Sequence[Mapping[str, Any]]) -> str:
    """All checks: drawn, and in words."""
    body = []
    for row in rows(checks):
        sign = "<" if row.better < 0 else ">"
        second = f"<br>beside: {escape(row.second)}" if row.second else ""
        cover = "" if row.coverage in (None, 1.0) else f"<br>told by {percent(row.coverage)}"
        span = MISSING
        if row.low is not None or row.high is not None:
            span = f"{told(row.low, row.unit)} … {told(row.high, row.unit)}"
        if row.estimate is not None:
            value = f"{told(row.estimate, row.unit)}<br><span class='jb-muted jb-small'>{span}</span>"
        else:
            value = f"{MISSING}<br><span class='jb-muted jb-small'>{span}</span>"
        body.append(
            (
                f"{verdict_html(row.verdict)}",
                f'<span title="{escape(row.words)}">{escape(row.name)}</span>'
                f'<br><span class="jb-small jb-muted">{escape(row.method)}{second}</span>',
                bar_html(row),
                value,
                f"{sign}{NBSP}{told(row.margin, row.unit)}",
                f"{count(row.n)}{cover}",
                _evidence(row),
            )
        )
    proved = constraints(checks)
    if proved:
        n = min(c["n"] for c in checks if _is_proved(c))
        body.insert(
            0,
            (
                verdict_html("PASS"),
                "hard constraints",
                f'<span class="jb-small">{escape(proved)}</span>',
                f"0<br><span class='jb-muted jb-small'>of {count(n)}</span>",
                f"={NBSP}0",
                count(n),
                '<span class="jb-small jb-muted">proved</span>',
            ),
        )
    heads = ("verdict", "check", "interval against the margin", "estimate, 95 %", "must be", "n", "evidence")
    return table_html(heads, body, numeric=(3, 4, 5))


LEGEND = (
    '<span class="jb-small jb-muted">each on its own axis: '
    '<span class="jb-gatekey good" aria-hidden="true"></span> where the interval must lie · '
    '<span class="jb-gatekey margin" aria-hidden="true"></span> margin · '
    '<span class="jb-gatekey none" aria-hidden="true"></span> no change · candidate against incumbent</span>'
)


def reasons(report: Mapping[str, Any]) -> list[str]:
    """In words, why the verdict is not a pass: one sentence per check that is not."""
    found = [f"{_row(c).name}: {c['words']}" for c in report["checks"] if c["verdict"] != "PASS"]
    return found or ([str(report["words"])] if report["verdict"] != "PASS" else [])


def head_html(report: Mapping[str, Any]) -> str:
    """The verdict with n of planned_n, kind of evidence, how it was judged, and when."""
    at = parse_instant(report.get("judged_at"))
    kind = KINDS.get(str(report.get("evidence_kind") or report.get("kind")), "no outcome evidence")
    mode = "one look at the plan" if report.get("mode") == "fixed" else "by a confidence sequence, so looking is free"
    level = f"{float(report['confidence']):.0%} intervals"
    return (
        f"{verdict_html(report['verdict'])} <span>{escape(str(report['words']))}</span><br>"
        f'<span class="jb-small jb-muted">{escape(kind)} · {escape(mode)} · {level} · '
        f'judged <span title="{escape(instant(at))}">{escape(age(at))} ago</span></span>'
    )
