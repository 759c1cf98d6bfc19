"""The reference downstream against a real server: it closes the loop, and survives being killed at any step."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from app import downstream, downstream_table
from app.downstream import HttpDoor, OperationDoor
from app.downstream_table import TableNotWritten, TableRefused, changed_table, check_command
from app.errors import ConsoleUnreachable, Unauthenticated
from tests.api.conftest import Api, wait_for
from tests.recommend.desks import ROUTER
from warehouse import ledger
from warehouse.ids import content_hash

KEY = "debugging/1/interactive"


def run_once(url: str, api: Api, path: Path, **options: Any) -> dict[str, int]:
    return downstream.run(url, api.tokens["downstream"], path, once=True, **options).to_dict()


def test_the_loop_closes_and_opens_again_on_one_machine(api: Api, url: str, tmp_path: Path) -> None:
    path = tmp_path / "routes.json"
    api.driver.send("approve")
    assert run_once(url, api, path) == {"applied": 1, "rolled_back": 0, "refused": 0, "overtaken": 0}
    assert json.loads(path.read_text())["routes"][KEY] == "new"
    assert api.driver.show()["state"] == "OBSERVING"
    api.driver.send("rollback")
    assert run_once(url, api, path)["rolled_back"] == 1
    assert json.loads(path.read_text())["routes"][KEY] == "old"
    assert api.driver.show()["state"] == "ROLLED_BACK"
    assert run_once(url, api, path) == {"applied": 0, "rolled_back": 0, "refused": 0, "overtaken": 0}
    assert ledger.verify(api.desk.warehouse).ok


def test_it_keeps_polling_until_it_is_told_to_stop(api: Api, url: str, tmp_path: Path) -> None:
    path, stop = tmp_path / "routes.json", threading.Event()
    thread = threading.Thread(
        target=downstream.run,
        args=(url, api.tokens["downstream"], path),
        kwargs={"poll_s": 0.05, "stop_event": stop},
    )
    thread.start()
    try:
        api.driver.send("approve")
        wait_for(lambda: api.driver.show()["state"] == "OBSERVING")
        api.driver.send("rollback")
        wait_for(lambda: api.driver.show()["state"] == "ROLLED_BACK")
    finally:
        stop.set()
        thread.join(20)
    assert not thread.is_alive()


def test_the_rest_of_the_file_stays_and_the_rollback_restores_it_to_the_byte(
    api: Api, url: str, tmp_path: Path
) -> None:
    path = tmp_path / "routes.json"
    routes = {**api.driver.call("routing.table")["routes"], "my_own_route": "mine"}
    before = json.dumps({"comment": "ours", "routes": routes, "retries": 3}, indent=2) + "\n"
    path.write_text(before)
    path.chmod(0o640)
    api.driver.send("approve")
    run_once(url, api, path)
    told = json.loads(path.read_text())
    assert (told["comment"], told["retries"], told["routes"]["my_own_route"]) == ("ours", 3, "mine")
    assert told["routes"][KEY] == "new"
    assert path.stat().st_mode & 0o777 == 0o640
    api.driver.send("rollback")
    run_once(url, api, path)
    assert path.read_text() == before
    assert [p.name for p in tmp_path.iterdir() if p.is_file()] == ["routes.json"]


def test_a_cell_that_somebody_else_changed_is_not_overwritten_and_says_so(api: Api, url: str, tmp_path: Path) -> None:
    path = tmp_path / "routes.json"
    routes = {**api.driver.call("routing.table")["routes"], KEY: "by-hand"}
    path.write_text(json.dumps({"routes": routes}))
    before = path.read_bytes()
    api.driver.send("approve")
    assert run_once(url, api, path)["refused"] == 1
    assert path.read_bytes() == before
    shown = api.driver.show()
    assert shown["state"] == "REJECTED_BY_TARGET"
    assert shown["targets"][0]["rejection"] == f"{KEY} routes to by-hand, expected old or new"


def test_a_rollback_that_was_refused_is_done_once_the_file_allows_it(api: Api, url: str, tmp_path: Path) -> None:
    path = tmp_path / "routes.json"
    api.driver.send("approve")
    run_once(url, api, path)
    told = json.loads(path.read_text())
    path.write_text(json.dumps({"routes": {**told["routes"], KEY: "by-hand"}}))
    api.driver.send("rollback")
    run_once(url, api, path)
    run_once(url, api, path)
    assert api.driver.show()["targets"][0]["rollback_rejection"] == f"{KEY} routes to by-hand, expected new or old"
    assert api.driver.kinds().count("rollback_rejected") == 1, "the same refusal is one event"
    path.write_text(json.dumps(told))
    assert run_once(url, api, path)["rolled_back"] == 1
    assert api.driver.show()["state"] == "ROLLED_BACK"


class Killed(BaseException):
    """Stands for a SIGKILL: nothing of the program runs after it."""


class DyingDoor(HttpDoor):
    """Dies before or after the n-th request reached the server."""

    left = 10**9
    after = False

    def _post(self, path: str, body: Any) -> dict[str, Any]:
        self.left -= 1
        if self.left < 0 and not self.after:
            raise Killed
        told = super()._post(path, body)
        if self.left < 0:
            raise Killed
        return told


@pytest.mark.parametrize("after", [False, True], ids=["before the request", "after the request"])
@pytest.mark.parametrize("survives", [0, 1, 2, 3])
def test_killed_at_any_step_and_started_again_it_applies_once(
    api: Api, url: str, tmp_path: Path, survives: int, after: bool
) -> None:
    path = tmp_path / "routes.json"

    def life(left: int) -> None:
        with httpx.Client(base_url=url) as http:
            door = DyingDoor(http, api.tokens["downstream"], "router", threading.Event())
            door.left, door.after = left, after
            downstream.follow(door, path, once=True)

    def die_then_live() -> None:
        with contextlib.suppress(Killed):
            life(survives)
        life(10**9)

    api.driver.send("approve")
    die_then_live()
    assert api.driver.show()["state"] == "OBSERVING"
    assert json.loads(path.read_text())["routes"][KEY] == "new"
    api.driver.send("rollback")
    die_then_live()
    assert api.driver.show()["state"] == "ROLLED_BACK"
    assert json.loads(path.read_text())["routes"][KEY] == "old"
    kinds = api.driver.kinds()
    for step in ("sent", "acknowledged", "actuated", "rollback_sent", "rollback_acknowledged", "rolled_back"):
        assert kinds.count(step) == 1, step


def test_killed_between_writing_and_reporting_it_reports_without_writing_again(
    api: Api, url: str, tmp_path: Path
) -> None:
    path = tmp_path / "routes.json"
    api.driver.send("approve")
    with httpx.Client(base_url=url) as http:
        door = DyingDoor(http, api.tokens["downstream"], "router", threading.Event())
        door.left = 2  # collect, acknowledge; dies before actuate
        with pytest.raises(Killed):
            downstream.follow(door, path, once=True)
    assert json.loads(path.read_text())["routes"][KEY] == "new"
    assert api.driver.show()["state"] == "ACKED"
    written = path.stat().st_mtime_ns
    run_once(url, api, path)
    assert path.stat().st_mtime_ns == written
    assert api.driver.show()["state"] == "OBSERVING"


def test_a_decision_that_overtakes_the_work_is_followed_on_the_next_poll(api: Api, tmp_path: Path) -> None:
    path = tmp_path / "routes.json"

    class Overtaken(OperationDoor):
        def report(self, command: Any, step: str, **body: Any) -> dict[str, Any]:
            if step == "actuate":
                api.driver.send("rollback")
            return super().report(command, step, **body)

    door = Overtaken(lambda name, params: api.driver.call(name, params, ROUTER))
    api.driver.send("approve")
    assert downstream.follow(door, path, once=True).overtaken == 1
    assert json.loads(path.read_text())["routes"][KEY] == "new"
    assert downstream.follow(door, path, once=True).rolled_back == 1
    assert json.loads(path.read_text())["routes"][KEY] == "old"
    assert api.driver.show()["state"] == "ROLLED_BACK"


def test_a_wrong_token_is_told_at_once(api: Api, url: str, tmp_path: Path) -> None:
    with pytest.raises(Unauthenticated, match="not known"):
        downstream.run(url, "jbk_wrong", tmp_path / "routes.json")


def test_nobody_there_is_told_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downstream, "_FIRST_WAIT_S", 0.01)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    with pytest.raises(ConsoleUnreachable, match="ConnectError"):
        downstream.run(f"http://127.0.0.1:{port}", "t", tmp_path / "routes.json", once=True)


def test_a_busy_console_is_asked_again(api: Api, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from app.errors import Unavailable
    from app.operations import OPERATIONS

    monkeypatch.setattr(downstream, "_FIRST_WAIT_S", 0.01)
    calls, found = [], OPERATIONS["recommend.collect"]

    def busy_twice(*args: Any) -> dict[str, Any]:
        calls.append(1)
        if len(calls) < 3:
            raise Unavailable("Another write has held the warehouse.", fix="try again")
        return found.handler(*args)

    changed = type(found)(found.name, found.scope, found.params, busy_twice, found.about)
    monkeypatch.setitem(OPERATIONS, "recommend.collect", changed)
    api.driver.send("approve")
    assert run_once(url, api, tmp_path / "routes.json")["applied"] == 1
    assert len(calls) == 3


def test_a_folder_that_cannot_be_written_changes_nothing_and_is_tried_again(
    api: Api, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "routes.json"
    api.driver.send("approve")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(downstream_table.os, "replace", full)
        with pytest.raises(TableNotWritten, match="No space left on device"):
            run_once(url, api, path)
    assert list(tmp_path.glob("*.json*")) == list(tmp_path.glob(".*.tmp")) == []
    assert api.driver.show()["targets"][0]["rejection"] is None
    assert run_once(url, api, path)["applied"] == 1


# the rules of the file ----------------------------------------------------------------------------------


def command(kind: str = "apply") -> dict[str, Any]:
    content = {
        "cells": [{"category": "debugging", "tier": 1, "latency": "interactive", "from": "old", "to": "new"}],
    }
    old, new = ("old", "new") if kind == "apply" else ("new", "old")
    return {
        "id": "R-0001",
        "kind": kind,
        "content": content,
        "content_hash": content_hash(content),
        "cells": [{"key": KEY, "old": old, "new": new}],
        "table_before": {KEY: old, "translation/1/interactive": "old"},
    }


def test_content_that_does_not_match_its_hash_is_refused() -> None:
    tampered = command()
    tampered["content"] = {"cells": []}
    with pytest.raises(TableRefused, match="does not match its hash"):
        check_command(tampered)
    swapped = command()
    swapped["cells"] = [{"key": KEY, "old": "old", "new": "evil"}]
    with pytest.raises(TableRefused, match="differ from its frozen content"):
        check_command(swapped)
    check_command(command("rollback"))


@pytest.mark.parametrize("current", [None, {}, {"routes": {}}], ids=["no file", "empty", "no routes"])
def test_a_file_without_routes_starts_from_the_table_of_the_desk(current: dict[str, Any] | None) -> None:
    assert changed_table(current, command()) == {"routes": {KEY: "new", "translation/1/interactive": "old"}}


def test_a_file_that_holds_the_new_values_is_left_alone() -> None:
    assert changed_table({"routes": {KEY: "new"}}, command()) is None
    assert changed_table({"routes": {KEY: "old"}}, command("rollback")) is None


@pytest.mark.parametrize("text", ["{", "[]", '{"routes": []}'])
def test_a_damaged_file_is_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "routes.json"
    path.write_text(text)
    with pytest.raises(TableRefused, match=r"routes\.json"):
        downstream.read_table(path)
