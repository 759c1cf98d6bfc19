"""The fleet over HTTP: reading needs `read`, running `operator`, and an error is a problem document."""

from __future__ import annotations

import pytest

from tests.api.conftest import Api

BODY = {
    "pool": ["H100-80GB:2"],
    "prompt_tokens": 500,
    "output_tokens": 100,
    "requests_per_s": 5.0,
    "requests": 200,
    "seeds": [0],
}


def test_an_experiment_is_run_listed_and_read(api: Api) -> None:
    answer = api.as_("operator").post("/api/v1/fleet/simulate", json={**BODY, "policy": "least_loaded"})
    assert answer.status_code == 200, answer.text
    told = answer.json()
    assert told["cases"][0]["figures"]["completed"]["value"] == 200
    reader = api.as_("read")
    assert [r["id"] for r in reader.get("/api/v1/fleet/runs?experiment=simulate").json()["runs"]] == [told["id"]]
    short = told["id"].replace("-", "")[:12]
    assert reader.get(f"/api/v1/fleet/runs/{short}").json() == told
    assert reader.get("/api/v1/fleet/report").json() == told


def test_every_experiment_answers(api: Api) -> None:
    client = api.as_("operator")
    two = {**BODY, "pool": ["H100-80GB:2", "A100-80GB:2"], "policies": ["static", "least_loaded"]}
    assert client.post("/api/v1/fleet/compare", json=two).json()["groups"][0]["best"]
    assert client.post("/api/v1/fleet/sensitivity", json=two).json()["flip"]["probability"] >= 0
    assert client.post("/api/v1/fleet/size", json={**BODY, "verify": False}).json()["sizes"][0]["instances"] == 1
    flexed = client.post("/api/v1/fleet/flex", json={**BODY, "levels": [0.1], "verify": False}).json()
    assert [row["reduction"] for row in flexed["levels"]] == [0.0, 0.1]


def test_lists_are_read_without_a_run(api: Api) -> None:
    reader = api.as_("read")
    assert {"H100-80GB", "A10G"} <= {p["ask_for"] for p in reader.get("/api/v1/fleet/profiles").json()["profiles"]}
    assert "energy_aware" in reader.get("/api/v1/fleet/workloads").json()["policies"]
    assert isinstance(reader.get("/api/v1/fleet/backends").json()["backends"], list)
    assert reader.get("/api/v1/fleet/calibrations?quantity=power").json()["calibrations"] == []
    assert reader.get("/api/v1/fleet/progress?task=none").json() == {"running": False}
    assert api.as_("operator").post("/api/v1/fleet/cancel", json={"task": "none"}).json() == {"cancelled": False}


def test_who_may_only_read_runs_nothing(api: Api) -> None:
    for path in ("simulate", "compare", "size", "flex", "sensitivity"):
        assert api.as_("read").post(f"/api/v1/fleet/{path}", json=BODY).status_code == 403, path
    assert api.as_("read").post("/api/v1/fleet/calibrate", json={}).status_code == 403
    assert api.as_(None).get("/api/v1/fleet/runs").status_code == 401


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        ({**BODY, "pool": ["RTX9000:1"]}, 422, "RTX9000"),
        ({**BODY, "pool": ["H100:0"]}, 422, "0 instances"),
        ({**BODY, "pools": []}, 422, "pools"),
        ({**BODY, "requests_per_s": 0}, 422, "requests_per_s"),
        (
            {**BODY, "scenario": {"classes": [{"name": "eu", "share": 1, "residency": ["eu"]}]}},
            422,
            "no pool may serve",
        ),
    ],
)
def test_a_bad_request_is_a_problem_document(api: Api, body: dict[str, object], status: int, told: str) -> None:
    answer = api.as_("operator").post("/api/v1/fleet/simulate", json=body)
    assert answer.status_code == status
    assert told in answer.text
    assert answer.headers["content-type"].startswith("application/problem+json")
    assert api.as_("read").get("/api/v1/fleet/report").status_code == 404
