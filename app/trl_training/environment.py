"""What the trainer needs from its surroundings: the extra, a GPU, and weights that are already on this machine."""

from __future__ import annotations

import importlib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from app.trl_training.settings import TrainSettings
from policies.replay.errors import TrainerUnavailable, WeightsMissing

PACKAGES = ("torch", "transformers", "trl", "datasets")
_ROUTING = ("torch", "transformers")


def require(*packages: str) -> None:
    """Raises TrainerUnavailable, naming the extra, where one of `packages` (default: all) cannot be imported."""
    for name in packages or PACKAGES:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise TrainerUnavailable(
                f"The language-model router needs {name}, which is not installed ({error}).",
                fix="pip install joulebook[trl]",
            ) from error


def require_for_routing() -> None:
    """As `require`, for what routing needs."""
    require(*_ROUTING)


def versions() -> dict[str, str]:
    """Versions of the packages that made a router."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def check_device(device: str) -> None:
    """Raises TrainerUnavailable without a GPU: 1.5 billion parameters would train for weeks on a CPU."""
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise TrainerUnavailable(
            "PyTorch sees no GPU.",
            fix="train on a machine with one (export the training set, see docs/trl.md), or name the device cpu "
            "for a model of a few million parameters",
        )


def weights_folder(settings: TrainSettings) -> Path:
    """The folder with the weights; the hub is asked only with `download`. Raises WeightsMissing."""
    named = Path(settings.model).expanduser()
    if (named / "config.json").is_file():
        return named
    if named.is_dir():
        raise WeightsMissing(f"The folder {named} has no config.json.", fix="name a folder with weights and tokenizer")
    from huggingface_hub import snapshot_download

    try:
        return Path(
            snapshot_download(settings.model, revision=settings.revision, local_files_only=not settings.download)
        )
    except (OSError, ValueError) as error:
        where = "could not be fetched" if settings.download else "are not on this machine"
        raise WeightsMissing(
            f"The weights {settings.model!r} {where} ({type(error).__name__}).",
            fix="give a folder with weights and tokenizer, or allow the download"
            if not settings.download
            else "check the name and the way to the hub, or give a folder with weights and tokenizer",
        ) from error
