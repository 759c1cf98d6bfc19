"""A training run from start to end, and a trained router as a policy of the lab."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from app.trl_training.environment import check_device, require, require_for_routing, versions, weights_folder
from app.trl_training.folder import (
    FORMAT,
    MANIFEST,
    forget_optimizers,
    locate,
    read_manifest,
    weights_sha256,
    write_manifest,
)
from app.trl_training.meter import Meter
from app.trl_training.settings import TrainSettings
from policies.replay.errors import RouterInvalid
from policies.replay.policy import About
from policies.replay.trl.data import TrainingSet
from policies.replay.trl.router import TrainedRouter
from warehouse.clock import iso, utcnow

_ACCOUNT = ("training_s", "training_energy_j", "training_energy_class", "training_energy_method")
_FREE = {"device", "download", "log_steps"}  # may change when a run is resumed


def train_router(
    data: TrainingSet,
    settings: TrainSettings,
    out: Path,
    *,
    resume: bool = False,
    report: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Train a router into the folder `out` and give its manifest, which is plain JSON data.

    With `resume` an interrupted run goes on from its last checkpoint, and a finished one is given as it is.
    Raises TrainerUnavailable, WeightsMissing, and RouterInvalid for a folder that holds something else.
    """
    if not settings.sft_epochs and not settings.rl_steps:
        raise RouterInvalid("Neither epochs of SFT nor steps of GRPO are asked for.", fix="set one above 0")
    require()
    check_device(settings.device)
    _quiet()
    manifest = _begin(data, settings, out, resume)
    if manifest["model"] is not None:
        return manifest
    part: dict[str, Any] = {"started_at": iso(utcnow()), "training_s": None, "energy_j": None}
    manifest["parts"].append(part)
    write_manifest(out, manifest)
    started = time.monotonic()
    meter = Meter(_board(settings.device))
    try:
        with meter:
            _stages(data, settings, out, manifest, report)
    finally:
        energy = meter.energy
        part |= {"training_s": time.monotonic() - started, "energy_j": energy.energy_j, "method": energy.method}
        part["energy_class"] = None if energy.evidence_class is None else energy.evidence_class.value
        write_manifest(out, manifest)
    return _finish(out, manifest)


def _begin(data: TrainingSet, settings: TrainSettings, out: Path, resume: bool) -> dict[str, Any]:
    """The manifest of a new run, or of the one that is resumed."""
    if (out / MANIFEST).is_file():
        manifest = read_manifest(out)
        if not resume:
            raise RouterInvalid(f"{out} holds a router already.", fix="resume it, or name another folder")
        _refuse_changes(manifest, data, settings, out)
        return manifest
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RouterInvalid(f"{out} is there and holds no router.", fix="name a new folder")
    weights = weights_folder(settings)
    out.mkdir(parents=True, exist_ok=True)
    return {
        "format": FORMAT,
        "prompt_version": data.prompt_version,
        "dataset": data.dataset,
        "table_sha256": data.table_sha256,
        "data_sha256": data.sha256,
        "arms": list(data.arms),
        "supervised": asdict(data.supervised),
        "reinforced": asdict(data.reinforced),
        "max_chars": data.max_chars,
        "counts": asdict(data.counts),
        "trained_on": [example.key for example in data.examples],
        "settings": settings.model_dump(),
        "versions": versions(),
        "base": str(weights),
        "base_sha256": weights_sha256(weights),
        "stages": {},
        "parts": [],
        "model": None,
        "weights_sha256": None,
    }


def _refuse_changes(manifest: dict[str, Any], data: TrainingSet, settings: TrainSettings, out: Path) -> None:
    if manifest["data_sha256"] != data.sha256:
        raise RouterInvalid(f"{out} was trained on other data.", fix="resume with the same data, or name a new folder")
    told = settings.model_dump()
    changed = sorted(name for name, was in manifest["settings"].items() if name not in _FREE and told[name] != was)
    if changed:
        was = ", ".join(f"{name} was {manifest['settings'][name]!r}" for name in changed)
        raise RouterInvalid(f"{out} was begun with other settings: {was}.", fix="resume with the same settings")


def _stages(
    data: TrainingSet, settings: TrainSettings, out: Path, manifest: dict[str, Any], report: Callable[[str], None]
) -> None:
    """Run what is not done yet, each stage from the model of the one before."""
    from app.trl_training.stages import reinforce, supervise

    weights = Path(manifest["base"])
    for name, wanted, train in (("sft", settings.sft_epochs, supervise), ("grpo", settings.rl_steps, reinforce)):
        if not wanted:
            continue
        if name not in manifest["stages"]:
            manifest["stages"][name] = asdict(train(data, weights, out / name, settings, report))
            write_manifest(out, manifest)
            forget_optimizers(out / name, keep=0)
        weights = out / name / "model"


def _finish(out: Path, manifest: dict[str, Any]) -> dict[str, Any]:
    model = f"{list(manifest['stages'])[-1]}/model"
    manifest |= {"model": model, "weights_sha256": weights_sha256(out / model), "finished_at": iso(utcnow())}
    manifest |= _totals(manifest["parts"])
    write_manifest(out, manifest)
    return manifest


def _totals(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Time and energy over all parts; unknown where one of them is, such as a part that was killed."""
    seconds, joules = [part["training_s"] for part in parts], [part["energy_j"] for part in parts]
    killed = "a part of the training was killed before it could be read"
    known = None not in joules
    return {
        "training_s": None if None in seconds else sum(seconds),
        "training_energy_j": sum(joules) if known else None,
        "training_energy_class": parts[-1]["energy_class"] if known else None,
        "training_energy_method": killed if None in seconds else parts[-1]["method"],
    }


def _board(device: str) -> str | None:
    """The UUID of the GPU that PyTorch trains on."""
    if device != "cuda":
        return None
    import torch

    return str(torch.cuda.get_device_properties(torch.cuda.current_device()).uuid)


def _quiet() -> None:
    import datasets
    from transformers.utils import logging

    datasets.disable_progress_bars()
    logging.disable_progress_bar()


def load_policy(directory: Path, device: str = "auto") -> TrainedRouter:
    """The policy `trl:<directory>`: a router's folder, or one of its checkpoints such as grpo/checkpoint-500.

    Raises TrainerUnavailable without the extra, RouterInvalid for a folder that holds no router.
    """
    require_for_routing()
    from app.trl_training.scorer import TorchScorer

    found = locate(directory)
    manifest, settings = found.manifest, found.manifest["settings"]
    about = About(
        name=f"trl:{directory}",
        family="language model (TRL)",
        note="scores the label of each arm; its own energy is not in the answers' joules",
        parameters={
            "model": settings["model"],
            "beta": settings["beta"],
            "lambda_sft": manifest["supervised"]["energy"],
            "lambda_rl": manifest["reinforced"]["energy"],
            "rl_steps": settings["rl_steps"],
            "seed": settings["seed"],
            "weights_sha256": found.sha256,
            "trained_on": manifest["dataset"],
        },
    )
    scorer = TorchScorer(found.weights, len(manifest["arms"]), device)
    whole = found.sha256 == manifest["weights_sha256"]  # the account is of the whole run, not of a checkpoint
    notes = {name: manifest[name] if whole else None for name in _ACCOUNT}
    return TrainedRouter(
        about, tuple(manifest["arms"]), scorer, manifest["max_chars"], frozenset(manifest["trained_on"]), notes
    )
