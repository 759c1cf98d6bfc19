"""Audit: every event of the ledger, every denied command, newest first, and whether the chain still holds."""

from __future__ import annotations

from html import escape
from typing import Any

import streamlit as st

from app.components import audit_chain, shapes
from app.components.access import in_words, read
from app.components.format import age, count, literal
from app.components.marks import TEXT_ICON
from app.components.recs import event_text
from app.reads import audit

PAGE = 50
_SHOWN = {"Everything": "all", "Carried out": "changes", "Denied": "denied"}
_EVERY = "all"


def filters() -> dict[str, Any]:
    known = read(audit.choices)
    with st.container(horizontal=True, vertical_alignment="bottom", key="audit-filters"):
        shown = st.segmented_control(
            "Show",
            list(_SHOWN),
            default="Everything",
            required=True,
            key="shown",
            bind="query-params",
            on_change=_newest,
        )
        kinds = st.multiselect("Kind", known.kinds, key="kinds", placeholder="all kinds", on_change=_newest, width=260)
        subject = st.text_input(
            "Subject contains",
            key="subject",
            bind="query-params",
            placeholder="R-…, sample, token, command",
            on_change=_newest,
            width=220,
        )
        actor = st.text_input(
            "Actor contains", key="actor", bind="query-params", placeholder="who", on_change=_newest, width=160
        )
        role = st.selectbox("Role", [_EVERY, *known.roles], key="audit-role", on_change=_newest, width=130)
        source = st.selectbox("Address", [_EVERY, *known.sources], key="audit-source", on_change=_newest, width=140)
    return {
        "shown": _SHOWN[shown or "Everything"],
        "kinds": tuple(kinds),
        "subject": (subject or "").strip(),
        "actor": (actor or "").strip(),
        "role": "" if role == _EVERY else role,
        "source": "" if source == _EVERY else source,
    }


def _newest() -> None:
    """Another filter begins at its newest event."""
    st.session_state.pop("audit-before", None)


def listing(told: dict[str, Any]) -> None:
    before = st.session_state.get("audit-before")
    found = read(audit.entries, *told.values(), before, PAGE + 1)
    total = read(audit.size)
    if not found:
        shapes.empty(
            "Everything that happens to a recommendation, a token, the sample data or the routing table, and every "
            "command that was denied",
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
            st.button("Newest", on_click=_newest)
        if len(found) > PAGE:
            st.button("Older", on_click=lambda: st.session_state.update({"audit-before": shown[-1].seq}))


def _entry(entry: audit.Entry) -> None:
    revision = f" rev {entry.revision}" if entry.revision is not None else ""
    denied = f":orange[{TEXT_ICON['warn']} denied] · " if entry.is_denied else ""
    label = (
        f":gray[{entry.seq}]  {entry.at:%Y-%m-%d %H:%M:%S}  **{literal(entry.subject)}**{revision} · {denied}"
        f"{literal(event_text(entry.kind, entry.data))} · :gray[{literal(entry.actor)}, {literal(entry.role)}, "
        f"{literal(entry.channel)}, {literal(entry.source)}, {age(entry.at)} ago]"
    )
    with st.expander(label, key=f"event-{entry.seq}", type="compact"):
        left, right = st.columns([2, 3], gap="large")
        with left:
            shapes.show(shapes.table_html(("field", "value"), facts(entry)))
        with right:
            moved = before_after(entry.data)
            if moved:
                shapes.show(shapes.table_html(("", "before", "after"), moved))
            st.json(entry.data, expanded=1)


def facts(entry: audit.Entry) -> list[tuple[str, str]]:
    """Who, from where, on which revision, under which key, and where it stands in the chain."""
    command = entry.data.get("command")
    name = command.get("name") if isinstance(command, dict) else None
    rows = [
        ("kind", entry.kind),
        ("command", name or "none"),
        ("actor", entry.actor),
        ("role", entry.role),
        ("channel", entry.channel),
        ("address class", entry.source),
        ("revision", "none" if entry.revision is None else str(entry.revision)),
        ("idempotency key", entry.idempotency_key or "none"),
        ("previous hash", entry.prev_hash),
        ("hash", entry.hash),
    ]
    return [(k, f'<span class="jb-id">{escape(v)}</span>') for k, v in rows]


def before_after(body: dict[str, Any]) -> list[tuple[str, str, str]]:
    """What the event moved, field by field; what stayed is left out."""
    before, after = body.get("before"), body.get("after")
    if not isinstance(after, dict):
        return []
    old = before if isinstance(before, dict) else {}
    names = [name for name in after if old.get(name) != after[name]] or ["state"]
    return [(escape(name.replace("_", " ")), _value(old.get(name)), _value(after.get(name))) for name in names]


def _value(value: Any) -> str:
    text = "—" if value is None else str(value)
    short = f"{text[:16]}…" if len(text) > 40 else text
    return f'<span class="jb-id" title="{escape(text)}">{escape(short)}</span>'


audit_chain.restore_banner()
audit_chain.section()
with in_words():
    listing(filters())
