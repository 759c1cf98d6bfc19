"""The form that stores other margins and begins a shadow; what it asks for is confirmed like any command."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

import streamlit as st

from app.components import confirm, shapes
from app.components.access import desk
from app.components.confirm import Pending
from app.components.format import literal
from app.components.gate_meter import told
from app.components.recs import arrow

_OPEN = "_margins_of"
# name, label, unit factor, step, lowest, highest, whether it may be unset
_FIELDS = (
    ("success_margin", "Success rate may fall by less than, pp", 100.0, 0.5, 0.1, 99.0, False),
    ("energy_gain", "J per success must fall by more than, %", 100.0, 1.0, 0.0, 99.0, False),
    ("p95_margin", "P95 latency may rise by less than, %", 100.0, 1.0, 0.0, 1000.0, True),
    ("usd_margin", "USD per success may rise by less than, %", 100.0, 1.0, 0.0, 1000.0, True),
    ("carbon_margin", "gCO2e per success may rise by less than, %", 100.0, 1.0, 0.0, 1000.0, True),
    ("slo_s", "Latency SLO, s", 1.0, 0.1, 0.001, 100_000.0, True),
    ("over_slo_margin", "Share over the SLO may rise by less than, pp", 100.0, 0.5, 0.1, 99.0, False),
    ("p95_limit_s", "P95 latency of the candidate below, s", 1.0, 0.1, 0.001, 100_000.0, True),
    ("planned_n", "Requests planned (empty: from the margin)", 1.0, 100.0, 30.0, 10_000_000.0, True),
)


def ask(rec_id: str) -> None:
    """Open the form for a recommendation (a button's on_click)."""
    st.session_state[_OPEN] = rec_id


def is_open(rec_id: str) -> bool:
    return st.session_state.get(_OPEN) == rec_id


def close() -> None:
    st.session_state.pop(_OPEN, None)


def form(shown: Mapping[str, Any], consequence: str) -> None:
    """The form, prefilled with the margins that are stored, else those configured."""
    configured = desk().settings.shadow.margins.model_dump()
    stored = (shown.get("margins") or {}).get("margins") or configured
    rec_id = shown["id"]
    with st.form(f"margins-{rec_id}", border=True):
        st.markdown("**Margins before evidence.** An empty field is not judged.")
        values: dict[str, float | None] = {}
        columns = st.columns(3)
        for i, (name, label, factor, step, low, high, _) in enumerate(_FIELDS):
            now = stored.get(name)
            with columns[i % 3]:
                values[name] = st.number_input(
                    label,
                    min_value=low,
                    max_value=high,
                    value=None if now is None else min(high, max(low, float(now) * factor)),
                    step=step,
                    format="%.0f" if name == "planned_n" else "%g",
                    key=f"margin-{name}-{rec_id}",
                )
        with st.container(horizontal=True):
            go = st.form_submit_button("Store margins and shadow…", key=f"margins-go-{rec_id}", type="primary")
            st.form_submit_button("Close", key=f"margins-close-{rec_id}", on_click=close)
    if not go:
        return
    empty = [label for name, label, *_, may in _FIELDS if values[name] is None and not may]
    if empty:
        shapes.problem(f"These margins must have a value: {'; '.join(empty)}.", "fill them in")
        return
    confirm.ask(pending(shown, changes(values, configured), configured, consequence))
    close()
    st.rerun(scope="app")


def changes(values: Mapping[str, float | None], configured: Mapping[str, Any]) -> dict[str, Any]:
    """What differs from the configuration, in the units of the settings."""
    found: dict[str, Any] = {}
    for name, _, factor, *_ in _FIELDS:
        value = values[name]
        wanted = None if value is None else round(value / factor, 12)
        wanted = int(wanted) if name == "planned_n" and wanted is not None else wanted
        if wanted != configured.get(name):
            found[name] = wanted
    return found


def pending(
    shown: Mapping[str, Any], margins: Mapping[str, Any], configured: Mapping[str, Any], consequence: str
) -> Pending:
    """The command as the dialog shows it."""
    labels = {name: label.partition(",")[0].partition(" (")[0] for name, label, *_ in _FIELDS}
    differing = [
        f"{labels[name]} {told(name, value)} (configured: {told(name, configured.get(name))})"
        for name, value in margins.items()
    ]
    return Pending(
        operation="recommend.shadow",
        params={"margins": dict(margins)},
        title=f"Start shadow: {shown['id']}",
        verb="Start shadow",
        consequences=(
            consequence,
            "Only outcomes observed after this count; what was gathered before does not.",
            *(differing or ["Margins as configured."]),
        ),
        undo="Start it again with other margins; each set is kept in the ledger.",
        done=f"{shown['id']}: margins stored, shadowing.",
        recommendation=shown["id"],
        revision=shown["revision"],
        ask_reason=True,
        facts=(("change", escape(arrow(shown["content"]["title"]))), ("revision", str(shown["revision"]))),
    )


def button(shown: Mapping[str, Any], *, allowed: bool, why_not: str | None) -> None:
    """`Start shadow` or `Change margins`: opens the form."""
    label = "Change margins…" if shown.get("margins") else "Start shadow…"
    st.button(
        label,
        key=f"shadow-{shown['id']}",
        disabled=not allowed,
        help=None if allowed else literal(why_not),
        width=160,
        on_click=ask,
        args=[shown["id"]],
    )
