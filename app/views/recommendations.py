"""Recommendations: the queue, the promise and its proof, the decision, and what the targets do about it."""

from __future__ import annotations

from html import escape
from typing import Any

import streamlit as st

from app.components import (
    audit_chain,
    chrome,
    confirm,
    gate_section,
    gate_sensitivity,
    recs_commands,
    recs_exports,
    recs_outcome,
    shapes,
)
from app.components import recs_rollout as rollout
from app.components.access import command, guarded, in_words
from app.components.format import age, literal, parse_instant
from app.components.marks import chip_html
from app.components.recs import arrow, event_text, promise_table, target_summary, targets_table
from app.components.recs_queue import expires, queue
from app.components.shapes import Moment
from app.errors import NotFound
from app.reads.audit import LOOKS

UNDECIDED = ("PROPOSED", "SHADOWING", "READY", "INCONCLUSIVE")


def heading(told: dict[str, Any]) -> None:
    content = told["content"]
    sample = ' <span class="jb-low">SAMPLE</span>' if told["is_sample"] else ""
    st.subheader(literal(f"{told['id']}  {arrow(content['title'])}"), anchor=False)
    label = told["label"].removeprefix(told["state"]).strip(" ,")
    shapes.show(
        f'{chip_html(told["state"], label)} <span class="jb-num">rev {told["revision"]}</span>'
        f" · {escape(expires(told))} · {len(content['cells'])} cells, {escape(content['latency'])}{sample}"
        f"{rollout.steps_html(told)}"
    )
    if content.get("incumbent_ineligible"):
        shapes.note(content["incumbent_ineligible"], "warn")
    if told.get("frozen"):
        shapes.note(told["frozen"], "warn")


def evidence(told: dict[str, Any]) -> None:
    content = told["content"]
    why, out = st.columns(2, gap="large")
    with why:
        st.markdown("**Why**")
        shapes.show(shapes.reasons_html([*content["why"], *content["warnings"]]))
        cells = content["cells"]
        with st.expander(f"Cells: {len(cells)}", key=f"cells-{told['id']}", type="compact"):
            names = ("score_from", "score_to", "proficiency_from", "proficiency_to")
            rows = [(escape(c["category"]), str(c["tier"]), *(_score(c[n]) for n in names)) for c in cells]
            heads = ("category", "tier", "score now", "score then", "proficiency now", "then")
            shapes.show(shapes.table_html(heads, rows, numeric=range(1, 6)))
    with out:
        counts = ", ".join(f"{n} by {code}" for code, n in content["excluded_counts"].items())
        st.markdown("**Why not the others**")
        runners = ", ".join(f"{r['offer_id']} {r['score']:.3f}" for r in content["runners_up"])
        if runners:
            shapes.show(f'<span class="jb-muted">runners-up by score:</span> {escape(runners)}')
        with st.expander(f"Excluded: {counts or 'none'}", key=f"excluded-{told['id']}", type="compact"):
            others = [
                (f'<span class="jb-id">{escape(e["offer_id"])}</span>', shapes.reasons_html(e["reasons"]))
                for e in content["excluded"]
            ]
            shapes.show(shapes.table_html(("offer", "every reason"), others))
    with st.expander("Evidence, snapshot and policy", key=f"ids-{told['id']}", type="compact"):
        ages = ", ".join(f"{what} {age(parse_instant(at))}" for what, at in content["ages"].items())
        facts = [
            ("promise", f"{content['promise']['method']}; reference workload"),
            ("content hash", told["content_hash"]),
            ("snapshot", content["snapshot_digest"]),
            ("as of", content["as_of"]),
            ("policy", f"{content['policy_name']} {content['policy_id']}"),
            ("basis", content["basis"]),
            ("routing table", f"{content['incumbent_basis']}, version {content['table_version']}"),
            ("sources", ", ".join(content["sources"])),
            ("age of the evidence", ages),
        ]
        shapes.show(
            shapes.table_html(("", ""), [(escape(k), f'<span class="jb-id">{escape(str(v))}</span>') for k, v in facts])
        )


