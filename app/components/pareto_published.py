"""Published points on the Pareto page: as printed, with the fixed arms that the publication tells elsewhere."""

from __future__ import annotations

from html import escape

import streamlit as st

from app.components import links, shapes
from app.components.access import read
from app.components.evidence_switch import one_class_only
from app.components.format import MISSING, age, count, literal, percent, quantity
from app.components.links import select
from app.components.marks import evidence_html
from app.components.pareto_legend import legend
from app.components.pareto_reference import Columns
from app.components.plot_theme import chart
from app.components.replay_chart import Panel, View, draw, span_of, standing, text_of
from app.reads import published as reads
from app.reads.pareto import Front, Point, front
from app.reads.replay import Metric, mixing_line
from policies.replay.published import Point as Published
from policies.replay.published import published_report
from warehouse.errors import IncomparableObservations

CHART = "p-chart"
KEYS = ("p-bench", "p-lambda", "p-policy", "evidence")


def forget() -> None:
    links.forget(KEYS)


def show(dataset: str, row: Columns) -> None:
    told = read(reads.points, dataset)
    with row[0]:
        x = select("Across: less", list(reads.X), "p-x", lambda k: f"{reads.X[k].title}, {reads.X[k].unit}")
    with row[1]:
        y = select("Up: more", list(reads.Y), "p-y", lambda k: reads.Y[k].title)
    with row[2]:
        bench, weight = _slice(told, y)
    points, unplotted = reads.plotted(told, x, y, bench, weight)
    points = one_class_only(points, reads.X[x].title, "")
    try:
        both = front(points)
        words = _report(dataset, told, {p.evidence_class for p in points})
    except IncomparableObservations as mixed:
        shapes.problem(mixed.message, mixed.fix, look="warn")
        return
    if not points:
        shapes.empty("Published points on these axes", "No point tells both figures: choose other axes.")
        return
    above = [s for s in words if "fixed arm" in s or s.startswith("With ")]
    for sentence in above:
        shapes.note(sentence, "warn" if " dominates " in sentence else "")
    y_words = f"Reward, λe {weight}" if y == "reward" else reads.Y[y].title
    left, right = st.columns([2, 1], gap="large")
    with right:
        names = [p.name for p in sorted(points, key=lambda p: p.x)]
        arms = [t.point.policy for t in told if t.added and t.point.policy in names]
        usual = names.index(arms[0]) if arms else 0
        chosen = select("Policy, or click a point", names, "p-policy", usual=usual)
    with left:
        _chart(both, reads.X[x], reads.Y[y], y_words, chosen, (x, y))
        for sentence in words:
            if sentence not in above:
                shapes.note(f"As published, {sentence}" if above and sentence is words[0] else sentence)
        legend("published")
        if unplotted:
            with st.expander(f"Not on the chart: {len(unplotted)}", key="unplotted", type="compact"):
                for each in unplotted:
                    st.caption(literal(f"{each.name}: {each.reason}"))
    with right:
        _card(next(p for p in told if p.point.policy == chosen), both)
    _table(both, reads.X[x], reads.Y[y], y_words)
    st.caption(literal(f"{told[0].point.citation}; {told[0].method}. Nothing here was run or checked on this machine."))


def _slice(told: list[reads.Told], y: str) -> tuple[str, str]:
    """(benchmark, weight of the reward): rewards of different weights are different measures, so one is chosen."""
    if y == "reward":
        weights = reads.weights(told)
        return "", select("Weight of energy in the reward", weights, "p-lambda", lambda w: f"λe {w}")
    names = reads.benchmarks(told)
    return select("Benchmark", ["", *names], "p-bench", lambda b: b or "all together", disabled=not names), ""


def _report(dataset: str, told: list[reads.Told], classes: set[str | None]) -> list[str]:
    """What the front of the joules says in words, over the points of the chosen class."""
    mine = [t for t in told if t.point.evidence_class in classes]
    tables: tuple[list[Published], list[Published]] = (
        [t.point for t in mine if not t.added],
        [t.point for t in mine if t.added],
    )
    found: list[str] = published_report(dataset, *tables)["statements"] if tables[0] else []
    return found


