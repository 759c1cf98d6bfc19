"""Shapes that repeat on the pages, as escaped HTML: figures, deltas, interval bars, timelines, tables.

`show` puts one on the page. Everything takes plain values, so that the shapes are tested without a browser.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape

import streamlit as st

from app.components.format import MISSING, age, instant
from app.components.marks import evidence_html


def show(html: str) -> None:
    """Put HTML of this module on the page."""
    st.html(f'<div class="jb">{html}</div>')


@dataclass(frozen=True)
class Figure:
    """A number that is never naked: value with unit, interval, evidence mark, age, sample size, how it came to be.

    `value` and `interval` are formatted text; `refused` says in words why there is no value.
    """

    name: str
    value: str
    interval: str = ""
    evidence_class: str | None = None
    quality: str | None = None
    at: datetime | None = None
    n: int | None = None
    delta: str = ""
    explain: str = ""
    refused: str = ""


def figure_html(figure: Figure, now: datetime | None = None) -> str:
    low = " low" if figure.quality == "LOW" else ""
    head = f'<div class="jb-fig{low}" title="{escape(figure.explain)}"><div class="name">{escape(figure.name)}</div>'
    if figure.refused:
        return f'{head}<div class="value">{MISSING}</div><div class="foot">{escape(figure.refused)}</div></div>'
    number, _, unit = figure.value.partition("\u00a0")
    shown = f'{escape(number)}<span class="unit">\u00a0{escape(unit)}</span>' if unit else escape(number)
    foot = " · ".join(
        part
        for part in (
            figure.evidence_class or "",
            f"n {figure.n:,}" if figure.n is not None else "",
            f"{age(figure.at, now)} old" if figure.at else "",
        )
        if part
    )
    mark = evidence_html(figure.evidence_class, figure.quality)
    delta = f'<div class="delta">{figure.delta}</div>' if figure.delta else ""
    return (
        f'{head}<div class="value">{shown} {mark}</div>'
        f'<div class="ci">{escape(figure.interval) or "&nbsp;"}</div>'
        f"{delta}"
        f'<div class="foot">{escape(foot)}</div></div>'
    )


def figures(items: Iterable[Figure], now: datetime | None = None) -> None:
    """A row of figures, each of the same height."""
    show(f'<div class="jb-figs">{"".join(figure_html(f, now) for f in items)}</div>')


def delta_html(text: str, *, change: float | None, better: int, tail: str = "") -> str:
    """A change colored by whether it is better, not by its sign. `better`: +1 more is better, −1 less is."""
    if change is None:
        return ""
    look, word = ("same", "no change")
    if change:
        look = word = "better" if change * better > 0 else "worse"
    return f'<span class="jb-num jb-{look}">{escape(text)}</span> <span class="jb-muted">{escape(word + tail)}</span>'


def interval_bar_html(low: float, value: float, high: float, *, zero: float = 0.0, margin: float | None = None) -> str:
    """`[--|--o--]`: an interval on a line with its zero and, in vermillion, the margin that it must not cross."""
    ends = [low, high, zero, *([margin] if margin is not None else [])]
    left, right = min(ends), max(ends)
    pad = (right - left) * 0.06 or 1.0
    left, right = left - pad, right + pad

    def at(x: float) -> str:
        return f"{100 * (x - left) / (right - left):.1f}%"

    wide = f"{100 * (high - low) / (right - left):.1f}%"
    limit = f'<s class="margin" style="left:{at(margin)}"></s>' if margin is not None else ""
    against = f", margin {margin:.3g}" if margin is not None else ""
    return (
        f'<span class="jb-bar" role="img" aria-label="interval {low:.3g} to {high:.3g}{against}">'
        f'<s style="left:{at(zero)}"></s>{limit}<u style="left:{at(low)};width:{wide}"></u>'
        f'<b style="left:{at(value)}"></b></span>'
    )


@dataclass(frozen=True)
class Moment:
    """One entry of a timeline. look: ok, warn, bad or empty."""

    at: datetime
    text: str
    by: str = ""
    look: str = ""


def timeline_html(moments: Sequence[Moment]) -> str:
    def row(m: Moment) -> str:
        by = f' <span class="jb-muted jb-small">{escape(m.by)}</span>' if m.by else ""
        return (
            f'<li class="{escape(m.look)}"><time datetime="{m.at.isoformat()}Z" title="{escape(instant(m.at))}">'
            f"{m.at:%m-%d %H:%M:%S}</time>{escape(m.text)}{by}</li>"
        )

    return f'<ol class="jb-line">{"".join(row(m) for m in moments)}</ol>'


def table_html(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, numeric: Iterable[int] = (), chosen: int | None = None
) -> str:
    """A small table, without a head where no column has a name. Cells are HTML: escape what comes from outside."""
    right = set(numeric)

    def cell(tag: str, i: int, text: str) -> str:
        scope = ' scope="col"' if tag == "th" else ""
        css = ' class="n"' if i in right else ""
        return f"<{tag}{scope}{css}>{text}</{tag}>"

    head = "".join(cell("th", i, escape(c)) for i, c in enumerate(columns))
    thead = f"<thead><tr>{head}</tr></thead>" if any(columns) else ""
    body = "".join(
        f"<tr{' class=chosen' if i == chosen else ''}>{''.join(cell('td', j, c) for j, c in enumerate(row))}</tr>"
        for i, row in enumerate(rows)
    )
    return f'<div class="jb-scroll"><table>{thead}<tbody>{body}</tbody></table></div>'


def reasons_html(reasons: Sequence[str]) -> str:
    """Why something is excluded or disabled: one line each."""
    if len(reasons) == 1:
        return escape(reasons[0])
    return f'<ul class="jb-reasons">{"".join(f"<li>{escape(r)}</li>" for r in reasons)}</ul>'


def note(text: str, look: str = "") -> None:
    """A sentence beside the line: neutral, `ok`, `warn` or `bad`."""
    show(f'<div class="jb-note {look}">{escape(text)}</div>')


def problem(message: str, fix: str = "", look: str = "bad") -> None:
    """An error in words: what, and what to do."""
    tail = f'<br><span class="jb-muted">What to do: {escape(fix)}</span>' if fix else ""
    show(f'<div class="jb-note {look}" role="alert">{escape(message)}{tail}</div>')


def empty(will_show: str, do_now: str) -> None:
    """An empty state: what this place will show, and what to do now."""
    show(f'<div class="jb-empty"><b>{escape(will_show)}</b><br>{escape(do_now)}</div>')
