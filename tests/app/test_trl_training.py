"""Training of the language-model router, as far as it goes without PyTorch; the rest is `make test-trl`."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.trl_training import TrainSettings, environment, load_policy, train_router
from app.trl_training.environment import weights_folder
from app.trl_training.files import read_training_set, write_training_set
from app.trl_training.folder import FORMAT, forget_optimizers, locate, weights_sha256, write_manifest
from app.trl_training.meter import Meter
from ingest.errors import DeviceLost, NoDriver
from ingest.power.sensors import DeviceInfo, Reading
from policies.replay.errors import RouterInvalid, TrainerUnavailable, WeightsMissing
from policies.replay.trl.data import training_set
from policies.replay.trl.prompts import PROMPT_VERSION
from tests.replay.trl.test_data import GSM8K, table
from warehouse.evidence import EvidenceClass


@pytest.fixture
def without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine without the extra, whatever this one has."""

    def refuse(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(environment, "importlib", SimpleNamespace(import_module=refuse))


def test_without_the_extra_training_and_routing_name_it(without_torch: None, tmp_path: Path) -> None:
    for asked in (
        lambda: train_router(training_set(table(*GSM8K)), TrainSettings(), tmp_path / "out"),
        lambda: load_policy(tmp_path),
    ):
        with pytest.raises(TrainerUnavailable, match="needs torch, which is not installed") as told:
            asked()
        assert told.value.fix == "pip install joulebook[trl]"
    assert not (tmp_path / "out").exists()


def test_the_defaults_are_those_of_the_papers() -> None:
    told = TrainSettings()
    assert told.model == "Qwen/Qwen2.5-1.5B-Instruct"
    assert told.rl_steps == 1500
    assert (told.beta, told.rl_learning_rate) == (0.04, 1e-6)  # arXiv 2402.03300, section 4.2
    assert not told.download, "no hub is asked unless somebody says so"


def test_a_run_of_no_stage_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RouterInvalid, match="Neither"):
        train_router(training_set(table(*GSM8K)), TrainSettings(sft_epochs=0, rl_steps=0), tmp_path)


def test_weights_are_a_folder_with_a_config(tmp_path: Path) -> None:
    with pytest.raises(WeightsMissing, match=r"has no config\.json"):
        weights_folder(TrainSettings(model=str(tmp_path)))
    (tmp_path / "config.json").write_text("{}")
    assert weights_folder(TrainSettings(model=str(tmp_path))) == tmp_path


def test_a_training_set_travels_as_a_file(tmp_path: Path) -> None:
    data = training_set(table(*GSM8K, ["half a character: \ud800"]))
    write_training_set(data, tmp_path / "toy.jsonl")
    assert read_training_set(tmp_path / "toy.jsonl") == data
    with pytest.raises(RouterInvalid, match="cannot be read"):
        read_training_set(tmp_path / "none.jsonl")


# the folder of a router ------------------------------------------------------------------------


def router_folder(root: Path, **changes: Any) -> Path:
    model = root / "grpo" / "model"
    for folder in (model, root / "grpo" / "checkpoint-500"):
        folder.mkdir(parents=True)
        (folder / "config.json").write_text("{}")
        (folder / "model.safetensors").write_bytes(folder.name.encode())
    manifest = {
        "format": FORMAT,
        "prompt_version": PROMPT_VERSION,
        "model": "grpo/model",
        "weights_sha256": weights_sha256(model),
    }
    write_manifest(root, manifest | changes)
    return root


