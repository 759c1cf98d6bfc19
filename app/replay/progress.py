"""How far a running replay or fleet experiment is, and whether somebody wants it to stop."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from app.errors import Conflict


@dataclass
class Progress:
    """`stage` in words, `done` of `total` steps."""

    stage: str = "waiting"
    done: int = 0
    total: int = 0
    cancelled: bool = False
    what: str = "replay"

    def step(self, stage: str, done: int | None = None, total: int | None = None) -> None:
        """Say what comes next. Raises Conflict where the run was cancelled: nothing of it is kept."""
        self.check()
        self.stage = stage
        self.done = self.done if done is None else done
        self.total = self.total if total is None else total

    def check(self) -> None:
        if self.cancelled:
            raise Conflict(
                f"The {self.what} was cancelled; nothing of it was kept.", fix="start it again when you want it"
            )

    def as_dict(self) -> dict[str, Any]:
        return {"stage": self.stage, "done": self.done, "total": self.total}


_running: dict[tuple[int, str], Progress] = {}
_lock = threading.Lock()


@contextmanager
def running(desk: object, task: str | None, what: str = "replay") -> Iterator[Progress]:
    """A progress that `of` finds under `task` while the body runs."""
    progress = Progress(what=what)
    key = (id(desk), task or "")
    with _lock:
        if task and key in _running:
            raise Conflict(f"A {what} with the name {task!r} runs already.", fix="give each run a name of its own")
        if task:
            _running[key] = progress
    try:
        yield progress
    finally:
        with _lock:
            _running.pop(key, None)


def of(desk: object, task: str) -> Progress | None:
    return _running.get((id(desk), task))
