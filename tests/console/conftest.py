"""A desk in this process, and the pages on it without a browser."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from app import desk as desks
from app.desk import Desk, open_desk
from app.settings import load_settings


@pytest.fixture
def desk(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """An empty, offline desk that pages find as the current one."""
    yield from _opened(monkeypatch)


@pytest.fixture
def sample(sample_home: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """The same with sample data and the recommendations that follow from it."""
    shutil.copytree(sample_home, own_home, dirs_exist_ok=True)
    yield from _opened(monkeypatch)


def _opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    monkeypatch.setenv("JOULEBOOK_OFFLINE", "true")
    opened = open_desk(load_settings())
    desks.set_current(opened)
    yield opened
    desks.set_current(None)
    opened.close()
