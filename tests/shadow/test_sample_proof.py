"""The sample ends with its gates judged: what saves without harm is ready, what trades joules for grams is not."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.cli import app
from app.desk import Desk, open_desk
from app.settings import load_settings
from ingest.base import Payload
from ingest.kinds import kind
from ingest.sample.labels import labels_csv
from ingest.sample.pairs import REPEATED, Side, pairs_csv
from tests.shadow.desks import operate

START = datetime(2026, 3, 1, 12)
SIDES = Side("a", 100.0, 0.0002, 0.002), Side("b", 60.0, 0.00012, 0.001)
MIX = {"debugging|0-511": 0.7, "general_chat|2048-8191": 0.295, "summarization|512-2047": 0.005}


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory, sample_home: Path) -> Iterator[Desk]:
    """The sample, for this file."""
    home = tmp_path_factory.mktemp("sample")
    shutil.copytree(sample_home, home, dirs_exist_ok=True)
    (home / "joulebook.toml").write_text("[sample]\nload_when_empty = false\n[power]\nenabled = false\n")
    patch = pytest.MonkeyPatch()
    patch.setenv("JOULEBOOK_HOME", str(home))
    desk = open_desk(load_settings())
    yield desk
    desk.close()
    patch.undo()


def test_two_are_ready_by_a_pass_and_one_failed_by_its_grams(loaded: Desk) -> None:
    shown = {r["id"]: r for r in operate(loaded, "recommend.list", {"include_closed": True})["recommendations"]}
    assert {name: r["state"] for name, r in shown.items()} == {"R-0001": "READY", "R-0002": "READY", "R-0003": "FAILED"}
    for name in ("R-0001", "R-0002"):
        gate = operate(loaded, "shadow.report", {"id": name})["gate"]
        assert (gate["verdict"], gate["n"], gate["evidence_kind"]) == ("PASS", 2627, "paired_replay")
        assert {c["verdict"] for c in gate["report"]["checks"]} == {"PASS"}
    failed = operate(loaded, "shadow.report", {"id": "R-0003"})["gate"]["report"]
    assert [c["name"] for c in failed["checks"] if c["verdict"] == "FAIL"] == ["carbon"]


def test_the_list_tells_the_success_that_the_gate_found_and_not_only_that_of_the_proposal(loaded: Desk) -> None:
    for row in operate(loaded, "recommend.list")["recommendations"]:
        report = operate(loaded, "shadow.report", {"id": row["id"]})["gate"]["report"]
        check = next(c for c in report["checks"] if c["name"] == "success")
        assert row["proved_success"] == {
            "value": check["estimate"], "low": check["low"], "high": check["high"],
            "evidence_class": "paired_replay", "n": 2627,
        }  # fmt: skip
        span = row["success"]["difference"]
        assert check["high"] - check["low"] < (span["high"] - span["low"]) / 10


def test_the_figures_of_the_replays_are_those_of_the_promise(loaded: Desk) -> None:
    rec = operate(loaded, "recommend.show", {"id": "R-0001"})
    checks = {c["name"]: c for c in operate(loaded, "shadow.report", {"id": "R-0001"})["gate"]["report"]["checks"]}
    promised = 1 + rec["promise"]["energy_j"]["difference"]
    assert checks["energy"]["estimate"] == pytest.approx(promised, rel=0.02)
    assert checks["carbon"]["evidence_class"] == "calibrated"


def test_every_sample_request_is_shadowed_and_any_can_be_explained(loaded: Desk) -> None:
    status = operate(loaded, "shadow.status")
    assert status["logged"] == {"requests": 429, "sampled": 429, "labelled": 429}
    assert status["left"] == 0
    report = operate(loaded, "shadow.report")
    assert report["agreement"]["n"] == sum(c["n"] for c in report["agreement"]["matrix"]) == 429
    one = operate(loaded, "shadow.request", {"request_id": report["newest"][0]["request_id"]})
    assert one["reproduced"] is True
    assert one["ranking"]["eligible"] and one["ranking"]["excluded"]


def test_the_sample_is_asked_as_of_its_loading_because_nothing_was_known_before(loaded: Desk) -> None:
    rows = loaded.warehouse.query("SELECT DISTINCT as_of FROM core.shadow_decision")
    newest = loaded.warehouse.scalar("SELECT max(requested_at) FROM core.shadow_decision")
    assert rows.height == 1
    assert rows["as_of"][0] > newest


@pytest.mark.parametrize(
    "command", [["status"], ["report"], ["report", "R-0001"], ["report", "--request", "REQUEST"]], ids=" ".join
)
def test_the_command_line_says_it_in_words_and_as_one_document(
    loaded: Desk, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Local:
        def __init__(self, _: object) -> None: ...
        def __enter__(self) -> Local:
            return self

        def __exit__(self, *_: object) -> None: ...
        def call(self, name: str, params: dict[str, object] | None = None) -> dict[str, object]:
            return operate(loaded, name, params)

    monkeypatch.setattr("app.client.Client", Local)
    monkeypatch.setattr("app.cli_shadow.Client", Local)
    request = operate(loaded, "shadow.report")["newest"][0]["request_id"]
    words = ["shadow", *(request if w == "REQUEST" else w for w in command)]
    plain = CliRunner().invoke(app, words)
    assert plain.exit_code == 0, plain.output
    assert len(plain.output.splitlines()) > 5
    told = CliRunner().invoke(app, [*words, "--json"])
    assert json.loads(told.stdout)


def test_decide_and_pairs_on_the_command_line(loaded: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from app.desk import local_operator
    from app.operations import call

    class Local:
        def __init__(self, _: object) -> None: ...
        def __enter__(self) -> Local:
            return self

        def __exit__(self, *_: object) -> None: ...
        def call(self, name: str, params: dict[str, object] | None = None) -> dict[str, object]:
            return call(loaded, name, params or {}, local_operator("cli"))

    monkeypatch.setattr("app.client.Client", Local)
    monkeypatch.setattr("app.cli_shadow.Client", Local)
    done = CliRunner().invoke(app, ["shadow", "decide", "--json"])
    assert json.loads(done.stdout)["left"] == 0
    file = tmp_path / "pairs.csv"
    file.write_text(pairs_csv("x", *SIDES, START, 20, MIX))
    told = CliRunner().invoke(app, ["shadow", "pairs", str(file), "--json"])
    assert told.exit_code == 0, told.output
    assert json.loads(told.stdout)["rows_loaded"] == 40
    file.write_text("pair_id\nx\n")
    assert CliRunner().invoke(app, ["shadow", "pairs", str(file), "--json"]).exit_code == 1


# the generator ------------------------------------------------------------------------------------------


def test_the_same_name_gives_the_same_pairs_and_another_start_moves_only_the_stamps() -> None:
    one, same = (pairs_csv("R-0001", *SIDES, START, 400, MIX) for _ in range(2))
    assert one == same
    later = pairs_csv("R-0001", *SIDES, datetime(2026, 4, 1), 400, MIX)
    assert one != later
    assert [line.replace("2026-03-01T12", "") for line in one.splitlines()][1][:20] == later.splitlines()[1][:20]


def test_every_pair_is_taken_by_the_parser_and_every_stratum_has_two() -> None:
    body = pairs_csv("R-0001", *SIDES, START, 400, MIX).encode()
    told = kind("shadow-pairs").parse(Payload("sample:pairs", "shadow-pairs", "x", START, body))
    frame = told.tables["core.shadow_pair"]
    assert told.rejects == ()
    assert frame.height == 400 + REPEATED
    first = frame.filter(frame["repeat_no"] == 0)
    counts = dict((first["category"] + "|" + first["size_band"]).value_counts().iter_rows())
    assert counts == {"debugging|0-511": 280, "general_chat|2048-8191": 118, "summarization|512-2047": 2}
    assert first["control_energy_j"].mean() == pytest.approx(100, rel=1e-6)
    assert first["candidate_energy_j"].mean() == pytest.approx(60, rel=1e-6)
    assert frame.null_count().sum_horizontal()[0] == frame.height, "only the violation is not told"


def test_the_labels_name_requests_that_are_billed(loaded: Desk) -> None:
    found = loaded.warehouse.scalar(
        "SELECT count(*) FROM core.request_label l JOIN core.usage u "
        "ON l.request_id = u.provider || '/' || u.account || '/' || u.usage_key"
    )
    assert found == 429 == len(labels_csv(START).splitlines()) - 1


def test_removing_the_sample_takes_its_proof_along(loaded: Desk) -> None:
    """The last test of this file."""
    told = operate(loaded, "sample.remove")
    assert told["withdrawn"] == ["R-0001", "R-0002"]
    for table in ("core.shadow_pair", "core.shadow_decision", "core.gate_report", "core.request_label"):
        assert told["removed"][table] > 0
        assert loaded.warehouse.scalar(f"SELECT count(*) FROM {table} WHERE source_id LIKE 'sample:%'") == 0
