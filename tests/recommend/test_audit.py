"""The audit trail: who, from where, what was before and after; denied ones too; exported, anchored, restored."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.api import create_api
from app.cli import main
from app.desk import local_operator
from app.downstream import OperationDoor, follow
from app.errors import Conflict, Forbidden
from app.operations import OPERATIONS, load_all
from app.operations.auditing import ONLY_READ, OWN_EVENTS, address_class
from app.recommendations import store
from tests.api.asgi import AsgiClient, mounted
from tests.recommend.desks import OPERATOR, READER, ROUTER, Driver, make_desk, refusal
from warehouse import ledger
from warehouse.engine import Warehouse

CONFIG = "[policy]\ntiers = {old = 1, new = 1}\n"


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("127.0.0.1", "loopback"), ("::1", "loopback"), ("10.1.2.3", "private"), ("192.168.0.9", "private"),
        ("fe80::1%eth0", "private"), ("fd00::1", "private"), ("8.8.8.8", "public"), ("2001:4860::8888", "public"),
        (None, "none"), ("", "none"), ("testclient", "none"),
    ],
)  # fmt: skip
def test_an_address_is_kept_as_its_class_only(address: str | None, kind: str) -> None:
    assert address_class(address) == kind


def test_an_event_tells_actor_role_source_before_after_revision_and_key(driver: Driver) -> None:
    token = driver.call("token.create", {"name": "ada", "scopes": ["operator"]})["token"]
    client = AsgiClient(mounted(create_api(lambda: driver.desk)), token)
    headers = {"If-Match": '"1"', "Idempotency-Key": "k1"}
    assert client.post("/api/v1/recommendations/R-0001/approve", headers=headers).status_code == 200
    (event,) = driver.events("recommendation.approved")
    assert (event.actor, event.role, event.channel) == ("token:ada", "operator", "api")
    assert (event.revision, event.idempotency_key) == (2, "k1")
    assert event.data["source"] == "loopback"
    before, after = event.data["before"], event.data["after"]
    assert (before["state"], before["revision"]) == ("PROPOSED", 1)
    assert (after["state"], after["revision"]) == ("APPROVED", 2)
    assert before["content_hash"] == after["content_hash"] == driver.show()["content_hash"]
    (created,) = driver.events("token.created")
    assert created.data["targets"] == "all"


def test_what_came_first_has_no_before(driver: Driver) -> None:
    (event,) = driver.events("recommendation.proposed")
    assert "before" not in event.data or event.data["before"] is None
    assert event.data["after"]["state"] == "PROPOSED"


# denied -----------------------------------------------------------------------------------------------------


def denied(driver: Driver) -> list[tuple[str, str, Any]]:
    return [(e.actor, e.subject, e.data.get("reason")) for e in driver.events("command.denied")]


def test_every_denied_command_leaves_one_trace_whatever_it_is_about(driver: Driver) -> None:
    wanted = []
    for name, params in {
        "sample.load": {},
        "import": {"kind": "openrouter", "path": "/etc/hostname"},
        "ingest.run": {"source": "openrouter"},
        "sql.run": {"sql": "SELECT 1"},
        "token.create": {"name": "x", "scopes": ["operator"]},
        "verify.accept": {"reason": "because"},
        "recommend.refresh": {},
    }.items():
        for _ in range(3):
            assert isinstance(refusal(lambda n=name, p=params: driver.call(n, p, READER)), Forbidden)
        wanted.append(("token:board", f"command:{name}"))
    assert [(actor, subject) for actor, subject, _ in denied(driver)] == wanted
    assert all("it needs the scope" in reason for *_, reason in denied(driver))
    assert ledger.verify(driver.desk.warehouse).ok


def test_a_command_that_the_state_of_things_forbids_is_denied_too(driver: Driver) -> None:
    driver.call("token.create", {"name": "x", "scopes": ["read"]})
    refusal(lambda: driver.call("token.create", {"name": "x", "scopes": ["read"]}))
    assert denied(driver) == [("ada@local", "command:token.create", "There is a token 'x' already.")]


def test_nobody_can_make_the_ledger_grow_by_being_denied(driver: Driver) -> None:
    bound = driver.call("token.create", {"name": "eu", "scopes": ["downstream"], "targets": ["router"]})["token"]
    client = AsgiClient(mounted(create_api(lambda: driver.desk)), bound)
    for i in range(60):
        assert client.post("/api/v1/downstream/collect", json={"target": f"t{i}"}).status_code == 403
    assert len(denied(driver)) == 20


def test_a_stranger_is_on_record_once_with_the_class_of_the_address(driver: Driver) -> None:
    app = mounted(create_api(lambda: driver.desk))
    for _ in range(3):
        assert AsgiClient(app, "jbk_wrong").post("/api/v1/recommendations/refresh").status_code == 401
        assert AsgiClient(app, "jbk_wrong").get("/api/v1/recommendations").status_code == 401
    (event,) = driver.events("command.denied")
    assert (event.actor, event.subject, event.data["source"]) == ("unknown", "command:api", "loopback")
    assert "jbk_" not in event.body


# done -------------------------------------------------------------------------------------------------------


def test_a_command_without_events_of_its_own_is_on_record_and_what_the_scheduler_runs_is_not(
    driver: Driver, tmp_path: Path
) -> None:
    from app.operations import SYSTEM

    driver.call("import.cancel", {"task": "t"})
    driver.call("import.cancel", {"task": "t"}, SYSTEM)
    driver.call("verify")
    driver.call("token.list")
    (event,) = driver.events("command.done")
    assert event.data["command"] == {"name": "import.cancel", "params": {"task": "t"}}
    assert event.subject == "command:import.cancel"


def test_every_operation_is_read_or_leaves_a_trace() -> None:
    """One without a scope of reading that is named nowhere is audited by itself."""
    load_all()
    named = {n for n, o in OPERATIONS.items() if n.startswith(OWN_EVENTS) or n in ONLY_READ or o.scope == "read"}
    audited = {n for n, o in OPERATIONS.items() if o.scope in ("operator", "local")} - named
    assert {"import", "ingest.run", "rebuild", "replay.run", "power.attribute"} <= audited
    assert set(OPERATIONS) >= ONLY_READ, "an operation was renamed"


# out --------------------------------------------------------------------------------------------------------


def cli(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--json"])
    return int(ended.value.code or 0), json.loads(capsys.readouterr().out)


@pytest.fixture
def home(own_home: Path) -> Path:
    """A home with six events and nobody in it."""
    desk = make_desk(own_home, CONFIG)
    driver = Driver(desk)
    driver.refresh()
    driver.observe()
    desk.close()
    return own_home


def test_the_trail_goes_out_as_lines_that_end_with_the_head_and_a_cut_shows(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    export, anchors = tmp_path / "trail.jsonl", tmp_path / "heads.jsonl"
    code, told = cli(capsys, "audit", "export", str(export))
    lines = [json.loads(line) for line in export.read_text().splitlines()]
    assert (code, told["events"]) == (0, 6)
    assert [e["seq"] for e in lines[:-1]] == [1, 2, 3, 4, 5, 6]
    assert lines[-1]["head"]["hash"] == lines[-2]["hash"] == told["head"]["hash"]
    for line, before in zip(lines[1:-1], lines, strict=False):
        assert line["prev_hash"] == before["hash"]
    _, told = cli(capsys, "audit", "export", str(tmp_path / "tail.jsonl"), "--since", "4")
    assert told["events"] == 2
    assert cli(capsys, "audit", "anchor", str(anchors))[1]["head"]["seq"] == 6
    cli(capsys, "audit", "anchor", str(anchors))
    assert len(anchors.read_text().splitlines()) == 2
    for file in (export, anchors):
        code, told = cli(capsys, "verify", "--against", str(file))
        assert (code, told["ok"], told["compared"] > 0) == (0, True, True)
    # Somebody cuts the tail and mends the head file beside the warehouse: only what lies elsewhere tells.
    warehouse = Warehouse.open(home / "joulebook.duckdb")
    with warehouse.transaction() as tx:
        tx.execute("DELETE FROM ledger.event WHERE seq > 4")
    ledger.anchor_path(warehouse).unlink()
    ledger.anchor(warehouse)
    head = json.loads(ledger.anchor_path(warehouse).read_text())
    ledger.anchor_path(warehouse).write_text(json.dumps({k: head[k] for k in ("seq", "hash")}))
    warehouse.close()
    assert cli(capsys, "verify")[0] == 0, "nothing beside the file tells"
    for file in (export, anchors):
        code, told = cli(capsys, "verify", "--against", str(file))
        assert code == 1
        assert told["problems"][0].startswith("event 6, anchored elsewhere, is not in the ledger: the tail was cut")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"seq": 1}', "null"])
def test_a_file_that_is_no_anchor_is_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    file = tmp_path / "x.jsonl"
    file.write_text(text)
    code, told = cli(capsys, "verify", "--against", str(file))
    assert code == 2 and "x.jsonl cannot be read as anchors" in told["error"]["message"]


def test_a_file_that_cannot_be_written_leaves_nothing(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("export", "anchor"):
        code, told = cli(capsys, "audit", command, "/no/such/folder/x")
        assert code == 2 and "cannot be written" in told["error"]["message"]


def test_a_rewritten_chain_differs_from_what_was_kept(driver: Driver) -> None:
    seq, digest = ledger.head(driver.desk.warehouse)
    assert ledger.against(driver.desk.warehouse, [(seq, digest), (0, ledger.GENESIS)]) == []
    assert "chain was rewritten" in ledger.against(driver.desk.warehouse, [(seq, "0" * 64)])[0]


def test_a_long_trail_is_read_in_parts(driver: Driver) -> None:
    driver.observe()
    parts, after = [], 0
    while True:
        told = driver.call("audit.export", {"since": after, "limit": 2}, READER)
        parts += told["lines"]
        after = told["next"]
        if not told["more"]:
            break
    assert [json.loads(line)["seq"] for line in parts] == [1, 2, 3, 4, 5, 6]


# restored from a backup ---------------------------------------------------------------------------------------


@pytest.fixture
def restored(own_home: Path, tmp_path: Path) -> Iterator[tuple[Driver, Path]]:
    """R-0001 was applied at the target and R-0002 made after the backup; then the old file was put back."""
    desk = make_desk(own_home, CONFIG)
    driver = Driver(desk)
    driver.refresh()
    path, kept, table = own_home / "joulebook.duckdb", tmp_path / "backup.duckdb", tmp_path / "routes.json"
    driver.send("approve")
    desk.close()
    shutil.copy(path, kept)
    desk = driver.desk = type(desk)(desk.settings, Warehouse.open(path))
    follow(OperationDoor(lambda name, params: driver.call(name, params, ROUTER)), table, once=True)
    assert driver.show()["state"] == "OBSERVING"
    desk.close()
    shutil.copy(kept, path)
    driver.desk = type(desk)(desk.settings, Warehouse.open(path))
    yield driver, table
    driver.desk.close()


def test_a_restored_ledger_is_noticed_and_takes_no_command_until_somebody_accepts_it(
    restored: tuple[Driver, Path],
) -> None:
    driver, table = restored
    told = driver.call("verify")
    assert not told["ok"] and "an old copy was restored" in told["refused_until_accepted"]
    before = len(driver.events())
    for name, params, actor in [
        ("recommend.approve", {"id": "R-0001", "revision": 2, "idempotency_key": "n"}, OPERATOR),
        ("recommend.rollback", {"id": "R-0001", "revision": 2, "idempotency_key": "m"}, OPERATOR),
        ("recommend.refresh", {}, OPERATOR),
        ("recommend.measure", {}, OPERATOR),
        ("recommend.collect", {"target": "router"}, ROUTER),
        ("recommend.actuate", {"id": "R-0001", "revision": 2, "target": "router", "idempotency_key": "o"}, ROUTER),
        ("routing.declare", {"cells": [{"category": "debugging", "tier": 1, "offer_id": "old"}]}, OPERATOR),
    ]:
        error = refusal(lambda n=name, p=params, a=actor: driver.call(n, p, a))
        assert isinstance(error, Conflict), name
        assert "restored or cut, and nobody has accepted that yet" in error.message and "accept-restore" in error.fix
    assert isinstance(refusal(lambda: driver.call("audit.anchor")), Conflict)
    assert len(driver.events()) == before, "nothing is added to it, not even a denial"
    assert driver.call("recommend.list")["recommendations"], "reading goes on"

    accepted = driver.call("verify.accept", {"reason": "disk failed, backup of noon"}, local_operator("cli"))
    assert accepted["ok"] and accepted["refused_until_accepted"] is None
    # The target holds the change already: it carries nothing out twice, and the desk learns that it is done.
    written = table.stat().st_mtime_ns
    door = OperationDoor(lambda name, params: driver.call(name, params, ROUTER))
    assert follow(door, table, once=True).applied == 1
    assert table.stat().st_mtime_ns == written, "the file held it already"
    assert driver.show()["state"] == "OBSERVING"
    assert driver.call("verify")["ok"]


def test_an_id_that_a_lost_event_may_have_named_is_never_given_again(restored: tuple[Driver, Path]) -> None:
    driver, _ = restored
    driver.call("verify.accept", {"reason": "restored"}, local_operator("cli"))
    driver.send("rollback")
    from tests.recommend.desks import add_offer

    add_offer(driver.desk, "best", (10.0, 10.5, 9.5, 10.2, 9.8))
    (new,) = driver.refresh()["proposed"]
    assert int(new.removeprefix("R-")) > 2
    driver.refresh()
    assert len(store.states(store.all_events(driver.desk.warehouse))) == 2


def test_a_target_that_knows_more_than_the_ledger_is_answered_with_a_conflict(driver: Driver) -> None:
    """Both files were restored, so that nothing beside them tells: the target does."""
    driver.send("approve")
    driver.collect()
    ahead = refusal(lambda: driver.send("acknowledge", revision=40))
    assert isinstance(ahead, Conflict)
    assert "names revision 40 of R-0001, and this ledger knows 3" in ahead.message
    unknown = refusal(
        lambda: driver.call(
            "recommend.actuate", {"id": "R-0042", "target": "router", "revision": 3, "idempotency_key": "u"}, ROUTER
        )
    )
    assert isinstance(unknown, Conflict) and "which this ledger does not know" in unknown.message
    assert driver.kinds() == ["proposed", "approved", "sent"]
    other = refusal(lambda: driver.send("acknowledge", content_hash="a" * 64))
    assert "tells content aaaaaaaaaaaa" in other.message


def test_a_reference_downstream_waits_out_a_restore(restored: tuple[Driver, Path]) -> None:
    import threading

    driver, table = restored
    door = OperationDoor(lambda name, params: driver.call(name, params, ROUTER))
    with pytest.raises(Conflict, match="restored or cut"):
        follow(door, table, once=True)
    stop = threading.Event()
    thread = threading.Thread(target=follow, args=(door, table), kwargs={"poll_s": 0.02, "stop_event": stop})
    thread.start()
    driver.call("verify.accept", {"reason": "restored"}, local_operator("cli"))
    for _ in range(500):
        if driver.show()["state"] == "OBSERVING":
            break
        threading.Event().wait(0.02)
    stop.set()
    thread.join(20)
    assert driver.show()["state"] == "OBSERVING"