def test_a_router_is_its_folder_or_one_of_its_checkpoints(tmp_path: Path) -> None:
    root = router_folder(tmp_path)
    assert locate(root).weights == root / "grpo" / "model"
    found = locate(root / "grpo" / "checkpoint-500")
    assert found.weights == root / "grpo" / "checkpoint-500"
    assert found.sha256 == weights_sha256(found.weights) != locate(root).sha256


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": None}, "has not come to its end"),
        ({"weights_sha256": "0"}, "not those that were trained"),
        ({"prompt_version": 0}, "prompts of version 0"),
        ({"format": "other"}, "cannot be read: format 'other'"),
    ],
)
def test_a_folder_that_is_not_what_it_says_is_refused(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(RouterInvalid, match=words):
        locate(router_folder(tmp_path, **changes))


def test_a_folder_without_a_router_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RouterInvalid, match="There is no folder"):
        locate(tmp_path / "none")
    with pytest.raises(RouterInvalid, match="holds no trained router"):
        locate(tmp_path)
    (tmp_path / "router.json").write_text("[")
    with pytest.raises(RouterInvalid, match="cannot be read"):
        locate(tmp_path)
    root = router_folder(tmp_path / "router")
    with pytest.raises(RouterInvalid, match="has no weights"):
        locate(root / "grpo")


def test_a_manifest_is_replaced_whole(tmp_path: Path) -> None:
    write_manifest(tmp_path, {"a": 1})
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_manifest(tmp_path, {"a": float("nan")})
    assert json.loads((tmp_path / "router.json").read_text()) == {"a": 1}


def test_the_newest_checkpoint_by_number_keeps_its_optimizer(tmp_path: Path) -> None:
    for step in (250, 500, 1000):
        (tmp_path / f"checkpoint-{step}").mkdir()
        (tmp_path / f"checkpoint-{step}" / "optimizer.pt").touch()
    forget_optimizers(tmp_path)
    assert [path.parent.name for path in tmp_path.glob("*/optimizer.pt")] == ["checkpoint-1000"]
    forget_optimizers(tmp_path, keep=0)
    assert not list(tmp_path.glob("*/optimizer.pt"))


# energy of a training run --------------------------------------------------------------------------


class Board:
    """An NVML session with one board, whose counter reads what it is given."""

    def __init__(self, *counters_mj: int | Exception | None, opens: Exception | None = None) -> None:
        self.counters, self.opens, self.closed = list(counters_mj), opens, False

    def open(self) -> tuple[DeviceInfo, ...]:
        if self.opens is not None:
            raise self.opens
        return (DeviceInfo(uuid="GPU-11-22"),)

    def read(self, uuid: str) -> Reading:
        assert uuid == "GPU-11-22"
        told = self.counters.pop(0)
        if isinstance(told, Exception):
            raise told
        return Reading(told, "", None, "unavailable", "")

    def close(self) -> None:
        self.closed = True


def measured(board: Board, uuid: str | None = "11-22") -> Any:
    with (meter := Meter(uuid, lambda: board)):  # type: ignore[arg-type,return-value]
        pass
    return meter.energy


def test_the_energy_of_a_run_is_the_difference_of_the_boards_counter() -> None:
    board = Board(5_000, 1_205_000)
    told = measured(board)
    assert (told.energy_j, told.evidence_class) == (1200.0, EvidenceClass.MEASURED)
    assert board.closed


@pytest.mark.parametrize(
    ("board", "uuid", "why"),
    [
        (Board(), None, "no GPU"),
        (Board(), "33-44", "does not list"),
        (Board(None), "11-22", "has no energy counter"),
        (Board(9, 5), "11-22", "was reset"),
        (Board(9, None), "11-22", "was reset"),
        (Board(9, DeviceLost("it fell off the bus")), "11-22", "fell off the bus"),
        (Board(opens=NoDriver("no NVIDIA driver")), "11-22", "no NVIDIA driver"),
    ],
)
def test_energy_that_cannot_be_read_is_unknown_with_the_reason(board: Board, uuid: str | None, why: str) -> None:
    told = measured(board, uuid)
    assert (told.energy_j, told.evidence_class) == (None, None)
    assert why in told.method


def test_a_run_that_fails_leaves_its_energy_behind() -> None:
    meter = Meter("11-22", lambda: Board(0, 7_000))  # type: ignore[arg-type,return-value]
    with pytest.raises(ZeroDivisionError), meter:
        _ = 1 / 0
    assert meter.energy.energy_j == 7.0
