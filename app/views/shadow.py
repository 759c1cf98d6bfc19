"""Shadow: what policies would have chosen for logged requests, where they differ, what that is worth, and why."""

from __future__ import annotations

from datetime import datetime
from html import escape
from typing import Any

import streamlit as st

from app.components import gate, shadow_matrix, shadow_request, shadow_status, shapes
from app.components.access import guarded, in_words, read
from app.components.format import age, count, instant, quantity
from app.components.marks import glyph
from app.components.recs import arrow
from app.components.shadow_status import ROUTER
from app.reads import shadow as reads

ALL = "all"


def filters(policy_id: str) -> tuple[str, str]:
    """Category and size band; both stand in the address."""
    categories, bands = read(reads.choices, policy_id)
    with st.container(horizontal=True, vertical_alignment="bottom", key="shadow-filters"):
        category = _choice("Category", categories, "category")
        band = _choice("Size, tokens", bands, "band")
    return category, band


def _choice(label: str, options: tuple[str, ...], key: str) -> str:
    """One of `options`, "" for all. The address names it, so that a link brings it back."""
    told = st.query_params.get(key, ALL)
    known = [ALL, *options]
    name = f"shadow-{key}"
    if st.session_state.get(name) not in known:
        st.session_state[name] = told if told in known else ALL
    chosen = st.selectbox(label, known, key=name, on_change=_write, args=[key], width=220)
    return "" if chosen in (None, ALL) else str(chosen)


def _write(key: str) -> None:
    value = st.session_state[f"shadow-{key}"]
    if value == ALL:
        st.query_params.pop(key, None)
    else:
        st.query_params[key] = value


def agreement(found: reads.Found) -> None:
    told = found.agreement
    st.markdown("**Agreement**")
    share = "" if told["agree_share"] is None else f"{count(told['agree'])} of {count(told['n'])} requests agree"
    odd = ", ".join(f"{count(told[k])} {w}" for k, w in (("fallback", "fell back"), ("handed_back", "handed back")))
    shapes.show(f'<span class="jb-small jb-muted">{escape(share)}; {escape(odd)}</span>')
    shapes.show(shadow_matrix.matrix_html(told))


def value(found: reads.Found, shadow: dict[str, Any] | None, report: dict[str, Any] | None) -> None:
    st.markdown("**What the choices are worth**")
    mix = (shadow or {}).get("mix_basis")
    basis = f"standardised to the fixed mix of {mix}" if mix else "standardised to the mix of these requests"
    shapes.show(
        f'<span class="jb-small jb-muted">all requests of the filter, {escape(basis)}; by the reference workload: '
        "an estimate that orders what to look at, never a measurement of these requests; 95 % intervals over requests"
        "</span>"
    )
    shapes.show(shadow_matrix.worth_table(found.worth, shadow_matrix.harm_rows(report)))
    if shadow is not None and report is not None:
        shapes.show(f"{gate.verdict_html(report['verdict'])} {escape(str(report['words']))}")
        st.page_link(
            "views/recommendations.py",
            label=f"Gate of {shadow['id']}",
            query_params={"rec": shadow["id"]},
            width="content",
        )


def differing(found: reads.Found) -> None:
    st.markdown("**Where they differ**")
    if not found.differences:
        shapes.note("Nowhere: every choice is what served the request.")
        return
    shapes.show(shadow_matrix.differences_table(found.differences, found.worth))
    if len(found.differences) > 15:
        st.caption(f"{len(found.differences) - 15} smaller groups are left out: joulebook shadow report --json")


def requests(policy_id: str, category: str, band: str, found: reads.Found) -> None:
    """The requests behind the counts; a row opens its explanation."""
    st.markdown("**Requests**, those that differ first")
    pairs = [(c["incumbent"] or "", c["chosen"] or "") for c in found.agreement["matrix"]]
    words = {p: f"{p[0] or 'unknown'} → {p[1] or shadow_matrix.HANDED_BACK}" for p in pairs}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        pair = st.selectbox(
            "Served by → would have chosen",
            [None, *pairs],
            format_func=lambda p: "all" if p is None else words[p],
            key=f"shadow-pair-{policy_id[:12]}",
            width=420,
        )
        wanted = st.text_input(
            "Request id",
            key="shadow-wanted",
            placeholder="provider/account/usage_key",
            help="Explains any logged request, listed here or not",
            width=360,
        )
        st.button("Explain", key="explain", on_click=_open, args=[wanted], disabled=not wanted.strip())
    if pair is not None:
        found = read(reads.decisions, policy_id, category, band, (), pair)
    rows = found.requests
    ids = [r["request_id"] for r in rows]
    st.session_state["_listed"] = ids
    st.dataframe(
        _frame(rows),
        key=f"requests-{policy_id[:12]}-{category}-{band}-{hash(pair)}",
        hide_index=True,
        height=min(36 * (len(rows) + 1) + 2, 330),
        on_select=_picked,
        selection_mode="single-row",
        alt=f"{len(rows)} requests: when, category, tokens, served by, would have chosen, joules of both",
    )
    st.caption(f"{count(len(rows))} of {count(found.n)} requests; choose a row, or give an id, for its explanation")


