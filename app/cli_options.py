"""Options that several commands share: a group of them is declared once, as a class.

    class Slo(Group):
        ttft_s: Annotated[float | None, typer.Option("--ttft-s", help="...")] = None

    @app.command("simulate")
    @grouped
    def simulate(slo: Slo, keep: Keep = True) -> None: ...

`joulebook simulate --help` lists the options of a group where the command names the group. The command receives
the group as a dict of option name and value, and without those that were not given and default to None.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

KEYWORD = inspect.Parameter.KEYWORD_ONLY  # whatever follows a group may lack a default


class Group(dict[str, Any]):
    """Options as annotated class attributes, each with its default; an instance holds what a caller gave."""

    @classmethod
    def options(cls) -> dict[str, inspect.Parameter]:
        """By name and in the order of their lines: what a command would declare as its parameters."""
        hints = get_type_hints(cls, include_extras=True)
        return {n: inspect.Parameter(n, KEYWORD, default=getattr(cls, n), annotation=hints[n]) for n in hints}


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """`command` with each parameter that is annotated with a Group replaced by the options of that group."""
    declared = inspect.signature(command, eval_str=True).parameters
    kinds = {n: p.annotation for n, p in declared.items() if inspect.isclass(p.annotation)}
    groups = {name: kind for name, kind in kinds.items() if issubclass(kind, Group)}
    shown: list[inspect.Parameter] = []
    for name, parameter in declared.items():
        shown += groups[name].options().values() if name in groups else [parameter.replace(kind=KEYWORD)]

    @functools.wraps(command)
    def run(**told: Any) -> None:
        for name, group in groups.items():
            each = {option: told.pop(option) for option in group.options()}
            told[name] = group({option: value for option, value in each.items() if value is not None})
        command(**told)

    run.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]  # typer reads this
    run.__annotations__ = {p.name: p.annotation for p in shown}
    return run
