"""The reference workload on the Pareto page: this warehouse's own offers by joules, dollars and grams."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.components import chrome, shapes
from app.components.access import desk, read
from app.components.evidence_switch import one_class_only
from app.components.format import age, count, interval, literal, quantity
from app.components.links import select
from app.components.marks import evidence_html
from app.components.pareto_chart import X_WORDS, Y_WORDS, Axes, draw
from app.components.pareto_legend import legend
from app.components.plot_theme import chart
from app.operations.routing import router_parameters
from app.reads import pareto as reads
from app.reads.pareto import Front, Unplotted
from policies.router import CATEGORIES
from warehouse.errors import IncomparableObservations

Columns = Sequence[DeltaGenerator]  # of the row that begins with the choice of the data set


def show(row: Columns) -> None:
    scored = read(reads.has_scores)
    axes = _axes(row, scored)
    points, unplotted = read(reads.reference, axes.x, axes.y, axes.category, router_parameters(desk().settings))
    points = one_class_only(points, X_WORDS[axes.x][1], axes.y_word)
    if not points:
        shapes.empty(
            "Quality against joules, dollars and grams, with the front, what it dominates, and how sure each point is",
            unplotted[0].reason
            if unplotted
            else "No reference run is known yet. Choose published points above, replay recorded outcomes, or:",
        )
        chrome.load_sample_button()
        return
    try:
        front = reads.front(points, axes.better)
    except IncomparableObservations as mixed:
        shapes.problem(mixed.message, mixed.fix, look="warn")
        return
    per_what = "success" if all(p.detail == "per success" for p in points) else "run"
    x_word = X_WORDS[axes.x][1]
    best = min((p for p in front.points if p.on_front), key=lambda p: p.x)
    alt = (
        f"{axes.y_word} against {x_word} per {per_what}: {len(front.points)} points, "
        f"{sum(p.on_front for p in front.points)} on the front; least: {best.name} at "
        f"{quantity(best.x, axes.x_unit)}. The table below has the same numbers."
    )
    chart(draw(front, axes, per_what), key="pareto", height=520, alt=alt)
    legend("reference")
    st.caption(f"Oldest point {age(min(p.at for p in front.points))} old.")
    _left_out(unplotted)
    _table(front, axes)


def _axes(row: Columns, scored: bool) -> Axes:
    with row[0]:
        axis = select("Across: less", list(reads.AXES), "axis", lambda a: X_WORDS[a][1])
    others = [y for y in Y_WORDS if y != axis]
    if not scored:  # without any score the second cost says more than an empty chart
        others.sort(key=lambda y: (y not in reads.AXES, y != "carbon_g"))
    with row[1]:
        up = select("Up", others, "up", Y_WORDS.__getitem__)
    category = ""
    if up == "proficiency":
        with row[2]:
            category = select("Category", CATEGORIES, "category")
    return Axes(reads.REFERENCE, axis, up, category)


def _left_out(unplotted: list[Unplotted]) -> None:
    if unplotted:
        with st.expander(f"Not on the chart: {len(unplotted)}", key="unplotted", type="compact"):
            for point in unplotted:
                st.caption(literal(f"{point.name}: {point.reason}"))


def _table(front: Front, axes: Axes) -> None:
    """The same numbers as text: the front first, then by x."""
    ordered = sorted(front.points, key=lambda p: (-p.on_front, p.x))
    x_word = X_WORDS[axes.x][1]
    heads = ("point", "", x_word, "95 % interval", axes.y_word, "95 % interval", "evidence", "n", "age")
    rows = [
        (
            f"<b>{escape(p.name)}</b>" if p.on_front else escape(p.name),
            "on the front" if p.on_front else '<span class="jb-muted">dominated</span>',
            f"{quantity(p.x, axes.x_unit)} {evidence_html(p.evidence_class)}",
            interval(p.x_low, p.x_high, axes.x_unit),
            axes.y_text(p.y) + (f" {evidence_html(p.y_evidence_class)}" if p.y_evidence_class else ""),
            axes.y_span(p),
            evidence_html(p.weakest_class, word=True),
            count(p.n),
            age(p.at),
        )
        for p in ordered
    ]
    shapes.show(shapes.table_html(heads, rows, numeric=(2, 3, 4, 5, 7, 8)))
