"""`joulebook fleet`: what is run is what is stored, bad input is told by name, and a cancelled run leaves nothing."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from app.cli import main
from app.desk import Desk, local_operator, open_desk
from app.errors import AppError, Conflict
from app.fleet import runs as fleet_runs
from app.fleet.asked import scenario_of
from app.fleet.sample import sample_fleet
from app.operations import Actor, call
from app.operations.fleet import ScenarioParams
from app.operations.sampling import _delete
from app.replay.progress import Progress
from app.settings import load_settings
from ingest.sample.trace import TRACE
from warehouse.loads import load
from warehouse.tables import frame

OPERATOR = local_operator("cli")
Cli = Callable[..., Any]
POOLS = ("--pool", "h100=H100-80GB:2:GB", "--pool", "a100=A100-80GB:2:FR")
FAST = (*POOLS, "--trace", "t", "--seed", "0")
CDF: dict[str, Any] = {"cdf": [[256, 0.1], [1024, 0.55], [4096, 0.95], [8000, 1.0]], "source": "made up"}


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse file with a trace and a distribution; made once and copied."""
    home = tmp_path_factory.mktemp("warm")
    trace, cdf = home / "t.csv", home / "c.json"
    rows = [f"{i / 8},{200 + 37 * i % 900},{40 + 11 * i % 200},{('chat', 'code')[i % 2]}" for i in range(400)]
    trace.write_text("arrival_s,prompt_tokens,output_tokens,category\n" + "\n".join(rows) + "\n")
    cdf.write_text(json.dumps(CDF))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JOULEBOOK_HOME", str(home))
        patch.setenv("JOULEBOOK_OFFLINE", "true")
        desk = open_desk(load_settings())
        for kind, path, options in (("request-trace", trace, {"trace": "t"}), ("length-cdf", cdf, {"cdf": "c"})):
            params = {"kind": kind, "path": str(path), "source": f"file:{kind}", "options": options}
            assert call(desk, "import", params, OPERATOR)["state"] == "OK"
        desk.close()
    return home / "joulebook.duckdb"


