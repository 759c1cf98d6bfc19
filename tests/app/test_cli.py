"""Every command, with the console running and without it: one good call and several bad ones.

The same command must give the same answer, exit code and audit trail either way.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.console import Console, call_cli, json_of, run_cli

CATALOG = json.dumps(
    {
        "data": [
            {
                "id": f"v/m{i}",
                "canonical_slug": f"v/m{i}",
                "name": f"M {i}",
                "context_length": 100_000,
                "pricing": {"prompt": "0.000001", "completion": "0.000002"},
                "top_provider": {"context_length": 100_000},
            }
            for i in range(3)
        ]
    }
)


class Desk:
    """A home with sample data; `run` goes through the console where one runs."""

    def __init__(self, home: Path, console: Console | None, environment: dict[str, str]) -> None:
        self.home, self.console, self.environment = home, console, environment

    def json(self, *arguments: str, code: int = 0) -> Any:
        return json_of(call_cli(self.environment, *arguments, "--json"), code)

    def text(self, *arguments: str, code: int = 0) -> str:
        done = call_cli(self.environment, *arguments)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr


@pytest.fixture(scope="module", params=["without console", "with console"])
def desk(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, sample_home: Path) -> Iterator[Desk]:
    home = tmp_path_factory.mktemp("home")
    shutil.copytree(sample_home, home, dirs_exist_ok=True)
    console = Console(home, JOULEBOOK_POWER__ENABLED="false")
    if request.param == "with console":
        with console:
            yield Desk(home, console, console.environment)
        return
    yield Desk(home, None, console.environment)


def test_the_command_uses_the_console_where_one_runs(desk: Desk) -> None:
    told = desk.json("doctor")
    warehouse = next(c for c in told["checks"] if c["check"] == "warehouse")
    assert ("through the console" in warehouse["what"]) == (desk.console is not None)
    assert told["ok"], told


def test_rank_lists_the_eligible_best_first_then_the_excluded_with_reasons(desk: Desk) -> None:
    told = desk.json("rank", "--category", "coding_general", "--tier", "1", "--required-context", "1000")
    scores = [c["score"] for c in told["eligible"]]
    assert scores == sorted(scores, reverse=True)
    assert told["eligible"][0]["offer_id"] == "gemma-4-31b"
    assert all(c["reasons"] for c in told["excluded"])
    batch = desk.json(
        "rank", "--category", "coding_general", "--tier", "1", "--required-context", "1000", "--latency", "batch"
    )
    assert len(batch["eligible"]) > len(told["eligible"])
    assert "eligible, best first" in desk.text(
        "rank", "--category", "coding_general", "--tier", "1", "--required-context", "1000"
    )


def test_rank_hands_back_what_nothing_can_hold(desk: Desk) -> None:
    told = desk.json("rank", "--category", "coding_general", "--tier", "1", "--required-context", "900000000")
    assert told["eligible"] == []
    assert told["hand_back"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["rank", "--category", "no_such", "--tier", "1", "--required-context", "1"],
        ["rank", "--category", "coding_general", "--tier", "9", "--required-context", "1"],
        ["rank", "--category", "coding_general", "--tier", "1", "--required-context", "1", "--latency", "soon"],
        ["rank", "--category", "coding_general", "--tier", "1", "--required-context", "1", "--as-of", "yesterday"],
        ["rank", "--category", "coding_general", "--tier", "1", "--required-context", "1", "--as-of", "2026-01-01"],
        ["rank", "--category", "coding_general", "--tier", "1"],
        ["import", "no-such-kind", "x.json"],
        ["import", "openrouter", "/no/such/file"],
        ["import", "openrouter", "/"],
        ["import", "openrouter", "/etc/hostname", "--fetched-at", "2026-01-01T00:00:00"],
        ["import", "openrouter", "/etc/hostname", "--source", "sample:x"],
        ["ingest", "run"],
        ["recommend", "approve"],
        ["sql"],
        ["sql", "DELETE FROM core.offer"],
        ["sql", "SELECT 1; SELECT 2"],
        ["sql", "SELECT 1", "--row-cap", "0"],
        ["token", "create", "x", "--scope", "everything"],
        ["token", "create", "x"],
        ["bench", "no-such"],
        ["no-such-command"],
        ["recommend", "list", "--state", "NEARLY"],
        ["verify", "--fast"],
        ["downstream"],
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_with_2_and_says_what_is_wrong(desk: Desk, arguments: list[str]) -> None:
    told = desk.json(*arguments, code=2)
    assert told["error"]["message"]
    assert told["error"]["exit_code"] == 2
    assert "Traceback" not in desk.text(*arguments, code=2)


@pytest.mark.parametrize(
    "arguments",
    [
        ["ingest", "run", "no-such-source"],
        ["ingest", "run", "openrouter"],  # offline
        ["recommend", "show", "R-9999"],
        ["recommend", "approve", "R-9999", "--revision", "1"],
        ["recommend", "approve", "R-0001", "--revision", "999"],
        ["recommend", "rollback", "R-0001"],
        ["sql", "SELECT * FROM core.no_such_table"],
        ["sql", "SELECT 1/"],
        ["token", "revoke", "no-such-token"],
    ],
    ids=" ".join,
)
def test_what_fails_exits_with_1_or_2_and_changes_nothing(desk: Desk, arguments: list[str]) -> None:
    before = desk.json("verify")["events"]
    done = call_cli(desk.environment, *arguments, "--json")
    assert done.returncode in {1, 2}
    told = json.loads(done.stdout)
    assert told.get("error") or told.get("state") == "FAILED"
    assert desk.json("recommend", "show", "R-0001")["state"] == "READY"
    assert desk.json("verify")["events"] <= before + 1  # a refusal of a known recommendation may be on record


def test_import_counts_rows_and_the_same_file_twice_changes_nothing(desk: Desk, tmp_path: Path) -> None:
    file = tmp_path / "models.json"
    file.write_text(CATALOG)
    first = desk.json("import", "openrouter", str(file))
    assert (first["state"], first["rows_in"], first["rows_loaded"]) == ("OK", 3, 3)
    again = desk.json("import", "openrouter", str(file))
    assert (again["rows_loaded"], again["rows_unchanged"]) == (0, 3)
    file.write_text(CATALOG[:-20])
    failed = desk.json("import", "openrouter", str(file), code=1)
    assert failed["state"] == "FAILED"
    assert "file:openrouter" in failed["error"]


def test_the_typed_tables_are_rebuilt_into_a_new_file_and_nothing_is_overwritten(desk: Desk, tmp_path: Path) -> None:
    file = tmp_path / "new.duckdb"
    told = desk.json("rebuild", "--into", str(file))
    assert told["payloads"] >= 4
    assert told["failed"] == []
    assert file.exists()
    assert "exists already" in desk.json("rebuild", "--into", str(file), code=2)["error"]["message"]
    missing = desk.json("rebuild", "--into", str(tmp_path / "no" / "x.duckdb"), code=2)
    assert "There is no folder" in missing["error"]["message"]
    assert not (tmp_path / "no").exists()
    desk.json("rebuild", code=2)


def test_usage_is_repriced_beside_the_bill_and_accounts_tell_whether_they_pay(desk: Desk, tmp_path: Path) -> None:
    file = tmp_path / "mystery.jsonl"
    completion = {"id": "c-1", "object": "chat.completion", "created": int(time.time()) - 60, "model": "mystery"}
    choices = [{"index": 0, "message": {"role": "assistant", "content": "x"}, "finish_reason": "stop"}]
    file.write_text(json.dumps({**completion, "choices": choices}) + "\n")  # an unknown model, and no token counts
    assert desk.json("import", "neuralwatt-completions", str(file))["rows_loaded"] == 1
    told = desk.json("prices", "reprice", "--provider", "neuralwatt")["providers"][0]
    assert told["requests"] > 400
    assert float(told["list_usd"]) > float(told["billed_usd"]) > 0  # list price and bill are two figures
    assert (told["list_evidence_class"], told["billed_evidence_class"]) == ("modeled", "measured")
    assert told["list_is_lower_bound"]  # what has no price is not free
    assert any("mystery" in reason for reason in told["unpriced_because"])
    desk.json("prices", "reprice", "--days", "0", code=2)
    assert desk.json("charges", "accounts")["accounts"] == []
    desk.json("charges", "accounts", "--x", code=2)


def test_sources_are_listed_with_freshness(desk: Desk) -> None:
    rows = {s["source_id"]: s for s in desk.json("ingest", "list")["sources"]}
    assert rows["sample:completions"]["status"] == "fresh"
    assert rows["openrouter"]["status"] == "never"
    assert "sample:completions" in desk.text("ingest", "list")


def test_sql_reads_and_caps(desk: Desk) -> None:
    told = desk.json("sql", "SELECT count(*) AS n FROM core.usage WHERE workload = 'seed_reference'")
    assert told["rows"] == [[65]]
    assert told["as_of"].endswith("Z")
    capped = desk.json("sql", "SELECT * FROM range(100)", "--row-cap", "7")
    assert len(capped["rows"]) == 7
    assert capped["truncated"]
    plan = desk.json("sql", "SELECT 1", "--explain")
    assert plan["rows"]


def test_tokens_are_shown_once_and_can_be_revoked(desk: Desk) -> None:
    made = desk.json("token", "create", "lb", "--scope", "downstream", "--scope", "read")
    assert made["token"].startswith("jbk_")
    listed = desk.json("token", "list")["tokens"]
    mine = next(t for t in listed if t["id"] == made["id"])
    assert mine["revoked_at"] is None
    assert "token" not in mine
    desk.json("token", "revoke", made["id"])
    assert next(t for t in desk.json("token", "list")["tokens"] if t["id"] == made["id"])["revoked_at"]


def test_a_day_on_the_command_line(desk: Desk, tmp_path: Path) -> None:
    """Propose, approve, hand over, acknowledge, actuate, roll back: all of it in the ledger."""
    file = tmp_path / "routes.json"
    rows = desk.json("recommend", "list")["recommendations"]
    tier1 = next(r for r in rows if "tier 1" in r["title"])
    assert "deepseek-v4-flash" in tier1["title"]
    assert "gemma-4-31b" in tier1["title"]
    assert desk.json("recommend", "approve", tier1["id"], "--reason", "cheaper")["state"] == "APPROVED"
    told = json_of(run_cli(desk.environment, "downstream", "--apply-to", str(file), "--once", "--json"))
    assert told["applied"] == 1
    after = desk.json("recommend", "show", tier1["id"])
    assert after["state"] == "OBSERVING"
    routes = json.loads(file.read_text())["routes"]
    assert routes["coding_general/1/interactive"] == "gemma-4-31b"
    desk.json("recommend", "rollback", tier1["id"])
    told = json_of(run_cli(desk.environment, "downstream", "--apply-to", str(file), "--once", "--json"))
    assert told["rolled_back"] == 1
    assert desk.json("recommend", "show", tier1["id"])["state"] == "ROLLED_BACK"
    assert json.loads(file.read_text())["routes"]["coding_general/1/interactive"] == "deepseek-v4-flash"
    assert desk.json("verify")["ok"]
    other = next(r for r in rows if r["id"] != tier1["id"])
    assert desk.json("recommend", "dismiss", other["id"], "--reason", "not now")["state"] == "DISMISSED"


def test_sample_data_is_removed_whole_and_can_be_loaded_again(desk: Desk) -> None:
    told = desk.json("sample", "remove")
    assert told["was_loaded"]
    left = desk.json(
        "sql",
        "SELECT (SELECT count(*) FROM core.usage WHERE source_id LIKE 'sample:%') + "
        "(SELECT count(*) FROM core.offer WHERE source_id LIKE 'sample:%') AS n",
    )
    # The SQL lab reads a snapshot of up to 10 s ago and says so; wait for one that is younger.
    for _ in range(30):
        if left["rows"] == [[0]]:
            break
        time.sleep(0.5)
        left = desk.json("sql", "SELECT count(*) FROM core.usage WHERE source_id LIKE 'sample:%'")
    assert left["rows"] == [[0]]
    assert desk.json("recommend", "list")["recommendations"] == []
    assert desk.json("sample", "remove")["was_loaded"] is False
    assert desk.json("verify")["ok"]
    assert desk.json("sample", "load")["loaded"]
    assert desk.json("recommend", "list")["recommendations"]


def test_verify_fails_when_an_event_was_edited(tmp_path: Path, sample_home: Path) -> None:
    import duckdb

    home = tmp_path / "home2"
    shutil.copytree(sample_home, home)
    environment = Console(home).environment
    raw = duckdb.connect(str(home / "joulebook.duckdb"))
    raw.execute("UPDATE ledger.event SET actor = 'mallory' WHERE seq = 1")
    raw.close()
    told = json_of(run_cli(environment, "verify", "--json"), code=1)
    assert not told["ok"]
    assert "event 1" in told["problems"][0]


def test_a_corrupt_warehouse_is_named_and_left_alone(tmp_path: Path) -> None:
    home = tmp_path / "home3"
    home.mkdir()
    file = home / "joulebook.duckdb"
    file.write_bytes(b"garbage" * 5000)
    environment = Console(home).environment
    told = json_of(run_cli(environment, "verify", "--json"), code=1)
    assert "cannot be read as a warehouse" in told["error"]["message"]
    assert file.read_bytes() == b"garbage" * 5000


def test_a_wrong_configuration_exits_with_2_and_doctor_says_it_in_words(tmp_path: Path) -> None:
    home = tmp_path / "home4"
    home.mkdir()
    (home / "joulebook.toml").write_text("[server]\nport = 0\n")
    environment = Console(home).environment
    environment.pop("JOULEBOOK_PORT")
    assert "server.port" in json_of(run_cli(environment, "verify", "--json"), code=2)["error"]["message"]
    told = json_of(run_cli(environment, "doctor", "--json"), code=1)
    assert not told["ok"]
    assert "server.port" in told["checks"][0]["what"]


def test_up_refuses_another_address_until_sign_in_is_configured(tmp_path: Path) -> None:
    home = tmp_path / "home5"
    home.mkdir()
    environment = Console(home).environment
    told = json_of(run_cli(environment, "up", "--address", "0.0.0.0", "--json"), code=2)
    assert "without sign-in" in told["error"]["message"]