def _frame(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "requested": _when(r["requested_at"]),
            "request": r["request_id"].rpartition("/")[2],
            "category": r["category"],
            "tokens": r["size_band"],
            "served by": r["incumbent"] or "unknown",
            "would have chosen": r["chosen"] or shadow_matrix.HANDED_BACK,
            "": "✓ agrees" if r["agrees"] else ("▲ fell back" if r["fallback"] else "▶ differs"),
            "J served": quantity(r["incumbent_energy_j"], "J"),
            "J chosen": f"{quantity(r['expected_energy_j'], 'J')} {glyph(r['expected_energy_evidence_class'])}",
        }
        for r in rows
    ]


def _when(at: datetime) -> str:
    return f"{at:%m-%d %H:%M:%S}"


def _picked() -> None:
    """The id is taken in the callback, from the list that was on the screen: positions move, ids do not."""
    for key, event in st.session_state.items():
        if str(key).startswith("requests-") and event["selection"]["rows"]:
            listed = st.session_state.get("_listed") or []
            row = event["selection"]["rows"][0]
            if row < len(listed):
                _open(listed[row])


def _open(request_id: str) -> None:
    st.query_params["request"] = request_id.strip()


def _close() -> None:
    st.query_params.pop("request", None)


@guarded
def detail(name: str, told: dict[str, Any]) -> None:
    asked = next((p for p in told["policies"] if p["name"] == name), None)
    shadow = next((r for r in told["recommendations"] if r["id"] == name), None)
    if asked is None:
        shapes.problem(f"{name} is not shadowing.", "choose one of the list above", look="warn")
        return
    reports = read(reads.gate_reports, name) if shadow is not None else {}
    report = reports.get((shadow or {}).get("gate_id") or "")
    mix = tuple(sorted((report or {}).get("mix", {}).items())) if report and report.get("mix") else ()
    with st.container(border=True, key="shadow-detail"):
        title = "the measured router" if name == ROUTER else arrow((shadow or {}).get("title") or name)
        st.subheader(f"{name}  {title}", anchor=False)
        category, band = filters(asked["policy_id"])
        found = read(reads.decisions, asked["policy_id"], category, band, mix)
        if not found.agreement["n"]:
            shapes.empty(
                "Agreement, differences and their worth",
                "This policy has not been asked about such a request yet: Decide now.",
            )
            return
        shapes.show(
            f'<span class="jb-small jb-muted">decided {escape(age(found.newest))} ago '
            f"({escape(instant(found.newest))}), each from the snapshot of the request's own instant</span>"
        )
        with st.container(horizontal=True, gap="large", key="shadow-halves"):  # one below the other where it is narrow
            with st.container(width=500):
                agreement(found)
            with st.container(width=700):
                value(found, shadow, report)
        differing(found)
        requests(asked["policy_id"], category, band, found)


def show() -> None:
    told = shadow_status.status()
    shadow_status.done()
    if not told["logged"]["requests"]:
        shapes.empty(
            "What each policy would have chosen for every logged request, where that differs, and what it is worth",
            "No request is logged yet. Import completions (joulebook import neuralwatt-completions FILE), or load the "
            "sample on the Overview.",
        )
        return
    chosen = st.query_params.get("policy") or next((r["id"] for r in told["recommendations"]), ROUTER)
    shadow_status.head(told)
    shadow_status.policies(told, chosen)
    wanted = st.query_params.get("request")
    if wanted:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.button("Close the request", key="close-request", on_click=_close)
        with in_words():
            shadow_request.section(wanted)
    detail(chosen, told)


with in_words():
    show()
