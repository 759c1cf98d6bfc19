"""A long operation on the command line: it runs beside, its progress is asked for, Ctrl+C cancels it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from app.client import Client
from app.settings import load_settings
from warehouse.ids import uuid7

_ASK_EVERY_S = 0.2


@dataclass(frozen=True)
class Bar:
    """How the progress of a family of operations is drawn; `FAMILY.progress` and `FAMILY.cancel` are operations."""

    family: str
    columns: Callable[[], tuple[ProgressColumn, ...]]
    fields: Callable[[Mapping[str, Any]], dict[str, Any]]  # an answer of progress as rich's fields


STEPS = Bar(
    "replay",  # which knows the tasks of replays, trainings and fleet experiments alike
    lambda: (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()),
    lambda now: {"completed": now["done"], "total": now["total"] or None},
)
BYTES = Bar(
    "import",
    lambda: (BarColumn(), DownloadColumn(), TimeRemainingColumn(), TextColumn("{task.fields[rows]}")),
    lambda now: {
        "completed": now["done_bytes"],
        "total": now["total_bytes"] or None,
        "rows": f"{now['rows_in']:,} rows",
    },
)


def watched(client: Client, name: str, params: Mapping[str, Any], *, show: bool, bar: Bar = STEPS) -> dict[str, Any]:
    """Run the operation `name`, which takes a `task`. On Ctrl+C it is cancelled, and its answer or error is awaited.

    Raises AppError as the operation does. A second Ctrl+C does not wait for the running step.
    """
    task = uuid7()
    told: dict[str, Any] = {}
    errors: list[BaseException] = []
    ended = threading.Event()  # not `join`: interrupted at the wrong moment, it takes a living thread for dead

    def work() -> None:
        try:
            told.update(client.call(name, {**params, "task": task}))
        except BaseException as error:  # whatever it is, the command must not end as if all were well
            errors.append(error)
        finally:
            ended.set()

    thread = threading.Thread(target=work, name=name, daemon=True)
    begun = cancelled = False
    columns = (TextColumn("{task.description}"), *bar.columns())
    with Progress(*columns, console=Console(file=sys.stderr), transient=True, disable=not show) as drawn:
        line = drawn.add_task("starting", total=None, rows="")
        while not ended.is_set():
            try:
                if not begun:
                    begun = True
                    thread.start()  # waits until the thread runs, so Ctrl+C may come within it
                ended.wait(_ASK_EVERY_S)
                if show and not ended.is_set():
                    now = client.call(f"{bar.family}.progress", {"task": task})
                    if now["running"]:
                        drawn.update(line, description=now["stage"], **bar.fields(now))
            except KeyboardInterrupt:
                if cancelled:
                    raise
                cancelled = True
                client.call(f"{bar.family}.cancel", {"task": task})
    if errors:
        raise errors[0]
    return told


def watch(name: str, params: Mapping[str, Any], as_json: bool, *, bar: Bar = STEPS) -> dict[str, Any]:
    """Run a long operation with a bar on stderr, where a person looks on; Ctrl+C cancels it, nothing of it is kept."""
    with Client(load_settings()) as client:
        return watched(client, name, params, show=not as_json and sys.stderr.isatty(), bar=bar)
