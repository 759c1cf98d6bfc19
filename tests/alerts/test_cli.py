"""`joulebook alerts`: list, ack and test, as text and as one JSON document, with honest exit codes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.alerts.desks import catalog, lose_gpu, make_desk
from tests.alerts.receiver import receiving
from tests.e2e.console import call_cli, json_of


@pytest.fixture
def environment(own_home: Path) -> dict[str, str]:
    desk = make_desk(own_home)
    lose_gpu(desk)
    desk.close()
    return {**os.environ, "JOULEBOOK_HOME": str(own_home)}


def test_list_shows_what_is_wrong_and_json_says_the_same(environment: dict[str, str]) -> None:
    done = call_cli(environment, "alerts", "list")
    assert done.returncode == 0
    assert "⬡ bad" in done.stdout
    assert "H100 GPU-1 of n1 is lost since" in done.stdout
    told = json_of(call_cli(environment, "alerts", "list", "--json"))
    assert [a["kind"] for a in told["alerts"]] == ["gpu_lost"]
    assert told["alerts"][0]["id"][:12] in done.stdout


def test_ack_takes_the_first_characters_of_an_id(environment: dict[str, str]) -> None:
    alert = json_of(call_cli(environment, "alerts", "list", "--json"))["alerts"][0]
    done = call_cli(environment, "alerts", "ack", alert["id"][:12], "--reason", "in the mail")
    assert done.returncode == 0, done.stderr
    assert "acknowledged by" in done.stdout
    told = json_of(call_cli(environment, "alerts", "ack", alert["id"][:12], "--version", "1", "--json"))
    assert told["state"] == "acknowledged"
    assert json_of(call_cli(environment, "verify", "--json"))["ok"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["ack", "0" * 12], 1),
        (["ack", "abc"], 1),
        (["ack", "0" * 12, "--version", "1"], 1),
        (["ack", "abc", "--version", "1"], 2),
        (["ack"], 2),
        (["ack", "0" * 12, "--version", "0"], 2),
        (["list", "--surprise"], 2),
        ([], 2),
    ],
    ids=str,
)
def test_wrong_calls_are_told_in_words(environment: dict[str, str], arguments: list[str], code: int) -> None:
    done = call_cli(environment, "alerts", *arguments)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_a_test_without_a_channel_fails_and_says_what_to_set(environment: dict[str, str]) -> None:
    done = call_cli(environment, "alerts", "test")
    assert done.returncode == 1
    assert "No channel is configured" in done.stderr
    assert json_of(call_cli(environment, "alerts", "test", "--json"), 1) == {"ok": False, "channels": []}


def test_a_test_reports_each_channel(environment: dict[str, str], own_home: Path) -> None:
    with receiving(200) as receiver:
        (own_home / "joulebook.toml").write_text(f'[alerts]\nwebhook_url = "{receiver.url}"\n')
        done = call_cli(environment, "alerts", "test")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "the test message was taken" in done.stdout
        assert json.loads(receiver.got[0].body)["event"] == "test"
    told = json_of(call_cli(environment, "alerts", "test", "--json"), 1)
    assert told["channels"][0]["what"].startswith("No connection to ")


def test_an_import_that_raises_an_alert_still_prints_one_json_document(
    environment: dict[str, str], tmp_path: Path
) -> None:
    for day, usd in (("01", "0.000001"), ("02", "0.000005")):
        file = catalog(tmp_path / f"{day}.json", usd)
        done = call_cli(
            environment, "import", "openrouter", str(file), "--fetched-at", f"2025-11-{day}T00:00:00Z", "--json"
        )
        assert json_of(done)["state"] == "OK"
    kinds = [a["kind"] for a in json_of(call_cli(environment, "alerts", "list", "--json"))["alerts"]]
    assert "price_change" in kinds


def test_without_a_console_the_list_says_that_nothing_is_sent_for_now(
    environment: dict[str, str], own_home: Path
) -> None:
    (own_home / "joulebook.toml").write_text('[alerts]\nwebhook_url = "http://127.0.0.1:9/x"\n')
    told = json_of(call_cli(environment, "alerts", "list", "--json"))["channels"][0]
    assert (told["state"], told["waiting"]) == ("stopped", 1)
    assert "no console is running" in told["error"]
