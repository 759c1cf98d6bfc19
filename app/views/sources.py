"""Sources: how old each is, how its runs went, what it refused, the button that runs it now, and the alerts."""

from __future__ import annotations

from html import escape
from typing import Any

import polars as pl
import streamlit as st

from app.components import alerts, chrome, imports, shapes
from app.components.access import command, desk, guarded, in_words, read
from app.components.format import age, count, duration, instant, literal, parse_instant, size
from app.components.marks import chip_html, runs_html, state_text
from app.errors import AppError
from app.reads import sources as reads


def choose(source_id: str) -> None:
    st.query_params["source"] = source_id


def run_now(source_id: str) -> None:
    """Run one source; what came of it is told beside its row."""
    try:
        told = command("ingest.run", {"source": source_id})
    except AppError as error:
        told = {"state": "REFUSED", "error": error.message, "fix": error.fix}
    st.session_state["_ran"] = {"source": source_id, **told}


def why_not_run(source: reads.SourceFreshness, told: dict[str, Any]) -> str | None:
    """Why there is nothing to run; None where the button works."""
    if source.is_sample:
        return "generated"
    if told["transport"] == "file":
        return "by joulebook import"
    if told["transport"] == "device":
        return "samples by itself"
    if desk().settings.offline:
        return "offline = true"
    return None


@guarded
def listing() -> None:
    told = {row["source_id"]: row for row in command("ingest.list", {})["sources"]}
    rows = reads.freshness_rows(desk().warehouse)
    if not rows:
        shapes.empty("One row per source: age, runs, rows, quarantine", "No source is configured. See joulebook.toml.")
        return
    history = read(reads.histories)
    spec = [2.6, 1.5, 1.5, 2.2, 2.0, 1.1]
    for column, word in zip(
        st.columns(spec),
        ("source", "state", "next run", f"last {reads.RUNS_SHOWN} runs", "rows of the last load", ""),
        strict=True,
    ):
        column.html(f'<div class="jb jb-small jb-muted">{word}</div>')
    for source in rows:
        past = history.get(source.source_id, reads.SourceHistory([], None, None, None, 0))
        _row(source, told[source.source_id], past, spec)


def _row(source: reads.SourceFreshness, told: dict[str, Any], past: reads.SourceHistory, spec: list[float]) -> None:
    name, state, next_run, dots, rows, button = st.columns(spec, vertical_alignment="center")
    with name:
        st.button(
            literal(source.source_id),
            key=f"source-{source.source_id}",
            type="tertiary",
            on_click=choose,
            args=[source.source_id],
            help=literal(source.title),
        )
    old = f" {duration(source.age_s)}" if source.age_s is not None else ""
    state.html(f'<div class="jb" title="{escape(source.why)}">{chip_html(source.status, old.strip())}</div>')
    following = parse_instant(told["next_run_at"])
    when, cadence = "by hand", ""
    if told["transport"] == "device":
        when, cadence = "all the time" if source.enabled else "off", f"every {duration(source.cadence_s)}"
    elif source.cadence_s:
        when = age(following) if following else ("not scheduled" if source.enabled else "off")
        cadence = f"every {duration(source.cadence_s)}"
    next_run.html(f'<div class="jb jb-small">{escape(when)}<br><span class="jb-muted">{escape(cadence)}</span></div>')
    dots.html(f'<div class="jb">{runs_html(past.states)}</div>')
    rows.html(f'<div class="jb jb-small">{_loaded(past)}<br>{_refused(past.quarantined)}</div>')
    why_not = why_not_run(source, told)
    if why_not is not None:
        button.html(f'<div class="jb jb-small jb-muted">{escape(why_not)}</div>')
        return
    button.button(
        "Run now",
        key=f"run-{source.source_id}",
        help="Fetch it now and load what is new",
        on_click=run_now,
        args=[source.source_id],
    )


def _loaded(past: reads.SourceHistory) -> str:
    if past.rows_in is None:
        return '<span class="jb-muted">nothing loaded yet</span>'
    return (
        f'<span class="jb-num">{count(past.rows_in)}</span> in, '
        f'<span class="jb-num">{count(past.rows_loaded)}</span> new or changed'
    )


def _refused(n: int) -> str:
    if not n:
        return '<span class="jb-muted">0 quarantined</span>'
    return f'<span class="jb-chip warn"><i></i>{count(n)} quarantined</span>'


def outcome() -> None:
    """What the last `Run now` of this session did, in words."""
    ran = st.session_state.get("_ran")
    if not ran:
        return
    if ran["state"] in ("FAILED", "REFUSED"):
        shapes.problem(
            f"{ran['source']}: {ran['error']} The last good data stays in force and ages.", ran.get("fix") or ""
        )
    elif ran["not_modified"]:
        shapes.note(f"{ran['source']}: the source says that nothing changed.")
    else:
        shapes.note(
            f"{ran['source']}: {state_text(ran['state'])}, {count(ran['rows_in'])} rows in, "
            f"{count(ran['rows_loaded'])} new or changed, {count(ran['rows_unchanged'])} unchanged, "
            f"{count(ran['rows_quarantined'])} quarantined.",
            "warn" if ran["state"] == "PARTIAL" else "",
        )


