"""The command line of the lifecycle: the same commands, in words and as JSON, with their exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.cli import main
from tests.recommend.desks import make_desk

CONFIG = """[policy]
tiers = {old = 1, new = 1}
[environments.local]
auto_shadow = false
self_approval = true
[guardrails]
targets = ["lb-eu"]
"""


@pytest.fixture
def home(own_home: Path) -> Path:
    make_desk(own_home, CONFIG, proposed=True).close()
    return own_home


def cli(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--json"])
    return int(ended.value.code or 0), json.loads(capsys.readouterr().out)


def text(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit):
        main([*arguments])
    return capsys.readouterr().out


def test_shadow_judge_promote_measure_and_savings_from_the_command_line(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, told = cli(capsys, "recommend", "shadow", "R-0001", "--margin", "success_margin=0.01", "--margin", "slo_s=2")
    assert (code, told["state"]) == (0, "SHADOWING")
    assert (told["margins"]["margins"]["success_margin"], told["margins"]["margins"]["slo_s"]) == (0.01, 2.0)
    for wrong, said in (("success_margin", "is not NAME=VALUE"), ("nonsense=1", "nonsense"), ("slo_s=soon", "slo_s")):
        code, told = cli(capsys, "recommend", "shadow", "R-0001", "--margin", wrong)
        assert code == 2 and said in told["error"]["message"]
    assert cli(capsys, "recommend", "judge", "R-0001") == (0, {"judged": {}})
    code, told = cli(capsys, "recommend", "promote", "R-0001")
    assert code == 1 and "only OBSERVING can be promoted" in told["error"]["message"]
    assert cli(capsys, "recommend", "measure") == (0, {"measured": []})
    assert cli(capsys, "recommend", "measure", "R-0404")[0] == 1
    code, told = cli(capsys, "recommend", "savings")
    assert (code, told["changes"]) == (0, [])
    assert "nothing is being observed" in text(capsys, "recommend", "measure")
    assert "SHADOWING rev" in text(capsys, "recommend", "show", "R-0001")


def test_a_token_is_bound_from_the_command_line_and_the_list_says_to_what(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, told = cli(capsys, "token", "create", "eu", "--scope", "downstream", "--target", "lb-eu")
    assert (code, told["targets"]) == (0, ["lb-eu"])
    assert cli(capsys, "token", "create", "x", "--scope", "downstream", "--target", "lb-asia")[0] == 2
    assert "lb-eu" in text(capsys, "token", "list")
