"""Pairs over a real server: idempotent, restated, refused by name; and what the API says of a shadow."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from datetime import timedelta

import httpx
import pytest
import uvicorn

from app.api import create_api
from app.operations import Actor
from app.shadow.pushing import source_of
from tests.api.asgi import mounted
from tests.recommend.desks import OPERATOR
from tests.shadow.desks import PLANNED, Shadow, log, pairs
from warehouse.clock import utcnow


@pytest.fixture
def url(shadow: Shadow) -> Iterator[str]:
    """The API on a port of its own."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    app = mounted(create_api(lambda: shadow.desk, lambda: None))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    deadline = time.monotonic() + 20
    while not server.started:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    yield f"http://127.0.0.1:{listening.getsockname()[1]}/api/v1/shadow"
    server.should_exit = True
    thread.join(20)
    listening.close()
    assert not thread.is_alive()


@pytest.fixture
def as_(shadow: Shadow, url: str) -> Iterator[dict[str, httpx.Client]]:
    """A client per scope."""
    found = {}
    for scope in ("read", "downstream", "operator"):
        told = shadow.call("token.create", {"name": scope, "scopes": [scope]}, OPERATOR)
        found[scope] = httpx.Client(base_url=url, headers={"Authorization": f"Bearer {told['token']}"}, timeout=60)
    yield found
    for client in found.values():
        client.close()


def test_pairs_arrive_pass_the_gate_and_are_shown(shadow: Shadow, as_: dict[str, httpx.Client]) -> None:
    log(shadow.desk, utcnow() - timedelta(hours=1))
    told = as_["downstream"].post("/pairs", json={"pairs": pairs(), "source": "replay-1"})
    assert told.status_code == 200, told.text
    assert told.json()["source_id"] == "push:shadow-pairs:downstream:replay-1"
    assert (told.json()["rows_loaded"], told.json()["refused"]) == (PLANNED, [])
    assert as_["operator"].post("/decide").json()["written"] == 2
    shadow.judge()
    status = as_["read"].get("/status").json()
    (rec,) = status["recommendations"]
    assert (rec["id"], rec["n"], rec["planned_n"], rec["verdict"]) == ("R-0001", PLANNED, PLANNED, "PASS")
    assert [p["name"] for p in status["policies"]] == ["router", "R-0001"]
    report = as_["read"].get("/report", params={"id": "R-0001"}).json()
    assert report["gate"]["verdict"] == "PASS"
    assert report["agreement"]["matrix"] == [{"incumbent": "old", "chosen": "new", "n": 1}]
    assert report["worth"]["energy_j"]["ratio"] == pytest.approx(0.5)
    assert report["worth"]["energy_j"]["evidence_class"] == "allocated"
    assert report["worth"]["energy_j"]["kind"] == "reference_workload"
    assert report["worth"]["energy_j"]["interval_note"] == "one request alone in general_chat|0-511"
    (request,) = [r["request_id"] for r in report["newest"]]
    one = as_["read"].get("/request", params={"request_id": request}).json()
    assert one["reproduced"] is True
    assert [e["offer_id"] for e in one["ranking"]["eligible"]] == ["new", "old"]


def test_the_same_pairs_again_change_nothing_and_a_changed_one_restates_it(as_: dict[str, httpx.Client]) -> None:
    rows, sender = pairs(10), as_["downstream"]
    assert sender.post("/pairs", json={"pairs": rows}).json()["rows_loaded"] == 10
    again = sender.post("/pairs", json={"pairs": rows}).json()
    assert (again["rows_loaded"], again["rows_unchanged"]) == (0, 10)
    rows[3]["candidate_success"] = False
    restated = sender.post("/pairs", json={"pairs": rows}).json()
    assert (restated["rows_loaded"], restated["rows_unchanged"]) == (1, 9)


def test_another_sender_cannot_restate_what_one_has_measured(shadow: Shadow, as_: dict[str, httpx.Client]) -> None:
    rows = pairs(2)
    as_["downstream"].post("/pairs", json={"pairs": rows})
    told = shadow.call("token.create", {"name": "other", "scopes": ["downstream"]}, OPERATOR)
    other = {"Authorization": f"Bearer {told['token']}"}
    as_["downstream"].post("/pairs", json={"pairs": [r | {"candidate_success": False} for r in rows]}, headers=other)
    kept = shadow.desk.warehouse.query("SELECT source_id, candidate_success FROM core.shadow_pair ORDER BY ALL")
    assert kept.rows() == [("push:shadow-pairs:downstream", True)] * 2 + [("push:shadow-pairs:other", False)] * 2


def test_no_name_of_a_sender_stands_for_the_source_of_another() -> None:
    def source(name: str, told: str | None) -> str:
        return source_of("shadow-pairs", Actor(f"token:{name}", "downstream", "api"), told)

    assert source("eu", "one") != source("eu:one", None)
    assert source("eu", None) != source("eu/", None)


def test_a_bad_pair_is_quarantined_with_its_reason_and_its_siblings_load(
    shadow: Shadow, as_: dict[str, httpx.Client]
) -> None:
    rows = pairs(3)
    rows[1]["control_energy_j"] = -5
    told = as_["downstream"].post("/pairs", json={"pairs": rows}).json()
    assert (told["state"], told["rows_loaded"], told["rows_quarantined"]) == ("PARTIAL", 2, 1)
    (refused,) = told["refused"]
    assert (refused["key"], refused["reason"]) == (rows[1]["pair_id"], "control_energy_j is negative")
    assert shadow.desk.warehouse.scalar("SELECT count(*) FROM ops.quarantine WHERE kind = 'shadow-pairs'") == 1


def test_where_every_pair_is_bad_the_call_is_refused_by_name(as_: dict[str, httpx.Client]) -> None:
    answer = as_["downstream"].post("/pairs", json={"pairs": [r | {"candidate_energy_j": 0} for r in pairs(2)]})
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert "candidate_energy_j is 0, but the request succeeded" in answer.json()["detail"]
    assert "p1-0: candidate_energy_j" in answer.json()["detail"] and "p1-1: " in answer.json()["detail"]


@pytest.mark.parametrize("body", [{}, {"pairs": []}, {"pairs": "x"}, {"pairs": [1], "extra": 1}, {"pairs": [{}]},
                                  {"pairs": [1], "source": "no/slash"}])  # fmt: skip
def test_a_body_that_is_no_list_of_pairs_is_refused(as_: dict[str, httpx.Client], body: object) -> None:
    assert as_["downstream"].post("/pairs", json=body).status_code == 422


def test_sending_needs_the_downstream_scope_and_asking_an_operator(as_: dict[str, httpx.Client]) -> None:
    assert as_["read"].post("/pairs", json={"pairs": pairs(1)}).status_code == 403
    assert as_["downstream"].post("/decide").status_code == 403
    assert as_["read"].get("/status").status_code == 200


def test_labels_arrive_the_same_way(shadow: Shadow, as_: dict[str, httpx.Client]) -> None:
    label = {"request_id": "acme/main/x", "category": "debugging", "tier": 1, "propensity": 0.9}
    told = as_["downstream"].post("/labels", json={"requests": [label, label | {"request_id": "y"}]}).json()
    assert (told["rows_loaded"], told["rows_quarantined"]) == (1, 1)
    assert shadow.desk.warehouse.query("SELECT category, propensity FROM core.request_label").row(0) == (
        "debugging",
        0.9,
    )