def _score(value: float | None) -> str:
    return "—" if value is None else f"{value:.3f}"


def progress(rec_id: str, seen: tuple[int, int]) -> None:
    """Targets, approvals and timeline, refreshed by itself. When the state moved on, the page is redrawn, too."""
    with in_words():
        told = command("recommend.show", {"id": rec_id})
        moved = (told["revision"], told["seq"]) != seen
        if moved and not confirm.is_open():
            st.rerun(scope="app")
        left, right = st.columns([3, 2], gap="large")
        with left:
            _targets(told)
            st.markdown("**Approvals**")
            shapes.show(f'<span class="jb-small jb-muted">{escape(rollout.approvals_line(told))}</span>')
            shapes.show(rollout.approvals_html(told))
        with right:
            _timeline(told)


def _targets(told: dict[str, Any]) -> None:
    st.markdown(f"**Targets** · {literal(told.get('progress') or target_summary(told))}")
    if told.get("partial"):
        shapes.show('<span class="jb-chip warn"><i aria-hidden="true"></i>PARTIAL</span> some targets carry the change '
                    "and others do not")  # fmt: skip
    undoing = told["pending"] == "rollback" or told["state"] == "ROLLED_BACK"
    shapes.show(targets_table(told["targets"], rolling_back=undoing))
    shapes.show(rollout.waiting_html(told.get("waiting") or []))


def _timeline(told: dict[str, Any]) -> None:
    st.markdown("**Timeline**, newest first")
    moments = [
        Moment(
            at,
            event_text(e["kind"], e["body"]) + (f" · rev {e['revision']}" if e["revision"] else ""),
            f"{e['actor']} · {e['channel']}",
            LOOKS.get(e["kind"].rpartition(".")[2], ""),
        )
        for e in reversed(told["timeline"])
        if (at := parse_instant(e["at"])) is not None
    ]
    shapes.show(shapes.timeline_html(moments))
    st.page_link("views/audit.py", label="Audit trail of this recommendation", query_params={"subject": told["id"]})


def outcome(told: dict[str, Any]) -> None:
    """Promise against outcome: the desk's own measurement, then the last report of each target."""
    own, reports = recs_outcome.latest(told)
    if own is None and not reports:
        if told["state"] in ("OBSERVING", "SUCCEEDED", "FAILED") and told.get("in_force"):
            st.markdown("**Promise and outcome**")
            shapes.note("Nothing is measured yet: targets report outcomes, and the desk measures its logged requests.")
        return
    st.markdown("**Promise and outcome**")
    for each in ([own] if own is not None else []) + list(reports):
        shapes.show(recs_outcome.head_html(each))
        shapes.show(recs_outcome.table(told, each))


@guarded
def detail(rec_id: str) -> None:
    try:
        told = command("recommend.show", {"id": rec_id})
    except NotFound as error:
        shapes.problem(error.message, "choose one of the list above", look="warn")
        return
    with st.container(border=True, key="rec-detail"):
        heading(told)
        shapes.show(promise_table(told["content"]))
        recs_commands.buttons(told)
        fragment = st.fragment(progress, run_every=chrome.refresh_s(3), key="rec-progress")
        seen = (told["revision"], told["seq"])
        if told["state"] not in UNDECIDED:  # what happens comes before what was proved
            fragment(rec_id, seen)
        with in_words():
            outcome(told)
        with in_words():
            gate_section.section(told)
        with in_words():
            gate_sensitivity.section(rec_id)
        if told["state"] in UNDECIDED:
            fragment(rec_id, seen)
        evidence(told)
        recs_exports.section(rec_id)


audit_chain.restore_banner()
listed = queue()
wanted = st.query_params.get("rec") or (listed[0]["id"] if listed else None)
if wanted:
    detail(wanted)
