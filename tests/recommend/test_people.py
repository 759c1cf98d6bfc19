"""Who may approve: a second person, whatever the role, the door or the number of tokens (T44)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app import auth
from app.api import create_api
from app.desk import local_operator
from app.errors import Conflict
from app.operations import Actor
from app.settings import load_settings
from tests.api.asgi import AsgiClient, mounted
from tests.recommend.desks import Driver, make_desk, refusal

CONFIG = """[policy]
tiers = {old = 1, new = 1}
[auth.roles]
"ada@example.org" = "operator"
"bob@example.org" = "operator"
[environments.local]
auto_shadow = false
approvals = 2
"""
PATH = "/api/v1/recommendations/R-0001"


@pytest.fixture
def driver(own_home: Path) -> Iterator[Driver]:
    desk = make_desk(own_home, CONFIG, proposed=True)
    made = Driver(desk)
    yield made
    desk.close()


def signed_in(email: str) -> Actor:
    """The same way the console takes: a session of its own each time."""
    return auth.person(load_settings(), email)


def token_of(driver: Driver, name: str, owner: str, scope: str = "operator") -> str:
    actor = Actor(owner, "operator", "cli", frozenset({"*"}))
    text: str = driver.call("token.create", {"name": name, "scopes": [scope]}, actor)["token"]
    return text


def post(driver: Driver, token: str, step: str, key: str) -> Any:
    client = AsgiClient(mounted(create_api(lambda: driver.desk)), token)
    tag = client.get(PATH).headers["ETag"]
    return client.post(f"{PATH}/{step}", headers={"If-Match": tag, "Idempotency-Key": key})


def test_t44_whoever_asked_for_a_change_approves_it_through_no_door_and_under_no_role(driver: Driver) -> None:
    ada = signed_in("ada@example.org")
    driver.send("shadow", actor=ada)
    driver.judge("PASS")
    said = "ada@example.org set its margins, and nobody approves their own request"
    doors = {
        "console": ada,
        "a second session": signed_in("Ada@Example.org"),
        "as local operator": Actor("ada@example.org", "operator", "cli", frozenset({"*"})),
        "as the desk": Actor("ada@example.org", "system", "scheduler", frozenset({"*"})),
    }
    for role in ("operator", "downstream", "reader", "owner", "admin"):
        doors[f"as {role}"] = Actor("ada@example.org", role, "console", frozenset({"*"}))
    for door, actor in doors.items():
        error = refusal(lambda actor=actor: driver.send("approve", actor=actor))
        assert isinstance(error, Conflict), door
        assert said in error.message or "may not approve here" in error.message, door
    for i in range(2):  # two tokens of hers
        answer = post(driver, token_of(driver, f"hers-{i}", "ada@example.org"), "approve", f"k{i}")
        assert answer.status_code == 409 and said in answer.json()["detail"]
    refused = driver.events("recommendation.refused")
    assert {"ada@example.org", "token:hers-0", "token:hers-1"} <= {e.actor for e in refused}
    assert driver.show()["state"] == "READY" and driver.show()["votes"]["given"] == []


def test_t44_a_person_with_a_session_and_two_tokens_is_one_of_two(driver: Driver) -> None:
    driver.send("shadow", actor=signed_in("ada@example.org"))
    driver.judge("PASS")
    first, second = (token_of(driver, name, "bob@example.org") for name in ("one", "two"))
    assert post(driver, first, "approve", "a").status_code == 200
    for answer in (post(driver, second, "approve", "b"), post(driver, first, "approve", "c")):
        assert answer.status_code == 409
        assert "bob@example.org has approved it, and 2 different people must" in answer.json()["detail"]
    assert "2 different people" in refusal(lambda: driver.send("approve", actor=signed_in("bob@example.org"))).message
    # The person at this machine is another one, through the command line as through the console.
    assert driver.send("approve", actor=local_operator("cli"))["state"] == "APPROVED"
    assert local_operator("cli").person == local_operator("console").person


def test_t44_a_token_made_at_this_machine_is_its_maker(driver: Driver) -> None:
    me = local_operator("cli")
    driver.send("shadow", actor=me)
    driver.judge("PASS")
    text = driver.call("token.create", {"name": "mine", "scopes": ["operator"]}, me)["token"]
    answer = post(driver, text, "approve", "k")
    assert answer.status_code == 409 and f"{me.person} set its margins" in answer.json()["detail"]


def test_t44_the_command_line_is_refused_in_the_same_words(driver: Driver, capsys: pytest.CaptureFixture[str]) -> None:
    from app.cli import main

    driver.send("shadow", actor=local_operator("cli"))
    driver.judge("PASS")
    driver.desk.close()
    with pytest.raises(SystemExit) as ended:
        main(["recommend", "approve", "R-0001", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert ended.value.code == 1
    assert "nobody approves their own request" in told["error"]["message"]


def test_an_owner_who_allows_it_may_be_alone(own_home: Path) -> None:
    desk = make_desk(own_home, CONFIG.replace("approvals = 2", "self_approval = true"))
    try:
        driver = Driver(desk)
        driver.refresh()
        driver.send("shadow", actor=signed_in("ada@example.org"))
        driver.judge("PASS")
        assert driver.send("approve", actor=signed_in("ada@example.org"))["state"] == "APPROVED"
    finally:
        desk.close()


# what voids an approval -----------------------------------------------------------------------------------


def settled(driver: Driver, config: str = "") -> dict[str, Any]:
    """Approved by the desk's own margins, and uncollected."""
    told = driver.send("approve")
    assert told["state"] == "APPROVED"
    return told


