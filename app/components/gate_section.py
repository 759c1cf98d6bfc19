"""The gate of a recommendation on its page: verdict, drawn checks, sample size, margins, and what stands beside."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

import streamlit as st

from app.components import gate, gate_beside, gate_meter, shapes
from app.components.access import command, desk, in_words, read
from app.components.format import literal, parse_instant
from app.reads import shadow as reads

_UNDECIDED = ("PROPOSED", "SHADOWING", "READY", "INCONCLUSIVE")


def section(told: Mapping[str, Any]) -> None:
    """Everything about the gates of `told` (an answer of recommend.show)."""
    rec_id, margins = told["id"], told.get("margins")
    found = read(reads.gate_reports, rec_id)
    st.markdown("**Gate**")
    if margins is None:
        must = told["content"].get("governance", {}).get("require_pass")
        then = "It cannot be approved before its gate passes: start a shadow." if must else "It may be approved anyway."
        shapes.note(f"No margins are stored, so nothing can be judged. {then}")
        return
    verdicts = told.get("gates") or {}
    _meter(told, margins)
    if not verdicts:
        shapes.note("Not judged yet: no outcome of both offers was observed after the margins were stored.")
    for name, said in reversed(list(verdicts.items())):
        report = found.get(said.get("gate_id") or "")
        _verdict(name, said, report, several=len(verdicts) > 1)
    _margins(told, margins)
    older = [r for key, r in found.items() if key not in {v.get("gate_id") for v in verdicts.values()}]
    if older:
        _older(rec_id, older)


def _meter(told: Mapping[str, Any], margins: Mapping[str, Any]) -> None:
    """The live count, not that of the last verdict: evidence grows between two looks."""
    n = max((v["n"] for v in (told.get("gates") or {}).values()), default=0)
    if told["state"] in ("SHADOWING", "INCONCLUSIVE", "OBSERVING"):
        with in_words():
            status = command("shadow.status", {})["recommendations"]
            n = next((r["n"] or 0 for r in status if r["id"] == told["id"]), n)
    shapes.show(
        gate_meter.meter_html(
            n,
            margins["planned_n"],
            started=parse_instant(margins["since"]),
            give_up_s=desk().settings.shadow.give_up_after,
            waiting=told["state"] == "SHADOWING",
        )
    )


def _verdict(name: str, said: Mapping[str, Any], report: Mapping[str, Any] | None, *, several: bool) -> None:
    if several:
        st.markdown(f"Gate of stage **{literal(name)}**")
    if report is None:
        shapes.show(f"{gate.verdict_html(said['verdict'])} {escape(said['why'])}")
        shapes.note("Its report is not in this warehouse: it was removed with its source.")
        return
    shapes.show(gate.head_html(report))
    shapes.show(gate.table(report["checks"]) + gate.LEGEND)
    if report["verdict"] != "PASS":
        shapes.show(f"<h4>Why not a pass</h4>{shapes.reasons_html(gate.reasons(report))}")
    for text in gate_beside.warnings(report):
        shapes.note(f"Warning, decides nothing: {text}", "warn")
    with st.expander(
        "Beside the verdict: weaker evidence, noise, mix", key=f"beside-{report['gate_id']}", type="compact"
    ):
        shapes.show(gate_beside.beside_html(report))
        shapes.show(gate_beside.facts_html(report))


def _margins(told: Mapping[str, Any], margins: Mapping[str, Any]) -> None:
    configured = desk().settings.shadow.margins.model_dump()
    shapes.show(gate_meter.stored_html(margins))
    with st.expander("Margins", key=f"stored-margins-{told['id']}", type="compact"):
        shapes.show(gate_meter.margins_table(margins["margins"], configured))


def _older(rec_id: str, older: list[dict[str, Any]]) -> None:
    with st.expander(f"Earlier verdicts: {len(older)}", key=f"older-{rec_id}", type="compact"):
        rows = [_old(r) for r in older]
        shapes.show(shapes.table_html(("verdict", "stage", "revision", "judged", "why"), rows))


def _old(report: Mapping[str, Any]) -> tuple[str, ...]:
    texts = (str(report[name]) for name in ("stage", "revision", "judged_at", "words"))
    return (gate.verdict_html(report["verdict"]), *(escape(t) for t in texts))
