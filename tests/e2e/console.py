"""A real console in a process of its own, for browser and command-line tests."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx

JOULEBOOK = [sys.executable, "-m", "app.cli"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Console:
    """`joulebook up` in `home` on a free port; use as a context manager."""

    def __init__(self, home: Path, **environment: str) -> None:
        self.home = home
        self.port = free_port()
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("JOULEBOOK_")},
            "JOULEBOOK_HOME": str(home),
            "JOULEBOOK_PORT": str(self.port),
            "JOULEBOOK_OFFLINE": "true",
            **environment,
        }
        self.log = home / "console.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Console:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, *, healthy: bool = True, timeout_s: float = 60.0) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen([*JOULEBOOK, "up"], env=self.environment, stdout=log, stderr=log)
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                break
            try:
                status = httpx.get(f"{self.url}/api/healthz", timeout=2.0, trust_env=False).status_code
            except httpx.HTTPError:
                time.sleep(0.05)
                continue
            if status == 200 or not healthy:
                return
            time.sleep(0.05)
        raise AssertionError(f"the console did not serve:\n{self.log.read_text()[-4000:]}")

    def stop(self, timeout_s: float = 10.0) -> float:
        """SIGTERM; the seconds it took to end."""
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return 0.0
        begun = time.monotonic()
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"the console did not stop within {timeout_s} s of SIGTERM") from None
        return time.monotonic() - begun

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run_cli(self.environment, *arguments)

    def json(self, *arguments: str, code: int = 0) -> Any:
        return json_of(self.run(*arguments, "--json"), code)


def call_cli(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """The same command in this process: thirty times faster, for the many wrong calls."""
    from app.cli import main

    out, err, before, code = io.StringIO(), io.StringIO(), dict(os.environ), 0
    os.environ.clear()
    os.environ.update(environment)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main(list(arguments))
    except SystemExit as stop:
        code = int(stop.code or 0)
    finally:
        os.environ.clear()
        os.environ.update(before)
    return subprocess.CompletedProcess(list(arguments), code, out.getvalue(), err.getvalue())


def run_cli(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*JOULEBOOK, *arguments], env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def json_of(done: subprocess.CompletedProcess[str], code: int = 0) -> Any:
    """The one JSON document on stdout, and nothing else there."""
    assert done.returncode == code, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout)


def artifacts() -> Path:
    """Where screenshots go; ignored by git, kept by CI."""
    folder = Path(__file__).parent / "artifacts"
    folder.mkdir(exist_ok=True)
    return folder


def clear_artifacts() -> None:
    shutil.rmtree(artifacts(), ignore_errors=True)
