"""A share of the traffic in the routing table file: beside the route, then in its place, then gone without a trace."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app import downstream
from app.downstream import OperationDoor
from app.downstream_table import TableRefused, changed_table, check_command
from app.operations.reporting import shares
from tests.recommend.desks import ROUTER, Driver, make_desk
from warehouse.ids import content_hash

KEY = "debugging/1/interactive"
CONFIG = """[policy]
tiers = {old = 1, new = 1}
[environments.local]
auto_shadow = false
self_approval = true
stages = [{name = "canary", share = 0.1}, {name = "full", share = 1.0}]
"""
SHARE = {"candidate": "new", "share": 0.1, "recommendation": "R-0001"}


@pytest.fixture
def driver(own_home: Path) -> Iterator[Driver]:
    desk = make_desk(own_home, CONFIG, proposed=True)
    made = Driver(desk)
    made.send("shadow")
    made.judge("PASS")
    made.send("approve")
    yield made
    desk.close()


def run_once(driver: Driver, path: Path) -> dict[str, int]:
    door = OperationDoor(lambda name, params: driver.call(name, params, ROUTER))
    return downstream.follow(door, path, once=True).to_dict()


def test_a_canary_stands_beside_the_route_the_full_stage_in_its_place_and_a_rollback_leaves_no_trace(
    driver: Driver, tmp_path: Path
) -> None:
    path = tmp_path / "routes.json"
    before = json.dumps({"routes": driver.call("routing.table")["routes"], "retries": 3}, indent=2) + "\n"
    path.write_text(before)
    assert run_once(driver, path)["applied"] == 1
    told = json.loads(path.read_text())
    assert told["routes"][KEY] == "old" and told["shares"][KEY] == SHARE and len(told["shares"]) == 9
    reported = next(e for e in driver.events("recommendation.actuated"))
    assert reported.data["content_hash"] == driver.show()["content_hash"]
    driver.judge("PASS", "canary")
    driver.send("promote")
    assert run_once(driver, path)["applied"] == 1
    told = json.loads(path.read_text())
    assert told["routes"][KEY] == "new" and "shares" not in told
    driver.send("rollback")
    assert run_once(driver, path)["rolled_back"] == 1
    assert path.read_text() == before


def test_the_exported_table_is_the_one_that_the_reference_downstream_writes(driver: Driver, tmp_path: Path) -> None:
    def exported() -> dict[str, Any]:
        asked = {"id": "R-0001", "format": "routing-table", "only": "apply"}
        told = json.loads(next(f["text"] for f in driver.call("recommend.export", asked)["files"]))
        return {name: told[name] for name in ("routes", "shares") if name in told}

    path = tmp_path / "routes.json"
    canary = exported()
    assert canary["shares"][KEY] == SHARE
    run_once(driver, path)
    assert json.loads(path.read_text()) == canary
    driver.judge("PASS", "canary")
    driver.send("promote")
    full = exported()
    assert full["routes"][KEY] == "new" and "shares" not in full
    run_once(driver, path)
    assert json.loads(path.read_text()) == full


def test_a_rollback_of_a_canary_takes_the_share_away_and_leaves_the_route(driver: Driver, tmp_path: Path) -> None:
    path = tmp_path / "routes.json"
    run_once(driver, path)
    driver.send("rollback")
    assert run_once(driver, path)["rolled_back"] == 1
    told = json.loads(path.read_text())
    assert told["routes"][KEY] == "old" and "shares" not in told
    assert driver.show()["state"] == "ROLLED_BACK"


def test_a_downstream_that_tells_other_content_than_was_approved_is_refused(driver: Driver, tmp_path: Path) -> None:
    class Liar(OperationDoor):
        def report(self, command: Any, step: str, **body: Any) -> dict[str, Any]:
            lie = {**command, "content_hash": "0" * 64} if step == "actuate" else command
            return super().report(lie, step, **body)

    door = Liar(lambda name, params: driver.call(name, params, ROUTER))
    assert downstream.follow(door, tmp_path / "routes.json", once=True).overtaken == 1
    shown = driver.show()
    assert shown["targets"][0]["actuated_at"] is None
    (refused,) = driver.events("recommendation.refused")
    assert "router tells content 000000000000" in refused.data["reason"]


# the rules of the file ------------------------------------------------------------------------------------


def command(kind: str = "apply", share: float = 0.1, no: int = 0) -> dict[str, Any]:
    content = {
        "cells": [{"category": "debugging", "tier": 1, "latency": "interactive", "from": "old", "to": "new"}],
        "governance": {"stages": [{"name": "canary", "share": 0.1}, {"name": "full", "share": 1.0}]},
    }
    old, new = ("old", "new") if kind == "apply" else ("new", "old")
    cells = [{"key": KEY, "old": old, "new": new}]
    return {
        "id": "R-0001",
        "kind": kind,
        "content": content,
        "content_hash": content_hash(content),
        "stage": {"no": no, "share": share},
        "shares": shares("R-0001", cells, share),
        "cells": cells,
        "table_before": {KEY: old},
    }


def test_a_share_that_differs_from_the_frozen_content_is_refused() -> None:
    check_command(command())
    check_command(command(share=1.0, no=1))
    for wrong in (command(share=0.5), command(share=1.0), command(no=7)):
        with pytest.raises(TableRefused, match="share of R-0001 differs"):
            check_command(wrong)


@pytest.mark.parametrize(
    ("current", "said"),
    [
        ({"routes": {KEY: "new"}}, "routes to new, expected old"),
        ({"routes": {KEY: "old"}, "shares": {KEY: {**SHARE, "recommendation": "R-0007"}}}, "share for new of R-0007"),
        ({"routes": {KEY: "old"}, "shares": {KEY: {**SHARE, "candidate": "x"}}}, "share for x of R-0001"),
    ],
)
def test_what_somebody_else_holds_is_not_overwritten(current: dict[str, Any], said: str) -> None:
    with pytest.raises(TableRefused, match=said):
        changed_table(current, command())


def test_what_a_crash_or_a_hand_left_half_done_is_completed_and_undone_whole() -> None:
    other = "docs_writing/1/interactive"
    half = {"routes": {KEY: "new", other: "old"}, "shares": {other: SHARE}}
    whole = command(share=1.0, no=1)
    whole["cells"] = [{"key": k, "old": "old", "new": "new"} for k in (KEY, other)]
    assert changed_table(half, whole) == {"routes": {KEY: "new", other: "new"}}
    undo = command("rollback")
    undo["cells"] = [{"key": k, "old": "new", "new": "old"} for k in (KEY, other)]
    assert changed_table(half, undo) == {"routes": {KEY: "old", other: "old"}}
    assert changed_table({"routes": {KEY: "old", other: "old"}}, undo) is None


def test_shares_that_are_no_object_are_a_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "routes.json"
    path.write_text('{"routes": {}, "shares": [1]}')
    with pytest.raises(TableRefused, match="shares"):
        downstream.read_table(path)