@pytest.fixture
def approved(own_home: Path) -> Iterator[Driver]:
    desk = make_desk(own_home, "[policy]\ntiers = {old = 1, new = 1}\n", proposed=True)
    made = Driver(desk)
    settled(made)
    yield made
    desk.close()


def voided(driver: Driver, revision: int) -> None:
    assert driver.refresh()["revised"] == ["R-0001"]
    shown = driver.show()
    assert shown["state"] == "PROPOSED" and shown["revision"] > revision and shown["votes"]["given"] == []
    assert driver.collect() == [], "the yes was to other content"
    error = refusal(lambda: driver.send("approve", revision=revision))
    assert f"based on revision {revision}" in error.message


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE core.usage SET energy_j = energy_j * 1.1 WHERE requested_offer = 'new'",  # evidence
        "UPDATE core.offer SET content_sha256 = 'other' WHERE offer_id = 'new'",  # catalog
        "UPDATE core.price SET price_usd_per_unit = price_usd_per_unit * 2 WHERE offer_id = 'new'",
        "INSERT INTO core.tariff SELECT 'acme', 'main', TIMESTAMP '2026-01-01', NULL, TIMESTAMP '2026-01-01', 8, 1.0, "
        "NULL, 'declared', 'measured', NULL, NULL, 'h', 'acme', 'r1'",
    ],
    ids=["evidence", "catalog", "price", "tariff"],
)
def test_other_evidence_catalog_or_tariff_bumps_the_revision_and_voids_the_approval(
    approved: Driver, change: str
) -> None:
    revision = approved.show()["revision"]
    with approved.desk.warehouse.transaction() as tx:
        tx.execute(change)
    voided(approved, revision)


@pytest.mark.parametrize(
    "change",
    ["[weights]\ncost = 0.5\n", "[environments.local]\nrequire_pass = false\nauto_shadow = false\napprovals = 3\n"],
    ids=["policy", "approval policy"],
)
def test_another_policy_bumps_the_revision_and_voids_the_approval(approved: Driver, change: str) -> None:
    revision = approved.show()["revision"]
    base = "[policy]\ntiers = {old = 1, new = 1}\n"
    rules = "" if "environments" in change else "[environments.local]\nrequire_pass = false\nauto_shadow = false\n"
    (approved.desk.settings.home / "joulebook.toml").write_text(base + change + rules)
    approved.desk.settings = load_settings()
    voided(approved, revision)


def test_other_configured_margins_void_what_the_old_ones_let_through(own_home: Path) -> None:
    config = "[policy]\ntiers = {old = 1, new = 1}\n[environments.local]\n"
    desk = make_desk(own_home, config)
    try:
        driver = Driver(desk)
        driver.refresh()
        driver.judge("PASS")
        settled(driver)
        (own_home / "joulebook.toml").write_text(config + "[shadow.margins]\nsuccess_margin = 0.01\n")
        desk.settings = load_settings()
        driver.refresh()
        shown = driver.show()
        assert shown["state"] == "SHADOWING" and shown["margins"]["margins"]["success_margin"] == 0.01
        assert shown["votes"]["given"] == [] and driver.collect() == []
    finally:
        desk.close()
