"""Recommendations: the queue, the evidence, the decision, and what the targets do about it."""

from __future__ import annotations

from html import escape
from typing import Any

import streamlit as st

from app.components import chrome, confirm, shapes
from app.components.access import command, guarded, in_words
from app.components.confirm import Pending
from app.components.format import age, count, duration, instant, literal, parse_instant
from app.components.marks import chip_html
from app.components.recs import (
    arrow,
    event_text,
    promise_line,
    promise_table,
    target_summary,
    targets_table,
)
from app.components.shapes import Moment
from app.errors import AppError, NotFound
from warehouse.clock import utcnow

OPEN, CLOSED = "Open", "All"
LOOKS = {
    "succeeded": "ok",
    "actuated": "ok",
    "failed": "bad",
    "rejected": "bad",
    "refused": "warn",
    "rolled_back": "warn",
}


def choose(rec_id: str) -> None:
    st.query_params["rec"] = rec_id


def compare_now() -> None:
    """Compare the routing table with the ranking; what came of it is told on the page."""
    try:
        st.session_state["_compared"] = command("recommend.refresh", {})
    except AppError as error:
        st.session_state["_compared"] = {"error": error}


def expires(told: dict[str, Any]) -> str:
    at = parse_instant(told["expires_at"])
    if told["state"] not in ("PROPOSED", "APPROVED") or at is None:
        return f"changed {age(parse_instant(told['changed_at']))} ago"
    left = (at - utcnow()).total_seconds()
    return f"expires in {duration(left)}" if left > 0 else "time is over"


def queue() -> list[dict[str, Any]]:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        shown = st.segmented_control(
            "Show", [OPEN, CLOSED], default=OPEN, required=True, key="show", bind="query-params"
        )
        st.button(
            "Compare now",
            key="compare",
            on_click=compare_now,
            help="Compares the routing table with the ranking as of now and proposes the differences",
        )
    _compared()
    told = command("recommend.list", {"include_closed": shown == CLOSED})["recommendations"]
    if not told:
        shapes.empty(
            "Proposed changes of the routing table, with their evidence, decision and outcome",
            "Nothing is open. Compare now, or show all to see what was decided before.",
        )
        return []
    chosen = st.query_params.get("rec") or told[0]["id"]
    with st.container(key="queue", gap=None):
        for row in told:
            _row(row, chosen == row["id"])
    return list(told)


def _row(row: dict[str, Any], chosen: bool) -> None:
    with st.container(horizontal=True, wrap=False, vertical_alignment="center", gap="small", key=f"queue-{row['id']}"):
        st.button(
            row["id"],
            key=f"open-{row['id']}",
            type="primary" if chosen else "secondary",
            on_click=choose,
            args=[row["id"]],
            width=86,
            help=f"Open {row['id']}",
        )
        sample = ' <span class="jb-low">SAMPLE</span>' if row["is_sample"] else ""
        shapes.show(
            f"{chip_html(row['state'])} "
            f'<span class="jb-num jb-small jb-muted">rev {row["revision"]}</span> {promise_line(row)}{sample} '
            f'<span class="jb-small jb-muted">{escape(expires(row))}</span>'
        )


def _compared() -> None:
    told = st.session_state.get("_compared")
    if told is None:
        return
    if "error" in told:
        shapes.problem(told["error"].message, told["error"].fix)
        return
    words = [
        f"{count(len(told[k]))} {k}" for k in ("proposed", "revised", "unchanged", "superseded", "expired") if told[k]
    ]
    held = told["held"]
    text = f"Compared at {instant(parse_instant(told['as_of']))} with the {told['table_basis']}: " + (
        ", ".join(words) or "no difference"
    )
    shapes.note(text + (f"; {len(held)} held back." if held else "."))
    if held:
        with st.expander(f"Held back: {len(held)}", key="held"):
            rows = [(escape(arrow(h["title"])), escape(", ".join(h["cells"])), escape(h["reason"])) for h in held]
            shapes.show(shapes.table_html(("change", "cells", "why it is not proposed"), rows))


# the decision -----------------------------------------------------------------------------------------


def pending(told: dict[str, Any], name: str, consequence: str) -> Pending:
    """The command as the dialog shows it: what will change, for how many requests, on which targets, what undoes it."""
    content = told["content"]
    undo = {
        "approve": f"{content['undo']} Use Roll back at any time.",
        "dismiss": "Compare now proposes it again as soon as its evidence changes.",
        "rollback": "The same change can be proposed again by a later comparison.",
    }[name]
    verbs = {"approve": f"Approve rev {told['revision']}", "dismiss": "Dismiss", "rollback": "Roll back"}
    done = {"approve": "approved", "dismiss": "dismissed", "rollback": "rollback requested"}
    return Pending(
        operation=f"recommend.{name}",
        params={},
        title=f"{verbs[name]}: {told['id']}",
        verb=verbs[name],
        consequences=(consequence,),
        undo=undo,
        done=f"{told['id']}: {done[name]}.",
        recommendation=told["id"],
        revision=told["revision"],
        ask_reason=name != "approve",
        primary=name == "approve",
        facts=(
            ("change", escape(arrow(content["title"]))),
            ("revision", str(told["revision"])),
            ("targets", escape(", ".join(content["targets"]))),
        ),
    )