@pytest.fixture
def home(own_home: Path, warm: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JOULEBOOK_OFFLINE", "true")
    shutil.copy(warm, own_home / "joulebook.duckdb")
    return own_home


@pytest.fixture
def cli(home: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Run a command; its JSON document, or its text where `text` is asked for."""

    def run(*words: str, code: int = 0, text: bool = False) -> Any:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(["fleet", *words, *([] if text else ["--json"])])
        told = capsys.readouterr()
        assert ended.value.code == code, told.out + told.err
        return told.out + told.err if text else json.loads(told.out)

    return run


@pytest.fixture
def desk(home: Path) -> Iterator[Desk]:
    opened = open_desk(load_settings())
    yield opened
    opened.close()


def test_what_is_run_is_what_is_stored_and_shown_again(cli: Cli) -> None:
    told = cli("compare", *FAST, "--policy", "least_loaded", "--policy", "energy_aware")
    assert cli("report") == told
    assert cli("report", told["id"].replace("-", "")[:12]) == told
    (row,) = cli("runs")["runs"]
    assert {k: row[k] for k in ("id", "experiment", "evidence_class", "quality")} == {
        "id": told["id"], "experiment": "compare", "evidence_class": "modeled", "quality": "FAIR"
    }  # fmt: skip
    assert row["scenario_sha256"] == told["scenario_sha256"]
    assert told["as_of"].endswith("Z") and told["finished_at"].endswith("Z")


def test_figures_stand_in_the_warehouse_with_unit_class_and_pool(cli: Cli, desk: Desk) -> None:
    told = call(desk, "fleet.simulate", {"pool": ["H100-80GB:2"], "trace": "t", "seeds": [0, 1]}, OPERATOR)
    rows = desk.warehouse.query(
        "SELECT pool, metric, value, unit, evidence_class FROM core.fleet_metric WHERE fleet_run_id = $id "
        "AND metric IN ('energy_j', 'p99_ttft_s') ORDER BY pool, metric",
        {"id": told["id"]},
    ).rows()
    joules = told["cases"][0]["figures"]["energy_j"]["value"]
    assert rows[0] == ("", "energy_j", pytest.approx(joules), "J", "modeled")
    assert rows[2][:2] == ("H100-80GB", "energy_j")
    events = desk.warehouse.query("SELECT kind, subject FROM ledger.event WHERE kind = 'fleet.stored'").rows()
    assert events == [("fleet.stored", told["id"])]


def test_a_run_that_is_not_kept_leaves_nothing(cli: Cli) -> None:
    told = cli("simulate", *FAST, "--no-keep")
    assert told["id"] is None
    assert told["cases"][0]["add_up"]
    assert cli("runs")["runs"] == []
    assert "No experiment is stored" in cli("report", code=1, text=True)


def test_a_scenario_file_runs_again_to_the_same_figures(cli: Cli, tmp_path: Path) -> None:
    toml = tmp_path / "fleet.toml"
    toml.write_text(
        'title = "two pools"\nseeds = [0]\n[slo]\nttft_s = 0.4\n[workload]\ntrace = "t"\n[balancer]\npolicy = "pack"\n'
        '[[pools]]\nname = "h100"\nprofile = "H100-80GB"\ninstances = 2\n'
    )
    one = cli("simulate", "--scenario", str(toml), "--no-keep")
    assert (one["title"], one["cases"][0]["case_name"], one["slo"]) == ("two pools", "pack", {"ttft_s": 0.4})
    cli("simulate", "--scenario", str(toml))
    again = tmp_path / "again.json"
    cli("report", "--scenario", str(again))
    assert cli("simulate", "--scenario", str(again), "--no-keep")["report_sha256"] == one["report_sha256"]
    over = cli("simulate", "--scenario", str(toml), "--policy", "least_loaded", "--ttft-s", "0.1", "--no-keep")
    assert (over["cases"][0]["case_name"], over["slo"]) == ("least_loaded", {"ttft_s": 0.1})
    assert over["scenario_sha256"] != one["scenario_sha256"]


def test_sizes_caps_and_sensitivity_say_what_they_found(cli: Cli) -> None:
    load = ("--cdf", "c", "--requests-per-s", "60", "--requests", "1500", "--seed", "0")
    text = cli("size", "--pool", "A100:1", *load, "--convention", "peer", text=True)
    assert "paper_normalised_tokens_per_j" in text and "power of ONE of its boards" in text
    text = cli("flex", "--pool", "H100-80GB:8", *load, "--level", "0.1", "--convention", "peer", text=True)
    assert "the SLO is kept" in text and "W of one board" in text
    text = cli("sensitivity", *FAST, "--seed", "1", "--policy", "static", "--policy", "least_loaded", text=True)
    for words in ("flip probability", "Sobol", "break-even", "active power of H100-80GB"):
        assert words in text
    assert [r["experiment"] for r in cli("runs")["runs"]] == ["sensitivity", "flex", "size"]
    assert len(cli("runs", "--experiment", "flex")["runs"]) == 1


def test_the_comparison_is_printed_with_marks_counts_and_verdicts(cli: Cli) -> None:
    text = cli("compare", *FAST, "--policy", "round_robin", "--policy", "energy_aware", text=True)
    for words in ("J/success ○", "+ rejected", "+ in flight", "modeled, label HIGH, computed FAIR", "idle J", "gCO2eq"):
        assert words in text
    mixed = cli("compare", "--pool", "H100:1", "--pool", "A10G:4", "--trace", "t", "--seed", "0", text=True)
    assert "refused" in mixed and "△ LOW" in mixed
    assert "quality is not controlled for" in mixed and "for simulation only, no fact about production" in mixed


def test_lists_say_what_may_be_named(cli: Cli) -> None:
    told = {p["ask_for"]: p for p in cli("profiles")["profiles"]}
    assert told["H100-80GB"]["curve"][0]["board_w"] == pytest.approx(304.4, abs=0.1)
    assert told["H100-80GB"]["curve"][0]["power_w"] == pytest.approx(8 * 304.4, abs=0.8)
    assert told["A10G"]["presentable"] is False
    assert "W_ms" in told["B200x8-8K"]["missing"]
    names = cli("workloads")
    assert [t["trace"] for t in names["traces"]] == ["t"]
    assert [c["cdf"] for c in names["cdfs"]] == ["c"]
    assert "energy_aware" in names["policies"]
    assert cli("backends")["backends"] == []
    assert cli("calibrations")["calibrations"] == []
    assert "△ LOW" in cli("profiles", text=True)
    for command in ("workloads", "backends", "calibrations", "runs"):
        assert cli(command, text=True)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["simulate", "--pool", "RTX9000:1", "--trace", "t"], "no profile is about the GPU 'RTX9000'"),
        (["simulate", "--pool", "B200:1", "--trace", "t"], "profile B200x8-8K does not know max_slots"),
        (["simulate", "--pool", "A100:0", "--trace", "t"], "pool A100 has 0 instances"),
        (["simulate", "--pool", "A100", "--trace", "t"], "The pool 'A100' cannot be read"),
        (["simulate", "--pool", "A100:1", "--trace", "nope"], "there is no trace 'nope'"),
        (["simulate", "--pool", "A100:1"], "The scenario has no workload"),
        (["simulate", "--trace", "t"], "The scenario has no pool"),
        (["simulate", "--pool", "A100:1", "--cdf", "c"], "generated requests have no rate"),
        (["simulate", "--pool", "A100:1", "--trace", "t", "--policy", "magic"], "there is no policy 'magic'"),
        (["simulate", "--pool", "A100:1", "--trace", "t", "--ttft-s", "-1"], "ttft_s"),
        (["compare", *FAST, "--policy", "pack"], "fewer than two policies: pack"),
        (["size", "--pool", "A100:1", "--cdf", "c", "--requests-per-s", "10", "--ttft-s", "0.0001"], None),
        (["flex", "--pool", "A100:1", "--trace", "t", "--level", "1"], "a reduction of 1"),
        (["calibrate"], "no window with a concurrency"),
        (["calibrate", "--form", "cubic"], "The form is 'cubic'"),
        (["calibrate", "--model", "nope"], "'nope'."),
        (["simulate", *FAST, "--seed", "-1"], "a seed is -1"),
        (["size", *FAST, "--convention", "theirs"], "not 'theirs'"),
        (["sensitivity", *FAST, "--sobol-n", "100"], "a base sample of 100"),
        (["runs", "--experiment", "dance"], "not 'dance'"),
        (["backends", "--since-s", "0"], "not '0'"),
        (["calibrate", "--holdout-table"], "no windows of ml.energy"),
        (["report", "00000000"], "There is no fleet run '00000000'"),
        (["calibrations", "00000000"], "No calibration is '00000000'"),
    ],
)
def test_bad_input_is_told_by_name_with_a_fix(cli: Cli, words: list[str], told: str | None) -> None:
    if told is None:
        assert cli(*words)["sizes"][0]["instances"] is None, "no number of instances meets it: a result, not a crash"
        return
    text = cli(*words, code=1 if words[0] in ("report", "calibrations") else 2, text=True)
    assert told in text
    assert "fix" in text
    assert "Traceback" not in text


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("x.json", "{", "x.json is no valid JSON"),
        ("x.toml", "pools = [", "x.toml is no valid TOML"),
        ("x.json", "[1]", "x.json is no scenario"),
        ("x.json", '{"pools": [{"name": "a", "profile": "A100", "instances": "two"}], "workload": {"trace": "t"}}',
         "pools[0].instances is 'two', not a whole number"),
        ("x.json", '{"pools": [{"name": "a", "profile": "A100", "instances": 1}], "workload": {"trace": "t"}, '
         '"classes": [{"name": "eu", "share": 1, "residency": ["eu"]}]}', "no pool may serve any class"),
        ("x.json", '{"pools": [{"name": "a", "profile": "A100", "instances": 1}], "workload": '
         '{"lengths": [[100, NaN]], "requests_per_s": 1}}', "not a number"),
    ],
)  # fmt: skip
def test_a_bad_scenario_file_is_told_with_its_place(cli: Cli, tmp_path: Path, name: str, text: str, told: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert told in cli("simulate", "--scenario", str(path), code=2, text=True)
    assert "cannot be read" in cli("simulate", "--scenario", str(tmp_path / "none.json"), code=2, text=True)


def test_a_cancelled_run_leaves_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Progress.step

    def step(self: Progress, stage: str, done: int | None = None, total: int | None = None) -> None:
        asked(self, stage, done, total)
        if stage == "simulating" and done == 0:
            told = call(desk, "fleet.progress", {"task": "mine"}, OPERATOR)
            assert told == {"running": True, "stage": "simulating", "done": 0, "total": 10}
            assert call(desk, "fleet.cancel", {"task": "mine"}, OPERATOR) == {"cancelled": True}

    monkeypatch.setattr(Progress, "step", step)
    params = {"pool": ["H100-80GB:2", "A100:2"], "trace": "t", "seeds": [0, 1], "task": "mine"}
    with pytest.raises(Conflict, match="The fleet experiment was cancelled; nothing of it was kept"):
        call(desk, "fleet.compare", params, OPERATOR)
    assert call(desk, "fleet.runs", {}, OPERATOR)["runs"] == []
    assert call(desk, "fleet.progress", {"task": "mine"}, OPERATOR) == {"running": False}
    assert desk.warehouse.scalar("SELECT count(*) FROM core.fleet_metric") == 0


def test_a_run_whose_storing_fails_leaves_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("the disk is full")

    monkeypatch.setattr(fleet_runs.store.ledger, "append", fail)
    with pytest.raises(RuntimeError):
        call(desk, "fleet.simulate", {"pool": ["H100-80GB:1"], "trace": "t", "seeds": [0]}, OPERATOR)
    assert desk.warehouse.scalar("SELECT count(*) FROM core.fleet_run") == 0
    assert desk.warehouse.scalar("SELECT count(*) FROM core.fleet_metric") == 0


def windows(desk: Desk, batches: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)) -> None:
    """Measured windows of one instance, two at each batch, on known curves."""
    start = datetime(2026, 11, 1)
    rows = [
        {
            "observation_id": f"w{i}-{n}", "provider": "local", "hardware_model": "H100", "hardware_count": 4,
            "logical_model": "acme/big-70b", "runtime": "vllm", "runtime_version": "0.20.0", "config_version": "tp4",
            "window_start_at": start + timedelta(minutes=5 * n + i),
            "window_end_at": start + timedelta(minutes=5 * n + i + 1), "concurrency": float(n),
            "energy_gross_j": 60 * (600 + 300 * math.log2(n + 1)), "output_tokens": round(60_000 * n / (10 + 0.2 * n)),
            "evidence_class": "measured", "method": "counter", "quality": "HIGH", "workload": "organic",
        }
        for n in batches
        for i in (0, 1)
    ]  # fmt: skip
    with desk.warehouse.transaction() as tx:
        table = "core.energy_observation"
        load(tx, table, frame(table, rows), source_id="file:w", run_id="r", known_from=start + timedelta(days=1))


def test_calibrations_are_fitted_once_told_with_their_windows_and_serve_a_pool(desk: Desk) -> None:
    windows(desk)
    told = call(desk, "fleet.calibrate", {"form": "table"}, OPERATOR)
    assert (told["stored"], told["left_out"], told["windows"]) == (2, [], 14)
    assert call(desk, "fleet.calibrate", {"form": "table"}, OPERATOR)["stored"] == 0, "the same fit is kept once"
    linear = call(desk, "fleet.calibrate", {"form": "linear", "quantity": "throughput"}, OPERATOR)
    assert linear["calibrations"][0]["new"] is True
    listed = call(desk, "fleet.calibrations", {"quantity": "power"}, OPERATOR)["calibrations"]
    assert [c["evidence_class"] for c in listed] == ["calibrated"]
    assert "band" not in listed[0]
    (one,) = call(desk, "fleet.calibrations", {"id": listed[0]["calibration_id"][:12]}, OPERATOR)["calibrations"]
    assert len(one["points"]) == 14
    assert {p["observed"] for p in one["points"]} >= {600 + 300 * math.log2(2)}
    assert one["band"][0]["concurrency"] == 1.0
    pool = {
        "name": "ours", "profile": f"calibration:{one['calibration_id']}", "instances": 2, "idle_loaded_w": 500.0,
        "declared": {"calibration_ctx": 1024, "chunk_tokens": 1024, "kv_blocks": 65536, "block_tokens": 16,
                     "max_slots": 512, "usd_per_hour": 4.0},
    }  # fmt: skip
    asked = {"scenario": {"pools": [pool]}, "trace": "t", "seeds": [0]}
    report = call(desk, "fleet.simulate", asked, OPERATOR)
    assert report["evidence_class"] == "calibrated"
    assert report["cases"][0]["add_up"]
    pool["extrapolate"] = True
    assert "extrapolated outside 1 to 64" in call(desk, "fleet.simulate", asked, OPERATOR)["notes"][0]
    text = call(desk, "fleet.profiles", {}, OPERATOR)["profiles"][-1]
    assert text["ask_for"] == f"calibration:{one['calibration_id']}"


def test_too_few_windows_are_no_calibration_and_say_why(desk: Desk) -> None:
    windows(desk, batches=(1, 2))
    told = call(desk, "fleet.calibrate", {}, OPERATOR)
    assert (told["calibrations"], told["stored"]) == ([], 0)
    assert {x["quantity"] for x in told["left_out"]} == {"power", "throughput"}
    assert "4 windows with power at 2 levels" in told["left_out"][0]["why"]


@pytest.mark.parametrize(
    ("text", "pool"),
    [
        ("H100:2", {"name": "H100", "profile": "H100", "instances": 2}),
        ("a=H100-80GB:2:GB", {"name": "a", "profile": "H100-80GB", "instances": 2, "zone": "GB"}),
        ("calibration:12345678:4", {"name": "calibration:12345678", "profile": "calibration:12345678", "instances": 4}),
        ("s=B200x8-context-study@8192:1", {"name": "s", "profile": "B200x8-context-study@8192", "instances": 1}),
    ],
)
def test_a_pool_in_short(text: str, pool: dict[str, Any]) -> None:
    asked = scenario_of(ScenarioParams(pool=[text], trace="t"))
    assert asked["pools"] == [pool]


def test_the_sample_comes_with_experiments_that_go_with_it(desk: Desk) -> None:
    knots = [{"cdf": TRACE, "tokens": t, "share": share} for t, share in CDF["cdf"]]
    with desk.warehouse.transaction() as tx:
        table = "core.length_cdf"
        load(tx, table, frame(table, knots), source_id="sample:lengths", run_id="r", known_from=datetime(2026, 11, 1))
    sample_fleet(desk, OPERATOR)
    found = call(desk, "fleet.runs", {}, OPERATOR)["runs"]
    assert [(r["experiment"], r["is_sample"]) for r in found] == [("flex", True), ("size", True)]
    report = call(desk, "fleet.report", {"experiment": "size"}, OPERATOR)
    assert [row["instances"] for row in report["sizes"]] == sorted(row["instances"] for row in report["sizes"])
    with desk.warehouse.transaction() as tx:
        _delete(tx)
    assert call(desk, "fleet.runs", {}, OPERATOR)["runs"] == []


def test_a_reader_may_read_and_runs_nothing(desk: Desk) -> None:
    reader = Actor("r", "reader", "api", frozenset({"read"}))
    assert call(desk, "fleet.profiles", {}, reader)["profiles"]
    for name in ("simulate", "compare", "size", "flex", "sensitivity", "calibrate", "cancel"):
        with pytest.raises(AppError, match="may not"):
            call(desk, f"fleet.{name}", {}, reader)
