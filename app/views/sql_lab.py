"""SQL: one read-only statement on a snapshot of the warehouse, with the schema beside it."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from types import SimpleNamespace
from typing import Any

import polars as pl
import pyarrow as pa
import streamlit as st

from app.auth import require
from app.components import shapes
from app.components.access import desk, explain, in_words, read
from app.components.format import age, count, instant
from app.components.sql_editor import sql_editor
from app.errors import AppError
from app.operations.sql import run_table
from app.reads import schema as reads
from warehouse.errors import WarehouseError
from warehouse.sandbox.client import export
from warehouse.sandbox.validate import DENIED_TABLES

EXAMPLES = {
    "Joules and dollars per success, by model": (
        "SELECT offer_id, workload, evidence_class, requests, successes,\n"
        "       energy_j_per_success, billed_cost_usd_per_success, carbon_g_per_success, carbon_evidence_class\n"
        "FROM mart.model_usage\nORDER BY workload, energy_j_per_success"
    ),
    "Freshness of every source": (
        "SELECT source_id, status, age_s, last_state, why\nFROM mart.freshness\nORDER BY source_id"
    ),
    "Recommendations and their states": "SELECT *\nFROM mart.recommendation\nORDER BY last_event_at DESC",
    "Audit trail": (
        "SELECT seq, happened_at, kind, subject, revision, actor, channel\n"
        "FROM mart.audit\nORDER BY seq DESC\nLIMIT 100"
    ),
    "Why rows were refused": (
        "SELECT source_id, field, reason, count(*) AS n\nFROM ops.quarantine\nGROUP BY ALL\nORDER BY n DESC"
    ),
}
FIRST = next(iter(EXAMPLES))


@dataclass(frozen=True)
class Answer:
    sql: str
    table: pa.Table
    meta: dict[str, Any]
    explained: bool


def put(text: str) -> None:
    """Replace the statement in the editor."""
    st.session_state["sql-text"] = text
    st.session_state["sql-version"] = st.session_state.get("sql-version", 0) + 1


def execute(sql: str, *, explain_plan: bool) -> None:
    """Run and keep the answer, so that a rerun of the page does not run the statement again."""
    st.session_state.pop("sql-answer", None)
    try:
        require("operator")
        table, meta = run_table(desk(), sql, explain=explain_plan)
    except (AppError, WarehouseError) as error:
        st.session_state["sql-error"] = error
        return
    st.session_state.pop("sql-error", None)
    st.session_state["sql-answer"] = Answer(sql, table, meta, explain_plan)


def editor() -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.selectbox(
            "Start from",
            list(EXAMPLES),
            key="sql-example",
            width=340,
            on_change=lambda: put(EXAMPLES[st.session_state["sql-example"]]),
        )
        plain = st.toggle("Plain text field", key="sql-plain", help="For browsers in which the editor does not work")
    text = st.session_state.setdefault("sql-text", EXAMPLES[FIRST])
    version = st.session_state.get("sql-version", 0)
    asked = False
    if plain:
        typed = st.text_area("SQL statement", value=text, height=190, key=f"sql-area-{version}")
        edited = typed or ""
    else:
        told = sql_editor(text, version=version, key="sql-editor")
        edited, asked = told.text, told.run
    with st.container(horizontal=True, vertical_alignment="center"):
        run = st.button("Run", key="sql-run", type="primary")
        plan = st.button("Explain", key="sql-explain", help="The plan of the statement, without running it")
        settings = desk().settings.sql
        st.caption(
            f"One SELECT, in a worker of its own, at most {settings.timeout:g} s and {count(settings.row_cap)} rows."
        )
    if run or plan or asked:
        with st.spinner("Running", show_time=True):
            execute(edited, explain_plan=plan)


def result() -> None:
    error = st.session_state.get("sql-error")
    if error is not None:
        explain(error)
        return
    answer = st.session_state.get("sql-answer")
    if not isinstance(answer, Answer):
        shapes.empty("Rows, their count, the time they took and the instant they show", "Write a SELECT and press Run.")
        return
    meta = answer.meta
    if answer.explained:
        text = "\n".join(str(v) for v in answer.table.column(answer.table.num_columns - 1).to_pylist())
        st.code(text, language=None)
        return
    rows = "1 row" if answer.table.num_rows == 1 else f"{count(answer.table.num_rows)} rows"
    st.caption(
        f"**{rows}** · {meta['elapsed_s']:.2f} s · data as of {instant(meta['as_of'])} ({age(meta['as_of'])} ago)"
    )
    if meta["truncated"]:
        shapes.note(f"Cut at {count(meta['row_cap'])} rows: there are more. Aggregate, filter, or add a LIMIT.", "warn")
    frame = pl.from_arrow(answer.table)
    assert isinstance(frame, pl.DataFrame)
    st.dataframe(
        frame,
        key="sql-result",
        height=360,
        alt=f"Result of the statement: {frame.height} rows, {frame.width} columns",
        # Every digit as it is: the default rounds a price of 0.0000502 USD to 0.0001.
        column_config={
            name: st.column_config.NumberColumn(format="plain")
            for name, kind in frame.schema.items()
            if kind.is_numeric()
        },
    )
    with st.container(horizontal=True):
        for fmt, mime in (("csv", "text/csv"), ("parquet", "application/vnd.apache.parquet")):
            st.download_button(
                f"Download {fmt.upper() if fmt == 'csv' else 'Parquet'}",
                key=f"sql-{fmt}",
                mime=mime,
                file_name=f"joulebook-{meta['as_of']:%Y%m%dT%H%M%SZ}.{fmt}",
                on_click="ignore",
                data=_exporter(answer.table, fmt),
            )


def _exporter(table: pa.Table, fmt: str) -> Any:
    return lambda: export(SimpleNamespace(table=table), fmt)  # type: ignore[arg-type]


def browser() -> None:
    st.markdown("**Tables and views**")
    wanted = st.text_input("Find a table or column", key="sql-find", placeholder="energy_j, usage, price …")
    needle = (wanted or "").strip().lower()
    with st.container(key="schema-browser", gap=None):
        for name, columns in read(reads.schema, tuple(sorted(DENIED_TABLES))).items():
            hits = [c for c in columns if needle in c.name.lower() or needle in c.about.lower()]
            if needle and needle not in name and not hits:
                continue
            with st.expander(name, key=f"schema-{name}", type="compact"):
                st.button("Query it", key=f"query-{name}", on_click=put, args=[f"SELECT *\nFROM {name}\nLIMIT 100"])
                shown = hits if needle and needle not in name else columns
                shapes.show(shapes.table_html(("column", "unit", "type, meaning"), [_column(c) for c in shown]))


def _column(c: reads.ColumnInfo) -> tuple[str, str, str]:
    kind = f'<span class="jb-muted jb-small">{escape(c.type.lower())}</span>'
    return f'<span class="jb-id">{escape(c.name)}</span>', escape(c.unit or "–"), f"{kind}<br>{escape(c.about)}"


left, right = st.columns([7, 3], gap="large")
with left, in_words():
    editor()
    result()
with right, in_words():
    browser()
