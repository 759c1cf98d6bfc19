"""The worker as a process: it is limited, it dies in time, and nothing it says is trusted."""

from __future__ import annotations

import itertools
import os
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path

import duckdb
import pytest

from tests.sandbox.conftest import SECRET, Lab
from tests.support import ROOT
from warehouse.errors import SqlFailed, SqlRefused, SqlTimeout
from warehouse.sandbox import process
from warehouse.sandbox.client import run_sql
from warehouse.sandbox.process import Worker

ENDLESS = "WITH RECURSIVE t AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM t) SELECT count(*) FROM t"


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _eventually_gone(pid: int, within_s: float) -> bool:
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        if not _alive(pid):
            return True
        time.sleep(0.05)
    return False


def test_the_worker_is_gone_after_the_deadline_and_so_is_its_folder() -> None:
    with pytest.raises(SqlTimeout, match=r"within 0\.5 s"), Worker(timeout_s=0.5) as worker:
        assert worker._process is not None and worker._scratch is not None
        pid, scratch = worker._process.pid, Path(worker._scratch.name)
        assert scratch.is_dir()
        request = {"op": "parse", "sql": "SELECT 1", "database": None}
        worker.exchange(request)
        worker._receive()  # nothing more will come
    assert not _alive(pid)
    assert not scratch.exists()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the limits from /proc")
def test_the_worker_has_no_environment_and_every_limit() -> None:
    with Worker(timeout_s=10.0) as worker:
        assert worker._process is not None
        worker.exchange({"op": "parse", "sql": "SELECT 1", "database": None})
        proc = Path(f"/proc/{worker._process.pid}")
        environment = (proc / "environ").read_bytes()
        limits = {line[:26].strip(): line[26:].split() for line in (proc / "limits").read_text().splitlines()[1:]}
        folder = os.readlink(proc / "cwd")
    assert SECRET.encode() not in environment and b"PATH" not in environment
    assert limits["Max address space"][1] == "2684354560"
    assert limits["Max file size"][1] == "268435456"
    assert limits["Max core file size"][1] == "0"
    assert limits["Max open files"][1] == "64"
    assert limits["Max cpu time"][:2] == ["11", "12"]
    assert "joulebook-sql-" in folder and not os.path.exists(folder)


def test_the_worker_does_not_outlive_a_parent_that_was_killed(lab: Lab) -> None:
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys\n"
            "from warehouse.sandbox import process\n"
            "from pathlib import Path\n"
            "from warehouse.sandbox.client import run_sql\n"
            "start = process.subprocess.Popen\n"
            "def spy(*a, **k):\n"
            "    p = start(*a, **k); print(p.pid, k['cwd'], flush=True); return p\n"
            "process.subprocess.Popen = spy\n"
            "run_sql(Path(sys.argv[1]), sys.argv[2], timeout_s=60)\n",
            str(lab.snapshot),
            ENDLESS,
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    try:
        pid, _, scratch = parent.stdout.readline().strip().partition(" ")
        time.sleep(0.8)
        assert _alive(int(pid)) and Path(scratch).is_dir()
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()
    assert _eventually_gone(int(pid), within_s=3.0)
    assert not Path(scratch).exists()


def test_the_rest_of_this_process_keeps_running_during_a_heavy_statement(lab: Lab) -> None:
    ticks: list[float] = []
    stop = threading.Event()

    def tick() -> None:
        while not stop.wait(0.02):
            ticks.append(time.monotonic())

    thread = threading.Thread(target=tick)
    thread.start()
    with pytest.raises(SqlTimeout):
        lab.run(ENDLESS, timeout_s=2.0)
    stop.set()
    thread.join()
    assert max(b - a for a, b in itertools.pairwise(ticks)) < 1.0
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 64  # the limits are the worker's alone


RUBBISH = {
    "nothing": "",
    "no JSON": "print('hello')",
    "no header": "print('[]')",
    "a header without a size": 'print(\'{"status": "parsed"}\')',
    "a negative size": 'print(\'{"status": "parsed", "bytes": -1}\')',
    "a huge size": 'print(\'{"status": "parsed", "bytes": 100000000000}\')',
    "a short body": 'print(\'{"status": "parsed", "bytes": 10}\')',
    "an endless line": "import sys\nwhile True: sys.stdout.write('x' * 65536)",
    "a crash": "import os; os.abort()",
    "a kill": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "too much memory": "import os; os._exit(77)",
}


