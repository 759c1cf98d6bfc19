"""The replay lab over HTTP: reading needs `read`, running `operator`, and an error is a problem document."""

from __future__ import annotations

import pytest

from tests.api.conftest import Api
from tests.app.replaying import outcomes
from tests.recommend.desks import OPERATOR


@pytest.fixture
def ours(api: Api) -> Api:
    """An API over a desk with the data set `ours`."""
    path = outcomes(api.desk.settings.home / "ours.csv", n=60)
    told = api.driver.call("import", {"kind": "outcomes", "path": str(path), "options": {"dataset": "ours"}}, OPERATOR)
    assert told["state"] == "OK"
    return api


BODY = {"dataset": "ours", "embedder": "none", "policies": ["oracle", "benchmark"]}


def test_a_run_is_started_listed_and_read_with_its_choices(ours: Api) -> None:
    report = ours.as_("operator").post("/api/v1/replay/runs", json=BODY)
    assert report.status_code == 200, report.text
    told = report.json()
    assert told["hypervolume"] > 0
    reader = ours.as_("read")
    assert [r["run_id"] for r in reader.get("/api/v1/replay/runs?dataset=ours").json()["runs"]] == [told["id"]]
    short = told["id"].replace("-", "")[:12]
    assert reader.get(f"/api/v1/replay/runs/{short}").json() == told
    assert reader.get("/api/v1/replay/report?dataset=ours").json()["id"] == told["id"]
    first = reader.get(f"/api/v1/replay/runs/{short}/choices?policy=always-small&limit=15").json()
    rest = reader.get(f"/api/v1/replay/runs/{short}/choices?policy=always-small&after={first['next']}").json()
    assert (len(first["choices"]), len(rest["choices"]), rest["next"]) == (15, 5, None)
    assert {c["arm"] for c in first["choices"]} == {"small"}


def test_data_sets_and_published_points_are_read_without_a_run(ours: Api) -> None:
    reader = ours.as_("read")
    assert {"ours", "published"} <= {d["dataset"] for d in reader.get("/api/v1/replay/datasets").json()["datasets"]}
    told = reader.get("/api/v1/replay/report?dataset=published").json()
    assert told["hypervolume"] == pytest.approx(3287.6091, abs=1e-6)
    assert reader.get("/api/v1/replay/progress?task=none").json() == {"running": False}
    assert reader.get("/api/v1/replay/trained").json() == {"trained": []}


def test_who_may_only_read_runs_nothing(ours: Api) -> None:
    for path, body in (("runs", BODY), ("train", {"dataset": "ours"}), ("cancel", {"task": "x"})):
        answer = ours.as_("read").post(f"/api/v1/replay/{path}", json=body)
        assert answer.status_code == 403, path
    assert ours.as_(None).get("/api/v1/replay/runs").status_code == 401


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        ({**BODY, "dataset": "nope"}, 422, "No outcome of 'nope'"),
        ({**BODY, "polices": []}, 422, "polices"),
        ({**BODY, "embeddings": "/etc/passwd"}, 403, "Only the local user"),
        ({**BODY, "policies": ["trl:/somewhere"]}, 403, "Only the local user"),
    ],
)
def test_a_bad_run_is_a_problem_document(ours: Api, body: dict[str, object], status: int, told: str) -> None:
    answer = ours.as_("operator").post("/api/v1/replay/runs", json=body)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert told in answer.json()["detail"]


def test_an_unknown_run_or_policy_is_not_found(ours: Api) -> None:
    reader = ours.as_("read")
    assert reader.get("/api/v1/replay/runs/0123456789ab").status_code == 404
    told = ours.as_("operator").post("/api/v1/replay/runs", json=BODY).json()
    missing = reader.get(f"/api/v1/replay/runs/{told['id']}/choices?policy=nobody")
    assert missing.status_code == 404
    assert "always-small" in missing.json()["fix"]
