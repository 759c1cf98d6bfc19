"""Starting beside others: a console of the same home, a command that is busy, a taken port, a load that was cut off."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import httpx
import pytest

from app import runtime
from app.desk import Desk, local_operator, open_desk
from app.operations import call
from app.settings import load_settings
from tests.e2e.console import Console, free_port, json_of, run_cli
from warehouse.engine import Warehouse

ROOT = Path(__file__).resolve().parents[2]
HOLD = """
import sys, pathlib
sys.path.insert(0, sys.argv[2])
from warehouse.engine import Warehouse
w = Warehouse.open(pathlib.Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
w.close()
"""


@pytest.fixture
def quiet(tmp_path: Path) -> Console:
    return Console(tmp_path, JOULEBOOK_SAMPLE__LOAD_WHEN_EMPTY="false", JOULEBOOK_POWER__ENABLED="false")


def test_a_second_console_of_a_home_does_not_start_and_the_first_stays_reachable(quiet: Console) -> None:
    with quiet:
        second = {**quiet.environment, "JOULEBOOK_PORT": str(free_port())}
        told = json_of(run_cli(second, "up", "--json"), code=1)
        assert "runs already" in told["error"]["message"]
        assert quiet.url in told["error"]["message"]
        assert quiet.json("doctor")["ok"]  # through the first, which still has its runtime file
        assert (quiet.home / ".joulebook" / "runtime.json").exists()


def test_a_taken_port_is_told_in_words_and_in_one_document(quiet: Console) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", quiet.port))
        taken.listen()
        told = json_of(run_cli(quiet.environment, "up", "--json"), code=1)
    assert f"127.0.0.1:{quiet.port}" in told["error"]["message"]
    assert "JOULEBOOK_PORT" in told["error"]["fix"]


def test_a_console_whose_file_was_busy_at_start_serves_once_it_is_free(quiet: Console) -> None:
    path = quiet.home / "joulebook.duckdb"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path), str(ROOT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    quiet.start(healthy=False)
    try:
        answer = httpx.get(f"{quiet.url}/api/healthz", trust_env=False)
        assert answer.status_code == 503
        assert str(holder.pid) in answer.json()["detail"]
        # The runtime file belongs to whoever holds the warehouse: a command must not be sent to this console.
        assert not (quiet.home / ".joulebook" / "runtime.json").exists()
        holder.communicate()
        deadline = time.monotonic() + 20
        while httpx.get(f"{quiet.url}/api/healthz", trust_env=False).status_code != 200:
            assert time.monotonic() < deadline, quiet.log.read_text()
            time.sleep(0.2)
        deadline = time.monotonic() + 5
        while not (quiet.home / ".joulebook" / "runtime.json").exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert quiet.json("verify")["ok"]
    finally:
        holder.kill()
        holder.wait()
        assert quiet.stop() < 10


def test_a_sample_load_that_was_cut_off_is_done_again_whole(tmp_path: Path) -> None:
    path = tmp_path / "home" / "joulebook.duckdb"
    code = """
        import os, sys
        sys.path.insert(0, sys.argv[1])
        from app.desk import local_operator, open_desk
        from app.operations import call, sampling
        from app.settings import load_settings
        desk, done = open_desk(load_settings()), []
        real = sampling.refresh
        def cut_off(*args, **kwargs):
            if len(done) == 3:
                os._exit(9)
            done.append(real(*args, **kwargs))
            return done[-1]
        sampling.refresh = cut_off
        call(desk, "sample.load", {}, local_operator("cli"))
    """
    ran = subprocess.run([sys.executable, "-c", textwrap.dedent(code), str(ROOT)], check=False, env=os.environ.copy())
    assert ran.returncode == 9
    whole, counts = Warehouse.open(path), "SELECT (SELECT count(*) FROM core.usage), (SELECT count(*) FROM core.offer)"
    partial = whole.query(counts).row(0)
    whole.close()
    assert all(partial)  # usage and catalog are in, the rest is not

    desk = open_desk(load_settings())
    try:
        assert not call(desk, "sample.load", {}, local_operator("cli"))["already_loaded"]
        assert desk.warehouse.query(counts).row(0) == partial  # the same rows, and none of them twice
        assert call(desk, "recommend.list", {}, local_operator("cli"))["recommendations"]
        assert call(desk, "sample.load", {}, local_operator("cli"))["already_loaded"]
        _loads_again_after_removal(desk)
    finally:
        desk.close()


def _loads_again_after_removal(desk: Desk) -> None:
    call(desk, "sample.remove", {}, local_operator("cli"))
    assert not call(desk, "sample.load", {}, local_operator("cli"))["already_loaded"]


def test_what_a_first_start_does_by_itself_is_nobodys_act(tmp_path: Path) -> None:
    """No person proposed anything: the audit trail says that joulebook did."""
    with Console(tmp_path, JOULEBOOK_POWER__ENABLED="false") as console:
        acted = console.json("sql", "SELECT DISTINCT actor, role, channel FROM ledger.event")["rows"]
    assert acted == [["joulebook", "system", "scheduler"]]


def test_the_runtime_file_of_a_dead_console_does_not_stop_a_start(quiet: Console) -> None:
    quiet.start()
    quiet.kill()
    assert (quiet.home / ".joulebook" / "runtime.json").exists()
    with quiet:
        assert quiet.json("verify")["ok"]
    assert runtime.read(load_settings()) is None
