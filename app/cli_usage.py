"""A wrong call of the command line in words: what was given, what is allowed, and whose help tells more."""

from __future__ import annotations

from typing import Any

from typer.exceptions import TyperException

_LONGEST = 60


def usage(error: TyperException) -> tuple[str, str]:
    """(message, fix) of a call that typer refused; the fix names the help of the command that was meant."""
    told = getattr(error, "format_message", None)  # typer keeps the words there
    message = str(told() if told is not None else error) or "No command is named."
    given = _given(error.__cause__)
    if given is not None:
        message = f"{message.rstrip('.')}, not {given[:_LONGEST]!r}"
    context = getattr(error, "ctx", None)
    meant = context.command_path if context is not None else "joulebook"
    fix = f"see `{meant} --help`"
    if context is not None and message.startswith(("No such command", "No command")):
        fix = f"use one of {', '.join(sorted(context.command.commands))}; {fix}"
    return message, fix


def _given(cause: BaseException | None) -> str | None:
    """The value that failed a check of its type or range; None where typer's own words name it."""
    errors: Any = getattr(cause, "errors", None)
    if not callable(errors):
        return None
    value = errors()[0].get("input")
    return value if isinstance(value, str) else None
