"""`python -m app.trl_training export|train|route`: a training set from the desk, a router from a training set.

`train` and `route` open no warehouse, so they run on a machine that has a GPU and nothing else.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from app.client import ask
from app.errors import AppError, sentences
from app.trl_training.files import read_training_set
from app.trl_training.run import load_policy, train_router
from app.trl_training.settings import TrainSettings
from policies.errors import PolicyError

cli = typer.Typer(help="Train and try the language-model router.", no_args_is_help=True, add_completion=False)
Setting = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting; repeat for several.")
]


@cli.command()
def export(
    dataset: Annotated[str, typer.Argument(help="Data set, as `replay datasets` lists it.")],
    path: Annotated[Path, typer.Argument(help="The file to write.")],
    set_: Setting = None,
) -> None:
    """Write the training set of a data set to a file. It holds the queries' texts."""
    params = _pairs(set_) | {"dataset": dataset, "path": str(path.absolute())}
    for several in ("arms", "benchmarks"):
        if several in params:
            params[several] = [name for name in str(params[several]).split(",") if name]
    _print(ask("replay.training_set", params))


@cli.command()
def train(
    data: Annotated[Path, typer.Argument(help="A training set that `export` wrote.")],
    out: Annotated[Path, typer.Option(help="The folder to train into.")],
    set_: Setting = None,
    resume: Annotated[bool, typer.Option(help="Go on with an interrupted run.")] = False,
) -> None:
    """Train a router from a training set."""
    try:
        settings = TrainSettings.model_validate(_pairs(set_))
    except ValidationError as error:
        raise typer.BadParameter(sentences(error), param_hint="--set") from error
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


def _pairs(given: list[str] | None) -> dict[str, Any]:
    return dict(one.partition("=")[::2] for one in given or ())


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201


def _print(told: dict[str, Any]) -> None:
    print(json.dumps(told, indent=1))  # noqa: T201


def main() -> int:
    try:
        cli()
    except AppError as error:
        _tell(str(error))
        return error.exit_code
    except PolicyError as error:
        _tell(str(error))
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
