"""What several tests need: the shared inputs, which may be absent."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"


def shared(relative: str) -> Path:
    """A file of the shared inputs; skips the test, with the reason, where they are absent."""
    path = SHARED / relative
    if not path.exists():
        pytest.skip(f"shared input {relative} is absent (looked in {SHARED})")
    return path
