"""The real Chromium of browser tests: found on the machine, required where JOULEBOOK_REQUIRE_BROWSER=1."""

from __future__ import annotations

import os
import shutil

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def launch_arguments() -> list[str]:
    """Flags that keep Chromium from talking to anything but the page (and let root start it)."""
    return [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--force-prefers-reduced-motion",
    ]


def require_browser() -> str:
    """The path of Chromium; skips, or fails where a browser is required."""
    if CHROMIUM is not None:
        return CHROMIUM
    reason = "no Chromium on this machine (Debian: apt-get install chromium)"
    if os.environ.get("JOULEBOOK_REQUIRE_BROWSER") == "1":
        pytest.fail(reason)
    pytest.skip(reason)
