"""A training set leaves the desk as a file: labels from the cheapest correct arm, nothing that is held out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.desk import Desk, local_operator, open_desk
from app.errors import BadRequest, Forbidden
from app.operations import Actor, call
from app.settings import load_settings
from app.trl_training.__main__ import main
from app.trl_training.files import read_training_set

ME = local_operator("cli")


def outcomes(path: Path) -> Path:
    """Ten queries by two arms; the small one fails each third, q8 and q9 are held out."""
    lines = ["dataset,query_id,arm,correct,split,energy_j,evidence_class,text"]
    for i in range(10):
        split = "test" if i > 7 else "train"
        lines.append(f"ours,q{i},small,{int(i % 3 != 0)},{split},10,measured,question {i}")
        lines.append(f"ours,q{i},large,1,{split},100,measured,question {i}")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def desk(own_home: Path, tmp_path: Path) -> Iterator[Desk]:
    (own_home / "joulebook.toml").write_text("offline = true\n")
    opened = open_desk(load_settings())
    call(opened, "import", {"kind": "outcomes", "path": str(outcomes(tmp_path / "ours.csv"))}, ME)
    yield opened
    opened.close()


def test_the_training_part_is_written_with_labels_rewards_and_counts(desk: Desk, tmp_path: Path) -> None:
    path = tmp_path / "ours.jsonl"
    told: dict[str, Any] = call(desk, "replay.training_set", {"dataset": "ours", "path": str(path)}, ME)
    data = read_training_set(path)
    assert (told["sha256"], told["evidence_class"]) == (data.sha256, "measured")
    assert told["counts"]["used"] == 8
    small, large = data.arms.index("small"), data.arms.index("large")
    assert [e.label for e in data.examples] == [large if i % 3 == 0 else small for i in range(8)]
    assert data.examples[1].reward[large] == pytest.approx(2 - 0.4)
    assert "question 8" not in path.read_text()


def test_the_command_writes_the_same_file_and_tells_what_is_wrong(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    call(
        desk,
        "replay.training_set",
        {"dataset": "ours", "path": str(tmp_path / "a.jsonl"), "arms": ["small", "large"]},
        ME,
    )
    desk.close()

    def run(*words: str) -> int:
        monkeypatch.setattr("sys.argv", ["trl_training", "export", *words])
        try:
            return main()
        except SystemExit as left:
            return int(left.code or 0)

    assert run("ours", str(tmp_path / "b.jsonl"), "--set", "arms=small,large") == 0
    assert json.loads(capfd.readouterr().out)["counts"]["queries"] == 8
    assert (tmp_path / "b.jsonl").read_text() == (tmp_path / "a.jsonl").read_text()
    assert run("nobodys", str(tmp_path / "c.jsonl")) == 2
    assert "nobodys" in capfd.readouterr().err


def test_only_the_local_user_writes_files(desk: Desk, tmp_path: Path) -> None:
    remote = Actor("api", "operator", "api", frozenset({"read", "operator"}))
    with pytest.raises(Forbidden):
        call(desk, "replay.training_set", {"dataset": "ours", "path": str(tmp_path / "x")}, remote)
    with pytest.raises(BadRequest, match="cannot be written"):
        call(desk, "replay.training_set", {"dataset": "ours", "path": str(tmp_path)}, ME)
