"""Charts of the fleet. Measured points are filled, what a model says is open or dashed; they are never joined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from app.components.format import percent, quantity
from app.components.marks import glyph, mark_of
from app.components.plot_theme import Palette, fill, palette

Row = Mapping[str, Any]


def _ticks(values: Sequence[float]) -> dict[str, Any]:
    """A log axis with powers of two as labels: that is how batches are chosen."""
    low, high = min(values), max(values)
    at = [2.0**k for k in range(16) if low / 2.2 <= 2.0**k <= high * 2.2]
    step = max(1, len(at) // 9)
    return {"type": "log", "tickvals": at[::step], "ticktext": [f"{v:g}" for v in at[::step]]}


def with_residuals(height_of_residuals: float = 0.26) -> go.Figure:
    figure = make_subplots(
        rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.06,
        row_heights=[1 - height_of_residuals, height_of_residuals],
    )  # fmt: skip
    figure.update_layout(
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0}, margin={"t": 32, "r": 16, "b": 44}
    )
    return figure


def _residuals(figure: go.Figure, rows: Sequence[Row], symbol: str, colors: Palette, ends: Sequence[float]) -> None:
    figure.add_hline(y=0, line={"color": colors.muted, "width": 1}, row=2, col=1)
    figure.add_scatter(
        x=[r["concurrency"] for r in rows], y=[r["residual_relative"] for r in rows], mode="markers", showlegend=False,
        marker={"symbol": symbol, "size": 7, "color": colors.series[0]},
        hovertemplate="%{x:.4g} at once: %{y:+.1%}<extra></extra>", row=2, col=1,
    )  # fmt: skip
    figure.update_yaxes(title="residual", tickformat="+.0%", row=2, col=1, nticks=5)
    figure.update_xaxes(**_ticks(ends), row=1, col=1)
    figure.update_xaxes(**_ticks(ends), title="requests at once, log scale", row=2, col=1)


def beside(rows: Sequence[Row], curve: Sequence[Row], profile: Row) -> go.Figure:
    """Measured watts of a board per window, the curve of the profile, residuals below. The axes mix nothing:
    points are of one class, the curve has its own name, mark and dash.
    """
    colors, figure = palette(), with_residuals()
    cls = profile["evidence_class"]
    low = ", LOW" if not profile["presentable"] else ""
    figure.add_scatter(
        x=[c["concurrency"] for c in curve], y=[c["board_w"] for c in curve], mode="lines",
        name=f"{profile['name']}, {cls}{low} {glyph(cls)}", hovertemplate="modelled %{y:.4g} W<extra></extra>",
        line={"color": colors.text, "width": 1.5, "dash": mark_of(cls).dash if profile["presentable"] else "dot"},
        row=1, col=1,
    )  # fmt: skip
    for k, measured in enumerate(dict.fromkeys(r["measured_evidence_class"] for r in rows)):
        mine = [r for r in rows if r["measured_evidence_class"] == measured]
        figure.add_scatter(
            x=[r["concurrency"] for r in mine], y=[r["measured_board_w"] for r in mine], mode="markers",
            name=f"windows, {measured} {glyph(measured)}",
            marker={"symbol": mark_of(measured).symbol, "size": 8, "color": colors.series[k % 6]},
            customdata=[[r["window_end_at"], quantity(r["modelled_board_w"], "W")] for r in mine],
            hovertemplate="measured %{y:.4g} W at %{x:.4g} at once<br>modelled %{customdata[1]}<br>"
            "window to %{customdata[0]}<extra></extra>",
            row=1, col=1,
        )  # fmt: skip
    figure.update_yaxes(title="power of a board, W", rangemode="tozero", row=1, col=1)
    every = [r["concurrency"] for r in rows] + [c["concurrency"] for c in curve]
    _residuals(figure, rows, mark_of(rows[0]["measured_evidence_class"]).symbol, colors, every)
    return figure


def fitted(told: Row) -> go.Figure:
    """A calibration: windows, curve, 95 % band of one new window; residuals below. Per instance."""
    colors, figure = palette(), with_residuals()
    band, points, cls = told["band"], told["points"], told["evidence_class"]
    x = [b["concurrency"] for b in band]
    known = [b for b in band if b["low"] is not None and b["high"] is not None]
    if known:
        edges = [b["concurrency"] for b in known]
        figure.add_scatter(
            x=[*edges, *edges[::-1]], y=[*(b["high"] for b in known), *(b["low"] for b in reversed(known))],
            mode="lines", line={"width": 0}, fill="toself", fillcolor=fill(colors.accent, 0.14), hoverinfo="skip",
            name="95 % of one new window", row=1, col=1,
        )  # fmt: skip
    figure.add_scatter(
        x=x, y=[b["value"] for b in band], mode="lines", name=f"{told['form']}, {cls} {glyph(cls)}",
        line={"color": colors.accent, "width": 1.8, "dash": "dash" if cls == "modeled" else "solid"},
        customdata=[[quantity(b["value"], told["unit"]), quantity(b["low"], told["unit"]),
                     quantity(b["high"], told["unit"])] for b in band],
        hovertemplate="%{x:.4g} at once: %{customdata[0]}<br>%{customdata[1]} to %{customdata[2]}<extra></extra>",
        row=1, col=1,
    )  # fmt: skip
    for window in dict.fromkeys(p["evidence_class"] for p in points):
        mine = [p for p in points if p["evidence_class"] == window]
        figure.add_scatter(
            x=[p["concurrency"] for p in mine], y=[p["observed"] for p in mine], mode="markers",
            name=f"windows, {window} {glyph(window)}",
            marker={"symbol": mark_of(window).symbol, "size": 8, "color": colors.text},
            customdata=[[quantity(p["observed"], told["unit"]), percent(p["residual_relative"], signed=True)]
                        for p in mine],
            hovertemplate="%{customdata[0]} at %{x:.4g} at once<br>residual %{customdata[1]}<extra></extra>",
            row=1, col=1,
        )  # fmt: skip
    name = "power" if told["quantity"] == "power" else "output"
    figure.update_yaxes(title=f"{name} of an instance, {told['unit']}", rangemode="tozero", row=1, col=1)
    every = x + [p["concurrency"] for p in points]
    _residuals(figure, points, mark_of(points[0]["evidence_class"]).symbol if points else "circle", colors, every)
    return figure


def policies(cases: Sequence[Row], told: Row, slo_target: float, baseline: str | None) -> go.Figure:
    """One line per policy: joules per success on the left, what it does to the service on the right."""
    colors = palette()
    figure = make_subplots(
        rows=1, cols=3, shared_yaxes=True, horizontal_spacing=0.035, column_widths=[0.42, 0.29, 0.29]
    )
    order = list(reversed(cases))
    names = [name_of(c) + (" (baseline)" if c.get("policy") == baseline else "") for c in order]
    symbol = mark_of(told["evidence_class"]).symbol
    for col, (metric, form) in enumerate(
        (("j_per_success", ".4g"), ("slo_attainment", ".2%"), ("p99_ttft_s", ".3g")), 1
    ):
        f = [c["figures"][metric] for c in order]
        kept = [c["within_slo"] for c in order]
        color = [colors.accent if k else colors.series[3] for k in kept]
        figure.add_scatter(
            x=[v["value"] for v in f], y=names, mode="markers", showlegend=False,
            marker={"symbol": symbol, "size": 10, "color": color, "line": {"width": 2, "color": color}},
            error_x={
                "type": "data", "symmetric": False, "thickness": 1.4, "width": 4, "color": fill(colors.muted, 0.9),
                "array": [(v["high"] - v["value"]) if v["high"] is not None else 0 for v in f],
                "arrayminus": [(v["value"] - v["low"]) if v["low"] is not None else 0 for v in f],
            },
            hovertemplate=f"%{{y}}: %{{x:{form}}}<extra></extra>", row=1, col=col,
        )  # fmt: skip
    figure.update_xaxes(title=f"J per success, {_in_words(told)}", rangemode="tozero", row=1, col=1)
    figure.update_xaxes(title="within SLO, share of offered", tickformat=".1%", nticks=5, row=1, col=2)
    figure.update_xaxes(title="TTFT P99, s", rangemode="tozero", nticks=5, row=1, col=3)
    _limit(figure, slo_target, 2, colors, horizontal=False)
    if told["slo"].get("ttft_s") is not None:
        _limit(figure, told["slo"]["ttft_s"], 3, colors, horizontal=False)
    figure.update_yaxes(showgrid=True)
    figure.update_layout(margin={"t": 12, "l": 8})
    figure.update_yaxes(automargin=True)
    return figure


def name_of(case: Row) -> str:
    return str(case.get("policy") or case["case_name"]).replace("_", " ")


def sweep(told: Row, across: str, *, joules: bool) -> go.Figure:
    """Over loads or caps, one line per policy: joules per success (unless refused), SLO attainment, P99 TTFT."""
    colors = palette()
    panels = [("j_per_success", ".4g")] if joules else []
    panels += [("slo_attainment", ".2%"), ("p99_ttft_s", ".3g")]
    figure = make_subplots(rows=1, cols=len(panels), horizontal_spacing=0.07)
    other = "cap" if across == "load" else "load"
    fixed = told[f"{other}s"][0]
    symbol = mark_of(told["evidence_class"]).symbol
    for k, policy in enumerate(told["policies"]):
        mine = sorted(
            (c for c in told["cases"] if c["policy"] == policy and c[other] == fixed), key=lambda c: float(c[across])
        )
        for col, (metric, form) in enumerate(panels, 1):
            figure.add_scatter(
                x=[c[across] for c in mine], y=[c["figures"][metric]["value"] for c in mine], mode="lines+markers",
                name=policy.replace("_", " "), legendgroup=policy, showlegend=col == 1,
                line={"color": colors.series[k % 6], "dash": "dash" if k < 6 else "dot", "width": 1.5},
                marker={"symbol": symbol, "size": 8}, row=1, col=col,
                hovertemplate=f"{escape(policy)}: %{{y:{form}}} at %{{x}}<extra></extra>",
            )  # fmt: skip
    title = "times the load" if across == "load" else "share of power given back"
    figure.update_xaxes(title=title, tickformat="" if across == "load" else ".0%")
    at = {metric: col for col, (metric, _) in enumerate(panels, 1)}
    if joules:
        figure.update_yaxes(title=f"J per success, {_in_words(told)}", rangemode="tozero", row=1, col=1)
    figure.update_yaxes(automargin=True, title_standoff=6)
    figure.update_yaxes(title="within SLO", tickformat=".1%", row=1, col=at["slo_attainment"])
    figure.update_yaxes(title="TTFT P99, s", rangemode="tozero", row=1, col=at["p99_ttft_s"])
    _limit(figure, told["slo_target"], at["slo_attainment"], colors, horizontal=True)
    if told["slo"].get("ttft_s") is not None:
        _limit(figure, told["slo"]["ttft_s"], at["p99_ttft_s"], colors, horizontal=True)
    figure.update_layout(legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0}, margin={"t": 32})
    return figure


def _in_words(told: Row) -> str:
    return f"{told['evidence_class']}{'' if told['presentable'] else ', LOW'} {glyph(told['evidence_class'])}"


def _limit(figure: go.Figure, at: float, col: int, colors: Palette, *, horizontal: bool) -> None:
    """The SLO as a dotted line."""
    line = {"color": colors.text, "dash": "dot", "width": 1.2}
    if horizontal:
        figure.add_hline(y=at, line=line, row=1, col=col)
    else:
        figure.add_vline(x=at, line=line, row=1, col=col)


def tornado(told: Row) -> go.Figure:
    """The difference of the two best with each input one standard deviation off; at 0 the ranking flips."""
    colors, rows = palette(), list(reversed(told["tornado"]))
    names = [r["input"] for r in rows]
    centre = told["difference"]
    figure = go.Figure()
    for side, words, color in (
        ("low", "below the model", colors.series[0]),
        ("high", "above the model", colors.series[1]),
    ):
        figure.add_bar(
            y=names, x=[r[side] - centre for r in rows], base=[centre] * len(rows), orientation="h",
            name=f"one sd {words}", marker={"color": color, "pattern": {"shape": "" if side == "low" else "/"}},
            customdata=[[r[side], percent(r["sd_relative"])] for r in rows],
            hovertemplate=f"%{{y}} {words} (sd %{{customdata[1]}}): %{{customdata[0]:+.4g}} J<extra></extra>",
        )  # fmt: skip
    figure.add_vline(x=0, line={"color": colors.series[3], "width": 2})
    figure.add_annotation(
        x=0, y=1, yref="paper", yanchor="bottom", text="the ranking flips", showarrow=False,
        font={"size": 11, "color": colors.muted},
    )  # fmt: skip
    figure.add_vline(x=centre, line={"color": colors.text, "width": 1, "dash": "dot"})
    first, second = (told[k].replace("_", " ") for k in ("first", "second"))
    figure.update_xaxes(title=f"{first} less {second}, J per success, {_in_words(told)}")
    figure.update_yaxes(automargin=True)
    figure.update_layout(
        barmode="overlay", bargap=0.45, margin={"t": 52, "l": 8},
        legend={"orientation": "h", "y": 1.12, "yanchor": "bottom", "x": 0},
    )  # fmt: skip
    return figure


def caps(told: Row) -> go.Figure:
    """Joules and power of each cap: closed form as a line, simulated as points with intervals."""
    colors = palette()
    figure = make_subplots(rows=1, cols=3, horizontal_spacing=0.08)
    rows = told["levels"]
    x = [r["reduction"] for r in rows]
    pairs = (("mean_power_w", "power_w", "mean power, W"), ("j_per_success", "j_per_request", "J per success"),
             ("p99_ttft_s", "ttft_s", "TTFT P99, s"))  # fmt: skip
    for col, (simulated, analytic, title) in enumerate(pairs, 1):
        closed = [((r["analytic"] or {}).get("result") or {}).get(analytic) for r in rows]
        if any(v is not None for v in closed):
            figure.add_scatter(
                x=x, y=closed, mode="lines", name="closed form", legendgroup="closed", showlegend=col == 1,
                line={"color": colors.muted, "dash": "dash", "width": 1.5}, row=1, col=col,
            )  # fmt: skip
        f = [(r["simulated"] or {"figures": {}})["figures"].get(simulated) for r in rows]
        if any(f):
            figure.add_scatter(
                x=x, y=[v and v["value"] for v in f], mode="markers", name="simulated", legendgroup="sim",
                showlegend=col == 1,
                marker={"symbol": mark_of(told["evidence_class"]).symbol, "size": 9, "color": colors.accent,
                        "line": {"width": 2, "color": colors.accent}},
                error_y={"type": "data", "symmetric": False, "color": fill(colors.muted, 0.9), "width": 4,
                         "array": [(v["high"] - v["value"]) if v and v["high"] is not None else 0 for v in f],
                         "arrayminus": [(v["value"] - v["low"]) if v and v["low"] is not None else 0 for v in f]},
                row=1, col=col,
            )  # fmt: skip
        figure.update_yaxes(title=title, rangemode="tozero", row=1, col=col)
    figure.update_xaxes(title="share of power given back", tickformat=".0%")
    figure.update_layout(legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0}, margin={"t": 32})
    return figure
