"""Groups of options: listed where a command names them, handed over as what was given."""

from __future__ import annotations

import json
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from app.cli_options import Group, grouped

app = typer.Typer(add_completion=False)


class Slo(Group):
    ttft_s: Annotated[float | None, typer.Option("--ttft-s", help="First token.")] = None
    share: Annotated[float, typer.Option(min=0, max=1)] = 0.9
    check: Annotated[bool, typer.Option("--check/--no-check")] = True


class Seeds(Group):
    seed: Annotated[list[int] | None, typer.Option("--seed")] = None


@app.command()
@grouped
def run(*, name: Annotated[str, typer.Argument()], slo: Slo, first: bool = False, seeds: Seeds) -> None:
    """Run it."""
    typer.echo(json.dumps([name, slo, first, seeds]))


def told(*words: str) -> Any:
    ended = CliRunner().invoke(app, list(words))
    assert ended.exit_code == 0, ended.output
    return json.loads(ended.output)


def test_a_command_gets_what_was_given_and_the_defaults_that_are_values() -> None:
    assert told("a") == ["a", {"share": 0.9, "check": True}, False, {}]
    given = told("a", "--seed", "1", "--seed", "2", "--ttft-s", "0.5", "--no-check", "--first")
    assert given == ["a", {"ttft_s": 0.5, "share": 0.9, "check": False}, True, {"seed": [1, 2]}]


def test_options_are_listed_in_the_order_of_the_command() -> None:
    command = typer.main.get_command(app)
    assert [p.name for p in command.params] == ["name", "ttft_s", "share", "check", "first", "seed"]
    assert command.help == "Run it."
    assert "First token." in CliRunner().invoke(app, ["--help"]).output


@pytest.mark.parametrize("words", [("a", "--share", "2"), ("a", "--seed", "x"), ("a", "--ttft", "1"), ()])
def test_options_of_a_group_are_checked_as_any_other(words: tuple[str, ...]) -> None:
    assert CliRunner().invoke(app, list(words)).exit_code == 2
