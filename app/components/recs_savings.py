"""What the changes in force save, each with its error rate and latency beside it, never one without the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from html import escape
from typing import Any

import streamlit as st

from app.components import shapes
from app.components.access import command, read
from app.components.format import MISSING, age, count, instant, parse_instant, percent, points, quantity, signed
from app.components.marks import evidence_html
from app.components.recs import arrow
from app.components.shapes import delta_html, table_html
from app.reads import overview
from app.reads.intervals import wilson
from app.reads.overview import Latency

_METRICS = (
    ("energy_j", "J per success", "J"),
    ("billed_cost_usd", "USD per success", "USD"),
    ("carbon_g", "gCO2e per success", "g"),
)


def table(changes: Sequence[Mapping[str, Any]], latencies: Mapping[str, tuple[Latency, Latency]]) -> str:
    """One row per change in force: three savings, then the two harms."""
    rows = []
    for change in changes:
        at = parse_instant(change["since"])
        sample = ' <span class="jb-low">SAMPLE</span>' if change["is_sample"] else ""
        rec = escape(change["id"])
        rows.append(
            (
                f'<div class="jb-wide"><a href="recommendations?rec={rec}" target="_self">{rec}</a>{sample}'
                f'<br><span class="jb-small jb-muted">{escape(arrow(change["title"]))}<br>{count(change["requests"])} '
                f"requests since {escape(instant(at))}, {escape(age(at))}</span></div>",
                *(metric_html(change["metrics"][name], unit) for name, _, unit in _METRICS),
                errors_html(change["success"], change.get("baseline")),
                latency_html(latencies.get(change["id"])),
            )
        )
    return table_html(("in force", *(w for _, w, _ in _METRICS), "error rate", "P95 latency"), rows)


def metric_html(metric: Mapping[str, Any], unit: str) -> str:
    """before → since with its mark, the change with its interval; or why there is none."""
    if metric["relative"] is None:
        return f'{MISSING}<br><span class="jb-small jb-muted">{escape(str(metric["why"] or "not known"))}</span>'
    span, change = metric["interval"], metric["relative"]
    settled = span is not None and (span[0] > 0 or span[1] < 0)
    text = percent(change, signed=True)
    shown = delta_html(text, change=change, better=-1) if settled else f'<span class="jb-num">{text}</span>'
    ends = f"{percent(span[0], signed=True)} … {percent(span[1], signed=True)}" if span else "no interval"
    levels = f"{quantity(metric['baseline'], unit)} → {quantity(metric['measured'], unit)}"
    n = f"n {count(metric['n'])}"
    cover = "" if metric["coverage"] in (None, 1.0) else f", {percent(metric['coverage'])} tell it"
    return (
        f"{shown} {evidence_html(metric['evidence_class'])}<br>"
        f'<span class="jb-small jb-muted jb-nowrap">{ends}</span><br>'
        f'<span class="jb-small jb-muted"><span class="jb-nowrap">{levels},</span> {n}{cover}</span>'
    )


def errors_html(success: Mapping[str, Any], baseline: Mapping[str, Any] | None) -> str:
    """Failed requests: before, since, and the interval of what is since."""
    rate, before = success["rate"], success["baseline_rate"]
    if rate is None:
        return f'{MISSING}<br><span class="jb-small jb-muted">no source tells success since the change</span>'
    n = success["attempts"]
    span = wilson(success["successes"], n)
    ends = f"{percent(1 - span[1])} … {percent(1 - span[0])}" if span else "no interval"
    if before is None:
        change = '<span class="jb-small jb-muted">not known before</span>'
    else:
        low, high = span or (0.0, 1.0)
        settled = not low <= before <= high
        text = points(before - rate)
        word = delta_html(text, change=before - rate, better=-1) if settled else f'<span class="jb-num">{text}</span>'
        change = f"{word}<br><span class='jb-small jb-muted jb-nowrap'>from {percent(1 - before)}</span>"
    return (
        f'<span class="jb-num">{percent(1 - rate)}</span> {evidence_html("measured")} {change}<br>'
        f'<span class="jb-small jb-muted jb-nowrap">{ends}, n {count(n)}</span>'
    )


def latency_html(found: tuple[Latency, Latency] | None) -> str:
    """P95 of requests before and since, with order-statistic intervals."""
    if found is None or found[1].p95_s is None:
        return f'{MISSING}<br><span class="jb-small jb-muted">no source tells durations since the change</span>'
    before, since = found
    span = "no interval below n 72"
    if since.low_s is not None and since.high_s is not None:
        span = f"{quantity(since.low_s, 's')} … {quantity(since.high_s, 's')}"
    change = '<span class="jb-small jb-muted">not known before</span>'
    if before.p95_s is not None and since.p95_s is not None:
        text = signed(since.p95_s - before.p95_s, "s")
        change = f'<span class="jb-num">{text}</span>'
    return (
        f'<span class="jb-num">{quantity(since.p95_s, "s")}</span> {evidence_html("measured")} {change}<br>'
        f'<span class="jb-small jb-muted jb-nowrap">{span}, n {count(since.n)}</span>'
    )


def totals_line(totals: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """`saved since: 1.41 MJ ◐ over 2 changes, $3.20 ●`; what is unknown is counted, not guessed."""
    parts = []
    for name, _, unit in _METRICS:
        for row in totals.get(name) or []:
            unknown = f", {count(row['unknown'])} unknown" if row["unknown"] else ""
            changes = f"{count(row['changes'])} change{'s' if row['changes'] != 1 else ''}{unknown}"
            parts.append(
                f'<span class="jb-num">{quantity(row["saved"], unit)}</span> {evidence_html(row["evidence_class"])} '
                f'<span class="jb-muted">over {changes}</span>'
            )
    return " &nbsp;·&nbsp; ".join(parts)


def section() -> None:
    """What the changes in force save, with error rate and latency in the same row."""
    told = command("recommend.savings", {})
    st.subheader("Saved by what is in force", anchor=False)
    if not told["changes"]:
        shapes.empty(
            "Joules, dollars and grams saved per success by each change in force, beside its error rate and latency",
            "No change is in force: approve a recommendation, and let its targets carry it out.",
        )
        return
    latencies = {c["id"]: pair for c in told["changes"] if (pair := _latencies(c)) is not None}
    shapes.show(table(told["changes"], latencies))
    line = totals_line(told["totals"])
    if line:
        shapes.show(f"<b>saved in all</b> &nbsp; {line}")
    st.caption("against the incumbent's own traffic of the days before; all organic requests of an offer, because a "
               "bill does not say which cell asked. The mix of requests may have changed with the change.")  # fmt: skip


def _latencies(change: dict[str, Any]) -> tuple[Latency, Latency] | None:
    start, end = (parse_instant(change[name]) for name in ("since", "until"))
    if start is None or end is None:
        return None
    until = end.replace(second=0, microsecond=0) + timedelta(minutes=1)
    since = read(overview.latency, change["to"], start, until)
    before = change.get("baseline")
    if before is None:
        return Latency(None, None, None, 0), since
    window = (parse_instant(before["since"]), parse_instant(before["until"]))
    assert window[0] is not None and window[1] is not None
    return read(overview.latency, before["offer"], window[0], window[1]), since
