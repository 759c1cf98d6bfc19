"""Every error is a problem document with a fix, and none tells of the inside."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from app.api import create_api
from app.desk import Desk, current
from app.errors import Unavailable
from tests.api.asgi import AsgiClient, mounted
from tests.api.conftest import SECRET, Api
from warehouse.clock import utcnow

PATH = "/api/v1/recommendations"


def problem(answer: httpx.Response, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    told: dict[str, Any] = answer.json()
    assert told["status"] == status
    assert {"type", "title", "detail", "instance"} <= told.keys()
    assert told["type"].startswith("urn:joulebook:problem:")
    return told


def test_no_token_and_a_wrong_token_are_401_and_say_how(api: Api) -> None:
    told = problem(api.as_(None).get(PATH), 401)
    assert "joulebook token create" in told["fix"]
    answer = AsgiClient(api.app, "jbk_wrong").get(PATH)
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    assert "jbk_wrong" not in answer.text
    problem(AsgiClient(api.app, Authorization="Basic YTpi").get(PATH), 401)


def test_the_token_is_asked_for_before_the_body_is_read(api: Api) -> None:
    problem(api.as_(None).post(f"{PATH}/R-0001/approve", content=b"{not json"), 401)


def test_a_revoked_token_is_refused(api: Api) -> None:
    api.driver.call("token.revoke", {"id": "read"})
    assert "was revoked at" in problem(api.as_("read").get(PATH), 401)["detail"]


def test_what_is_not_there_is_404(api: Api) -> None:
    assert problem(api.as_("read").get("/api/v1/nothing"), 404)["instance"] == "/api/v1/nothing"
    assert problem(api.as_("read").get(f"{PATH}/R-0404"), 404)["detail"] == "There is no recommendation 'R-0404'."


def test_a_wrong_method_is_405_and_names_the_right_one(api: Api) -> None:
    answer = api.as_("read").request("DELETE", PATH)
    problem(answer, 405)
    assert answer.headers["Allow"] == "GET"


def test_malformed_json_is_400_and_wrong_fields_are_422_by_name(api: Api) -> None:
    operator = api.as_("operator")
    headers = {"Content-Type": "application/json"}
    assert problem(operator.post(f"{PATH}/R-0001/approve", content=b"{", headers=headers), 400)
    told = problem(operator.post(f"{PATH}/R-0001/approve", json={"revision": 0, "colour": "blue"}), 422)
    assert [e["field"] for e in told["errors"]] == ["revision", "colour"]
    told = problem(operator.post("/api/v1/route", json={"category": "debugging"}), 422)
    assert "tier: Field required" in told["detail"]


def test_a_large_body_is_413_whether_announced_or_streamed(api: Api) -> None:
    operator = api.as_("operator")
    big = b'{"reason": "' + b"x" * 1_100_000 + b'"}'
    problem(operator.post(f"{PATH}/R-0001/approve", content=big), 413)

    async def chunks() -> Any:
        for _ in range(20):
            yield b"x" * 100_000

    problem(operator.post(f"{PATH}/R-0001/approve", content=chunks()), 413)


def test_a_page_of_another_site_may_not_send_commands(api: Api) -> None:
    operator = api.as_("operator")
    body = {"revision": 1, "idempotency_key": "k"}
    for origin in ("https://evil.example", "null", "http://127.0.0.1:9999"):
        told = problem(operator.post(f"{PATH}/R-0001/approve", json=body, headers={"Origin": origin}), 403)
        assert "may not send commands" in told["detail"]
    own = {"Origin": "http://127.0.0.1:8501"}
    assert operator.post(f"{PATH}/R-0001/approve", json=body, headers=own).status_code == 200


def test_an_unexpected_error_tells_nothing_of_the_inside_but_the_log_does(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a secret detail of the inside")

    monkeypatch.setattr("app.api.deps.call", broken)
    with capture_logs() as logs:
        answer = api.as_("read").get(PATH)
    told = problem(answer, 500)
    assert "RuntimeError: a secret detail of the inside" in logs[0]["traceback"]
    assert "secret detail" not in answer.text
    assert "Traceback" not in answer.text
    assert told["fix"].startswith("look at its log")


def test_a_closed_warehouse_is_503_with_the_reason(api: Api) -> None:
    api.desk.problem = Unavailable("The warehouse x is in use by process 7.", fix="stop that process")
    assert api.desk._warehouse is not None
    api.desk._warehouse.close()
    api.desk._warehouse = None
    assert problem(api.as_("read").get(PATH), 503)["fix"] == "stop that process"
    told = problem(api.as_(None).get("/api/healthz"), 503)
    assert told["detail"] == "The warehouse x is in use by process 7."
    assert told["warehouse"] == "unusable"
    assert b"joulebook_warehouse_up 0.0" in api.as_(None).get("/api/metrics").content


def test_without_a_desk_health_says_so() -> None:
    client = AsgiClient(mounted(create_api(current)))
    assert problem(client.get("/api/healthz"), 503)["detail"] == "The desk is not running."


# the private door ---------------------------------------------------------------------------------------


def test_the_private_door_needs_the_secret_of_this_start(api: Api) -> None:
    door = "/api/internal/call/recommend.list"
    problem(api.as_("operator").post(door, json={}), 401)
    problem(AsgiClient(api.app, **{"X-Joulebook-Secret": "wrong"}).post(door, json={}), 401)
    client = AsgiClient(api.app, **{"X-Joulebook-Secret": SECRET})
    assert len(client.post(door, json={}).json()["recommendations"]) == 1
    problem(client.post(door, json={}, headers={"Origin": "http://127.0.0.1:8501"}), 403)


def test_the_private_door_acts_as_the_local_operator_of_the_command_line(api: Api) -> None:
    client = AsgiClient(api.app, **{"X-Joulebook-Secret": SECRET})
    params = {"id": "R-0001", "revision": 1, "idempotency_key": "k"}
    told = client.post("/api/internal/call/recommend.approve", json=params).json()
    assert told["timeline"][-1]["channel"] == "cli"
    told = problem(client.post("/api/internal/call/recommend.frobnicate", json={}), 404)
    assert told["exit_code"] == 1
    told = problem(client.post("/api/internal/call/recommend.show", json={"identity": "R-0001"}), 422)
    assert told["exit_code"] == 2


def test_a_downstream_at_the_private_door_acts_under_its_own_name_and_may_not_decide(api: Api) -> None:
    client = AsgiClient(api.app, **{"X-Joulebook-Secret": SECRET, "X-Joulebook-Target": "router"})
    api.driver.send("approve")
    (handed,) = client.post("/api/internal/call/recommend.collect", json={"target": "router"}).json()["commands"]
    assert handed["id"] == "R-0001"
    sent = api.driver.events("recommendation.sent")[-1]
    assert (sent.actor, sent.role) == ("downstream:router@local", "downstream")
    params = {"id": "R-0001", "revision": 3, "idempotency_key": "k"}
    problem(client.post("/api/internal/call/recommend.rollback", json=params), 403)


def test_without_a_secret_the_private_door_stays_shut(desk: Desk) -> None:
    client = AsgiClient(mounted(create_api(lambda: desk)), **{"X-Joulebook-Secret": ""})
    problem(client.post("/api/internal/call/recommend.list", json={}), 401)


# what is open -------------------------------------------------------------------------------------------


def test_health_tells_version_and_start(api: Api) -> None:
    told = api.as_(None).get("/api/healthz")
    assert told.status_code == 200
    body = told.json()
    assert (body["status"], body["warehouse"]) == ("ok", "ok")
    assert abs((utcnow() - datetime.fromisoformat(body["started_at"].removesuffix("Z"))).total_seconds()) < 60


def test_openapi_is_served_with_every_route_and_no_private_one(api: Api) -> None:
    schema = api.as_(None).get("/api/v1/openapi.json").json()
    paths = schema["paths"]
    steps = ("approve", "dismiss", "acknowledge", "actuate", "outcome", "rollback", "rolled-back")
    assert {f"/v1/recommendations/{{rec_id}}/{step}" for step in steps} <= paths.keys()
    assert {"/v1/route", "/v1/routing-table", "/v1/downstream/collect", "/healthz", "/metrics"} <= paths.keys()
    assert not any("internal" in path for path in paths)
    assert schema["servers"] == [{"url": "/api"}]
    approve = paths["/v1/recommendations/{rec_id}/approve"]["post"]
    assert "application/problem+json" in json.dumps(approve["responses"]["default"])
    assert {p["name"] for p in approve["parameters"]} == {"rec_id", "If-Match", "Idempotency-Key"}


def test_the_documentation_page_loads_nothing_from_elsewhere(api: Api) -> None:
    page = api.as_(None).get("/api/v1/docs")
    assert page.status_code == 200
    assert "/api/v1/recommendations/{rec_id}/approve" in page.text
    assert "<script" not in page.text
    assert "http://" not in page.text.replace("http://127.0.0.1", "")
    assert "https://" not in page.text


def test_metrics_are_prometheus_text_without_secrets(api: Api) -> None:
    text = api.as_(None).get("/api/metrics").text
    assert 'joulebook_recommendations{state="PROPOSED"} 1.0' in text
    assert 'joulebook_recommendations{state="ACKED"} 0.0' in text
    events = len(api.driver.events())
    assert f"joulebook_ledger_events_total {float(events)}" in text
    assert "joulebook_warehouse_up 1.0" in text
    assert not any(token in text for token in (*api.tokens.values(), SECRET))
