"""Who shadows: every policy that is asked about logged requests, how far it is, and the button that asks more."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

import streamlit as st

from app.components import gate, shapes
from app.components.access import command, desk, in_words
from app.components.format import age, count, duration, instant, literal, parse_instant, percent
from app.components.marks import chip_html
from app.components.recs import arrow
from app.reads.stamp import stamp

ROUTER = "router"
_ROUND = 2_000  # requests of one round, so that progress moves and nobody waits for the command lock


@st.cache_data(ttl="20s", max_entries=8, show_spinner=False)
def _held(path: str, at: str, who: str) -> dict[str, Any]:
    return command("shadow.status", {})


def status() -> dict[str, Any]:
    """`shadow.status`, worked out once until the warehouse changes."""
    warehouse = desk().warehouse
    return _held(str(warehouse.path), stamp(warehouse), "all")


def head(told: Mapping[str, Any]) -> None:
    """How much of the log is shadowed, and `Decide now`."""
    logged = told["logged"]
    share = "" if told["sample_share"] >= 1 else f" (declared sample of {percent(told['sample_share'])})"
    unlabelled = logged["sampled"] - logged["labelled"] if logged["sampled"] else 0
    label = (
        "all of them with a label"
        if unlabelled <= 0
        else f"{count(unlabelled)} without a label count as {told['category_of_unlabelled']}"
    )
    with st.container(horizontal=True, vertical_alignment="center", key="shadow-head"):
        go = st.button(
            "Decide now",
            key="decide",
            disabled=not told["left"],
            help="Asks every shadowing policy about the logged requests that it has not seen"
            if told["left"]
            else "Every shadowing policy has been asked about every logged request",
        )
        shapes.show(
            f'<span class="jb-num">{count(logged["sampled"])} of {count(logged["requests"])}</span> logged requests of '
            f"{duration(told['max_age_s'])} are shadowed{share}, {escape(label)} · "
            f'<span class="jb-num">{count(told["left"])}</span> questions left'
        )
    if go:
        with in_words():
            _decide(told["left"])


def _decide(left: int) -> None:
    """Round by round, so that the bar moves; what was decided stays when the page is left."""
    bar = st.progress(0.0, text=f"0 of {count(left)} questions answered")
    written, rest = 0, left
    while rest:
        told = command("shadow.decide", {"most": _ROUND})
        written += told["written"]
        if not told["written"] or told["left"] >= rest:
            break
        rest = told["left"]
        done = max(0, left - rest)
        bar.progress(min(1.0, done / max(left, 1)), text=f"{count(done)} of {count(left)} questions answered")
    st.session_state["_decided"] = f"{count(written)} decisions written."
    _held.clear()
    st.rerun(scope="app")


def done() -> None:
    told = st.session_state.pop("_decided", None)
    if told:
        st.toast(literal(told), icon="✅")


def choose(name: str) -> None:
    st.query_params["policy"] = name
    st.query_params.pop("request", None)


def policies(told: Mapping[str, Any], chosen: str) -> None:
    """One line per policy: the measured router first, then each recommendation with its meter and verdict."""
    asked = {p["name"]: p for p in told["policies"]}
    shadows = {r["id"]: r for r in told["recommendations"]}
    with st.container(key="shadow-policies", gap=None):
        for name in [ROUTER, *shadows]:
            with st.container(horizontal=True, wrap=False, vertical_alignment="center", gap="small", key=f"row-{name}"):
                st.button(
                    name,
                    key=f"policy-{name}",
                    type="primary" if name == chosen else "secondary",
                    on_click=choose,
                    args=[name],
                    width=86,
                    help=f"Open {name}",
                )
                shapes.show(line(name, asked.get(name), shadows.get(name)))


def line(name: str, asked: Mapping[str, Any] | None, shadow: Mapping[str, Any] | None) -> str:
    """A policy on one line, as HTML."""
    title = "the measured router, as it would route" if name == ROUTER else arrow((shadow or {}).get("title") or name)
    parts = [escape(title)]
    if shadow is not None:
        parts.insert(0, chip_html(shadow["state"]))
        planned = shadow["planned_n"] or 0
        share = min(1.0, (shadow["n"] or 0) / planned) if planned else 0.0
        parts.append(
            f'<span class="jb-share" aria-hidden="true"><b style="width:{100 * share:.0f}%"></b></span> '
            f'<span class="jb-num">{count(shadow["n"] or 0)} of {count(planned)}</span> pairs'
        )
        parts.append(gate.verdict_html(shadow["verdict"]))
    if asked is None or not asked["decided"]:
        parts.append('<span class="jb-muted">not asked yet</span>')
    else:
        at = parse_instant(asked["last_decided_at"])
        odd = [f"{count(asked[k])} {w}" for k, w in (("fallback", "fell back"), ("handed_back", "handed back"),
                                                      ("without_tier", "without a tier")) if asked[k]]  # fmt: skip
        parts.append(
            f'agrees on <span class="jb-num">{percent(asked["agree_share"])}</span> of {count(asked["decided"])}'
            + (f", {escape(', '.join(odd))}" if odd else "")
        )
        parts.append(
            f'<span class="jb-small jb-muted" title="{escape(instant(at))}">asked {escape(age(at))} ago</span>'
        )
    return " &nbsp;·&nbsp; ".join(parts)
