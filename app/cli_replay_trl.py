"""`joulebook replay train --method trl`: the training set from the desk, then training in this process.

The warehouse is open only while the training set is written: hours of training block no console.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from pydantic import ValidationError

from app import cli_print as out
from app.client import ask
from app.errors import BadRequest, sentences
from app.policy_errors import policy_errors

if TYPE_CHECKING:
    from app.trl_training import TrainSettings

_LONG = frozenset({"trained_on", "stages"})
_FLAGS = {"lam": "lambda"}
STAGES = ("sft", "grpo", "kl-grpo")


def refuse(given: Mapping[str, Any], method: str) -> None:
    """Flags of the other method would be ignored: they are refused by name. Raises BadParameter."""
    named = [f"--{_FLAGS.get(name, name).replace('_', '-')}" for name, value in given.items() if value is not None]
    if named:
        raise typer.BadParameter(f"{', '.join(named)} is for --method {method} only", param_hint="--method")


def train(
    loading: Mapping[str, Any], told: Mapping[str, Any], folder: Path | None, pairs: list[str] | None, *, resume: bool
) -> dict[str, Any]:
    """The manifest of the trained router, with its name as a policy. Raises AppError and BadParameter."""
    if folder is None:
        raise typer.BadParameter("--method trl needs a folder to train into", param_hint="--out")
    from app.trl_training import train_router
    from app.trl_training.environment import check_device, require
    from app.trl_training.files import read_training_set

    settings = _settings(told, loading["seed"], pairs)
    with policy_errors():
        require()
        check_device(settings.device)
        path = folder.with_name(f"{folder.name}.training.jsonl").absolute()
        if not resume and folder.is_dir() and any(folder.iterdir()):
            raise BadRequest(f"{folder} is not empty.", fix="go on with --resume, or name a new folder")
        if not (resume and path.is_file()):
            _export(loading, told, path)
        data = read_training_set(path)
        if data.dataset != loading["dataset"]:
            raise typer.BadParameter(f"{path} is of {data.dataset}, not of {loading['dataset']}", param_hint="--out")
        manifest = train_router(data, settings, folder, resume=resume, report=_report)
    kept = {name: value for name, value in manifest.items() if name not in _LONG}
    return {**kept, "policy": f"trl:{folder.absolute()}", "training_set": str(path)}


def tell(told: Mapping[str, Any]) -> None:
    """What a training came to."""
    spent = "" if told["training_energy_j"] is None else f", {told['training_energy_j']:.4g} J"
    spent += f" ({told['training_energy_method']})"
    out.line(f"{told['policy']}  {told['settings']['model']} on {told['dataset']} in {told['training_s']:.1f} s{spent}")
    out.line(f"training set with the texts of the queries: {told['training_set']}")


def _export(loading: Mapping[str, Any], told: Mapping[str, Any], path: Path) -> None:
    lambdas = {"lambda_rl": told["lam"], "lambda_sft": told["lam_supervised"]}
    ask("replay.training_set", {**loading, **lambdas, "path": str(path)})


def _settings(told: Mapping[str, Any], seed: int, pairs: list[str] | None) -> TrainSettings:
    given: dict[str, Any] = {"seed": seed}
    if told["steps"] is not None:
        given["rl_steps"] = told["steps"]
    if told["beta"] is not None:
        given["beta"] = told["beta"]
    if told["stage"] is not None and told["stage"] not in STAGES:
        raise typer.BadParameter(f"{told['stage']!r} is none of {', '.join(STAGES)}", param_hint="--stage")
    if told["stage"] == "grpo" and told["beta"]:
        raise typer.BadParameter("grpo keeps no distance; take --stage kl-grpo", param_hint="--beta")
    if told["stage"] == "sft":
        given["rl_steps"] = 0
    if told["stage"] == "grpo":
        given["beta"] = 0.0
    from app.trl_training import TrainSettings

    try:
        return TrainSettings.model_validate(given | dict(one.partition("=")[::2] for one in pairs or ()))
    except ValidationError as error:
        raise typer.BadParameter(sentences(error), param_hint="--set") from error


def _report(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
