"""`joulebook replay`: what is run is what is stored, choices come before outcomes, and nothing is half there."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from app.cli import main
from app.desk import Desk, local_operator, open_desk
from app.errors import AppError, Conflict
from app.operations import call
from app.replay import runs as replay_runs
from app.replay.progress import Progress
from app.settings import load_settings
from app.watching import watched
from tests.app.replaying import N, outcomes

FAST = ("--embedder", "none", "--policy", "oracle", "--policy", "random", "--policy", "benchmark")
Cli = Callable[..., Any]
OPERATOR = local_operator("cli")


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse file with the data sets `ours` and, with missing cells, `holes`; made once and copied."""
    home = tmp_path_factory.mktemp("warm")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JOULEBOOK_HOME", str(home))
        patch.setenv("JOULEBOOK_OFFLINE", "true")
        desk = open_desk(load_settings())
        for name in ("ours", "holes"):
            path = outcomes(home / f"{name}.csv", holes=name == "holes")
            params = {"kind": "outcomes", "path": str(path), "source": f"file:{name}", "options": {"dataset": name}}
            assert call(desk, "import", params, OPERATOR)["state"] == "OK"
        desk.close()
    return home / "joulebook.duckdb"


@pytest.fixture(scope="module")
def ran(warm: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The report of one run, for tests that only read it."""
    home = tmp_path_factory.mktemp("ran")
    shutil.copy(warm, home / "joulebook.duckdb")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JOULEBOOK_HOME", str(home))
        patch.setenv("JOULEBOOK_OFFLINE", "true")
        desk = open_desk(load_settings())
        told = call(desk, "replay.run", run_params(policies=["oracle", "random"], incumbent="medium"), OPERATOR)
        desk.close()
    return told


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
            main(["replay", *words, *([] if text else ["--json"])])
        told = capsys.readouterr()
        assert ended.value.code == code, told.out + told.err
        return told.out + told.err if text else json.loads(told.out)

    return run


def rows(home: Path, sql: str) -> list[dict[str, Any]]:
    desk = open_desk(load_settings())
    try:
        return desk.warehouse.query(sql).to_dicts()
    finally:
        desk.close()


def by_name(report: dict[str, Any], block: int = 0) -> dict[str, dict[str, Any]]:
    return {p["name"]: p for p in report["blocks"][block]["policies"]}


# data sets ------------------------------------------------------------------------------------------


def test_datasets_lists_recorded_outcomes_and_the_published_points(cli: Cli) -> None:
    told = {d["dataset"]: d for d in cli("datasets")["datasets"]}
    assert (told["ours"]["kind"], told["ours"]["queries"], len(told["ours"]["arms"])) == ("outcomes", N, 3)
    assert told["holes"]["coverage"] < 1
    assert told["published"]["hypervolume"] == pytest.approx(3287.6091, abs=1e-6)


# a run ------------------------------------------------------------------------------------------------


def test_a_run_is_reported_and_stored_whole(cli: Cli, home: Path) -> None:
    report = cli("run", "--dataset", "ours", *FAST, "--incumbent", "medium", "--budget-j", "60")
    (block,) = report["blocks"]
    assert report["hypervolume"] == block["hypervolume"] > 0
    assert report["reference_point"]["accuracy"] == 0
    assert (block["n_train"], block["n_test"], block["evidence_class"]) == (80, 40, "measured")
    policies = by_name(report)
    assert {"always-small", "always-medium", "always-large", "oracle", "random", "benchmark"} <= set(policies)
    assert all(p["figures"]["n"] == 40 for p in policies.values())
    (run,) = rows(home, "SELECT * FROM core.replay_run")
    assert (run["dataset"], run["hypervolume"]) == ("ours", report["hypervolume"])
    assert run["choices_sha256"] == report["choices_sha256"]
    assert json.loads(run["report"])["policies"] == block["policies"]
    counts = rows(home, "SELECT policy, count(*) AS n, count(arm) AS arms FROM core.replay_choice GROUP BY ALL")
    assert {c["policy"]: c["n"] for c in counts} == dict.fromkeys(policies, 40)
    assert {c["policy"] for c in counts if not c["arms"]} == {"random"}, "a mixture has probabilities, no arm"
    events = rows(home, "SELECT subject FROM ledger.event WHERE kind = 'replay.stored'")
    assert [e["subject"] for e in events] == [report["id"]]


def test_every_stored_joule_has_its_class_and_n(cli: Cli, home: Path) -> None:
    cli("run", "--dataset", "ours", *FAST)
    joules = rows(home, "SELECT * FROM core.replay_metric WHERE unit LIKE 'J/%'")
    assert joules
    assert {m["evidence_class"] for m in joules if m["value"] is not None} == {"measured"}
    assert all(m["n"] for m in joules)
    whole = {(m["policy"], m["metric"]): m for m in joules if m["benchmark"] == ""}
    assert whole["always-small", "energy_j_per_query"]["low"] < whole["always-small", "energy_j_per_query"]["value"]
    assert {m["benchmark"] for m in joules} == {"", "easy", "hard"}


def test_each_policy_is_a_version_with_the_hash_of_its_code(cli: Cli, home: Path) -> None:
    report = cli("run", "--dataset", "ours", *FAST)
    cli("run", "--dataset", "ours", *FAST)
    versions = {v["policy_id"]: v for v in rows(home, "SELECT * FROM core.policy_version")}
    for policy in report["blocks"][0]["policies"]:
        version = versions[policy["policy_id"]]
        assert (version["name"], version["code_sha256"]) == (policy["name"], report["code_sha256"])
    assert len(versions) == len(report["blocks"][0]["policies"]), "the second run made no new versions"


def test_the_same_seed_gives_the_same_run_and_another_split_another(cli: Cli) -> None:
    first, again = (cli("run", "--dataset", "ours", *FAST, "--seed", "3") for _ in range(2))
    assert first["choices_sha256"] == again["choices_sha256"]
    for name, policy in by_name(first).items():
        assert policy["intervals"] == by_name(again)[name]["intervals"]
    other = cli("run", "--dataset", "ours", *FAST, "--split", "hash", "--seed", "4")
    assert other["choices_sha256"] != first["choices_sha256"]


def test_choices_do_not_move_when_held_out_outcomes_do(cli: Cli, home: Path) -> None:
    """They are hashed before outcomes are joined, so nothing about the outcomes can be in them."""
    before = cli("run", "--dataset", "ours", *FAST)
    desk = open_desk(load_settings())
    with desk.warehouse.transaction() as tx:
        tx.execute(
            "UPDATE core.outcome SET correct = 1 - correct, energy_j = energy_j * 3 WHERE dataset = 'ours' AND "
            "query_id IN (SELECT query_id FROM core.query WHERE dataset = 'ours' AND split = 'test')"
        )
    desk.close()
    after = cli("run", "--dataset", "ours", *FAST)
    assert after["choices_sha256"] == before["choices_sha256"]
    assert after["blocks"][0]["dataset_sha256"] != before["blocks"][0]["dataset_sha256"]
    assert after["blocks"][0]["diagnostics_sha256"] != before["blocks"][0]["diagnostics_sha256"], "the oracle looks"
    large = [by_name(r)["always-large"]["figures"]["accuracy"] for r in (before, after)]
    assert sum(large) == pytest.approx(1)


def test_every_front_has_every_fixed_arm_whatever_was_asked_for(ran: dict[str, Any]) -> None:
    assert {p["fixed_arm"] for p in ran["blocks"][0]["policies"]} == {"small", "medium", "large", None}
    assert set(ran["front"]) <= {"always-small", "always-medium", "always-large", "random"}


def test_a_policy_that_sees_outcomes_is_a_bound_and_never_on_the_front(ran: dict[str, Any]) -> None:
    oracle = by_name(ran)["oracle"]
    assert (oracle["deployable"], oracle["on_front"]) == (False, False)
    assert oracle["figures"]["accuracy"] >= max(p["figures"]["accuracy"] for p in by_name(ran).values())
    assert "oracle" not in ran["front"]


def test_comparisons_are_paired_with_bootstrap_tango_and_delta(ran: dict[str, Any]) -> None:
    assert ran["blocks"][0]["best_fixed_arm"] == "always-large"
    small = by_name(ran)["always-small"]["against"]
    assert (small["best_fixed_arm"]["comparator"], small["incumbent"]["comparator"]) == (
        "always-large",
        "always-medium",
    )
    told = small["best_fixed_arm"]
    diff = told["accuracy_difference"]
    assert diff["low"] <= diff["estimate"] <= diff["high"] < 0
    assert told["accuracy_difference_tango"][1] < 0
    assert told["energy_ratio"]["estimate"] == pytest.approx(0.05, rel=0.1)
    assert told["energy_per_correct_ratio_delta"][0] < told["energy_per_correct_ratio"]["estimate"]
    assert told["queries"] == {"better": 0, "worse": round(-diff["estimate"] * 40), "fewer_joules": 40}
    assert by_name(ran)["always-large"]["against"]["best_fixed_arm"] is None, "nothing is compared with itself"


def test_the_routers_own_joules_are_modeled_from_a_declared_power_and_unknown_without(cli: Cli) -> None:
    without = by_name(cli("run", "--dataset", "ours", *FAST))["benchmark"]["router"]
    assert without["latency_s"] > 0
    assert without["energy_j"] is without["with_router"] is without["break_even_queries"] is None
    told = by_name(cli("run", "--dataset", "ours", *FAST, "--router-power-w", "65"))["benchmark"]
    router = told["router"]
    assert router["energy_j"] == pytest.approx(65 * router["latency_s"])
    assert router["evidence_class"] == router["training"]["evidence_class"] == "modeled"
    more = router["with_router"]["energy_j_per_query"] - told["figures"]["energy_j_per_query"]
    assert more == pytest.approx(router["energy_j"], rel=1e-3)


def test_missing_cells_are_told_and_never_scored_zero(cli: Cli) -> None:
    report = cli("run", "--dataset", "holes", *FAST, "--partial")
    large = by_name(report)["always-large"]["figures"]
    assert large["missing"] == 4
    assert large["accuracy"] is large["energy_j_per_query"] is None
    assert large["accuracy_high"] - large["accuracy_low"] == pytest.approx(4 / 40)
    assert any("always-large picks 4 cells that are not recorded" in s for s in report["statements"])
    complete = cli("run", "--dataset", "holes", *FAST)
    assert "always-large" not in by_name(complete)
    assert "large" in complete["blocks"][0]["load"]["arms_left_out"]


def test_policies_by_text_say_why_they_did_not_run(cli: Cli) -> None:
    report = cli("run", "--dataset", "ours", "--embedder", "none", "--policy", "knn-5")
    assert {a["policy"].partition("@")[0] for a in report["absent"]} == {"knn-5"}
    assert all("embeddings" in a["reason"] for a in report["absent"])


def test_embeddings_come_from_the_texts_by_default_or_from_a_file(cli: Cli, home: Path) -> None:
    told = cli("run", "--dataset", "ours", "--policy", "knn-5")
    assert told["embedder"] == "wordllama"
    assert by_name(told)["knn-5"]["energy_predicted"]["per_query_j"] > 0
    ids = [f"q{i:04d}" for i in range(N)]
    file = home / "vectors.parquet"
    pl.DataFrame({"query_id": ids[::-1], "embedding": [[float(i % 2), 1.0] for i in range(N)][::-1]}).write_parquet(
        file
    )
    given = cli("run", "--dataset", "ours", "--policy", "knn-5", "--embeddings", str(file))
    assert given["embedder"] == "given"
    assert given["choices_sha256"] != told["choices_sha256"]


def test_several_hours_evaluate_the_same_choices_under_each(cli: Cli, home: Path) -> None:
    desk = open_desk(load_settings())
    call(desk, "sample.load", {}, OPERATOR)
    zones = desk.warehouse.query("SELECT DISTINCT zone FROM core.grid_intensity ORDER BY zone")["zone"].to_list()[:2]
    desk.close()
    report = cli("run", "--dataset", "ours", *FAST, "--zone", zones[0], "--zone", zones[1])
    one, two = report["blocks"]
    assert one["choices_sha256"] == two["choices_sha256"]
    assert one["condition"]["intensity_g_per_kwh"] != two["condition"]["intensity_g_per_kwh"]
    for name in ("always-small", "benchmark"):
        a, b = (by_name(report, i)[name]["figures"] for i in (0, 1))
        assert a["energy_j_per_query"] == b["energy_j_per_query"]
        for figures, block in ((a, one), (b, two)):
            grams = figures["energy_j_per_query"] / 3.6e6 * block["condition"]["intensity_g_per_kwh"]
            assert figures["gco2_per_query"] == pytest.approx(grams)
            assert figures["carbon_evidence_class"] in ("calibrated", "modeled")
    across = {a["policy"]: a for a in report["across"]}
    assert len(across["benchmark"]["gco2_per_query"]) == 2
    stored = rows(home, "SELECT replay_run_id, run_id FROM core.replay_run WHERE dataset = 'ours'")
    assert len(stored) == 2  # beside those of the sample
    assert {s["run_id"] for s in stored} == {report["id"]}
    kept = rows(home, f"SELECT DISTINCT replay_run_id FROM core.replay_choice WHERE run_id = '{report['id']}'")
    assert [k["replay_run_id"] for k in kept] == [one["replay_run_id"]], "the same choices are kept once"


def test_a_table_read_in_portions_gives_the_same_figures(cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = cli("run", "--dataset", "ours", *FAST)
    monkeypatch.setattr("policies.replay.load.ROWS_AT_ONCE", 17)
    monkeypatch.setattr("policies.replay.load.iter_tables.__kwdefaults__", {"rows": 17, "texts": False})
    streamed = cli("run", "--dataset", "ours", *FAST, "--stream")
    assert any("read in portions" in note for note in streamed["blocks"][0]["notes"])
    assert streamed["blocks"][0]["dataset_sha256"] == whole["blocks"][0]["dataset_sha256"]
    assert streamed["hypervolume"] == pytest.approx(whole["hypervolume"])
    for name, policy in by_name(streamed).items():
        for metric, value in by_name(whole)[name]["figures"].items():
            if isinstance(value, float) and metric != "latency_p95_s":  # of a sketch
                assert policy["figures"][metric] == pytest.approx(value, rel=1e-9), (name, metric)
        for comparator, told in policy["against"].items():
            same = by_name(whole)[name]["against"][comparator]
            assert (told is None) == (same is None)
            for metric in ("accuracy_difference_tango", "energy_per_correct_ratio_delta"):
                if told is not None:
                    wanted = same[metric] and pytest.approx(same[metric], rel=1e-9, abs=1e-12)
                    assert told[metric] == wanted, (name, metric)
    closed = [
        a["accuracy_difference_tango"] for p in by_name(streamed).values() if (a := p["against"]["best_fixed_arm"])
    ]
    assert any(closed)
    counts = rows(home, "SELECT run_id, count(*) AS n FROM core.replay_choice GROUP BY run_id")
    assert len({c["n"] for c in counts}) == 1
    assert rows(home, "SELECT * FROM information_schema.tables WHERE table_schema = 'stage'") == []


# reports and choices ------------------------------------------------------------------------------------


def test_a_report_is_read_back_by_its_id_and_as_the_newest(cli: Cli) -> None:
    first = cli("run", "--dataset", "ours", *FAST)
    second = cli("run", "--dataset", "ours", *FAST, "--seed", "9", "--split", "hash")
    assert [r["run_id"] for r in cli("runs")["runs"]] == [second["id"], first["id"]]
    assert cli("report") == second
    assert cli("report", first["id"][:13]) == first
    assert cli("report", "--dataset", "ours")["id"] == second["id"]


def test_choices_are_written_as_csv_or_parquet(cli: Cli, home: Path) -> None:
    report = cli("run", "--dataset", "ours", *FAST)
    for suffix in ("csv", "parquet"):
        target = home / f"choices.{suffix}"
        told = cli("report", report["id"], "--choices", str(target))
        frame = pl.read_csv(target) if suffix == "csv" else pl.read_parquet(target)
        assert frame.columns == ["policy", "query_id", "arm", "probability_json"]
        assert frame.height == told["choices_file"]["rows"] == 40 * len(report["blocks"][0]["policies"])
        assert set(frame.filter(pl.col("policy") == "always-small")["arm"]) == {"small"}
    assert list(home.glob("*.part")) == []
    refused = cli("report", report["id"], "--choices", str(home / "choices.xlsx"), code=2)
    assert "neither CSV nor Parquet" in refused["error"]["message"]
    assert "could not be written" in cli("report", "--choices", "/nowhere/x.csv", code=2)["error"]["message"]


def test_choices_need_not_be_kept(cli: Cli, home: Path) -> None:
    cli("run", "--dataset", "ours", *FAST, "--no-keep-choices")
    assert rows(home, "SELECT count(*) AS n FROM core.replay_choice") == [{"n": 0}]


def test_the_printed_report_says_in_words_whether_routing_pays(cli: Cli) -> None:
    told = cli("run", "--dataset", "ours", *FAST, "--budget-j", "60", "--incumbent", "small", text=True)
    for word in ("hypervolume", "mixing hull of the fixed arms", "Within 60 J per query", "● measured", "always-small"):
        assert word.lower() in told.lower()
    assert "choices" in told
    assert "seed 0" in told


# published points ----------------------------------------------------------------------------------------


def test_the_published_points_need_nothing_loaded(cli: Cli, home: Path) -> None:
    told = cli("report", "--dataset", "published")
    assert (told["id"], told["stored"]) == (None, False)
    assert told["hypervolume"] == pytest.approx(3287.6091, abs=1e-6)
    assert told["reference_point"] == {"version": "2609.23085-1", "accuracy": 0.0, "energy_j": 5200.0}
    run = cli("run", "--dataset", "published")
    assert run["stored"]
    assert cli("report", "--dataset", "published") == run
    stored = rows(home, "SELECT hypervolume, reference_energy_j, evidence_class, n_test FROM core.replay_run")
    assert stored == [
        {"hypervolume": run["hypervolume"], "reference_energy_j": 5200.0, "evidence_class": "modeled", "n_test": 913}
    ]
    where = "policy = 'Always-Qwen2.5-7B' AND metric = 'accuracy' AND benchmark = ''"
    seven = rows(home, f"SELECT value FROM core.replay_metric WHERE {where}")
    assert seven == [{"value": 0.64}]


def test_the_command_says_that_one_fixed_arm_dominates_every_learned_policy(cli: Cli) -> None:
    told = " ".join(cli("run", "--dataset", "published", text=True).split())
    assert "hypervolume 3287.6091" in told
    assert "Always-Qwen2.5-7B (0.640 at 281.6 J" in told
    assert "dominates UniRoute, Smoothie and every learned policy" in told


# what must not happen --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["run", "--dataset", "nope"], 2, "No outcome of 'nope' is recorded"),
        (["run", "--dataset", "ours", "--policy", "magic"], 2, "No policy answers to 'magic'"),
        (["run", "--dataset", "ours", "--arms", "small,huge"], 2, "has no arm 'huge'"),
        (["run", "--dataset", "ours", "--benchmark", "none"], 2, "no benchmark 'none'"),
        (["run", "--dataset", "ours", "--incumbent", "huge", "--embedder", "none"], 2, "The incumbent 'huge'"),
        (["run", "--dataset", "ours", "--gpu", "H100", "--batch", "8"], 2, "H100"),
        (["run", "--dataset", "ours", "--zone", "XX", "--embedder", "none"], 2, "no grid intensity for zone XX"),
        (["run", "--dataset", "ours", "--at", "2026-11-29T10:00:00"], 2, "timezone"),
        (["run", "--dataset", "ours", "--test-share", "1.5"], 2, "test_share"),
        (["run", "--dataset", "ours", "--policy", "trained:0123456789ab"], 1, "no trained controller"),
        (["run", "--dataset", "ours", "--embeddings", "/nowhere.npy"], 2, "nowhere.npy"),
        (["report", "0123456789"], 1, "no replay run '0123456789'"),
        (["report", "--dataset", "ours"], 1, "No run of 'ours' is stored"),
        (["report"], 1, "No replay was run yet"),
    ],
)
def test_what_is_wrong_is_named_with_a_fix(cli: Cli, words: list[str], code: int, told: str) -> None:
    error = cli(*words, code=code)["error"]
    assert told.lower() in error["message"].lower()
    assert error["fix"]


def run_params(**more: Any) -> dict[str, Any]:
    return {"dataset": "ours", "embedder": "none", "policies": ["oracle", "benchmark"], **more}


@pytest.fixture
def desk(home: Path) -> Any:
    opened = open_desk(load_settings())
    yield opened
    opened.close()


def nothing_is_stored(desk: Desk) -> bool:
    tables = ("replay_run", "replay_metric", "replay_choice")
    return all(desk.warehouse.scalar(f"SELECT count(*) FROM core.{t}") == 0 for t in tables)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("at", ["fitting", "ours", "storing"])
def test_a_cancelled_run_leaves_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch, at: str, stream: bool) -> None:
    step = Progress.step
    wanted = {"ours": "evaluating" if stream else "joules as recorded"}.get(at, at)

    def cancelling(self: Progress, stage: str, done: int | None = None, total: int | None = None) -> None:
        if stage.startswith(wanted):
            assert call(desk, "replay.progress", {"task": "t1"}, OPERATOR)["running"]
            call(desk, "replay.cancel", {"task": "t1"}, OPERATOR)
        step(self, stage, done, total)

    monkeypatch.setattr(Progress, "step", cancelling)
    with pytest.raises(Conflict, match="cancelled; nothing of it was kept"):
        call(desk, "replay.run", run_params(task="t1", stream=stream), OPERATOR)
    assert nothing_is_stored(desk)
    assert desk.warehouse.query("SELECT 1 FROM information_schema.tables WHERE table_schema = 'stage'").is_empty()
    assert call(desk, "replay.progress", {"task": "t1"}, OPERATOR) == {"running": False}


class Slow:
    """A client whose operation runs until it is cancelled."""

    def __init__(self) -> None:
        self.started, self.cancelled = threading.Event(), threading.Event()

    def call(self, name: str, params: dict[str, Any]) -> dict[str, Any]:
        if name == "replay.cancel":
            self.cancelled.set()
            return {}
        self.started.set()
        assert self.cancelled.wait(10)
        raise Conflict("The replay was cancelled; nothing of it was kept.")


def test_ctrl_c_cancels_and_waits_for_the_end() -> None:
    client: Any = Slow()

    def interrupt() -> None:
        client.started.wait(10)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(Conflict, match="cancelled"):
        watched(client, "replay.run", {}, show=False)
    assert client.cancelled.is_set()


def test_ctrl_c_while_the_thread_is_starting_cancels_too(monkeypatch: pytest.MonkeyPatch) -> None:
    client: Any = Slow()
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        if thread.name == "replay.run":
            raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(Conflict, match="cancelled"):
        watched(client, "replay.run", {}, show=False)
    assert client.cancelled.is_set()


def test_a_run_that_fails_while_it_is_stored_leaves_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    frames = replay_runs.store.choice_frames
    seen: list[str] = []

    def failing(first: str, policy: str, *rest: Any) -> Any:
        seen.append(policy)
        if len(seen) == 3:
            raise RuntimeError("the disk is on fire")
        return frames(first, policy, *rest)

    monkeypatch.setattr(replay_runs.store, "choice_frames", failing)
    with pytest.raises(RuntimeError, match="on fire"):
        call(desk, "replay.run", run_params(), OPERATOR)
    assert nothing_is_stored(desk)


def test_a_reader_may_read_and_not_run(desk: Desk) -> None:
    from app.operations import Actor

    reader = Actor("eve", "reader", "api", frozenset({"read"}))
    assert call(desk, "replay.datasets", {}, reader)["datasets"]
    for name, params in (
        ("replay.run", run_params()),
        ("replay.choices", {"id": "0123456789", "path": "/tmp/x.csv"}),
    ):
        with pytest.raises(AppError, match="may not"):
            call(desk, name, params, reader)
    operator = Actor("ada", "operator", "api", frozenset({"read", "operator"}))
    with pytest.raises(AppError, match="Only the local user"):
        call(desk, "replay.run", run_params(embeddings="/etc/passwd"), operator)


# training -----------------------------------------------------------------------------------------------------


def test_a_trained_controller_is_replayed_by_its_id_and_only_on_queries_it_has_not_seen(cli: Cli) -> None:
    told = cli("train", "--dataset", "ours", "--steps", "20", "--embedder", "none", "--machine-power-w", "50")
    (listed,) = cli("trained")["trained"]
    assert listed["id"] == told["id"]
    name = f"trained:{told['id'][:12]}"
    report = cli("run", "--dataset", "ours", "--embedder", "none", "--policy", name)
    policy = by_name(report)[name]
    assert policy["figures"]["accuracy"] == pytest.approx(told["held_out"]["accuracy"])
    assert policy["router"]["training"]["seconds"] == pytest.approx(told["training_s"])
    other = cli("run", "--dataset", "ours", "--embedder", "none", "--policy", name, "--split", "hash")
    assert [a["policy"] for a in other["absent"]] == [name]
    assert "held-out queries may be among those it learned from" in other["absent"][0]["reason"]
