"""Consequences before buttons: a dialog that says what a command will change and what undoes it.

The pending command lives in the session, so that a rerun of the page does not lose the dialog. Its
idempotency key is made when the dialog opens: a double click is one command. The revision that the
person saw goes along; if it has moved on, the dialog says so calmly and writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import streamlit as st

from app.components import shapes
from app.components.access import command, in_words
from app.components.format import literal
from app.errors import AppError, Conflict
from warehouse.ids import uuid7

_PENDING = "_pending_command"
_KEY = "_pending_key"
_TOLD = "_told"


@dataclass(frozen=True)
class Pending:
    """A command waiting for its confirmation. With `recommendation` the revision is checked again."""

    operation: str
    params: Mapping[str, Any]
    title: str
    verb: str
    consequences: tuple[str, ...]
    undo: str
    done: str
    recommendation: str | None = None
    revision: int | None = None
    ask_reason: bool = False
    primary: bool = True
    facts: tuple[tuple[str, str], ...] = field(default=())


def ask(pending: Pending) -> None:
    """Open the dialog (a button's on_click)."""
    st.session_state[_PENDING] = pending
    st.session_state[_KEY] = uuid7()


def is_open() -> bool:
    return _PENDING in st.session_state


def _forget() -> None:
    st.session_state.pop(_PENDING, None)
    st.session_state.pop(_KEY, None)


def render() -> None:
    """Show the dialog if one is asked for, and what the last one did. Called once, by the entry script."""
    told = st.session_state.pop(_TOLD, None)
    if told:
        st.toast(literal(told), icon="✅")
    pending = st.session_state.get(_PENDING)
    if isinstance(pending, Pending):
        st.dialog(pending.title, width="medium", on_dismiss=_forget)(_body)(pending)


def _moved_on(pending: Pending) -> str | None:
    """Why the command no longer fits what the person saw; None while it does."""
    if pending.recommendation is None:
        return None
    now = command("recommend.show", {"id": pending.recommendation})
    if now["revision"] != pending.revision:
        return (
            f"{pending.recommendation} is now at revision {now['revision']} ({now['state']}); "
            f"you were looking at revision {pending.revision}. Nothing was written."
        )
    return None


def _body(pending: Pending) -> None:
    if st.session_state.get(_PENDING) is not pending and _PENDING not in st.session_state:
        return
    with in_words():
        if pending.facts:
            shapes.show(shapes.table_html(("", ""), [(f"<b>{k}</b>", v) for k, v in pending.facts]))
        st.markdown("\n".join(f"- {literal(line)}" for line in pending.consequences))
        shapes.note(f"Undo: {pending.undo}")
        moved = _moved_on(pending)
        if moved:
            shapes.problem(moved, "close this, read it again, and decide on what it says now", look="warn")
        reason = ""
        if pending.ask_reason:
            reason = st.text_input("Reason (kept in the audit trail)", key="confirm-reason", max_chars=500)
        with st.container(horizontal=True):
            go = st.button(
                pending.verb,
                key="confirm-go",
                type="primary" if pending.primary else "secondary",
                disabled=moved is not None,
            )
            if st.button("Close", key="confirm-close"):
                _forget()
                st.rerun()
        if go and not moved:
            _carry_out(pending, reason.strip())


def _carry_out(pending: Pending, reason: str) -> None:
    params = dict(pending.params)
    if pending.recommendation is not None:
        params |= {"id": pending.recommendation, "revision": pending.revision}
        params["idempotency_key"] = st.session_state[_KEY]
    if reason:
        params["reason"] = reason
    try:
        command(pending.operation, params)
    except Conflict as conflict:
        shapes.problem(conflict.message, conflict.fix, look="warn")
        return
    except AppError as error:
        shapes.problem(error.message, error.fix)
        return
    st.session_state[_TOLD] = pending.done
    _forget()
    st.rerun()
