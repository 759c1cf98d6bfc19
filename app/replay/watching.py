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

    def work() -> None:
        try:
            told.update(client.call(name, {**params, "task": task}))
        except BaseException as error:  # whatever it is, the command must not end as if all were well
            errors.append(error)

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
    cancelled = False
    with bar:
        line = bar.add_task("starting", total=None)
        thread.start()
        while thread.is_alive():
            try:
                thread.join(_ASK_EVERY_S)
                if show and thread.is_alive():
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