def _clicked() -> None:
    event = st.session_state.get(CHART) or {}
    names = [data[0] for p in event.get("selection", {}).get("points", []) if (data := p.get("customdata"))]
    if names:
        st.session_state["p-policy"] = str(names[0])


def _chart(both: Front, x: Metric, y: Metric, y_words: str, chosen: str, keys: tuple[str, str]) -> None:
    hull = mixing_line(both.points, {"energy_j": "energy_j_per_query"}.get(keys[0], keys[0]), keys[1])
    view = View(x, y, y_words, chosen=chosen)
    least = min((p for p in both.points if p.on_front), key=lambda p: p.x)
    alt = (
        f"{y_words} against {x.title}: {len(both.points)} points, {sum(p.on_front for p in both.points)} on the front; "
        f"least: {least.name} at {text_of(least.x, x)}. The table below has the same numbers."
    )
    chart(draw([Panel("", both, hull)], view), key=CHART, height=520, alt=alt, on_point=_clicked)


def _card(told: reads.Told, both: Front) -> None:
    """The chosen point as printed, what dominates it on these axes, and its slices."""
    p = told.point
    mark = evidence_html(p.evidence_class)
    power = None if p.latency_s is None else p.energy_j / p.latency_s
    shown = next((q for q in both.points if q.name == p.policy), None)
    head = [f"<b>{escape(p.policy)}</b>", "fixed arm" if p.fixed else ""]
    if shown is not None:
        by = [q.name for q in both.points if _beats(q, shown)]
        head.append(
            '<span class="jb-chip ok"><i aria-hidden="true"></i>on the front</span>'
            if shown.on_front
            else f'<span class="jb-muted">dominated by {escape(", ".join(by))}</span>'
        )
    rows = [
        ("accuracy", percent(p.accuracy), ""),
        ("energy per query", quantity(p.energy_j, "J"), mark),
        ("energy per correct answer", quantity(p.energy_j / p.accuracy if p.accuracy else None, "J"), mark),
        ("latency", quantity(p.latency_s, "s"), mark),
        ("power, mean of the calls", quantity(p.power_w, "W"), mark),
        ("power, energy over time", quantity(power, "W"), mark),
        ("reward", MISSING if p.reward is None else f"{p.reward:.3f}", ""),
        ("n", count(p.n), ""),
    ]
    shapes.show(" · ".join(h for h in head if h))
    told_rows = [(words, value, each if value != MISSING else "") for words, value, each in rows]
    shapes.show(shapes.table_html(("figure", "as printed", ""), told_rows, numeric=(1,)))
    if p.slices:
        body = [
            (escape(b), count(n), percent(a), f"{escape(quantity(j, 'J'))} {mark}" if j is not None else MISSING)
            for b, (n, a, j) in sorted(p.slices.items())
        ]
        shapes.show(
            "<h4>By benchmark</h4>"
            + shapes.table_html(("benchmark", "n", "accuracy", "J/query"), body, numeric=(1, 2, 3))
        )
    shapes.show(f'<span class="jb-small jb-muted">{escape(p.citation)}, {age(told.at)} old</span>')


def _beats(q: Point, p: Point) -> bool:
    return q.x <= p.x and q.y >= p.y and (q.x < p.x or q.y > p.y)


def _table(both: Front, x: Metric, y: Metric, y_words: str) -> None:
    rows = []
    for p in sorted(both.points, key=lambda p: (-p.on_front, p.x)):
        what = standing(p) + (" · fixed arm" if p.role == "fixed" else "")
        rows.append(
            (
                f"<b>{escape(p.name)}</b>" if p.on_front else escape(p.name),
                escape(what) if p.on_front else f'<span class="jb-muted">{escape(what)}</span>',
                f"{text_of(p.x, x)} {evidence_html(p.evidence_class)}",
                text_of(p.y, y),
                span_of(p.y_low, p.y_high, y),
                evidence_html(p.weakest_class, word=True),
                count(p.n),
                age(p.at),
            )
        )
    heads = ("point", "", x.title, y_words, "95 % Wilson", "evidence", "n", "age")
    shapes.show(shapes.table_html(heads, rows, numeric=(2, 3, 4, 6, 7)))
