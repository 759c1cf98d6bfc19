"""The Pareto chart: step front, dotted hull, grey dominated points, marks by evidence, labels that do not overlap."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from itertools import pairwise

import numpy as np
import plotly.graph_objects as go

from app.components.format import MISSING, age, count, interval, percent, quantity
from app.components.marks import glyph, mark_of
from app.components.plot_theme import palette
from app.reads import pareto as reads
from app.reads.pareto import Front, Point

X_WORDS = {
    "energy_j": ("J", "Energy"),
    "cost_usd": ("USD", "Billed cost"),
    "carbon_g": ("g", "gCO2e"),
    "latency_s": ("s", "Latency"),
}
Y_WORDS = {
    "proficiency": "more proficiency in a category",
    "success": "more success",
    "energy_j": "less energy",
    "cost_usd": "less billed cost",
    "carbon_g": "less gCO2e",
}


@dataclass(frozen=True)
class Axes:
    """What is asked for. `y_unit` is empty for shares and scores; `better` is +1 where more y is better."""

    dataset: str
    x: str
    y: str
    category: str

    @property
    def x_unit(self) -> str:
        return X_WORDS[self.x][0]

    @property
    def y_unit(self) -> str:
        return X_WORDS[self.y][0] if self.y in reads.AXES else ""

    @property
    def better(self) -> int:
        return -1 if self.y in reads.AXES else 1

    @property
    def y_word(self) -> str:
        if self.y in reads.AXES:
            return X_WORDS[self.y][1]
        return {"proficiency": f"Proficiency in {self.category}", "success": "Success rate"}.get(self.y, "Accuracy")

    def y_text(self, value: float) -> str:
        if self.y_unit:
            return quantity(value, self.y_unit)
        return f"{value:.3f}" if self.y == "proficiency" else percent(value)

    def y_span(self, p: Point) -> str:
        if p.y_low is None or p.y_high is None:
            return MISSING
        if self.y_unit:
            return interval(p.y_low, p.y_high, self.y_unit)
        return interval(100 * p.y_low, 100 * p.y_high, "%")


def draw(front: Front, axes: Axes, per_what: str) -> go.Figure:
    colors = palette()
    figure = go.Figure()
    on = sorted((p for p in front.points if p.on_front), key=lambda p: p.x)
    off = [p for p in front.points if not p.on_front]
    if len(front.hull) > 1:
        # Straight on a linear axis, bent on a logarithmic one: drawn through points in between.
        hull_x = np.unique(np.concatenate([np.geomspace(a.x, b.x, 25) for a, b in pairwise(front.hull) if a.x > 0]))
        figure.add_scatter(
            x=hull_x,
            y=np.interp(hull_x, [p.x for p in front.hull], [p.y for p in front.hull]),
            mode="lines",
            name="mixing hull",
            hoverinfo="skip",
            line={"color": colors.muted, "width": 1, "dash": "dot"},
        )
    figure.add_scatter(
        x=[p.x for p in on],
        y=[p.y for p in on],
        mode="lines",
        name="front",
        hoverinfo="skip",
        line={"color": colors.accent, "width": 1.5, "shape": "hv"},
    )
    labels = place_labels(front.points, log_y=bool(axes.y_unit))
    _scatter(figure, off, "dominated", colors.dominated, axes, labels, colors.muted)
    _scatter(figure, on, "on the front", colors.accent, axes, labels, colors.text)
    told = f"{front.evidence_class} {glyph(front.evidence_class)}"
    x_word = X_WORDS[axes.x][1]
    figure.update_xaxes(
        type="log",
        title=f"{x_word}, {axes.x_unit} per {per_what}, log scale, {told}",
        tickformat="$~g" if axes.x_unit == "USD" else "~s",
        ticksuffix="" if axes.x_unit == "USD" else axes.x_unit,
        dtick=dtick([p.x for p in front.points]),
    )
    if axes.y_unit:
        y_told = f"{front.y_evidence_class} {glyph(front.y_evidence_class)}"
        title = f"{axes.y_word}, {axes.y_unit} per {per_what}, log scale, {y_told}"
        figure.update_yaxes(
            type="log",
            title=title,
            tickformat="$~g" if axes.y_unit == "USD" else "~s",
            ticksuffix="" if axes.y_unit == "USD" else axes.y_unit,
            dtick=dtick([p.y for p in front.points]),
        )
    else:
        figure.update_yaxes(title=axes.y_word, tickformat=".2f" if axes.y == "proficiency" else ".0%")
    figure.update_layout(legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0}, margin={"t": 32, "r": 48})
    return figure


def dtick(values: list[float]) -> str | int:
    """Ticks of a logarithmic axis: at 1, 2 and 5 of each decade, at the decades alone where there are many."""
    known = [v for v in values if v > 0]
    return "D2" if not known or math.log10(max(known) / min(known)) < 3 else 1


def _scatter(
    figure: go.Figure, points: list[Point], name: str, color: str, axes: Axes, labels: dict[str, str], ink: str
) -> None:
    if not points:
        return
    symbols = [mark_of(p.weakest_class).symbol for p in points]
    figure.add_scatter(
        x=[p.x for p in points],
        y=[p.y for p in points],
        name=name,
        mode="markers+text",
        text=[short(p.name) if p.name in labels else "" for p in points],
        textposition=[labels.get(p.name, "top center") for p in points],
        textfont={"size": 11, "color": ink},
        marker={"color": color, "size": 9, "symbol": symbols, "line": {"width": 1.5, "color": color}},
        error_x=errors([(p.x, p.x_low, p.x_high) for p in points], color),
        error_y=errors([(p.y, p.y_low, p.y_high) for p in points], color),
        customdata=[_hover(p, axes) for p in points],
        hovertemplate="<b>%{customdata[0]}</b><br>"
        + "<br>".join(f"%{{customdata[{i}]}}" for i in range(1, 5))
        + "<extra></extra>",
        cliponaxis=False,
    )


def short(name: str) -> str:
    return escape(name if len(name) <= 28 else f"{name[:27]}…")


PLACES = ("top center", "bottom center", "middle right", "middle left")
PLACES_RISING = ("top left", "bottom right", *PLACES)


def place_labels(
    points: list[Point],
    *,
    log_x: bool = True,
    log_y: bool = False,
    width: float = 760.0,
    first: str = "",
    rising: bool = False,
) -> dict[str, str]:
    """Where each label goes (`top center` and so on) so that none lies on another; points without room have none.

    The point named `first` comes first, then fixed arms, then the front. Above a `rising` front there is most room.
    Sizes are those of a chart of `width` x 420 px with 11 px text: close enough everywhere.
    """
    height, char, line = 420.0, 6.2, 14.0
    xs = [math.log10(p.x) if log_x else p.x for p in points]
    ys = [math.log10(p.y) if log_y and p.y > 0 else p.y for p in points]

    def scaled(value: float, values: list[float], length: float) -> float:
        low, high = min(values), max(values)
        return length / 2 if high == low else length * (0.06 + 0.88 * (value - low) / (high - low))

    spots = {p.name: (scaled(x, xs, width), scaled(y, ys, height)) for p, x, y in zip(points, xs, ys, strict=True)}
    taken = [(x - 6, y - 6, x + 6, y + 6) for x, y in spots.values()]
    found = {}
    for p in sorted(points, key=lambda p: (p.name != first, p.role != "fixed", not p.on_front, p.x)):
        x, y = spots[p.name]
        half = len(short(p.label or p.name)) * char / 2
        places = {
            "top left": (x - 7 - 2 * half, y + 3, x - 7, y + 3 + line),
            "bottom right": (x + 7, y - 3 - line, x + 7 + 2 * half, y - 3),
            "top center": (x - half, y + 7, x + half, y + 7 + line),
            "bottom center": (x - half, y - 7 - line, x + half, y - 7),
            "middle right": (x + 9, y - line / 2, x + 9 + 2 * half, y + line / 2),
            "middle left": (x - 9 - 2 * half, y - line / 2, x - 9, y + line / 2),
        }
        for place in PLACES_RISING if rising else PLACES:
            box = places[place]
            inside = box[0] > -30 and box[2] < width + 30
            if inside and not any(box[0] < t[2] and t[0] < box[2] and box[1] < t[3] and t[1] < box[3] for t in taken):
                taken.append(box)
                found[p.name] = place
                break
    return found


def errors(values: list[tuple[float, float | None, float | None]], color: str) -> dict[str, object]:
    return {
        "type": "data",
        "symmetric": False,
        "thickness": 0.8,
        "width": 0,
        "color": color,
        "array": [high - v if high is not None else 0 for v, _, high in values],
        "arrayminus": [v - low if low is not None else 0 for v, low, _ in values],
    }


def _hover(p: Point, axes: Axes) -> tuple[str, str, str, str, str]:
    x_span = f" (95 % {interval(p.x_low, p.x_high, axes.x_unit)})" if p.x_low is not None else " (no interval)"
    y_span = f" (95 % {axes.y_span(p)})" if p.y_low is not None else ""
    y_mark = f" {p.y_evidence_class} {glyph(p.y_evidence_class)}" if p.y_evidence_class else ""
    per = f" {p.detail}" if p.detail.startswith("per") else ""
    n = f"n {count(p.n)}" if p.n is not None else "n unknown"
    return (
        escape(p.name),
        f"{quantity(p.x, axes.x_unit)}{per}{x_span} {p.evidence_class} {glyph(p.evidence_class)}",
        f"{axes.y_word} {axes.y_text(p.y)}{y_span}{y_mark}",
        f"{n}, {age(p.at)} old",
        f"{'on the front' if p.on_front else 'dominated'} · {p.source}",
    )
