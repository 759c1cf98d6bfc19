"""Experiments and calibrations that run beside the page: start, progress, cancel. One at a time per console."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import streamlit as st

from app.auth import require
from app.components import shapes
from app.components.access import command, desk, guarded, in_words
from app.components.format import duration, literal
from app.desk import Desk
from app.errors import AppError
from app.operations import Actor, call
from warehouse.clock import utcnow
from warehouse.ids import uuid7

_EVERY_S = 1.0
SEEN = "_fleet_seen"


@dataclass
class Job:
    """What runs beside the pages, or what came of it."""

    task: str
    operation: str
    words: str
    by: str
    thread: threading.Thread | None = None
    answer: dict[str, Any] | None = None
    error: AppError | None = None
    started_at: datetime = field(default_factory=utcnow)

    @property
    def alive(self) -> bool:
        return self.thread is not None and self.thread.is_alive()


_jobs: dict[int, Job] = {}  # by desk
_lock = threading.Lock()


def job() -> Job | None:
    return _jobs.get(id(desk()))


def busy() -> bool:
    running = job()
    return running is not None and running.alive


def _work(console: Desk, actor: Actor, mine: Job, params: dict[str, Any]) -> None:
    try:
        mine.answer = call(console, mine.operation, {**params, "task": mine.task}, actor)
    except AppError as error:
        mine.error = error
    except Exception as error:  # the page must say so; a thread that dies says nothing
        mine.error = AppError(f"It broke off: {error}", fix="see the log of the console")
        raise


def start(operation: str, params: dict[str, Any], words: str) -> None:
    """Run an operation beside the page; passed over while another one runs, as after a second click."""
    with in_words():
        actor, console = require("operator"), desk()
        with _lock:
            if busy():
                return
            mine = Job(uuid7(), operation, words, actor.name)
            mine.thread = threading.Thread(
                target=_work, args=(console, actor, mine, params), name=f"fleet-{mine.task}", daemon=True
            )
            _jobs[id(console)] = mine
            mine.thread.start()


def show(operations: tuple[str, ...]) -> None:
    """Progress of what runs, whatever it is; what came of the last of `operations`."""
    last = job()
    if last is None:
        return
    if _unseen() is not None:
        st.rerun()  # it ended while this page was being drawn, after `news` was asked: nothing else would say so
    if last.alive:
        st.fragment(_progress, run_every=_EVERY_S, key="fleet-progress")()
    elif last.error is not None and last.operation in operations:
        shapes.problem(last.error.message, last.error.fix)


def news() -> Job | None:
    """The job that ended well since this session looked last, once."""
    last = _unseen()
    if last is not None:
        st.session_state[SEEN] = last.task
    return last


def _unseen() -> Job | None:
    last = job()
    ended = last is not None and not last.alive and last.answer is not None
    return last if ended and last is not None and st.session_state.get(SEEN) != last.task else None


@guarded
def _progress() -> None:
    running = job()
    if running is None or not running.alive:
        st.rerun()  # the page shows what came of it
        return
    told = command("fleet.progress", {"task": running.task})
    total, done = told.get("total") or 0, told.get("done") or 0
    share = min(1.0, done / total) if total else 0.0
    steps = f" {done} of {total}" if total else ""
    went = duration((utcnow() - running.started_at).total_seconds())
    st.progress(
        share, text=literal(f"{running.words}: {told.get('stage', 'starting')}{steps}, {went}, by {running.by}")
    )
    st.button("Cancel", key=f"f-cancel-{running.task}", on_click=_cancel, args=[running.task])


def _cancel(task: str) -> None:
    with in_words():
        command("fleet.cancel", {"task": task})
