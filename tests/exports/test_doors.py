"""The same export at the command line and over the API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.api import create_api
from app.cli import main
from tests.api.asgi import AsgiClient, mounted
from tests.exports.changes import mapping
from tests.exports.test_operation import TIERS, UNGATED
from tests.recommend.desks import OPERATOR, Driver, make_desk


@pytest.fixture
def driver(own_home: Path) -> Iterator[Driver]:
    """R-0001 is approved; the mapping of the home is complete."""
    made = Driver(make_desk(own_home, UNGATED + TIERS, proposed=True))
    made.send("approve")
    yield made
    made.desk.close()


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    capsys.readouterr()
    with pytest.raises(SystemExit) as stopped:
        main(["recommend", "export", "R-0001", *words])
    out, err = capsys.readouterr()
    return int(stopped.value.code or 0), out, err


def test_the_command_line_prints_or_writes_both_documents_and_the_manifest(
    driver: Driver, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    driver.desk.close()
    given = own_home / "map.json"
    said = mapping()
    for offer in said["offers"].values():
        offer["logical_model"] = "gemma"
    given.write_text(json.dumps(said))
    code, out, _ = run(capsys, "--format", "gateway-api", "--map", str(given))
    assert code == 0 and "kind: HTTPRoute" in out and out.count("# ---- R-0001-full-gateway-api-chat.") == 2
    code, out, _ = run(capsys, "--format", "gateway-api", "--map", str(given), "--out", str(own_home / "out"), "--json")
    told = json.loads(out)
    assert code == 0 and [Path(p).name for p in told["written"]] == [
        "R-0001-full-gateway-api-chat.apply.yaml",
        "R-0001-full-gateway-api-chat.rollback.yaml",
        "R-0001-full-gateway-api.manifest.json",
    ]
    for path, file in zip(told["written"], told["files"], strict=True):
        assert Path(path).read_text() == file["text"]


def test_the_command_line_says_what_to_write_where_the_mapping_is_missing(
    driver: Driver, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    driver.desk.close()
    code, out, _ = run(capsys, "--format", "envoy", "--json")
    problem = json.loads(out)["error"]
    assert code == problem["exit_code"] == 2 and "exports.toml" in problem["fix"]
    code, _, err = run(capsys, "--format", "envoy", "--map", str(own_home / "none.toml"))
    assert code == 2 and "none.toml" in err.replace("\n", "")
    code, out, _ = run(capsys, "--format", "routing-table", "--stage", "canary", "--json")
    assert code == 2 and "no stage 'canary'" in json.loads(out)["error"]["message"]


def test_a_path_that_cannot_be_written_is_an_error_in_words(
    driver: Driver, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    driver.desk.close()
    (own_home / "file").write_text("")
    code, _, err = run(capsys, "--format", "routing-table", "--out", str(own_home / "file"))
    assert code == 2 and "is a file" in err.replace("\n", " ")
    code, _, err = run(capsys, "--format", "routing-table", "--out", str(own_home / "file" / "below"))
    assert code == 1 and "could not be written" in err.replace("\n", " ")
    assert (own_home / "file").read_text() == ""


def test_the_api_gives_the_same_documents_to_a_reader(driver: Driver) -> None:
    token = driver.call("token.create", {"name": "gitops", "scopes": ["read"]}, OPERATOR)["token"]
    client = AsgiClient(mounted(create_api(lambda: driver.desk, lambda: "s")), token)
    address = "/api/v1/recommendations/R-0001/export"
    told: dict[str, Any] = client.get(address, params={"format": "routing-table"}).json()
    direct = driver.call("recommend.export", {"id": "R-0001", "format": "routing-table"})
    assert [f["text"] for f in told["files"][:2]] == [f["text"] for f in direct["files"][:2]]
    assert client.get(address, params={"format": "nginx"}).status_code == 422
    assert client.get(address, params={"format": "envoy"}).json()["fix"].startswith("write exports.toml")
    held = client.get(address, params={"format": "routing-table", "stage": "none"})
    assert held.status_code == 422 and "no stage" in held.json()["detail"]
    driver.send("rollback")
    assert client.get(address, params={"format": "routing-table"}).status_code == 409
    assert AsgiClient(mounted(create_api(lambda: driver.desk, lambda: "s"))).get(address).status_code == 401
