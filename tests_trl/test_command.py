"""`python -m app.trl_training`: training on a machine that has no warehouse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.trl_training.__main__ import main
from app.trl_training.files import write_training_set
from policies.replay.trl.data import training_set
from tests_trl.conftest import Trained, quick
from tests_trl.toy import ARMS, toy_table


def call(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr("sys.argv", ["trl_training", *words])
    try:
        return main()
    except SystemExit as left:
        return int(left.code or 0)


def test_a_training_set_from_a_file_trains_the_router_that_the_table_trains(
    warm: Trained, weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    write_training_set(training_set(toy_table().train()), tmp_path / "toy.jsonl")
    settings = quick(weights, sft_epochs=2).model_dump(exclude_none=True)
    words = [f"--set={name}={value}" for name, value in settings.items()]
    assert call(monkeypatch, "train", str(tmp_path / "toy.jsonl"), "--out", str(tmp_path / "out"), *words) == 0
    told = capfd.readouterr()
    assert json.loads(told.out)["weights_sha256"] == warm.manifest["weights_sha256"]
    assert "SFT step 24 of 24: loss" in told.err


def test_a_router_is_asked_about_one_query(
    supervised: Trained, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ("route", str(supervised.out), "please translate kindly number 9", "--device", "cpu")
    assert call(monkeypatch, *words) == 0
    told = json.loads(capfd.readouterr().out)
    assert told["arm"] == "large"
    assert set(told["log_likelihood"]) == set(ARMS)


def test_what_is_wrong_is_told_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "route", str(tmp_path), "hello") == 2
    assert "holds no trained router" in capfd.readouterr().err
    assert call(monkeypatch, "train", "x", "--out", "y", "--set", "rl_group=1") == 2
    assert "rl_group" in capfd.readouterr().err