@pytest.mark.parametrize("name", RUBBISH)
def test_a_worker_that_talks_rubbish_or_dies_is_an_error_in_words(
    lab: Lab, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / "worker.py"
    script.write_text(RUBBISH[name], encoding="utf-8")
    monkeypatch.setattr(process, "_SCRIPT", script)
    with pytest.raises(SqlFailed, match=r"worker|memory") as caught:
        lab.run("SELECT 1", timeout_s=10.0)
    assert caught.value.fix


def test_a_tree_that_duckdb_would_not_write_is_refused(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / "worker.py"
    for tree in (
        "{}",
        "[]",
        "null",
        '{"error": false, "statements": [{"node": {"cte_map": 5}}]}',
        "{" * 9,
        "[" * 100_000,
    ):
        script.write_text(
            "import sys, json\n"
            "sys.stdin.readline()\n"
            f"tree = {tree!r}\n"
            "header = {'status': 'parsed', 'statements': [['SELECT', True]], 'text': 'x', 'bytes': len(tree)}\n"
            "print(json.dumps(header)); print(tree)\n",
            encoding="utf-8",
        )
        monkeypatch.setattr(process, "_SCRIPT", script)
        with pytest.raises(SqlRefused):
            lab.run("SELECT 1")


def test_a_worker_that_never_answers_is_stopped(lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "worker.py"
    script.write_text("import time; time.sleep(60)", encoding="utf-8")
    monkeypatch.setattr(process, "_SCRIPT", script)
    started = time.monotonic()
    with pytest.raises(SqlTimeout):
        lab.run("SELECT '" + "x" * 49_000 + "'", timeout_s=0.7)
    assert time.monotonic() - started < 2.7


def test_when_all_places_are_taken_the_next_statement_waits_and_then_says_so(lab: Lab) -> None:
    workers = [Worker(timeout_s=30.0) for _ in range(process.MAX_WORKERS)]
    for worker in workers:
        worker.__enter__()
    try:
        with pytest.raises(SqlTimeout, match="4 statements were already running"):
            lab.run("SELECT 1", timeout_s=0.3)
    finally:
        for worker in workers:
            worker.__exit__(None, None, None)
    assert lab.rows("SELECT 1") == [(1,)]


def test_a_result_that_is_too_large_is_refused_in_words(lab: Lab) -> None:
    with pytest.raises(SqlRefused, match=r"larger than 32 MB.*fewer rows or columns"):
        lab.run("SELECT repeat('x', 100000) FROM range(1000)")


def test_a_missing_or_broken_snapshot_is_an_error_without_its_path(tmp_path: Path) -> None:
    with pytest.raises(SqlFailed, match="no snapshot") as caught:
        run_sql(tmp_path / "absent.duckdb", "SELECT 1")
    assert str(tmp_path) not in str(caught.value)
    broken = tmp_path / "broken.duckdb"
    broken.write_bytes(b"not a database" * 1000)
    with pytest.raises(SqlFailed, match="not a valid DuckDB") as caught:
        run_sql(broken, "SELECT 1")
    assert str(tmp_path) not in str(caught.value)


def test_a_snapshot_named_like_a_schema_is_refused_because_names_would_be_ambiguous(tmp_path: Path) -> None:
    path = tmp_path / "core.duckdb"
    duckdb.connect(str(path)).close()
    with pytest.raises(SqlFailed, match="named like the schema core"):
        run_sql(path, "SELECT 1")


@pytest.mark.parametrize(
    ("timeout_s", "row_cap"), [(0, 10), (-1, 10), (float("nan"), 10), (1e9, 10), (5, 0), (5, 10**9)]
)
def test_limits_outside_their_range_are_refused(lab: Lab, timeout_s: float, row_cap: int) -> None:
    with pytest.raises(SqlRefused, match=r"time limit|row cap"):
        lab.run("SELECT 1", timeout_s=timeout_s, row_cap=row_cap)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM ops.api_token",
        "SELECT max(token_sha256) FROM api_token AS t TABLESAMPLE 50%",
        "SELECT * FROM core.price WHERE EXISTS (FROM landing.payload)",
        "SELECT * FROM main.rec",
        "SELECT a.* FROM ops.api_token a ASOF JOIN ops.api_token b ON a.created_at >= b.created_at",
    ],
)
def test_the_worker_itself_refuses_a_closed_table_that_the_check_before_it_missed(lab: Lab, sql: str) -> None:
    with Worker(timeout_s=10.0) as worker:
        header, _ = worker.exchange({"op": "parse", "sql": sql, "database": str(lab.snapshot)})
        request = {"op": "run", "text": header["text"], "tables": ["core.price"], "schemas": ["core", "ops"]}
        limits = {"denied": ["ops.api_token", "landing.payload"], "explain": False, "row_cap": 10}
        header, body = worker.exchange({**request, **limits})
    assert (header["status"], body) == ("refused", b"")
    assert "not open to SQL" in header["message"]


@pytest.mark.parametrize("sql", ["DELETE FROM core.price", "SELECT 1; SELECT 2", "CREATE TEMP TABLE t AS SELECT 1"])
def test_the_worker_itself_runs_nothing_but_one_select(lab: Lab, sql: str) -> None:
    with Worker(timeout_s=10.0) as worker:
        worker.exchange({"op": "parse", "sql": sql, "database": str(lab.snapshot)})
        request = {"op": "run", "text": sql, "tables": [], "schemas": ["core"], "denied": [], "explain": False}
        header, _ = worker.exchange({**request, "row_cap": 10})
    assert (header["status"], header["message"]) == ("refused", "The statement is not exactly one SELECT.")
