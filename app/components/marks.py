"""Marks, chips and tags: how evidence, state and freshness look, the same in text, tables and charts.

Every function returns escaped HTML or plain text; nothing here depends on color alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from app.components.format import MISSING


@dataclass(frozen=True)
class Mark:
    """One evidence class: its sign in text, its symbol and line in a plotly chart, and what it means."""

    glyph: str
    symbol: str
    dash: str
    about: str


MARKS: dict[str, Mark] = {
    "measured": Mark("●", "circle", "solid", "measured: a meter over the whole device and window, or the bill itself"),
    "allocated": Mark("◐", "diamond", "solid", "allocated: a share of a measured window"),
    "calibrated": Mark("◇", "diamond-open", "solid", "calibrated: a model fitted to measured windows"),
    "modeled": Mark("○", "circle-open", "dash", "modeled: a published or projected profile"),
}
MISSING_MARK = Mark(MISSING, "x-thin-open", "dot", "missing: not known")


def mark_of(evidence_class: str | None) -> Mark:
    return MARKS.get(evidence_class or "", MISSING_MARK)


def glyph(evidence_class: str | None) -> str:
    return mark_of(evidence_class).glyph


def evidence_html(evidence_class: str | None, quality: str | None = None, *, word: bool = False) -> str:
    """The mark with its meaning as title and for screen readers; LOW quality adds a dotted LOW."""
    mark = mark_of(evidence_class)
    name = evidence_class or "missing"
    css = "jb-small jb-muted" if word else "jb-vh"
    low = ' <span class="jb-low" title="LOW quality">LOW</span>' if quality == "LOW" else ""
    return (
        f'<span class="mark" title="{escape(mark.about)}"><span aria-hidden="true">{mark.glyph}</span> '
        f'<span class="{css}">{escape(name)}</span></span>{low}'
    )


# State -> (look, word). Looks: ok, warn, bad, unknown, active (under way).
STATES: dict[str, tuple[str, str]] = {
    "PROPOSED": ("warn", "proposed"),
    "SHADOWING": ("active", "shadowing"),
    "READY": ("warn", "ready"),
    "APPROVED": ("active", "approved"),
    "SENT": ("active", "sent"),
    "ACKED": ("active", "acknowledged"),
    "ACTUATED": ("active", "actuated"),
    "OBSERVING": ("active", "observing"),
    "SUCCEEDED": ("ok", "succeeded"),
    "FAILED": ("bad", "failed"),
    "ROLLED_BACK": ("unknown", "rolled back"),
    "DISMISSED": ("unknown", "dismissed"),
    "EXPIRED": ("unknown", "expired"),
    "SUPERSEDED": ("unknown", "superseded"),
    "INCONCLUSIVE": ("warn", "inconclusive"),
    "REJECTED_BY_TARGET": ("bad", "rejected by target"),
    # runs
    "OK": ("ok", "ok"),
    "PARTIAL": ("warn", "partial"),
    "RUNNING": ("active", "running"),
    "MISSED": ("unknown", "missed"),
    "SKIPPED": ("unknown", "skipped"),
    "ABORTED": ("bad", "cut off"),
    # alerts
    "warning": ("warn", "warning"),
    "bad": ("bad", "bad"),
    # freshness
    "fresh": ("ok", "fresh"),
    "stale": ("warn", "stale"),
    "expired": ("bad", "expired"),
    "never": ("unknown", "never"),
}


def chip_html(state: str | None, detail: str = "") -> str:
    """A state as shape and word: `▲ ready 1/3`."""
    look, word = STATES.get(state or "", ("unknown", (state or "unknown").replace("_", " ").lower()))
    after = f" {detail}" if detail else ""
    return f'<span class="jb-chip {look}"><i aria-hidden="true"></i>{escape(word + after)}</span>'


TEXT_ICON = {"ok": "✓", "warn": "▲", "bad": "⬣", "unknown": "–", "active": "▶"}


def state_text(state: str | None) -> str:
    """The same for cells that take text only: `✓ fresh`."""
    look, word = STATES.get(state or "", ("unknown", (state or "unknown").lower()))
    return f"{TEXT_ICON[look]} {word}"


RUN_GLYPHS: dict[str, str] = {
    "OK": "●",
    "PARTIAL": "◐",
    "FAILED": "✕",
    "ABORTED": "✕",
    "RUNNING": "▶",
    "MISSED": "○",
    "SKIPPED": "○",
}


def runs_html(states: list[str]) -> str:
    """The last runs, oldest first, as marks, with the count of each state in words for screen readers and as title."""
    if not states:
        return '<span class="jb-muted jb-small">no run yet</span>'
    words: dict[str, int] = {}
    marks = []
    for state in states:
        look, word = STATES.get(state, ("unknown", state.lower()))
        words[word] = words.get(word, 0) + 1
        marks.append(f'<span class="{look if look != "ok" else ""}">{RUN_GLYPHS.get(state, "○")}</span>')
    told = ", ".join(f"{n} {word}" for word, n in words.items())
    title = escape(f"last {len(states)} runs, newest right: {told}")
    return (
        f'<span class="jb-runs" title="{title}"><span aria-hidden="true">{"".join(marks)}</span>'
        f'<span class="jb-vh">{title}</span></span>'
    )