def decisions(told: dict[str, Any]) -> None:
    """One line per command: the button, and beside it what it changes and what undoes it, or why not now."""
    labels = {"approve": f"Approve rev {told['revision']}", "dismiss": "Dismiss…", "rollback": "Roll back…"}
    with st.container(key="decisions", gap="xsmall"):
        for item in told["commands"]:
            name, allowed = item["command"], item["allowed"]
            with st.container(horizontal=True, wrap=False, vertical_alignment="center", gap="medium"):
                st.button(
                    labels[name],
                    key=f"{name}-{told['id']}",
                    type="primary" if name == "approve" and allowed else "secondary",
                    disabled=not allowed,
                    help=None if allowed else literal(item["why_not"]),
                    width=140,
                    on_click=confirm.ask,
                    args=[pending(told, name, arrow(item["consequence"]))],
                )
                text = arrow(item["consequence"]) if allowed else f"Not now: {item['why_not']}"
                css = "jb-small" if allowed else "jb-small jb-muted"
                shapes.show(f'<span class="{css}">{escape(text)}</span>')


# one recommendation -----------------------------------------------------------------------------------


def heading(told: dict[str, Any]) -> None:
    content = told["content"]
    sample = ' <span class="jb-low">SAMPLE</span>' if told["is_sample"] else ""
    st.subheader(literal(f"{told['id']}  {arrow(content['title'])}"), anchor=False)
    label = told["label"].partition("(")[2].partition(")")[0]
    shapes.show(
        f'{chip_html(told["state"], label)} <span class="jb-num">rev {told["revision"]}</span>'
        f"{' · rolling back' if told['pending'] == 'rollback' else ''} · {escape(expires(told))} · "
        f"{len(content['cells'])} cells, {escape(content['latency'])}{sample}"
    )
    if content.get("incumbent_ineligible"):
        shapes.note(content["incumbent_ineligible"], "warn")


def evidence(told: dict[str, Any]) -> None:
    content = told["content"]
    why, out = st.columns(2, gap="large")
    with why:
        st.markdown("**Why**")
        shapes.show(shapes.reasons_html([*content["why"], *content["warnings"]]))
        cells = content["cells"]
        with st.expander(f"Cells: {len(cells)}", key=f"cells-{told['id']}", type="compact"):
            rows = [
                (
                    escape(c["category"]),
                    str(c["tier"]),
                    _score(c["score_from"]),
                    _score(c["score_to"]),
                    _score(c["proficiency_from"]),
                    _score(c["proficiency_to"]),
                )
                for c in cells
            ]
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
    st.caption(
        literal(f"Promise: {content['promise']['method']}. Reference workload; savings and harm of the same runs.")
    )
    with st.expander("Evidence, snapshot and policy", key=f"ids-{told['id']}", type="compact"):
        ages = ", ".join(f"{what} {age(parse_instant(at))}" for what, at in content["ages"].items())
        facts = [
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
    """Targets and timeline, refreshed by itself. When the state moved on, the page around it is redrawn, too."""
    with in_words():
        told = command("recommend.show", {"id": rec_id})
        moved = (told["revision"], told["seq"]) != seen
        if moved and not confirm.is_open():
            st.rerun(scope="app")
        left, right = st.columns([3, 2], gap="large")
        with left:
            st.markdown(f"**Targets** · {target_summary(told)}")
            shapes.show(
                targets_table(
                    told["targets"], rolling_back=told["pending"] == "rollback" or told["state"] == "ROLLED_BACK"
                )
            )
            if told["outcome"]:
                judged = told["outcome"].get("verdict", "not judged")
                st.markdown("**Outcome**")
                shapes.show(f"{chip_html(judged)} {escape(str(told['outcome'].get('why') or ''))}")
        with right:
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
            st.page_link("views/audit.py", label="Audit trail of this recommendation", query_params={"subject": rec_id})


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
        decisions(told)
        fragment = st.fragment(progress, run_every=chrome.refresh_s(3), key="rec-progress")
        fragment(rec_id, (told["revision"], told["seq"]))
        evidence(told)


listed = queue()
wanted = st.query_params.get("rec") or (listed[0]["id"] if listed else None)
if wanted:
    detail(wanted)
