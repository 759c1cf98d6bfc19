"""The folder of a trained router: `router.json`, `sft/` and `grpo/` with checkpoints, and each stage's `model/`."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from policies.replay.errors import RouterInvalid
from policies.replay.trl.prompts import PROMPT_VERSION

MANIFEST = "router.json"
FORMAT = "joulebook-trl-router-1"
_FIX = "name the folder that a training run wrote, or one of its checkpoints"


def write_manifest(root: Path, manifest: dict[str, Any]) -> None:
    """Written aside and moved into place: a reader never sees half of it."""
    aside = root / f"{MANIFEST}.part"
    aside.write_text(json.dumps(manifest, indent=1, allow_nan=False), encoding="utf-8")
    os.replace(aside, root / MANIFEST)


def read_manifest(root: Path) -> dict[str, Any]:
    """Raises RouterInvalid."""
    try:
        manifest: dict[str, Any] = json.loads((root / MANIFEST).read_text(encoding="utf-8"))
        if manifest["format"] != FORMAT:
            raise ValueError(f"format {manifest['format']!r}")
        return manifest
    except FileNotFoundError as error:
        raise RouterInvalid(f"{root} has no {MANIFEST}, so it holds no trained router.", fix=_FIX) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RouterInvalid(f"{root / MANIFEST} cannot be read: {error}.", fix=_FIX) from error


@dataclass(frozen=True)
class Located:
    """Weights of a router, what they are, and how they came to be."""

    weights: Path
    sha256: str
    manifest: dict[str, Any]


def locate(directory: Path) -> Located:
    """The router in a folder, or in a checkpoint below one. Raises RouterInvalid.

    A finished router has the weights that its manifest tells the hash of; checkpoints are not in the manifest.
    """
    directory = directory.expanduser().absolute()
    if not directory.is_dir():
        raise RouterInvalid(f"There is no folder {directory}.", fix=_FIX)
    root = next((d for d in (directory, *directory.parents[:2]) if (d / MANIFEST).is_file()), directory)
    manifest = read_manifest(root)
    if manifest["prompt_version"] != PROMPT_VERSION:
        raise RouterInvalid(
            f"{root} was trained with prompts of version {manifest['prompt_version']}; these are {PROMPT_VERSION}.",
            fix="train it again",
        )
    if root != directory:
        if not (directory / "config.json").is_file():
            raise RouterInvalid(f"{directory} has no weights.", fix=_FIX)
        return Located(directory, weights_sha256(directory), manifest)
    if manifest["model"] is None:
        raise RouterInvalid(f"The training in {root} has not come to its end.", fix="resume it, or name a checkpoint")
    weights = root / manifest["model"]
    found = weights_sha256(weights)
    if found != manifest["weights_sha256"]:
        raise RouterInvalid(f"The weights in {weights} are not those that were trained.", fix="copy the folder again")
    return Located(weights, found, manifest)


def weights_sha256(folder: Path) -> str:
    """Hash over all weight files of a model, in the order of their names."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        digest.update(path.name.encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def forget_optimizers(stage: Path, keep: int = 1) -> None:
    """Drop the optimizer's state of all but the newest `keep` checkpoints: one is resumed, all of them route."""
    checkpoints = sorted(stage.glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2]))
    for checkpoint in checkpoints[: len(checkpoints) - keep]:
        (checkpoint / "optimizer.pt").unlink(missing_ok=True)
