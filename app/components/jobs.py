"""Work that runs beside the pages: start, progress, cancel. Every session sees what this console runs."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
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


@dataclass
class Job:
    """What runs beside the pages, or what came of it. `words` say what it does."""

    task: str
    operation: str
    words: str
    by: str
    console: weakref.ref[Desk]  # whose job it is: the number of an object is given again once it is gone
    thread: threading.Thread | None = None
    answer: dict[str, Any] | None = None
    error: AppError | None = None
    started_at: datetime = field(default_factory=utcnow)

    @property
    def alive(self) -> bool:
        return self.thread is not None and self.thread.is_alive()


@dataclass(frozen=True)
class Line:
    """Jobs of one kind, one at a time per console and subject. `FAMILY.progress` and `FAMILY.cancel` are operations."""

    family: str
    cancel: str  # what the button says
    key: str  # begins the keys of its widgets
    _jobs: dict[tuple[int, str], Job] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def job(self, subject: str = "") -> Job | None:
        console = desk()
        found = self._jobs.get((id(console), subject))
        return found if found is not None and found.console() is console else None

    def busy(self, subject: str = "") -> bool:
        running = self.job(subject)
        return running is not None and running.alive

    def start(self, operation: str, params: dict[str, Any], words: str, subject: str = "") -> None:
        """Run an operation beside the page; passed over while another one runs, as after a second click."""
        with in_words():
            actor, console = require("operator"), desk()
            with self._lock:
                if self.busy(subject):
                    return
                mine = Job(uuid7(), operation, words, actor.name, weakref.ref(console))
                mine.thread = threading.Thread(
                    target=_work, args=(console, actor, mine, params), name=f"{self.family}-{mine.task}", daemon=True
                )
                self._jobs[id(console), subject] = mine
                mine.thread.start()

    def news(self, subject: str = "") -> Job | None:
        """The job that ended well since this session looked last, once. Ask before reading what it stored."""
        last = self._unseen(subject)
        if last is not None:
            st.session_state[self._seen(subject)] = last.task
        return last

    def show(self, subject: str = "", tells: Callable[[Job], bool] = lambda _: True) -> None:
        """Progress of what runs, whatever it is; what went wrong with the last one, where the page `tells` of it."""
        last = self.job(subject)
        if last is None:
            return
        if self._unseen(subject) is not None:
            st.rerun()  # it ended while this page was being drawn, after `news` was asked: nothing else would say so
        if last.alive:
            st.fragment(self._progress, run_every=_EVERY_S, key=f"{self.family}-progress")(subject)
        elif last.error is not None and tells(last):
            shapes.problem(last.error.message, last.error.fix)

    def _seen(self, subject: str) -> str:
        return f"_{self.family}_seen_{subject}"

    def _unseen(self, subject: str) -> Job | None:
        last = self.job(subject)
        if last is None or last.alive or last.answer is None:
            return None
        return last if st.session_state.get(self._seen(subject)) != last.task else None

    @guarded
    def _progress(self, subject: str) -> None:
        running = self.job(subject)
        if running is None or not running.alive:
            st.rerun()  # the page shows what came of it
            return
        told = command(f"{self.family}.progress", {"task": running.task})
        total, done = told.get("total") or 0, told.get("done") or 0
        share = min(1.0, done / total) if total else 0.0
        steps = f" {done} of {total}" if total else ""
        went = duration((utcnow() - running.started_at).total_seconds())
        st.progress(
            share, text=literal(f"{running.words}: {told.get('stage', 'starting')}{steps}, {went}, by {running.by}")
        )
        st.button(self.cancel, key=f"{self.key}-cancel-{running.task}", on_click=self._cancel, args=[running.task])

    def _cancel(self, task: str) -> None:
        with in_words():
            command(f"{self.family}.cancel", {"task": task})


def _work(console: Desk, actor: Actor, mine: Job, params: dict[str, Any]) -> None:
    try:
        mine.answer = call(console, mine.operation, {**params, "task": mine.task}, actor)
    except AppError as error:
        mine.error = error
    except Exception as error:  # the page must say so; a thread that dies says nothing
        mine.error = AppError(f"{mine.words} broke off: {error}", fix="see the log of the console")
        raise