def power() -> None:
    """The sampler of this process, or why there is none."""
    told = command("ingest.list", {})["power"]
    st.subheader("Power sampler", anchor=False)
    if told is None or not (told["running"] or told["devices"]):
        source = next((s for s in reads.freshness_rows(desk().warehouse) if s.kind == "nvml"), None)
        why = source.why if source is not None else "no power source is registered"
        if told is not None and told["reason"]:
            why = told["reason"]
        if not desk().settings.power.enabled:
            why = "switched off: [power] enabled = false"
        shapes.note(f"Not sampling: {why}. Everything else runs without it.")
        if source is not None and source.last_fix:
            st.caption(literal(source.last_fix))
        return
    words = [
        "sampling" if told["running"] else "stopped",
        f"{count(len(told['devices']))} devices",
        f"{count(told['ticks'])} ticks, {count(told['missed_ticks'])} missed",
        f"{count(told['flushed_rows'])} rows stored, {count(told['buffered_rows'])} waiting",
        f"{count(told['dropped_rows'])} dropped",
        f"CPU {told['cpu_s']:.1f} s",
    ]
    look = "bad" if told["sink_error"] else "warn" if told["reason"] or told["dropped_rows"] else ""
    shapes.note(" · ".join([*words, *filter(None, (told["reason"], told["sink_error"])), *told["notes"]]), look)


def unrecorded() -> None:
    """Failures that the warehouse could not store, kept in memory since the start."""
    kept = desk().unrecorded
    if not kept:
        return
    st.subheader("Failures that could not be recorded", anchor=False)
    rows = [
        (
            escape(str(t["source_id"])),
            escape(str(t["error_class"])),
            escape(str(t["error"])),
            escape(str(t["fix"] or "")),
        )
        for t in kept
    ]
    shapes.show(shapes.table_html(("source", "error", "what", "what to do"), rows))


def drawer(source_id: str) -> None:
    source = next((s for s in reads.freshness_rows(desk().warehouse) if s.source_id == source_id), None)
    if source is None:
        shapes.problem(f"There is no source {source_id!r}.", "choose one of the rows above", look="warn")
        return
    st.subheader(literal(f"{source.source_id} · {source.title}"), anchor=False)
    failed = source.last_state in ("FAILED", "ABORTED") and bool(source.last_error)
    held = "what was loaded before stays in force" if source.last_success_at else "nothing was loaded yet"
    why = f"the last run failed; {held}" if failed else source.why
    shapes.show(f"{chip_html(source.status)} {escape(why)}")
    if failed and source.last_error:
        shapes.problem(source.last_error, source.last_fix or "run it again; if it stays, look at the payload")
    left, right = st.columns([2, 3], gap="large")
    with left:
        _facts(source)
    with right:
        runs = read(reads.runs, source_id)
        st.markdown("**Runs, newest first**")
        if runs.is_empty():
            st.caption("no run yet")
        else:
            st.dataframe(
                runs.with_columns(state=pl.Series([state_text(s) for s in runs["state"]], dtype=pl.String)).drop(
                    "run_id"
                ),
                key=f"runs-{source_id}",
                height=220,
                hide_index=True,
                alt=f"The last {runs.height} runs of {source_id} with their state, rows and errors",
                column_config={
                    "started_at": st.column_config.DatetimeColumn("started (UTC)", format="MM-DD HH:mm:ss"),
                    "not_modified": "unchanged",
                    "duration_s": st.column_config.NumberColumn("s", format="%.2f"),
                    "error_text": "error",
                },
            )
    refused = read(reads.quarantined, source_id)
    st.markdown(f"**Quarantine** · {count(refused.height)} rows shown, newest first")
    if refused.is_empty():
        st.caption("no row of this source was ever refused")
        return
    st.dataframe(
        refused,
        key=f"quarantine-{source_id}",
        height=260,
        hide_index=True,
        alt=f"Rows of {source_id} that were refused, with field, value and reason",
        column_config={
            "quarantined_at": st.column_config.DatetimeColumn("at (UTC)", format="MM-DD HH:mm:ss"),
            "raw": "row as JSON",
        },
    )


def _facts(source: reads.SourceFreshness) -> None:
    payload = read(reads.last_payload, source.source_id)
    rows = [
        (
            "last success",
            f"{instant(source.last_success_at)} ({age(source.last_success_at)} ago)"
            if source.last_success_at
            else "never",
        ),
        ("last attempt", instant(source.last_attempt_at)),
        ("data speaks of", instant(source.data_at)),
    ]
    if payload is not None:
        rows += [
            ("payload", payload.url),
            (
                "fetched",
                f"{instant(payload.fetched_at)}, HTTP {payload.http_status or 'none'}, "
                f"{payload.content_type or 'no type'}",
            ),
            ("size", size(payload.size_bytes)),
            ("sha256", payload.sha256),
        ]
    shapes.show(shapes.table_html(("", ""), [(escape(k), f'<span class="jb-id">{escape(v)}</span>') for k, v in rows]))
    if payload is not None and payload.url.startswith(("http://", "https://")):
        st.link_button("Open the address", payload.url, help="Leaves joulebook: your browser asks the source itself")


def show() -> None:
    outcome()
    alerts.notice()
    with in_words():
        imports.running()
    st.fragment(listing, run_every=chrome.refresh_s(10), key="source-list")()
    chosen = st.query_params.get("source")
    if chosen:
        with st.container(border=True, key="source-drawer"), in_words():
            drawer(chosen)
    else:
        st.caption("Choose a source for its last error, payload and quarantine.")
    imports.form()
    st.fragment(alerts.section, run_every=chrome.refresh_s(15), key="alerts-now")()
    with in_words():
        power()
    unrecorded()
    chrome.load_sample_button()


show()
