"""Importing a file from the console: upload, progress, cancel; and every other import that is running."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import streamlit as st

from app.auth import require
from app.components import shapes
from app.components.access import desk, guarded, in_words
from app.components.format import count, literal, size
from app.desk import Desk
from app.errors import AppError
from app.operations import Actor, call
from ingest.kinds import KINDS
from warehouse.ids import uuid7

_JOB = "_import"
_EVERY_S = 1.0


def _actor() -> Actor:
    """The operator of this session. The file lies in our own folder, so that the scope of local files is given."""
    actor = require("operator")
    return replace(actor, scopes=actor.scopes | {"local"})


def _work(console: Desk, actor: Actor, job: dict[str, Any], params: dict[str, Any]) -> None:
    try:
        job["told"] = call(console, "import", params, actor)
    except AppError as error:
        job["told"] = {"state": "REFUSED", "error": error.message, "fix": error.fix}
    finally:
        Path(params["path"]).unlink(missing_ok=True)


def _start(kind: str, name: str, data: bytes, options: dict[str, str]) -> None:
    actor, console, task = _actor(), desk(), uuid7()
    folder = console.settings.state_dir / "uploads"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"{task}-{Path(name).name}"
    path.write_bytes(data)
    job: dict[str, Any] = {"task": task, "name": name, "kind": kind}
    params = {"kind": kind, "path": str(path), "options": options, "task": task}
    thread = threading.Thread(target=_work, args=(console, actor, job, params), name=f"import-{task}", daemon=True)
    job["thread"] = thread
    st.session_state[_JOB] = job
    thread.start()


def _cancel(task: str) -> None:
    with in_words():
        call(desk(), "import.cancel", {"task": task}, _actor())


def form() -> None:
    """Choose a kind, its options and a file."""
    kinds = sorted(name for name, found in KINDS.items() if found.importable)
    # A switch and not an expander: what is open in the browser alone closes when the page is drawn anew.
    if not st.toggle("Import a file", key="import-open"):
        return
    with st.container(border=True, key="import-a-file"):
        kind = st.selectbox("Kind", kinds, key="import-kind")
        found = KINDS[kind]
        shapes.note(f"{found.title}: {found.docs}. At most {size(found.max_bytes)}; larger logs by `joulebook import`.")
        options = {}
        for option in found.options:
            word = f"{option.name}{' (needed)' if option.required else ''}"
            told = (
                st.selectbox(
                    word, ["", *option.allowed], key=f"import-{kind}-{option.name}", help=literal(option.about)
                )
                if option.allowed
                else st.text_input(
                    word, option.default or "", key=f"import-{kind}-{option.name}", help=literal(option.about)
                )
            )
            if told:
                options[option.name] = told
        file = st.file_uploader("File", key="import-file")
        busy = _alive()
        st.button(
            "Import",
            key="import-go",
            disabled=file is None or busy,
            help="Wait for the running import" if busy else ("Choose a file first" if file is None else None),
            on_click=lambda: _start(kind, file.name, file.getvalue(), options) if file is not None else None,
        )


def _alive() -> bool:
    job = st.session_state.get(_JOB)
    return bool(job and job["thread"].is_alive())


def running() -> None:
    """Progress of every running import, with a way to cancel; what the last one of this session came to."""
    every = _EVERY_S if desk().loads or _alive() else None
    st.fragment(_running, run_every=every)()


@guarded
def _running() -> None:
    job = st.session_state.get(_JOB)
    loads = dict(desk().loads)
    for task, progress in loads.items():
        share = min(1.0, progress.done_bytes / progress.total_bytes) if progress.total_bytes else 0.0
        about = f"{progress.stage}: {size(progress.done_bytes)} of {size(progress.total_bytes)}, "
        st.progress(share, text=about + f"{count(progress.rows_in)} rows")
        st.button(
            "Cancel this import", key=f"cancel-{task}", on_click=_cancel, args=[task], disabled=progress.cancelled
        )
    if job is None:
        return
    if job["thread"].is_alive():
        if job["task"] not in loads:
            shapes.note(f"{job['name']}: loading")
        return
    told = job["told"]
    if told["state"] in {"FAILED", "REFUSED"}:
        shapes.problem(f"{job['name']}: {told['error']}", told.get("fix") or "")
    else:
        shapes.note(
            f"{job['name']}: {told['state']}, {count(told['rows_in'])} rows in, {count(told['rows_loaded'])} loaded, "
            f"{count(told['rows_unchanged'])} unchanged, {count(told['rows_quarantined'])} quarantined"
        )
    if not job.get("seen"):
        job["seen"] = True
        st.rerun()  # the rows above show what came in
