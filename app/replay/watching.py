"""A long operation with a progress bar: it runs beside, its progress is asked for, Ctrl+C cancels it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from app.client import Client
from warehouse.ids import uuid7

_ASK_EVERY_S = 0.2


def watched(client: Client, name: str, params: Mapping[str, Any], *, show: bool) -> dict[str, Any]:
    """Run the operation `name`, which takes a `task`. On Ctrl+C it is cancelled; its error is raised.

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
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(file=sys.stderr),
        transient=True,
        disable=not show,
    )
    begun = cancelled = False
    with bar:
        line = bar.add_task("starting", total=None)
        while not ended.is_set():
            try:
                if not begun:
                    begun = True
                    thread.start()  # waits until the thread runs, so Ctrl+C may come within it
                ended.wait(_ASK_EVERY_S)
                if show and not ended.is_set():
                    now = client.call("replay.progress", {"task": task})
                    if now["running"]:
                        bar.update(line, description=now["stage"], completed=now["done"], total=now["total"] or None)
            except KeyboardInterrupt:
                if cancelled:
                    raise
                cancelled = True
                client.call("replay.cancel", {"task": task})
    if errors:
        raise errors[0]
    return told
