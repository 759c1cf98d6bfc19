"""Cold start to an answering page: joulebook against a bare Streamlit page, both as new processes.

`served`: the page answers over HTTP. `rendered`: its text stands in a real Chromium, where there is one.
"""

from __future__ import annotations

import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from tests.bench.timing import rounded

_REPEATS = 3
_OURS_DRAWN = "Joules per success"  # a heading below the figures: the overview is drawn down to its chart
_HELLO = 'import streamlit as st\nst.title("hello")\n'


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _start(command: list[str], env: dict[str, str], url: str) -> tuple[subprocess.Popen[bytes], float]:
    started = time.perf_counter()
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = started + 60
    while time.perf_counter() < deadline:
        try:
            if httpx.get(url, timeout=2.0, trust_env=False).status_code == 200:
                return process, time.perf_counter() - started
        except httpx.HTTPError:
            time.sleep(0.01)
    process.kill()
    raise RuntimeError(f"{command[0]} did not answer within 60 s")


def _measure(
    command: Callable[[int], list[str]], env: dict[str, str], path: str, text: str, browser: Any
) -> tuple[float, float | None]:
    """(seconds until the page is served, seconds until its text is rendered)."""
    port = free_port()
    begun = time.perf_counter()
    process, served = _start(command(port), env, f"http://127.0.0.1:{port}{path}")
    rendered = None
    try:
        if browser is not None:
            page = browser.new_page()
            page.goto(f"http://127.0.0.1:{port}/")
            page.get_by_text(text).first.wait_for(timeout=60_000)
            rendered = time.perf_counter() - begun
            page.close()
    finally:
        process.terminate()
        process.wait(20)
    return served, rendered


def run() -> dict[str, Any]:
    executable = shutil.which("joulebook", path=str(Path(sys.executable).parent)) or "joulebook"
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        home.mkdir()
        hello = Path(folder) / "hello.py"
        hello.write_text(_HELLO)
        env = {**os.environ, "JOULEBOOK_HOME": str(home), "JOULEBOOK_OFFLINE": "true"}

        def ours(port: int) -> list[str]:
            return [executable, "up", "--port", str(port)]

        def bare(port: int) -> list[str]:
            options = [f"--server.port={port}", "--server.headless=true", "--browser.gatherUsageStats=false"]
            return [sys.executable, "-m", "streamlit", "run", str(hello), "--server.address=127.0.0.1", *options]

        with _Browser() as browser:
            first = _measure(ours, env, "/api/healthz", _OURS_DRAWN, browser)
            pairs = [
                (
                    _measure(ours, env, "/api/healthz", _OURS_DRAWN, browser),
                    _measure(bare, env, "/_stcore/health", "hello", browser),
                )
                for _ in range(_REPEATS)
            ]
    served, floor = (statistics.median(p[i][0] for p in pairs) for i in (0, 1))
    figures: dict[str, Any] = {
        "first_start_with_sample_served_s": first[0],
        "served_s": served,
        "floor_streamlit_hello_served_s": floor,
        "served_ratio_to_floor": served / floor,
    }
    if first[1] is not None:
        rendered, floor = (statistics.median(p[i][1] for p in pairs) for i in (0, 1))  # type: ignore[type-var]
        figures |= {
            "first_start_with_sample_rendered_s": first[1],
            "rendered_s": rendered,
            "floor_streamlit_hello_rendered_s": floor,
            "rendered_ratio_to_floor": rendered / floor,
        }
    return rounded(figures, 3)


class _Browser:
    """A Chromium, or None where there is none."""

    def __enter__(self) -> Any:
        from tests.browser import CHROMIUM, launch_arguments

        self._playwright: Any = None
        if CHROMIUM is None:
            return None
        from playwright.sync_api import sync_playwright

        self._playwright = sync_playwright().start()
        return self._playwright.chromium.launch(executable_path=CHROMIUM, args=launch_arguments())

    def __exit__(self, *_: object) -> None:
        if self._playwright is not None:
            self._playwright.stop()
