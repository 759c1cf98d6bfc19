"""Experiments and calibrations that run beside the page. One at a time per console."""

from __future__ import annotations

from app.components.jobs import Line

_LINE = Line("fleet", "Cancel", "f")

job, busy, start, news = _LINE.job, _LINE.busy, _LINE.start, _LINE.news


def show(operations: tuple[str, ...]) -> None:
    """Progress of what runs, whatever it is; what went wrong with the last of `operations`."""
    _LINE.show(tells=lambda last: last.operation in operations)
