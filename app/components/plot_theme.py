"""One look for every plotly chart: Okabe-Ito series, quiet axes, the page's own colors in light and dark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import plotly.graph_objects as go
import streamlit as st

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif"


@dataclass(frozen=True)
class Palette:
    """Colors of one theme; `series` is the Okabe-Ito order, at most six before small multiples."""

    text: str
    muted: str
    grid: str
    surface: str
    dominated: str
    series: tuple[str, ...]

    @property
    def accent(self) -> str:
        return self.series[0]


LIGHT = Palette(
    "#1F2428",
    "#5C656D",
    "#E6E8EA",
    "#FFFFFF",
    "#A7AEB4",
    ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9"),
)
DARK = Palette(
    "#E3E6E8",
    "#9AA4AD",
    "#2A2F34",
    "#14171A",
    "#68717A",
    ("#56B4E9", "#F0B030", "#2BC79A", "#F2793A", "#DB96BB", "#8ACDF2"),
)


def palette() -> Palette:
    """The palette of the theme that the reader's browser shows."""
    return DARK if st.context.theme.type == "dark" else LIGHT


def template(colors: Palette) -> go.layout.Template:
    axis = {
        "gridcolor": colors.grid,
        "linecolor": colors.muted,
        "tickcolor": colors.muted,
        "tickfont": {"color": colors.muted, "size": 12},
        "title": {"font": {"color": colors.text, "size": 12}},
        "zeroline": False,
        "showline": True,
        "ticks": "outside",
        "ticklen": 4,
    }
    return go.layout.Template(
        layout=go.Layout(
            font={"family": FONT, "size": 12, "color": colors.text},
            colorway=list(colors.series),
            paper_bgcolor="rgba(0,0,0,0)",
            plot_bgcolor="rgba(0,0,0,0)",
            margin={"l": 56, "r": 16, "t": 16, "b": 48},
            xaxis=axis,
            yaxis=axis,
            hoverlabel={"bgcolor": colors.surface, "bordercolor": colors.muted, "font": {"color": colors.text}},
            legend={"orientation": "h", "y": -0.2, "x": 0, "font": {"color": colors.muted}},
        )
    )


def chart(figure: go.Figure, *, key: str, height: int, alt: str, on_point: Callable[[], None] | None = None) -> None:
    """Show `figure` in the page's theme at a fixed height, with its content in words as `alt`.

    `on_point` is called when a point is clicked; `st.session_state[key]` then holds it.
    """
    figure.update_layout(template=template(palette()), height=height)
    st.plotly_chart(
        figure,
        key=key,
        theme=None,
        alt=alt,
        on_select=on_point or "ignore",
        selection_mode="points",
        config={"displaylogo": False, "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d"]},
    )


def fill(color: str, alpha: float) -> str:
    """`#RRGGBB` as rgba with `alpha`, for bands."""
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha})"
