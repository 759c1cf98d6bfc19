"""Audit: every event of the ledger, newest first, and whether the chain still holds."""

from __future__ import annotations

from html import escape

import streamlit as st

from app.components import shapes
from app.components.access import command, in_words, read
from app.components.format import age, count, literal
from app.components.recs import event_text
from app.reads import audit

PAGE = 50


def verify() -> None:
    with st.container(horizontal=True, vertical_alignment="center", key="verify-row"):
        st.button(
            "Verify the chain",
            key="verify",
            help="Recomputes every hash and compares the head with its anchor",
            on_click=lambda: st.session_state.update(_verify=True),
        )
        if st.session_state.pop("_verify", False):
            with in_words():
                st.session_state["_verified"] = command("verify", {})
        told = st.session_state.get("_verified")
        if told and told["ok"]:
            head = str(told["head"])[:16]
            st.html(
                f'<div class="jb"><span class="jb-chip ok"><i></i>whole</span> {count(told["events"])} events, '
                f'head <span class="jb-id">{head}…</span></div>'
            )
    told = st.session_state.get("_verified")
    if told and not told["ok"]:
        shapes.problem(
            "The ledger does not hold: " + "; ".join(told["problems"]),
            "restore a backup; keep this file for the inquiry",
        )


def filters() -> tuple[list[str], str, str]:
    left, middle, right = st.columns(3)
    with left:
        kinds = st.multiselect("Kind", read(audit.kinds), key="kinds", placeholder="all kinds")
    with middle:
        subject = st.text_input(
            "Subject contains", key="subject", bind="query-params", placeholder="R-…, sample, token"
        )
    with right:
        actor = st.text_input("Actor contains", key="actor", bind="query-params", placeholder="who")
    return kinds, subject or "", actor or ""


def listing(kinds: list[str], subject: str, actor: str) -> None:
    before = st.session_state.get("audit-before")
    found = read(audit.entries, tuple(kinds), subject.strip(), actor.strip(), before, PAGE + 1)
    total = read(audit.size)
    if not found:
        shapes.empty(
            "Everything that happens to a recommendation, a token, the sample data or the routing table",
            "Nothing matches these filters." if total else "Nothing has happened yet.",
        )
        return
    shown = found[:PAGE]
    st.caption(f"{count(total)} events in the ledger; showing {shown[-1].seq} to {shown[0].seq}, newest first")
    with st.container(key="audit-list", gap=None):
        for entry in shown:
            _entry(entry)
    with st.container(horizontal=True):
        if before is not None:
            st.button("Newest", on_click=lambda: st.session_state.pop("audit-before", None))
        if len(found) > PAGE:
            st.button("Older", on_click=lambda: st.session_state.update({"audit-before": shown[-1].seq}))


def _entry(entry: audit.Entry) -> None:
    revision = f" rev {entry.revision}" if entry.revision is not None else ""
    label = (
        f":gray[{entry.seq}]  {entry.at:%Y-%m-%d %H:%M:%S}  **{literal(entry.subject)}**{revision} · "
        f"{literal(event_text(entry.kind, entry.data))} · "
        f":gray[{literal(entry.actor)}, {literal(entry.channel)}, {age(entry.at)} ago]"
    )
    with st.expander(label, key=f"event-{entry.seq}", type="compact"):
        st.json(entry.data, expanded=1)
        rows = [
            ("kind", entry.kind),
            ("role", entry.role),
            ("idempotency key", entry.idempotency_key or "none"),
            ("hash", entry.hash),
        ]
        shapes.show(
            shapes.table_html(("field", "value"), [(k, f'<span class="jb-id">{escape(v)}</span>') for k, v in rows])
        )


verify()
with in_words():
    listing(*filters())
