"""What every page carries: the sample band, the title, the freshness strip; and the page shown when nothing works."""

from __future__ import annotations

import random
from datetime import datetime
from pathlib import Path

import streamlit as st

from app.components import confirm, shapes
from app.components.access import command, desk, guarded
from app.components.format import count, duration, literal
from app.components.marks import TEXT_ICON
from app.desk import Desk
from app.reads import sources as reads

STATIC = Path(__file__).resolve().parents[1] / "static"
_FRESH_NAMED = 4
_BADGE = {"stale": "orange", "expired": "red", "never": "gray"}
_ICON = {"stale": TEXT_ICON["warn"], "expired": TEXT_ICON["bad"], "never": TEXT_ICON["unknown"]}


def style() -> None:
    """The one style sheet; colors follow the theme by light-dark()."""
    st.html(STATIC / "console.css")


def refresh_s(base_s: float) -> float:
    """A refresh period of this session: jittered, so that many open consoles do not ask in step."""
    jitter = st.session_state.setdefault("_jitter", random.uniform(0.85, 1.25))  # noqa: S311
    return base_s * float(jitter)


def top(title: str) -> None:
    """Band, title and strip. Called by the entry script before the page."""
    sample_band()
    with st.container(horizontal=True, vertical_alignment="center", key="page-title", gap="medium"):
        st.title(title, anchor=False, width="content")
        st.fragment(_strip, run_every=refresh_s(20), key="strip")()


@guarded
def _strip() -> None:
    """One tag per source that is switched on: its name, fresh | stale | expired | never, and its age.

    What is not fresh comes first and always has a tag; of many fresh sources a few are named, and the rest counted.
    """
    rows = sorted((s for s in reads.freshness_rows(desk().warehouse) if s.shown), key=lambda s: s.status == "fresh")
    named = sum(s.status != "fresh" for s in rows) + _FRESH_NAMED
    if len(rows) <= named + 1:  # a tag for one would save nothing
        named = len(rows)
    with st.container(horizontal=True, key="strip", gap="xxsmall"):
        if not rows:
            st.caption("no source is switched on")
        for source in rows[:named]:
            _tag(literal(source.source_id), source.status, source.age_s, literal(source.why), source.source_id)
        rest = rows[named:]
        if rest:
            names = literal(", ".join(s.source_id for s in rest))
            oldest = max((s.age_s for s in rest if s.age_s is not None), default=None)
            _tag(f"{len(rest)} more", "fresh", oldest, f"fresh: {names}; the oldest is told")


def _tag(name: str, status: str, age_s: float | None, why: str, source_id: str | None = None) -> None:
    tag = f"{_ICON.get(status, '')} {status} {'' if age_s is None else duration(age_s)}".strip()
    color = _BADGE.get(status)
    st.page_link(
        "views/sources.py",
        label=f"{name} :{color}-badge[{tag}]" if color else f"{name} :gray[{tag}]",
        query_params={"source": source_id} if source_id else None,
        help=why,
        width="content",
    )


def sample_band() -> None:
    """A striped band with the word SAMPLE while sample data is loaded, and the button that removes it."""
    told = reads.sample_rows(desk().warehouse)
    if not told:
        return
    with st.container(horizontal=True, vertical_alignment="center", key="sample-band", gap="small"):
        st.html('<div class="jb-band"><b>SAMPLE</b> <span>Generated data is loaded. It is not your fleet.</span></div>')
        st.button("Remove sample data", key="remove-sample", on_click=confirm.ask, args=[_removal(told)])


def _removal(told: dict[str, int]) -> confirm.Pending:
    rows = ", ".join(f"{count(n)} from {source}" for source, n in told.items())
    return confirm.Pending(
        operation="sample.remove",
        params={},
        title="Remove sample data",
        verb="Remove sample data",
        consequences=(
            f"Deletes every row of the sample sources ({rows}).",
            "Withdraws every recommendation that was made from them.",
            "The ledger keeps that it was loaded and removed. Real sources are not touched.",
        ),
        undo="Load it again on the Sources page; the same data comes back.",
        done="Sample data removed.",
    )


def load_sample_button() -> None:
    """Offer the sample where a page has nothing to show."""
    if reads.sample_rows(desk().warehouse):
        return
    if st.button("Load sample data", key="load-sample", help="Generated, clearly marked, removable by one button"):
        command("sample.load", {})
        st.rerun()


def out_of_order(problem: Desk) -> None:
    """The page of a desk without a warehouse: what is wrong, what to do, since when. The console stays up."""
    st.title("The warehouse cannot be used", anchor=False)
    if problem.problem is not None:
        shapes.problem(problem.problem.message, problem.problem.fix)
    since: datetime = problem.started_at
    shapes.note(
        f"This console has been up since {since:%Y-%m-%d %H:%M} UTC and keeps running. Nothing was overwritten. "
        "Start joulebook again once the cause is removed."
    )
