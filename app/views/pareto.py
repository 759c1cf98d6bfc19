"""Pareto: quality against joules, dollars or grams; what is dominated, and how sure each point is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

import streamlit as st

from app.components import chrome, shapes
from app.components.access import desk, in_words, read
from app.components.format import age, count, interval, literal, quantity
from app.components.marks import MARKS, evidence_html, glyph
from app.components.pareto_chart import X_WORDS, Y_WORDS, Axes, draw
from app.components.plot_theme import chart
from app.operations.routing import router_parameters
from app.reads import pareto as reads
from app.reads.pareto import Front, Point, Unplotted
from policies.router import CATEGORIES
from warehouse.errors import IncomparableObservations
from warehouse.evidence import strongest_first


def controls(names: Sequence[str], scored: bool) -> Axes:
    # Without any score the reference workload has no quality to show; a published set then says more at first sight.
    first = 1 if not scored and len(names) > 1 else 0
    dataset = st.selectbox(
        "Data set",
        names,
        index=first,
        key="dataset",
        bind="query-params",
        format_func=_dataset_word,
    )
    if dataset != reads.REFERENCE:
        axis = st.segmented_control(
            "Across: less",
            ["energy_j", "latency_s"],
            default="energy_j",
            required=True,
            key="axis-pub",
            bind="query-params",
            format_func=lambda a: X_WORDS[a][1],
        )
        return Axes(str(dataset), str(axis or "energy_j"), "accuracy", "")
    axis = st.segmented_control(
        "Across: less",
        list(reads.AXES),
        default="energy_j",
        required=True,
        key="axis",
        bind="query-params",
        format_func=lambda a: X_WORDS[a][1],
    )
    others = [y for y in Y_WORDS if y != axis]
    if not scored:  # without any score the second cost says more than an empty chart
        others = [y for y in others if y in reads.AXES] + [y for y in others if y not in reads.AXES]
        others.sort(key=lambda y: (y not in reads.AXES, y != "carbon_g"))
    up = st.selectbox("Up", others, key="up", bind="query-params", format_func=Y_WORDS.__getitem__)
    category = ""
    if up == "proficiency":
        category = str(st.selectbox("Category", CATEGORIES, key="category", bind="query-params"))
    return Axes(str(dataset), str(axis or "energy_j"), str(up), category)


def _dataset_word(dataset: str) -> str:
    if dataset == reads.REFERENCE:
        return "Reference workload, this warehouse"
    return "Published points" if dataset == "published" else f"Published: {dataset}"


def points_of(axes: Axes) -> tuple[list[Point], list[Unplotted]]:
    if axes.dataset == reads.REFERENCE:
        return read(reads.reference, axes.x, axes.y, axes.category, router_parameters(desk().settings))
    return read(reads.published, axes.dataset, axes.x), []


def one_class_only(points: list[Point], axes: Axes) -> list[Point]:
    """Points of one evidence class per axis; where there are several the reader chooses, nothing is mixed."""
    points = _chosen(points, lambda p: p.evidence_class, f"Evidence: {X_WORDS[axes.x][1]}", "evidence")
    return _chosen(points, lambda p: p.y_evidence_class, f"Evidence: {axes.y_word}", "evidence-up")


def _chosen(points: list[Point], class_of: Callable[[Point], str | None], label: str, key: str) -> list[Point]:
    classes = strongest_first(c for c in map(class_of, points) if c)
    if len(classes) < 2:
        return points
    chosen = st.segmented_control(
        label,
        ["all", *classes],
        default=classes[0],
        required=True,
        key=key,
        bind="query-params",
        format_func=lambda c: c if c == "all" else f"{glyph(c)} {c}",
        help="An axis never mixes classes: a share of a measured window and a model are not the same joule.",
    )
    return points if chosen == "all" else [p for p in points if class_of(p) == chosen]


def per(dataset: str, points: list[Point]) -> str:
    if dataset != reads.REFERENCE:
        return "query"
    return "success" if all(p.detail == "per success" for p in points) else "run"


def table(front: Front, axes: Axes) -> None:
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


def show() -> None:
    names, scored = read(reads.datasets), read(reads.has_scores)
    chart_side, side = st.columns([3, 1], gap="large")
    with side:
        axes = controls(names, scored)
        points, unplotted = points_of(axes)
        points = one_class_only(points, axes)
    with chart_side:
        if not points:
            shapes.empty(
                "Quality against joules, dollars and grams, with the front, what it dominates, and how sure "
                "each point is",
                unplotted[0].reason if unplotted else "No reference run and no published point is known yet.",
            )
            chrome.load_sample_button()
            return
        try:
            front = reads.front(points, axes.better)
        except IncomparableObservations as mixed:
            shapes.problem(mixed.message, mixed.fix, look="warn")
            return
        per_what = per(axes.dataset, points)
        x_word = X_WORDS[axes.x][1]
        best = min((p for p in front.points if p.on_front), key=lambda p: p.x)
        alt = (
            f"{axes.y_word} against {x_word} per {per_what}: {len(front.points)} points, "
            f"{sum(p.on_front for p in front.points)} on the front; least: {best.name} at "
            f"{quantity(best.x, axes.x_unit)}. The table below has the same numbers."
        )
        chart(draw(front, axes, per_what), key="pareto", height=520, alt=alt)
    with side:
        _legend(front, unplotted)
    table(front, axes)
    if axes.dataset != reads.REFERENCE:
        st.caption(literal(front.points[0].detail))
        for sentence in read(reads.published_words, axes.dataset):
            st.caption(literal(sentence))


def _legend(front: Front, unplotted: list[Unplotted]) -> None:
    rows = "<br>".join(f"{m.glyph} {name}" for name, m in MARKS.items())
    shapes.show(
        f"<h4>Marks</h4><span class='jb-small'>{rows}<br>— missing<br>crosses: 95 % intervals</span>"
        "<h4>Lines</h4><span class='jb-small'>step: the front<br>dotted: what random mixing of two points reaches"
        "<br>grey: dominated</span>"
    )
    oldest = min(p.at for p in front.points)
    st.caption(f"Oldest point {age(oldest)} old.")
    if unplotted:
        with st.expander(f"Not on the chart: {len(unplotted)}", key="unplotted", type="compact"):
            for point in unplotted:
                st.caption(literal(f"{point.name}: {point.reason}"))


with in_words():
    show()
