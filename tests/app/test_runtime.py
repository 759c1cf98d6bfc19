"""Finding the running console: same user only, stale files recognised."""

from __future__ import annotations

import os
import stat
import subprocess
import sys

from app import runtime
from app.client import Client
from app.settings import load_settings


def a_runtime(pid: int, port: int = 9) -> runtime.Runtime:
    return runtime.Runtime(pid, "127.0.0.1", port, runtime.new_secret(), "2026-01-01T00:00:00Z", "0")


def test_the_file_is_private_and_complete() -> None:
    settings = load_settings()
    mine = a_runtime(os.getpid())
    runtime.publish(settings, mine)
    assert stat.S_IMODE(runtime.runtime_path(settings).stat().st_mode) == 0o600
    assert runtime.read(settings) == mine
    runtime.withdraw(settings)
    assert runtime.read(settings) is None


def test_a_file_of_another_process_is_not_withdrawn() -> None:
    settings = load_settings()
    runtime.publish(settings, a_runtime(os.getppid()))
    runtime.withdraw(settings)
    assert runtime.read(settings) is not None


def test_a_damaged_file_counts_as_none() -> None:
    settings = load_settings()
    runtime.publish(settings, a_runtime(os.getpid()))
    runtime.runtime_path(settings).write_text('{"pid": 1')
    assert runtime.read(settings) is None


def test_a_file_whose_process_is_gone_does_not_stop_a_command() -> None:
    settings = load_settings()
    gone = subprocess.Popen([sys.executable, "-c", "pass"])
    gone.wait()
    runtime.publish(settings, a_runtime(gone.pid))
    with Client(settings) as client:
        assert client.console is None
        assert client.call("ping")["ok"]


def test_a_recycled_pid_with_a_foreign_port_does_not_stop_a_command() -> None:
    """The pid lives again, as something else; nothing of ours answers on the port."""
    settings = load_settings()
    runtime.publish(settings, a_runtime(os.getpid(), port=1))
    with Client(settings) as client:
        assert client.console is None
