"""The API of recommendations: reading with ETags, deciding with If-Match and Idempotency-Key, reporting."""

from __future__ import annotations

from datetime import timedelta

from tests.api.conftest import Api
from warehouse import ledger
from warehouse.clock import utcnow

PATH = "/api/v1/recommendations"


def test_the_list_and_one_of_it(api: Api) -> None:
    reader = api.as_("read")
    listed = reader.get(PATH)
    assert listed.status_code == 200
    assert [r["id"] for r in listed.json()["recommendations"]] == ["R-0001"]
    one = reader.get(f"{PATH}/R-0001")
    assert one.headers["ETag"] == '"1"'
    assert one.json()["content"]["title"] == "tier 1: old -> new"
    assert reader.get(PATH, params={"state": "APPROVED"}).json()["recommendations"] == []


def test_the_whole_circle_over_http(api: Api) -> None:
    operator, router = api.as_("operator"), api.as_("downstream")

    def command(client: object, step: str, key: str, body: dict[str, object] | None = None) -> dict[str, object]:
        tag = api.as_("read").get(f"{PATH}/R-0001").headers["ETag"]
        headers = {"If-Match": tag, "Idempotency-Key": key}
        answer = client.post(f"{PATH}/R-0001/{step}", json=body or {}, headers=headers)  # type: ignore[attr-defined]
        assert answer.status_code == 200, answer.text
        told: dict[str, object] = answer.json()
        assert answer.headers["ETag"] == told["etag"]
        return told

    assert command(operator, "approve", "1")["state"] == "APPROVED"
    (handed,) = router.post("/api/v1/downstream/collect", json={"target": "router"}).json()["commands"]
    assert handed["kind"] == "apply"
    assert command(router, "acknowledge", "2", {"target": "router"})["state"] == "ACKED"
    assert command(router, "actuate", "3", {"target": "router"})["state"] == "OBSERVING"
    start = utcnow()
    measured = {
        "target": "router",
        "window_start_at": start.isoformat() + "Z",
        "window_end_at": (start + timedelta(hours=1)).isoformat() + "Z",
        "evidence_class": "allocated",
        "attempts": 1000,
        "successes": 1000,
        "energy_j": 50_000.0,
        "carbon_g": 2.8,
        "carbon_evidence_class": "calibrated",
    }
    assert command(router, "outcome", "4", measured)["state"] == "SUCCEEDED"
    assert command(operator, "rollback", "5", {"reason": "demo"})["pending"] == "rollback"
    (undo,) = router.post("/api/v1/downstream/collect", json={"target": "router"}).json()["commands"]
    assert undo["kind"] == "rollback"
    command(router, "acknowledge", "6", {"target": "router"})
    assert command(router, "rolled-back", "7", {"target": "router"})["state"] == "ROLLED_BACK"
    assert ledger.verify(api.desk.warehouse).ok
    actors = {e["actor"] for e in api.as_("read").get(f"{PATH}/R-0001").json()["timeline"]}
    assert {"token:operator", "token:downstream"} <= actors


def test_revision_and_key_may_come_in_the_body(api: Api) -> None:
    answer = api.as_("operator").post(f"{PATH}/R-0001/approve", json={"revision": 1, "idempotency_key": "k"})
    assert answer.json()["state"] == "APPROVED"


def test_a_retry_with_the_same_key_gets_the_same_answer(api: Api) -> None:
    headers = {"If-Match": '"1"', "Idempotency-Key": "k"}
    first = api.as_("operator").post(f"{PATH}/R-0001/approve", headers=headers)
    again = api.as_("operator").post(f"{PATH}/R-0001/approve", headers=headers)
    assert first.status_code == again.status_code == 200
    assert first.json() == again.json()


def test_without_a_revision_428_and_with_a_stale_one_409(api: Api) -> None:
    operator = api.as_("operator")
    assert operator.post(f"{PATH}/R-0001/approve", headers={"Idempotency-Key": "a"}).status_code == 428
    star = {"If-Match": "*", "Idempotency-Key": "a"}
    assert operator.post(f"{PATH}/R-0001/approve", headers=star).status_code == 428
    stale = {"If-Match": '"9"', "Idempotency-Key": "a"}
    answer = operator.post(f"{PATH}/R-0001/approve", headers=stale)
    assert answer.status_code == 409
    assert answer.headers["content-type"] == "application/problem+json"
    assert "Nothing was written" in answer.json()["detail"]


def test_header_and_body_must_not_contradict_each_other(api: Api) -> None:
    operator = api.as_("operator")
    body = {"revision": 2, "idempotency_key": "k"}
    assert operator.post(f"{PATH}/R-0001/approve", json=body, headers={"If-Match": '"1"'}).status_code == 422
    assert operator.post(f"{PATH}/R-0001/approve", json=body, headers={"Idempotency-Key": "x"}).status_code == 422
    assert operator.post(f"{PATH}/R-0001/approve", json=body, headers={"If-Match": '"abc"'}).status_code == 422


def test_a_scope_that_does_not_allow_it_is_403_and_leaves_one_trace(api: Api) -> None:
    for _ in range(3):
        answer = api.as_("downstream").post(f"{PATH}/R-0001/approve", json={"revision": 1, "idempotency_key": "k"})
        assert answer.status_code == 403
    assert answer.json()["detail"] == (
        "token:downstream may not approve a recommendation, so that its targets collect it: "
        "it needs the scope 'operator'."
    )
    (refused,) = ledger.events(api.desk.warehouse, kind="recommendation.refused")
    assert (refused.actor, refused.data["command"]) == ("token:downstream", {"name": "approve"})
    assert api.as_("read").get(f"{PATH}/R-0001").json()["state"] == "PROPOSED"


def test_the_table_can_be_read_and_declared_with_its_version(api: Api) -> None:
    reader, operator = api.as_("read"), api.as_("operator")
    seen = reader.get("/api/v1/routing-table")
    body = {"cells": [{"category": "debugging", "tier": 1, "offer_id": "old"}]}
    assert operator.request("PUT", "/api/v1/routing-table", json=body).status_code == 428
    told = operator.request("PUT", "/api/v1/routing-table", json=body, headers={"If-Match": seen.headers["ETag"]})
    assert told.status_code == 200
    assert reader.get("/api/v1/routing-table").headers["ETag"] == told.headers["ETag"] != seen.headers["ETag"]


def test_a_decision_can_be_tried_out(api: Api) -> None:
    question = {"category": "debugging", "tier": 1, "required_context_tokens": 8000}
    told = api.as_("read").post("/api/v1/route", json=question).json()
    assert (told["chosen"], told["routes_now_to"]) == ("new", "old")
    answer = api.as_("read").post("/api/v1/route", json={**question, "category": "poetry"})
    assert answer.status_code == 422
    assert answer.json()["detail"] == "category is 'poetry'."
    assert "coding_general" in answer.json()["fix"]


def test_refresh_needs_an_operator(api: Api) -> None:
    assert api.as_("read").post(f"{PATH}/refresh").status_code == 403
    assert api.as_("operator").post(f"{PATH}/refresh").json()["unchanged"] == ["R-0001"]
