"""An import with a progress bar, cancelled by Ctrl+C: the load runs beside, its progress is asked for."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from app.client import Client
from app.errors import AppError
from warehouse.ids import uuid7

_ASK_EVERY_S = 0.3


def import_with_progress(client: Client, params: Mapping[str, Any], *, show: bool) -> dict[str, Any]:
    """Run the operation `import`; on Ctrl+C the load is cancelled and its outcome, FAILED, is returned.

    Raises AppError as the operation does.
    """
    task = uuid7()
    told: dict[str, Any] = {}
    errors: list[AppError] = []

    ended = threading.Event()  # not `join`: interrupted at the wrong moment, it takes a living thread for dead

    def work() -> None:
        try:
            told.update(client.call("import", {**params, "task": task}))
        except AppError as error:
            errors.append(error)
        finally:
            ended.set()

    thread = threading.Thread(target=work, name="import", daemon=True)
    with _bar(show) as bar:
        line = bar.add_task("reading", total=None, rows="")
        thread.start()
        while not ended.is_set():
            try:
                ended.wait(_ASK_EVERY_S)
                if show:
                    _update(bar, line, client, task)
            except KeyboardInterrupt:
                client.call("import.cancel", {"task": task})
    if errors:
        raise errors[0]
    return told


def _bar(show: bool) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[rows]}"),
        console=Console(file=sys.stderr),
        transient=True,
        disable=not show,
    )


def _update(bar: Progress, line: TaskID, client: Client, task: str) -> None:
    now = client.call("import.progress", {"task": task})
    if now["running"]:
        bar.update(
            line,
            description=now["stage"],
            completed=now["done_bytes"],
            total=now["total_bytes"] or None,
            rows=f"{now['rows_in']:,} rows",
        )
