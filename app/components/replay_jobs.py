"""Replaying from the console: under which conditions, progress, cancel. Every session sees what this console runs."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

import streamlit as st

from app.auth import require
from app.components import shapes
from app.components.access import command, desk, guarded, in_words, read
from app.components.format import duration, literal
from app.desk import Desk
from app.errors import AppError
from app.operations import Actor, call
from app.reads import replay as reads
from warehouse.clock import utcnow
from warehouse.ids import uuid7

_EVERY_S = 1.0


@dataclass
class Job:
    """A replay that runs beside the pages, or what came of it."""

    task: str
    dataset: str
    by: str
    thread: threading.Thread | None = None
    run_id: str | None = None
    error: AppError | None = None
    started_at: Any = field(default_factory=utcnow)

    @property
    def alive(self) -> bool:
        return self.thread is not None and self.thread.is_alive()


_jobs: dict[tuple[int, str], Job] = {}  # (desk, data set): one replay at a time each
_lock = threading.Lock()


def job_of(dataset: str) -> Job | None:
    return _jobs.get((id(desk()), dataset))


def _work(console: Desk, actor: Actor, job: Job, params: dict[str, Any]) -> None:
    try:
        job.run_id = call(console, "replay.run", {**params, "task": job.task}, actor)["id"]
    except AppError as error:
        job.error = error
    except Exception as error:  # the page must say so; a thread that dies says nothing
        job.error = AppError(f"The replay broke off: {error}", fix="see the log of the console")
        raise


def start(params: dict[str, Any]) -> None:
    """Run `replay.run` beside the page; refused while one of the same data set runs."""
    with in_words():
        actor, console, dataset = require("operator"), desk(), str(params["dataset"])
        with _lock:
            running = job_of(dataset)
            if running is not None and running.alive:
                return  # a second click on the same button
            job = Job(uuid7(), dataset, actor.name)
            job.thread = threading.Thread(
                target=_work, args=(console, actor, job, params), name=f"replay-{job.task}", daemon=True
            )
            _jobs[id(console), dataset] = job
            job.thread.start()


def form(dataset: reads.DataSet) -> None:
    """Where the outcomes tell no joules, a GPU and batches give them; zones give grams."""
    gpus, zones = read(reads.gpus), read(reads.zones)
    if not dataset.own_energy:
        if gpus:
            st.caption("Joules come from tokens x measured J/token of a GPU at a batch; the same choices under each.")
            st.multiselect("GPU", gpus, default=_usual(gpus), key="r-run-gpu")
            st.text_input(
                "Batches (mean concurrent requests)", "128", key="r-run-batch", help="several by commas: 8, 256"
            )
        else:
            shapes.note(
                "No GPU was benchmarked yet, so joules stay unknown. Import mlenergy-v2 or mlenergy-v3.", "warn"
            )
    if zones:
        st.multiselect("Zones of the grid, for grams", zones, key="r-run-zone")
    job = job_of(dataset.name)
    busy = job is not None and job.alive
    st.button(
        "Replay now",
        key="r-run-go",
        type="primary",
        disabled=busy,
        help="It runs already" if busy else "Every fixed arm, hull, oracle and router of the default roster",
        on_click=_go,
        args=[dataset],
    )


def _usual(gpus: list[str]) -> list[str]:
    return [g for g in gpus if "H100" in g][:1] or gpus[:1]


def _go(dataset: reads.DataSet) -> None:
    """What the form says now: the click may arrive together with the last change of a field."""
    state = st.session_state
    state.pop("_replay_said", None)
    params: dict[str, Any] = {"dataset": dataset.name}
    if not dataset.own_energy and state.get("r-run-gpu"):
        told = str(state.get("r-run-batch", "")).replace(";", ",")
        try:
            batches = [float(part) for part in told.split(",") if part.strip()]
        except ValueError:
            state["_replay_said"] = f"Batches are numbers by commas, such as 8, 256; told is {told!r}."
            return
        params |= {"gpu": state["r-run-gpu"], "batch": batches}
    if state.get("r-run-zone"):
        hour = utcnow().replace(minute=0, second=0, microsecond=0)
        params |= {"zone": state["r-run-zone"], "at": [f"{hour.isoformat()}Z"]}
    start(params)


def running(dataset: str) -> None:
    """Progress of the replay of this data set, or what came of the last one."""
    said = st.session_state.get("_replay_said")
    if said:
        shapes.problem(said, "", look="warn")
    job = job_of(dataset)
    if job is None:
        return
    if job.alive:
        st.fragment(_progress, run_every=_EVERY_S, key="replay-progress")(dataset)
    elif job.error is not None:
        shapes.problem(job.error.message, job.error.fix)


@guarded
def _progress(dataset: str) -> None:
    job = job_of(dataset)
    if job is None or not job.alive:
        st.rerun()  # the page shows what came of it
        return
    told = command("replay.progress", {"task": job.task})
    total, done = told.get("total") or 0, told.get("done") or 0
    share = min(1.0, done / total) if total else 0.0
    went = duration((utcnow() - job.started_at).total_seconds())
    st.progress(share, text=literal(f"Replaying {dataset}: {told.get('stage', 'starting')}, {went}, by {job.by}"))
    st.button("Cancel the replay", key=f"r-cancel-{job.task}", on_click=_cancel, args=[job.task])


def _cancel(task: str) -> None:
    with in_words():
        command("replay.cancel", {"task": task})
