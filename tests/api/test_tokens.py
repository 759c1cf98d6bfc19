"""API tokens: shown once, stored hashed, each change on record."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.api import create_api
from app.auth import authenticate, person
from app.desk import Desk
from app.errors import BadRequest, Conflict, Forbidden, NotFound
from app.settings import load_settings
from tests.api.asgi import AsgiClient, mounted
from tests.recommend.desks import READER, Driver, make_desk, refusal


@pytest.fixture
def driver(desk: Desk) -> Driver:
    return Driver(desk)


def test_the_clear_token_is_nowhere_in_the_files_of_the_home(driver: Driver, desk: Desk) -> None:
    made = driver.call("token.create", {"name": "router", "scopes": ["downstream"]})
    clear = made["token"]
    assert clear.startswith("jbk_")
    desk.warehouse.query("SELECT 1")
    digest = hashlib.sha256(clear.encode()).hexdigest()
    stored = desk.warehouse.query("SELECT token_sha256 FROM ops.api_token").item()
    assert stored == digest
    desk.close()
    files = [f for f in desk.settings.home.rglob("*") if f.is_file()]
    assert len(files) >= 2
    for file in files:
        assert clear.encode() not in file.read_bytes(), file


def test_creation_and_revocation_are_events_without_the_secret(driver: Driver) -> None:
    made = driver.call("token.create", {"name": "router", "scopes": ["downstream", "read", "read"]})
    assert made["scopes"] == ["downstream", "read"]
    listed = driver.call("token.revoke", {"id": made["id"]})["tokens"]
    assert listed[0]["revoked_at"] is not None
    assert "token" not in listed[0]
    driver.call("token.revoke", {"id": made["id"]})
    kinds = [e.kind for e in driver.events()]
    assert kinds == ["token.created", "token.revoked"], "revoking twice is one event"
    assert not any(made["token"] in e.body for e in driver.events())


def test_only_the_local_operator_makes_tokens(driver: Driver) -> None:
    assert isinstance(
        refusal(lambda: driver.call("token.create", {"name": "x", "scopes": ["read"]}, READER)), Forbidden
    )


def test_unknown_scopes_duplicate_names_and_unknown_ids_are_refused(driver: Driver) -> None:
    assert isinstance(refusal(lambda: driver.call("token.create", {"name": "x", "scopes": ["root"]})), BadRequest)
    assert isinstance(refusal(lambda: driver.call("token.create", {"name": "x", "scopes": []})), BadRequest)
    driver.call("token.create", {"name": "x", "scopes": ["read"]})
    assert isinstance(refusal(lambda: driver.call("token.create", {"name": "x", "scopes": ["read"]})), Conflict)
    assert isinstance(refusal(lambda: driver.call("token.revoke", {"id": "nobody"})), NotFound)


@pytest.mark.parametrize(
    ("scope", "role", "opens"),
    [
        ("read", "reader", {"read"}),
        ("downstream", "downstream", {"downstream", "read"}),
        ("operator", "operator", {"operator", "read"}),
    ],
)
def test_a_token_opens_what_its_scope_says(driver: Driver, desk: Desk, scope: str, role: str, opens: set[str]) -> None:
    made = driver.call("token.create", {"name": "t", "scopes": [scope]})
    actor = authenticate(desk, f"Bearer {made['token']}")
    assert (actor.name, actor.role, actor.channel) == ("token:t", role, "api")
    assert actor.scopes == opens
    assert not actor.may("local")


def test_a_signed_in_person_has_the_role_of_the_configuration(desk: Desk) -> None:
    config = desk.settings.home / "joulebook.toml"
    config.write_text(
        config.read_text() + '[auth.roles]\n"Ada@example.org" = "operator"\n"bob@example.org" = "reader"\n'
    )
    settings = load_settings()
    assert person(settings, "ada@example.org").may("operator")
    assert not person(settings, "ada@example.org").may("local")
    assert not person(settings, "bob@example.org").may("operator")
    for email, verified in (("eve@example.org", True), (None, True), ("ada@example.org", False)):
        error = refusal(lambda email=email, verified=verified: person(settings, email, verified))
        assert isinstance(error, Forbidden)


# bound to targets ---------------------------------------------------------------------------------------


@pytest.fixture
def two_targets(own_home: Path) -> Iterator[Driver]:
    desk = make_desk(
        own_home,
        '[policy]\ntiers = {old = 1, new = 1}\n[guardrails]\ntargets = ["lb-eu", "lb-us"]\n',
        proposed=True,
    )
    made = Driver(desk)
    yield made
    desk.close()


def test_a_bound_token_collects_and_reports_for_its_targets_only(two_targets: Driver) -> None:
    made = two_targets.call("token.create", {"name": "eu", "scopes": ["downstream"], "targets": ["lb-eu"]})
    assert (made["targets"], made["targets_in_words"]) == (["lb-eu"], "lb-eu")
    client = AsgiClient(mounted(create_api(lambda: two_targets.desk)), made["token"])
    two_targets.send("approve")
    collect, report = "/api/v1/downstream/collect", "/api/v1/recommendations/R-0001/acknowledge"
    answer = client.post(collect, json={"target": "lb-us"})
    assert answer.status_code == 403
    assert answer.json()["detail"] == "token:eu speaks for lb-eu only, not for lb-us."
    (command,) = client.post(collect, json={"target": "lb-eu"}).json()["commands"]
    two_targets.collect("lb-us")
    body = {"revision": command["decision_revision"], "idempotency_key": "k1"}
    assert client.post(report, json={**body, "target": "lb-us"}).status_code == 403
    assert two_targets.show()["targets"][1]["acknowledged_at"] is None
    assert client.post(report, json={**body, "target": "lb-eu"}).status_code == 200
    denied = [e for e in two_targets.events() if e.kind in ("command.denied", "recommendation.refused")]
    assert [(e.kind, e.actor) for e in denied] == [
        ("command.denied", "token:eu"),  # to collect is about no recommendation yet
        ("recommendation.refused", "token:eu"),
    ]


def test_a_token_speaks_for_all_only_where_somebody_asked_for_that_and_the_list_says_so(two_targets: Driver) -> None:
    call = two_targets.call
    error = refusal(lambda: call("token.create", {"name": "one", "scopes": ["downstream"]}))
    assert isinstance(error, BadRequest)
    assert error.message == "There are 2 targets (lb-eu, lb-us), and the token 'one' names none."
    assert "--target NAME" in error.fix and "--all-targets" in error.fix
    both = {"name": "one", "scopes": ["downstream"], "targets": ["lb-eu"], "all_targets": True}
    assert "for all targets and for lb-eu only" in refusal(lambda: call("token.create", both)).message
    assert isinstance(
        refusal(lambda: call("token.create", {"name": "r", "scopes": ["read"], "all_targets": True})), BadRequest
    )
    assert call("token.list")["tokens"] == []
    call("token.create", {"name": "all", "scopes": ["downstream"], "all_targets": True})
    call("token.create", {"name": "both", "scopes": ["downstream", "read"], "targets": ["lb-us", "lb-eu"]})
    call("token.create", {"name": "board", "scopes": ["read"]})
    listed = {t["name"]: t["targets_in_words"] for t in call("token.list")["tokens"]}
    assert listed == {"all": "all", "both": "lb-eu, lb-us", "board": "none: it does not report"}


def test_where_there_is_one_target_a_token_is_bound_to_it_and_a_target_added_later_is_not_its(
    driver: Driver, desk: Desk, own_home: Path
) -> None:
    made = driver.call("token.create", {"name": "router", "scopes": ["downstream"]})
    assert made["targets"] == ["router"]
    config = own_home / "joulebook.toml"
    config.write_text(config.read_text() + '[guardrails]\ntargets = ["router", "lb-us"]\n')
    desk.settings = load_settings()
    client = AsgiClient(mounted(create_api(lambda: desk)), made["token"])
    assert client.post("/api/v1/downstream/collect", json={"target": "router"}).status_code == 200
    assert client.post("/api/v1/downstream/collect", json={"target": "lb-us"}).status_code == 403


def test_a_token_from_before_tokens_had_targets_goes_on_and_doctor_says_what_it_may(two_targets: Driver) -> None:
    from app.doctor import diagnose

    made = two_targets.call("token.create", {"name": "old", "scopes": ["downstream"], "targets": ["lb-eu"]})
    two_targets.call("token.create", {"name": "eu", "scopes": ["downstream"], "targets": ["lb-eu"]})
    with two_targets.desk.warehouse.transaction() as tx:
        tx.execute("DELETE FROM ops.token_target WHERE token_id = $id", {"id": made["id"]})
    client = AsgiClient(mounted(create_api(lambda: two_targets.desk)), made["token"])
    for target in ("lb-eu", "lb-us"):
        assert client.post("/api/v1/downstream/collect", json={"target": target}).status_code == 200
    two_targets.desk.close()
    (told,) = [c for c in diagnose()["checks"] if c["check"].startswith("token")]
    assert (told["check"], told["state"]) == ("token old", "warning")
    assert told["what"] == "it collects and reports for every target: lb-eu, lb-us"
    assert told["fix"] == (
        "make one for each with `joulebook token create NAME --scope downstream --target TARGET`, then revoke old"
    )


def test_a_target_that_no_change_will_ever_name_is_refused_by_name(two_targets: Driver) -> None:
    wrong = {"name": "x", "scopes": ["downstream"], "targets": ["lb-asia"]}
    error = refusal(lambda: two_targets.call("token.create", wrong))
    assert isinstance(error, BadRequest)
    assert error.message == "There is no target lb-asia."
    assert error.fix == "use one of lb-eu, lb-us, or add it to guardrails.targets first"
    error = refusal(lambda: two_targets.call("token.create", {**wrong, "scopes": ["read"], "targets": ["lb-eu"]}))
    assert "bind only a token with the scope downstream" in error.message
