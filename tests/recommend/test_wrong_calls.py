"""A wrong call is answered with the thing, the value, what is allowed and the fix; and writes over no file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.cli import main
from app.downstream_cli import TOKEN_VARIABLE
from tests.recommend.desks import make_desk
from tests.recommend.test_cli_commands import cli


@pytest.fixture
def home(own_home: Path) -> Path:
    make_desk(own_home, "[policy]\ntiers = {old = 1, new = 1}\n", proposed=True).close()
    return own_home


@pytest.mark.parametrize(
    ("call", "said", "fix"),
    [
        ("recommend approve R-0001 --revision x", "'--revision': Input should be a valid integer", "recommend approve"),
        ("recommend approve R-0001 --revision x", "not 'x'", "see `joulebook recommend approve --help`"),
        ("recommend approve R-0001 --revision 0", "greater than or equal to 1, not '0'", "recommend approve --help"),
        ("recommend judge --bogus", "No such option: --bogus", "see `joulebook recommend judge --help`"),
        ("recommend judge a b", "unexpected extra argument(s) (b)", "see `joulebook recommend judge --help`"),
        ("recommend show", "Missing argument 'id'", "see `joulebook recommend show --help`"),
        ("recommend acept R-0001", "No such command 'acept'", "use one of approve, dismiss, export,"),
        ("recomend", "No such command 'recomend'", "token, up, verify; see `joulebook --help`"),
        ("recommend list --state NEARLY", "'REJECTED_BY_TARGET', not 'NEARLY'", "correct the named fields"),
        ("recommend export R-0001 --format yaml", "'litellm' or 'envoy', not 'yaml'", "correct the named fields"),
        ("recommend shadow R-0001 --margin success_margin=7", "less than 1, not 7", "use success_margin, slo_s,"),
        ("recommend shadow R-0001 --margin slo_s=soon", "not 'soon'", "use success_margin, slo_s,"),
        ("token create x --scope all", "'downstream' or 'operator', not 'all'", "correct the named fields"),
        ("shadow pairs /etc/hostname --source a/b", "source: String should match pattern", "correct the named fields"),
        ("shadow pairs /etc/hostname --source a/b", "not 'a/b'", "correct the named fields"),
        ("audit export x.jsonl --since 99", "There is no event 99: the ledger ends at 1", "joulebook verify"),
        ("downstream --apply-to . --once", ". is a folder", "name the routing table file in it"),
        ("downstream --apply-to t.json --once --url ftp://desk", "'ftp://desk' is no address", "http://HOST:PORT"),
        ("downstream --apply-to t.json --once --url desk:8000", "'desk:8000' is no address", "http://HOST:PORT"),
        (
            "downstream --apply-to t.json --once --url http://desk:x",
            "'http://desk:x' is no address",
            "http://HOST:PORT",
        ),
    ],
)
def test_a_wrong_call_names_what_is_wrong_and_what_is_right(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, call: str, said: str, fix: str
) -> None:
    monkeypatch.chdir(home)
    monkeypatch.setenv(TOKEN_VARIABLE, "jbk_something")
    code, told = cli(capsys, *call.split())
    assert code == 2
    assert said in told["error"]["message"] and fix in told["error"]["fix"]


def test_no_command_is_answered_with_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["token"])
    assert ended.value.code == 2
    shown = capsys.readouterr()
    assert "Revoke an API token." in shown.out
    assert "No command is named." in shown.err and "create, list, revoke" in shown.err


@pytest.mark.parametrize("text", ["root:x:0:0\n", '{"routes": {}}\n', "\x00\x01DUCK", '{"head": {"seq": 1}}\n'])
@pytest.mark.parametrize("command", ["export", "anchor"])
def test_a_file_of_something_else_is_not_written_over(
    home: Path, capsys: pytest.CaptureFixture[str], command: str, text: str
) -> None:
    file = home / "other"
    file.write_text(text)
    code, told = cli(capsys, "audit", command, str(file))
    assert code == 2 and f"{file}" in told["error"]["message"] and told["error"]["fix"].startswith("name a ")
    assert file.read_text() == text
    warehouse = (home / "joulebook.duckdb").read_bytes()
    assert cli(capsys, "audit", command, str(home / "joulebook.duckdb"))[0] == 2
    assert (home / "joulebook.duckdb").read_bytes() == warehouse


def test_an_export_and_an_empty_file_are_written_over_and_anchors_added_to(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = home / "trail.jsonl"
    file.touch()
    for since in (0, 1, 0):  # the second has no event, only the head
        assert cli(capsys, "audit", "export", str(file), "--since", str(since))[0] == 0
    assert [set(json.loads(line)) >= {"hash"} for line in file.read_text().splitlines()] == [True, False]
    heads = home / "heads.jsonl"
    heads.touch()
    for lines in (1, 2):
        assert cli(capsys, "audit", "anchor", str(heads))[0] == 0
        assert len(heads.read_text().splitlines()) == lines


def test_a_folder_for_an_export_that_is_a_file_is_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("recommend", "export", "R-0001", "--format", "routing-table", "--draft", "--out")
    code, told = cli(capsys, *arguments, str(home / "joulebook.toml"))
    assert code == 2 and told["error"]["message"] == f"{home / 'joulebook.toml'} is a file."
