"""The queue of recommendations: one line each, chosen by id, with what a comparison would propose."""

from __future__ import annotations

from html import escape
from typing import Any

import streamlit as st

from app.components import shapes
from app.components.access import command
from app.components.format import age, count, duration, instant, parse_instant
from app.components.recs import arrow, promise_line, state_chips
from app.errors import AppError
from warehouse.clock import utcnow

OPEN, CLOSED = "Open", "All"
_UNDECIDED = ("PROPOSED", "SHADOWING", "READY", "INCONCLUSIVE", "APPROVED")


def choose(rec_id: str) -> None:
    st.query_params["rec"] = rec_id


def _run(name: str) -> None:
    """A command for all; what came of it is told on the page."""
    try:
        st.session_state["_compared"] = command(name, {})
    except AppError as error:
        st.session_state["_compared"] = {"error": error}


def expires(told: dict[str, Any]) -> str:
    at = parse_instant(told["expires_at"])
    if told["state"] not in _UNDECIDED or at is None:
        return f"changed {age(parse_instant(told['changed_at']))} ago"
    left = (at - utcnow()).total_seconds()
    return f"expires in {duration(left)}" if left > 0 else "time is over"


def progress(told: dict[str, Any]) -> str:
    """What a row has to say beyond its state: silence of targets, votes, requests of the plan."""
    if told.get("progress"):
        return str(told["progress"])
    votes = told.get("votes") or {}
    if votes.get("counting") and told["state"] in ("PROPOSED", "READY"):
        return f"{votes['counting']} of {votes['needed']} approvals"
    margins = told.get("margins")
    said = (told.get("gates") or {}).get("shadow")
    if told["state"] in ("SHADOWING", "INCONCLUSIVE") and margins:
        n = said["n"] if said else 0
        return f"{count(n)} of {count(margins['planned_n'])} requests"
    return ""


def queue() -> list[dict[str, Any]]:
    """The list; its rows, newest first."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        shown = st.segmented_control(
            "Show", [OPEN, CLOSED], default=OPEN, required=True, key="show", bind="query-params"
        )
        st.button(
            "Compare now",
            key="compare",
            on_click=_run,
            args=["recommend.refresh"],
            help="Compares the routing table with the ranking as of now and proposes the differences",
        )
        st.button(
            "Judge now",
            key="judge",
            on_click=_run,
            args=["recommend.judge"],
            help="Judges what waits for its gate by the evidence there is now",
        )
    _compared()
    told = command("recommend.list", {"include_closed": shown == CLOSED})["recommendations"]
    if not told:
        shapes.empty(
            "Proposed changes of the routing table, with their evidence, decision and outcome",
            "Nothing is open. Compare now, or show all to see what was decided before.",
        )
        return []
    chosen = st.query_params.get("rec") or told[0]["id"]
    with st.container(key="queue", gap=None):
        for row in told:
            _row(row, chosen == row["id"])
    return list(told)


def _row(row: dict[str, Any], chosen: bool) -> None:
    with st.container(horizontal=True, wrap=False, vertical_alignment="center", gap="small", key=f"queue-{row['id']}"):
        st.button(
            row["id"],
            key=f"open-{row['id']}",
            type="primary" if chosen else "secondary",
            on_click=choose,
            args=[row["id"]],
            width=86,
            help=f"Open {row['id']}",
        )
        sample = ' <span class="jb-low">SAMPLE</span>' if row["is_sample"] else ""
        after = " · ".join(p for p in (progress(row), expires(row)) if p)
        shapes.show(
            f"{state_chips(row)} "
            f'<span class="jb-num jb-small jb-muted">rev {row["revision"]}</span> {promise_line(row)}{sample} '
            f'<span class="jb-small jb-muted">{escape(after)}</span>'
        )


def _compared() -> None:
    told = st.session_state.get("_compared")
    if told is None:
        return
    if "error" in told:
        shapes.problem(told["error"].message, told["error"].fix)
        return
    judged = ", ".join(f"{rec} {verdict.lower()}" for rec, verdict in told["judged"].items())
    if "held" not in told:
        shapes.note(f"Judged: {judged}." if judged else "Nothing is new since the last verdicts.")
        return
    names = ("proposed", "revised", "unchanged", "superseded", "expired", "lapsed")
    words = [f"{count(len(told[k]))} {k}" for k in names if told[k]]
    held = told["held"]
    text = f"Compared at {instant(parse_instant(told['as_of']))} with the {told['table_basis']}: " + (
        ", ".join(words) or "no difference"
    )
    text += f"; judged: {judged}" if judged else ""
    shapes.note(text + (f"; {len(held)} held back." if held else "."))
    if held:
        with st.expander(f"Held back: {len(held)}", key="held"):
            rows = [(escape(arrow(h["title"])), escape(", ".join(h["cells"])), escape(h["reason"])) for h in held]
            shapes.show(shapes.table_html(("change", "cells", "why it is not proposed"), rows))
