"""The environment of the real software; a part that is missing skips its tests and says how to get it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TOOLS = ROOT / ".venv-exports"


def tool(relative: str) -> Path:
    path = TOOLS / relative
    if not path.exists():
        pytest.skip(f"{path} is absent. Fix: make test-exports")
    return path


@pytest.fixture(scope="session")
def litellm_python() -> Path:
    tool("bin/litellm")
    return tool("bin/python")


@pytest.fixture(scope="session")
def envoy_binary() -> Path:
    return tool("bin/envoy")


@pytest.fixture(scope="session")
def gateway_schemas() -> Path:
    if shutil.which("node") is None:
        pytest.skip("node is absent. Fix: install Node.js 20 or newer")
    tool("node_modules/@kubernetes-models/gateway-api")
    return TOOLS
