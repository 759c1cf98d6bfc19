"""What stands around the chart of a replay run: the verdict, the budget, where figures come from, the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from html import escape

import numpy as np
import streamlit as st

from app.components import shapes
from app.components.format import age, count, instant, interval, literal, percent, quantity
from app.components.marks import evidence_html, glyph
from app.components.pareto_legend import legend
from app.components.replay_chart import View, span_of, standing, text_of
from app.reads import replay as reads
from app.reads.pareto import Point, Unplotted
from policies.replay.indices import best_mix_within, best_within
from warehouse.clock import parse_utc


def verdict(told: reads.Report) -> None:
    """Whether a deployable policy beats the hull of the fixed arms, over which range; and who stopped to choose."""
    every = list(told["statements"])
    won = told["proved"]
    if won:
        each = [f"{name} ({' and '.join(_range(low, high) for low, high in spans)})" for name, spans in won.items()]
        who = "1 deployable policy beats" if len(won) == 1 else f"{len(won)} deployable policies beat"
        shapes.note(
            f"{who} the mixing hull of the fixed arms, with an interval that excludes 0 over all tested points of all "
            f"curves at once (95 %): {', '.join(each)} per query.",
            "ok",
        )
    else:
        sentence = next((s for s in every if "mixing hull" in s), every[0] if every else "The report says nothing.")
        head, _, more = sentence.partition(". ")
        shapes.note(f"{head}." if more else head)
    collapsed = [p["name"] for p in told["policies"] if p["figures"]["collapsed"]]
    if collapsed:
        shapes.note(f"Collapsed, so one arm takes all but everything: {', '.join(collapsed)}.", "warn")


def _range(low: float, high: float) -> str:
    return quantity(low, "J") if low == high else interval(low, high, "J")


def budget(budget_j: float, points: Sequence[Point], curves: Sequence[reads.Line]) -> None:
    """The most accuracy within the budget: a policy as run, a fixed arm, a mixture of arms, a point of a curve."""
    able = [p for p in points if p.role == "policy"]
    fixed = [p for p in points if p.role == "fixed"]
    said = []
    for what, each in (("policy as run", able), ("fixed arm", fixed)):
        found = best_within([p.x for p in each], [p.y for p in each], budget_j)
        if found:
            p = each[found.first]
            said.append(f"best {what} {p.label or p.name}: {percent(p.y)} at {quantity(p.x, 'J')}")
    mixed = best_mix_within([p.x for p in fixed], [p.y for p in fixed], budget_j)
    if mixed and mixed.first != mixed.second:
        said.append(f"mixing two fixed arms: {percent(mixed.accuracy)}")
    reach = [(best_within(_floats(c.columns["energy_j"]), _floats(c.columns["accuracy"]), budget_j), c) for c in curves]
    known = [(f.accuracy, -f.energy_j, c.policy) for f, c in reach if f is not None]
    if known:
        right, joules, name = max(known)
        at = f"{percent(right)} at {quantity(-joules, 'J')}"
        said.append(f"a point of the curve of {name}, chosen on these very queries: {at}")
    shapes.note(f"Within {quantity(budget_j, 'J')} per query: {'; '.join(said) if said else 'nothing is that cheap'}.")


def _floats(values: Sequence[float | None]) -> list[float]:
    return [np.nan if v is None else v for v in values]


def about(told: reads.Report, run: reads.Run, unplotted: Sequence[Unplotted], newest: datetime | None) -> None:
    """Where the figures come from, every sentence of the report, what must be known about them, what is left out."""
    legend("replay")
    with st.expander(f"All that the report says: {len(told['statements'])} sentences", key="r-words", type="compact"):
        shapes.show(shapes.reasons_html(told["statements"]))
    condition = told["condition"]
    grid = ""
    if condition["intensity_g_per_kwh"] is not None:
        cls = told["carbon_evidence_class"]
        grid = f" Grid {condition['zone']}, {condition['intensity_g_per_kwh']:g} g/kWh: grams {cls} {glyph(cls)}."
    cls = told["evidence_class"]
    joules = f"{cls} {glyph(cls)}, {told['energy_method']}" if cls else "unknown"
    learned = (told.get("load") or {}).get("newest_at")
    old = f", outcomes learned {age(parse_utc(learned, what='newest_at'))} ago" if learned else ""
    st.caption(
        literal(
            f"Run {run.run_id} by {run.actor}, {instant(run.finished_at)} ({age(run.finished_at)} ago){old}. "
            f"{count(run.n_train)} queries to learn from, {count(run.n_test)} held out ({told['split']}), "
            f"{percent(told['coverage'])} of the held-out cells known. Joules: {joules}.{grid} "
            f"Intervals: {told['interval_method']}.{_hypervolume(told)}"
        )
    )
    if newest is not None and newest > parse_utc(told["as_of"], what="as_of"):
        shapes.note(f"Outcomes were loaded {age(newest)} ago, after this run: replay again to use them.", "warn")
    for note in told["notes"]:
        shapes.note(note, "warn")
    absent = [Unplotted(a["policy"], a["reason"]) for a in told["absent"]]
    missing = [*unplotted, *absent]
    if missing:
        with st.expander(f"Not on the chart: {len(missing)}", key="unplotted", type="compact"):
            for each in missing:
                st.caption(literal(f"{each.name}: {each.reason}"))


def _hypervolume(told: reads.Report) -> str:
    if told["hypervolume"] is None:
        return ""
    ref = told["reference_point"]
    return (
        f" Hypervolume {told['hypervolume']:.4f} accuracy x J/query (fixed arms alone "
        f"{told['hypervolume_fixed_arms']:.4f}) against accuracy {ref['accuracy']:g} at {ref['energy_j']:g} J, "
        f"{ref['version']}."
    )


def numbers(told: reads.Report, points: Sequence[Point], view: View, condition: str) -> None:
    """The same numbers as text: the front first, then by x."""
    x, y = view.x, view.y
    collapsed = {p["name"] for p in told["policies"] if p["figures"]["collapsed"]}
    rows = []
    for p in sorted(points, key=lambda p: (-p.on_front, p.role == "bound", p.x)):
        name = escape(p.label or p.name)
        tail = " · collapsed" if p.name in collapsed else ""
        what = standing(p) + (" · fixed arm" if p.role == "fixed" else "") + tail
        mark = f" {evidence_html(p.evidence_class)}" if p.evidence_class else ""
        rows.append(
            (
                f"<b>{name}</b>" if p.on_front else name,
                escape(what) if p.on_front else f'<span class="jb-muted">{escape(what)}</span>',
                f"{text_of(p.x, x)}{mark}",
                span_of(p.x_low, p.x_high, x),
                text_of(p.y, y),
                span_of(p.y_low, p.y_high, y),
                count(p.n),
                age(p.at),
            )
        )
    heads = ("policy", "", x.title, "95 % interval", view.y_words, "95 % interval", "n", "age")
    shapes.show(f"<h4>The same as numbers: {escape(condition)}</h4>")
    shapes.show(shapes.table_html(heads, rows, numeric=(2, 3, 4, 5, 6, 7)))
