"""The chain of the ledger on a page: whole or not, anchored where, exported, and what to do after a restore."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from html import escape
from typing import Any

import streamlit as st

from app.auth import console_actor
from app.components import shapes
from app.components.access import command, desk, in_words
from app.components.format import count, literal
from app.operations import call
from warehouse import ledger

_MOST_HEADS = 1000


def restore_banner() -> None:
    """Said on every page that takes commands: nothing is decided on a ledger that is older than its anchor."""
    why = ledger.behind(desk().warehouse)
    if why is not None:
        shapes.problem(
            f"No command is taken: the ledger was restored or cut, and nobody has accepted that. {why[:1].upper()}"
            f"{why[1:]}. Targets may hold changes that this ledger does not know.",
            "put the newer warehouse back, or on this machine: joulebook audit accept-restore REASON; what was lost "
            "goes on record",
        )


def section() -> None:
    """Verified on the first view of a session and at each press: head, length, anchor; then export and anchor."""
    if "_verified" not in st.session_state:
        _verify([])
    with st.container(horizontal=True, vertical_alignment="center", key="verify-row"):
        st.button(
            "Verify the chain",
            key="verify",
            help="Recomputes every hash and compares the head with its anchor",
            on_click=_verify,
            args=[[]],
        )
        told = st.session_state.get("_verified")
        if told:
            shapes.show(_state(told))
    told = st.session_state.get("_verified")
    if told and not told["ok"]:
        shapes.problem(
            "The ledger does not hold: " + "; ".join(told["problems"]),
            "restore a backup; keep this file for the inquiry",
        )
    opened = st.expander("Export, anchor, compare", key="audit-out", type="compact", on_change="rerun")
    if opened.open:
        with opened, in_words():
            _outside()


def _verify(heads: list[dict[str, Any]]) -> None:
    with in_words():
        told = command("verify", {"against": heads} if heads else {})
        st.session_state["_verified"] = {**told, "anchor": ledger.anchor_path(desk().warehouse).name}


def _state(told: Mapping[str, Any]) -> str:
    head = f'head <span class="jb-id" title="{escape(str(told["head"]))}">{escape(str(told["head"])[:16])}…</span>'
    look, word = ("ok", "whole") if told["ok"] else ("bad", "does not hold")
    elsewhere = f", and with {count(told['compared'])} heads kept elsewhere" if told.get("compared") else ""
    return (
        f'<span class="jb-chip {look}"><i aria-hidden="true"></i>{word}</span> {count(told["events"])} events, {head}, '
        f"compared with the anchor {escape(told['anchor'])}{elsewhere}"
    )


def _outside() -> None:
    """Downloads, and the comparison with what was downloaded before."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.download_button(
            "Export as JSON lines",
            data=_exporter(),
            file_name="joulebook-audit.jsonl",
            mime="application/x-ndjson",
            key="audit-export",
            help="Every event a line, the head of the chain last",
            on_click="ignore",
        )
        head = command("audit.anchor", {})["head"]
        st.download_button(
            f"Anchor: head at event {count(head['seq'])}",
            data=json.dumps({"head": head}) + "\n",
            file_name=f"joulebook-anchor-{head['seq']}.jsonl",
            mime="application/x-ndjson",
            key="audit-anchor",
            help="One line to keep outside the warehouse: a ledger that was cut or replaced no longer contains it",
            on_click="ignore",
        )
    st.caption(literal(f"head {head['hash']}. By cron: joulebook audit anchor FILE appends the same line."))
    file = st.file_uploader("Compare with an anchor or an export kept elsewhere", key="audit-compare", type=None)
    if file is not None and st.session_state.get("_compared_file") != file.file_id:
        st.session_state["_compared_file"] = file.file_id
        try:
            heads = heads_of(file.getvalue().decode("utf-8"))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            why = f"{file.name} cannot be read as anchors ({type(error).__name__})."
            shapes.problem(why, "give a file that Anchor or Export wrote")
            return
        _verify(heads)
        st.rerun()


def heads_of(text: str) -> list[dict[str, Any]]:
    """The heads in an anchor file or an export, as {seq, hash}; of an export that was cut its last event serves."""
    told = [json.loads(line) for line in text.splitlines() if line.strip()]
    heads = [t["head"] for t in told if "head" in t] or told[-1:]
    found = [{"seq": int(h["seq"]), "hash": str(h["hash"])} for h in heads[-_MOST_HEADS:]]
    if not found:
        raise ValueError("no head")
    return found


def _exporter() -> Callable[[], bytes]:
    """Run at the click, in a thread without the session: so desk and person are taken along."""
    here, who = desk(), console_actor()

    def export() -> bytes:
        lines: list[str] = []
        since = 0
        while True:
            told = call(here, "audit.export", {"since": since}, who)
            lines += told["lines"]
            since = told["next"]
            if not told["more"]:
                break
        lines.append(json.dumps({"head": told["head"], "since": 0, "events": len(lines)}))
        return ("\n".join(lines) + "\n").encode()

    return export
