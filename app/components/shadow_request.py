"""One logged request with its full explanation: what it was, what each policy would have chosen, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import streamlit as st

from app.components import shapes
from app.components.access import command
from app.components.format import (
    MISSING,
    age,
    count,
    instant,
    interval,
    literal,
    parse_instant,
    quantity,
    usd,
)
from app.components.marks import evidence_html
from app.components.shapes import table_html
from app.errors import NotFound

_SHOWN = 40


def section(request_id: str) -> None:
    """Everything about one request, or in words that there is none of that id."""
    try:
        told = command("shadow.request", {"request_id": request_id})
    except NotFound as error:
        shapes.problem(error.message, error.fix, look="warn")
        return
    asked = told["request"]
    with st.container(border=True, key="shadow-request"):
        st.subheader(literal(f"Request {request_id.rpartition('/')[2]}"), anchor=False)
        shapes.show(facts_html(asked))
        st.markdown("**What each policy would have chosen**")
        shapes.show(decisions_html(told["decisions"]))
        _ranking(told)
        if told["pairs"]:
            st.markdown("**Outcomes of both offers on this request**")
            shapes.show(pairs_html(told["pairs"]))


def facts_html(asked: Mapping[str, Any]) -> str:
    """What it was, what it took, and how it went."""
    at = parse_instant(asked["requested_at"])
    label = "" if asked["labelled"] else " (no label: category assumed)"
    parts = [
        f"served by <b>{escape(str(asked['incumbent']))}</b>",
        escape(f"{asked['category']}, tier {asked['tier']}, {asked['latency']}{label}"),
        f"{count(asked['context_tokens'])} tokens needed, size {escape(str(asked['size_band']))}",
        f'<span title="{escape(instant(at))}">{escape(age(at))} ago</span>',
    ]
    bill = "measured" if asked["billed_cost_usd"] is not None else None
    figures = [
        f"{quantity(asked['energy_j'], 'J')} {evidence_html(asked['evidence_class'])}",
        f"{usd(asked['billed_cost_usd'])} {evidence_html(bill)}",
        f"{quantity(asked['carbon_g'], 'g')} CO2e {evidence_html(asked['carbon_evidence_class'])}",
        f"{quantity(asked['duration_s'], 's')}",
        _went(asked),
    ]
    return (
        f"<div>{' · '.join(parts)}</div><div class='jb-num'>{' · '.join(figures)}</div>"
        f'<span class="jb-id jb-muted">{escape(asked["request_id"])}</span>'
    )


def _went(asked: Mapping[str, Any]) -> str:
    successes = asked["successes"]
    if successes is None:
        return '<span class="jb-chip unknown"><i aria-hidden="true"></i>success not told</span>'
    look, word = ("ok", "succeeded") if successes else ("bad", "failed")
    attempts = f", {count(asked['attempts'])} attempts" if (asked["attempts"] or 1) > 1 else ""
    return f'<span class="jb-chip {look}"><i aria-hidden="true"></i>{word}{attempts}</span>'


def decisions_html(decisions: Sequence[Mapping[str, Any]]) -> str:
    if not decisions:
        return '<span class="jb-muted">no policy has been asked about it yet: Decide now</span>'
    rows = []
    for d in decisions:
        look, word = ("ok", "agrees") if d["agrees"] else ("active", "differs")
        if d["chosen"] is None:
            look, word = "warn", "handed back"
        elif d["fallback"]:
            look, word = "warn", "fell back"
        digest = escape(d["snapshot_digest"])
        span = interval(d["expected_energy_low_j"], d["expected_energy_high_j"], "J")
        energy = f"{quantity(d['expected_energy_j'], 'J')} {evidence_html(d['expected_energy_evidence_class'])}"
        rows.append(
            (
                escape(str(d["recommendation_id"] or d["policy_name"] or "an earlier policy")),
                f'<span class="jb-id">{escape(str(d["chosen"] or MISSING))}</span>',
                f'<span class="jb-chip {look}"><i aria-hidden="true"></i>{word}</span>'
                + (f"<br><span class='jb-small'>{escape(d['fallback_reason'])}</span>" if d["fallback_reason"] else ""),
                f'{energy}<br><span class="jb-small jb-muted">{span}</span>',
                usd(d["expected_cost_usd"]),
                f"{quantity(d['expected_carbon_g'], 'g')} {evidence_html(d['expected_carbon_evidence_class'])}",
                f"{len(d['eligible'])} / {len(d['excluded'])}",
                f'<span class="jb-id" title="{digest}">{digest[:12]}…</span>'
                f'<br><span class="jb-small jb-muted">as of {escape(d["as_of"][:19])}Z</span>',
            )
        )
    heads = (
        "policy",
        "chosen",
        "",
        "expected J/success",
        "USD/success",
        "g/success",
        "eligible / excluded",
        "snapshot",
    )
    return table_html(heads, rows, numeric=(3, 4, 5, 6))


def _ranking(told: Mapping[str, Any]) -> None:
    ranking = told["ranking"]
    if ranking is None:
        shapes.note(str(told["note"]))
        return
    st.markdown("**The ranking of that instant**")
    same = {
        True: ("ok", "worked out again, the same choice from the same snapshot"),
        False: ("warn", "cannot be reproduced: a figure of that instant was restated since, or another code ran"),
        None: ("unknown", "the present router was not asked about it"),
    }[told["reproduced"]]
    shapes.show(
        f'<span class="jb-chip {same[0]}"><i aria-hidden="true"></i>{escape(same[1])}</span><br>'
        f'<span class="jb-small jb-muted">as of {escape(str(told["as_of"]))}, basis {escape(ranking["basis"])}, '
        f'snapshot <span class="jb-id">{escape(ranking["snapshot_digest"])}</span></span>'
    )
    shapes.show(eligible_html(ranking["eligible"], ranking.get("chosen"), ranking.get("incumbent")))
    excluded = ranking["excluded"]
    with st.expander(f"Excluded, with every reason: {len(excluded)}", key="request-excluded", expanded=True):
        shapes.show(
            table_html(
                ("offer", "why"),
                [
                    (f'<span class="jb-id">{escape(e["offer_id"])}</span>',
                     shapes.reasons_html([r["text"] for r in e["reasons"]]))
                    for e in excluded[:_SHOWN]
                ],
            )
        )  # fmt: skip
        if len(excluded) > _SHOWN:
            st.caption(f"{count(len(excluded) - _SHOWN)} more: joulebook shadow request --json")


def eligible_html(eligible: Sequence[Mapping[str, Any]], chosen: str | None, incumbent: str | None) -> str:
    rows, at = [], None
    for i, e in enumerate(eligible):
        at = i if e["offer_id"] == chosen else at
        mark = " ← chosen" if e["offer_id"] == chosen else (" ← served it" if e["offer_id"] == incumbent else "")
        parts = e["parts"]
        rows.append(
            (
                f'<span class="jb-id">{escape(e["offer_id"])}</span><span class="jb-small">{mark}</span>',
                f"{e['score']:.3f}",
                f'<span class="jb-small">{parts["eco"]:.2f} · {parts["cost"]:.2f} · {parts["prof"]:.2f}</span>',
                f"{quantity(e['energy_j'], 'J')} {evidence_html(e['evidence_class'])}<br>"
                f'<span class="jb-small jb-muted">{_span(e["energy_interval_j"], "J")}, n {count(e["n"])}</span>',
                usd(e["cost_usd"]),
                f"{quantity(e['carbon_g'], 'g')} {evidence_html(e['carbon_evidence_class'])}",
                count(e["effective_context_tokens"]),
                f'<span class="jb-small">{escape("; ".join(e["warnings"]))}</span>',
            )
        )
    heads = ("eligible", "score", "eco · cost · prof", "J/success", "USD/success", "g/success", "context", "")
    return table_html(heads, rows, numeric=range(1, 7), chosen=at)


def _span(found: Mapping[str, Any] | None, unit: str) -> str:
    return interval(found["low"], found["high"], unit) if found else "no interval"


def pairs_html(pairs: Sequence[Mapping[str, Any]]) -> str:
    def side(pair: Mapping[str, Any], arm: str) -> str:
        success = {True: "✓", False: "✕", None: MISSING}[pair[f"{arm}_success"]]
        figures = (
            quantity(pair[f"{arm}_energy_j"], "J"),
            usd(pair[f"{arm}_cost_usd"]),
            quantity(pair[f"{arm}_latency_s"], "s"),
        )
        return f"{success} {' · '.join(figures)}"

    rows = [
        (
            escape(p["evidence_kind"].replace("_", " ")),
            f'<span class="jb-id">{escape(p["control_offer"])}</span><br>{side(p, "control")}',
            f'<span class="jb-id">{escape(p["candidate_offer"])}</span><br>{side(p, "candidate")}',
            evidence_html(p["evidence_class"], word=True),
            escape(str(p["violation"] or ("broken off" if p["aborted"] else ""))),
        )
        for p in pairs
    ]
    return table_html(("evidence", "incumbent", "candidate", "class of the joules", ""), rows)
