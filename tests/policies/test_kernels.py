"""What compiled loops keep from one start to the next."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

PARTS = """
from policies.kernels import part

@part
def step(x):
    return x + {by}
"""
LOOP = """
from made_of_parts.parts import step
from policies.kernels import jit

@jit
def run(x):
    return step(x)
"""


def started(folder: Path, by: int) -> tuple[int, int]:
    """run(1) in a process that starts with this part, and how often the compiled loop was found on disk."""
    (folder / "parts.py").write_text(PARTS.format(by=by))
    for name in [name for name in sys.modules if name.startswith("made_of_parts")]:
        del sys.modules[name]
    importlib.invalidate_caches()
    run = importlib.import_module("made_of_parts.loop").run
    return run(1), sum(run.stats.cache_hits.values())


def test_a_change_of_a_part_alone_compiles_its_loop_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "made_of_parts"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "loop.py").write_text(LOOP)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert started(folder, 1) == (2, 0)
    assert started(folder, 1) == (2, 1), "kept on disk"
    assert started(folder, 10) == (11, 0)
