"""Alerts over HTTP: list, acknowledge with If-Match, the metric of open ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.api import create_api
from app.desk import Desk
from app.operations import call
from tests.alerts.desks import OPERATOR, lose_gpu, make_desk
from tests.api.asgi import AsgiClient, mounted


@pytest.fixture
def desk(own_home: Path) -> Iterator[Desk]:
    made = make_desk(own_home)
    lose_gpu(made)
    yield made
    made.close()


def client(desk: Desk, scope: str | None) -> AsgiClient:
    token = call(desk, "token.create", {"name": scope, "scopes": [scope]}, OPERATOR)["token"] if scope else None
    return AsgiClient(mounted(create_api(lambda: desk, lambda: None)), token)


def test_a_reader_lists_the_open_alerts(desk: Desk) -> None:
    told = client(desk, "read").get("/api/v1/alerts").json()
    assert told["open"] == 1
    assert [(a["kind"], a["severity"], a["etag"]) for a in told["alerts"]] == [("gpu_lost", "bad", '"1"')]
    assert told["channels"] == []


def test_an_operator_acknowledges_what_was_read(desk: Desk) -> None:
    api = client(desk, "operator")
    alert = api.get("/api/v1/alerts").json()["alerts"][0]
    path = f"/api/v1/alerts/{alert['id']}/acknowledge"
    done = api.post(path, headers={"If-Match": alert["etag"]}, json={"reason": "seen"})
    assert (done.status_code, done.headers["etag"], done.json()["state"]) == (200, '"2"', "acknowledged")
    again = api.post(path, headers={"If-Match": alert["etag"]})
    assert (again.status_code, again.json()["version"]) == (200, 2), "a retry is no second acknowledgement"
    other = client(desk, "read").get("/api/v1/alerts").json()["alerts"][0]
    assert other["acknowledged_by"] == "token:operator"


@pytest.mark.parametrize(
    ("scope", "headers", "body", "status"),
    [
        (None, {"If-Match": '"1"'}, None, 401),
        ("read", {"If-Match": '"1"'}, None, 403),
        ("operator", {}, None, 428),
        ("operator", {"If-Match": "*"}, None, 428),
        ("operator", {"If-Match": '"9"'}, None, 409),
        ("operator", {"If-Match": '"new"'}, None, 422),
        ("operator", {"If-Match": '"1"'}, {"version": 2}, 422),
        ("operator", {"If-Match": '"1"'}, {"surprise": 2}, 422),
    ],
)
def test_every_other_acknowledgement_is_a_problem_and_changes_nothing(
    desk: Desk, scope: str | None, headers: dict[str, str], body: dict[str, int] | None, status: int
) -> None:
    alert_id = call(desk, "alert.list", {}, OPERATOR)["alerts"][0]["id"]
    options = {"json": body} if body is not None else {}
    got = client(desk, scope).post(f"/api/v1/alerts/{alert_id}/acknowledge", headers=headers, **options)
    assert got.status_code == status
    assert got.headers["content-type"] == "application/problem+json"
    assert call(desk, "alert.list", {}, OPERATOR)["alerts"][0]["state"] == "open"


def test_an_alert_that_does_not_exist_is_not_found(desk: Desk) -> None:
    got = client(desk, "operator").post(f"/api/v1/alerts/{'0' * 64}/acknowledge", headers={"If-Match": '"1"'})
    assert got.status_code == 404


def test_the_metric_counts_open_alerts(desk: Desk) -> None:
    assert 'joulebook_alerts{acknowledged="false",kind="gpu_lost",severity="bad"} 1.0' in metrics(desk)
    alert = call(desk, "alert.list", {}, OPERATOR)["alerts"][0]
    call(desk, "alert.ack", {"id": alert["id"], "version": 1}, OPERATOR)
    assert 'joulebook_alerts{acknowledged="true",kind="gpu_lost",severity="bad"} 1.0' in metrics(desk)


def metrics(desk: Desk) -> str:
    return client(desk, None).get("/api/metrics").text
