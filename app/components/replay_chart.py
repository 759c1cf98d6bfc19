"""The chart of a replay run: policies, fixed arms in frames, their mixing hull, curves, the front, the joule budget."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from app.components.format import MISSING, age, count, interval, percent, quantity
from app.components.marks import glyph, mark_of
from app.components.pareto_chart import dtick, errors, place_labels, short
from app.components.plot_theme import Palette, fill, palette
from app.reads.pareto import Front, Point
from app.reads.replay import Line, Metric


@dataclass(frozen=True)
class Panel:
    """One condition: its front, what random mixing of the fixed arms reaches, and the curves drawn behind."""

    title: str
    front: Front
    hull: tuple[Sequence[float], Sequence[float]] = ((), ())
    curves: Sequence[Line] = ()


@dataclass(frozen=True)
class View:
    """What the axes are, which policy is chosen, and where the budget line stands (J per query; None: no line)."""

    x: Metric
    y: Metric
    y_words: str
    log_x: bool = True
    chosen: str = ""
    budget_j: float | None = None


def text_of(value: float, metric: Metric) -> str:
    """A figure in words, with its unit."""
    if metric.unit == "share":
        return percent(value)
    if metric.unit == "pp":
        return f"{value:+.1f} pp".replace("-", "−")
    return f"{value:.3f}" if metric.unit == "1" else quantity(value, metric.unit)


def span_of(low: float | None, high: float | None, metric: Metric) -> str:
    """A 95 % interval in words; a dash where there is none."""
    if low is None or high is None:
        return MISSING
    if metric.unit == "share":
        return interval(100 * low, 100 * high, "%")
    if metric.unit == "pp":
        return f"{low:.1f} to {high:.1f} pp".replace("-", "−")
    return interval(low, high, "" if metric.unit == "1" else metric.unit)


def draw(panels: Sequence[Panel], view: View) -> go.Figure:
    colors = palette()
    figure = make_subplots(
        rows=1, cols=len(panels), shared_yaxes=True, horizontal_spacing=0.03,
        subplot_titles=[p.title for p in panels] if len(panels) > 1 else None,
    )  # fmt: skip
    for i, panel in enumerate(panels, 1):
        _panel(figure, panel, view, colors, i, len(panels))
    _axes(figure, panels, view, colors)
    return figure


def _panel(figure: go.Figure, panel: Panel, view: View, colors: Palette, col: int, of: int) -> None:
    where = {"row": 1, "col": col}
    first = col == 1
    points = panel.front.points
    _curves(figure, panel, view, colors, where, first)
    if len(panel.hull[0]):
        figure.add_scatter(
            x=panel.hull[0], y=panel.hull[1], mode="lines", name="mixing hull", hoverinfo="skip",
            line={"color": colors.text, "width": 1.2, "dash": "dot"}, showlegend=first, legendgroup="hull", **where,
        )  # fmt: skip
    on = sorted((p for p in points if p.on_front), key=lambda p: p.x)
    figure.add_scatter(
        x=[p.x for p in on], y=[p.y for p in on], mode="lines", name="front", hoverinfo="skip",
        line={"color": colors.accent, "width": 1.5, "shape": "hv"}, showlegend=first, legendgroup="front", **where,
    )  # fmt: skip
    labels = place_labels(points, log_x=view.log_x, first=view.chosen, width=760.0 / of, rising=True)
    bounds = [p for p in points if p.role == "bound"]
    off = [p for p in points if not p.on_front and p.role != "bound"]
    _scatter(figure, bounds, "bound", colors.muted, view, labels, colors.muted, where, first)
    _scatter(figure, off, "dominated", colors.dominated, view, labels, colors.muted, where, first)
    _scatter(figure, on, "on the front", colors.accent, view, labels, colors.text, where, first)
    _frames(figure, [p for p in points if p.role == "fixed"], colors, where, first)
    chosen = [p for p in points if p.name == view.chosen]
    figure.add_scatter(
        x=[p.x for p in chosen], y=[p.y for p in chosen], mode="markers", hoverinfo="skip", showlegend=False,
        marker={"symbol": "circle-open", "size": 24, "color": colors.text, "line": {"width": 1.5}}, **where,
    )  # fmt: skip
    if view.budget_j is not None:
        at = math.log10(view.budget_j) if view.log_x else view.budget_j  # an annotation wants the exponent
        figure.add_vline(x=view.budget_j, line={"color": colors.series[1], "width": 1.2, "dash": "dash"}, **where)
        figure.add_annotation(
            x=at, y=0, yref="y domain", text=f" budget {quantity(view.budget_j, 'J')}", showarrow=False,
            textangle=-90, xanchor="left", yanchor="bottom", font={"size": 11, "color": colors.muted}, **where,
        )  # fmt: skip


def _curves(figure: go.Figure, panel: Panel, view: View, colors: Palette, where: dict[str, int], first: bool) -> None:
    """Every curve as a thin line, that of the chosen policy in the accent; thick where proved to beat the hull."""
    drawn = [(c, c.columns[view.x.curve]) for c in panel.curves if view.x.curve in c.columns]
    for i, (line, across) in enumerate(drawn):
        mine = _same(line.policy, view.chosen)
        ink, width = (fill(colors.accent, 0.75), 1.4) if mine else (fill(colors.muted, 0.32), 1.0)
        figure.add_scatter(
            x=across, y=line.columns["accuracy"], mode="lines", hoverinfo="skip", name="curves",
            legendgroup="curves", showlegend=first and i == 0, connectgaps=False,
            line={"color": ink, "width": width},
            **where,
        )  # fmt: skip
        joules = line.columns["energy_j"]
        for low, high in line.proved:
            inside = [k for k, j in enumerate(joules) if j is not None and low <= j <= high]
            figure.add_scatter(
                x=[across[k] for k in inside], y=[line.columns["accuracy"][k] for k in inside], mode="lines",
                line={"color": fill(colors.series[2], 0.6), "width": 5}, hoverinfo="skip", showlegend=first and i == 0,
                name="proved above the hull", legendgroup="proved", **where,
            )  # fmt: skip


def _same(curve: str, policy: str) -> bool:
    """Whether the curve is that of the policy: operating points share theirs, under one of their names."""
    return bool(policy) and curve.partition("@")[0] == policy.partition("@")[0]


def _frames(figure: go.Figure, fixed: list[Point], colors: Palette, where: dict[str, int], first: bool) -> None:
    if fixed:
        figure.add_scatter(
            x=[p.x for p in fixed], y=[p.y for p in fixed], mode="markers", name="fixed arm", hoverinfo="skip",
            marker={"symbol": "square-open", "size": 16, "color": colors.text, "line": {"width": 1.2}},
            showlegend=first, legendgroup="fixed", **where,
        )  # fmt: skip


def _scatter(
    figure: go.Figure, points: list[Point], name: str, color: str, view: View, labels: dict[str, str], ink: str,
    where: dict[str, int], first: bool,
) -> None:  # fmt: skip
    if not points:
        return
    keep = {"marker": {"opacity": 1.0}}  # plotly dims what is not selected; the ring says what is
    figure.add_scatter(
        x=[p.x for p in points],
        y=[p.y for p in points],
        name=name,
        mode="markers+text",
        text=[short(p.label or p.name) if p.name in labels else "" for p in points],
        textposition=[labels.get(p.name, "top center") for p in points],
        textfont={"size": 11, "color": [colors_of(p, ink) for p in points]},
        marker={
            "color": color, "size": 9, "symbol": [mark_of(p.weakest_class).symbol for p in points],
            "line": {"width": 1.5, "color": color},
        },
        selected=keep | {"textfont": {"color": ink}},
        unselected=keep | {"textfont": {"color": ink}},
        error_x=errors([(p.x, p.x_low, p.x_high) for p in points], fill(color, 0.45)),
        error_y=errors([(p.y, p.y_low, p.y_high) for p in points], fill(color, 0.45)),
        customdata=[_hover(p, view) for p in points],
        hovertemplate="<b>%{customdata[1]}</b><br>"
        + "<br>".join(f"%{{customdata[{i}]}}" for i in range(2, 6))
        + "<extra></extra>",
        cliponaxis=False,
        showlegend=first,
        legendgroup=name,
        **where,
    )  # fmt: skip


def colors_of(p: Point, ink: str) -> str:
    return palette().text if p.role == "fixed" else ink


def _hover(p: Point, view: View) -> tuple[str, ...]:
    """(name as it is, then five lines)."""
    x_class = f" {p.evidence_class} {glyph(p.evidence_class)}" if p.evidence_class else ""
    y_class = f" {p.y_evidence_class} {glyph(p.y_evidence_class)}" if p.y_evidence_class else ""
    spans = [
        "no interval" if low is None else f"95 % {span_of(low, high, m)}"
        for low, high, m in ((p.x_low, p.x_high, view.x), (p.y_low, p.y_high, view.y))
    ]
    n = f"n {count(p.n)}" if p.n is not None else "n unknown"
    return (
        p.name,
        escape(p.label or p.name),
        f"{view.x.title} {text_of(p.x, view.x)} ({spans[0]}){x_class}",
        f"{view.y_words} {text_of(p.y, view.y)} ({spans[1]}){y_class}",
        f"{n}, {age(p.at)} old",
        escape(standing(p) + (f" · {p.source}" if p.source else "")),
    )


def standing(p: Point) -> str:
    """`on the front`, `dominated`, or why it is not compared."""
    if p.role == "bound":
        return "a bound: sees outcomes, not deployable"
    return "on the front" if p.on_front else "dominated"


def _axes(figure: go.Figure, panels: Sequence[Panel], view: View, colors: Palette) -> None:
    every = [p for panel in panels for p in panel.front.points]
    cls = panels[0].front.evidence_class
    told = f"{cls} {glyph(cls)}" if cls else f"class not told {MISSING}"
    money = view.x.unit == "USD"
    title = f"{view.x.title}, {view.x.unit}{', log scale' if view.log_x else ''}, {told}"
    scale: dict[str, Any] = {"type": "linear", "rangemode": "tozero"}
    if view.log_x:
        scale = {"type": "log", "dtick": dtick([p.x for p in every])}
    figure.update_xaxes(
        title=title, tickformat="$~g" if money else "~s", ticksuffix="" if money else view.x.unit, matches="x", **scale
    )
    y_format = {"share": ".0%", "pp": "+.0f", "1": ".2f"}.get(view.y.unit, "~s")
    y_cls = panels[0].front.y_evidence_class
    figure.update_yaxes(tickformat=y_format, ticksuffix=" pp" if view.y.unit == "pp" else "")
    words = f"{view.y_words}{f', {y_cls} {glyph(y_cls)}' if y_cls else ''}"
    figure.update_yaxes(title=words, title_standoff=8, automargin=True, row=1, col=1)
    figure.update_annotations(font_size=12)
    figure.update_layout(
        legend={"orientation": "h", "y": 1.07 if len(panels) > 1 else 1.02, "yanchor": "bottom", "x": 0},
        margin={"t": 56 if len(panels) > 1 else 32, "r": 72 if len(panels) == 1 else 32},
        clickmode="event+select",
    )
