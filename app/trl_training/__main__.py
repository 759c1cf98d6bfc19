"""`python -m app.trl_training train|route`: the training on a machine that has a GPU and needs no warehouse."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from app.operations import sentences
from app.trl_training.files import read_training_set
from app.trl_training.run import load_policy, train_router
from app.trl_training.settings import TrainSettings
from policies.errors import PolicyError

cli = typer.Typer(help="Train and try the language-model router.", no_args_is_help=True, add_completion=False)


@cli.command()
def train(
    data: Annotated[Path, typer.Argument(help="A training set, written by an export.")],
    out: Annotated[Path, typer.Option(help="The folder to train into.")],
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A training setting; repeat for several.")
    ] = None,
    resume: Annotated[bool, typer.Option(help="Go on with an interrupted run.")] = False,
) -> None:
    """Train a router from a training set."""
    settings = _settings(set_ or [])
    manifest = train_router(read_training_set(data), settings, out, resume=resume, report=_tell)
    _print({key: value for key, value in manifest.items() if key not in {"trained_on", "stages"}})


@cli.command()
def route(
    router: Annotated[Path, typer.Argument(help="A trained router's folder, or one of its checkpoints.")],
    text: Annotated[str, typer.Argument(help="The query.")],
    device: Annotated[str, typer.Option(help="auto, cuda or cpu.")] = "auto",
) -> None:
    """Ask a trained router which arm is to answer one query."""
    policy = load_policy(router, device)
    found = policy.scorer([policy.prompt(text)])[0]
    best = int(found.argmax())
    _print({"arm": policy.arms[best], "log_likelihood": dict(zip(policy.arms, found.tolist(), strict=True))})


def _settings(given: list[str]) -> TrainSettings:
    pairs = dict(one.partition("=")[::2] for one in given)
    try:
        return TrainSettings.model_validate(pairs)
    except ValidationError as error:
        raise typer.BadParameter(sentences(error), param_hint="--set") from error


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201


def _print(told: dict[str, Any]) -> None:
    print(json.dumps(told, indent=1))  # noqa: T201


def main() -> int:
    try:
        cli()
    except PolicyError as error:
        _tell(str(error))
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
