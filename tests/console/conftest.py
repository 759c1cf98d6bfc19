"""A desk in this process, and the pages on it without a browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app import desk as desks
from app.desk import Desk, local_operator, open_desk
from app.operations import call
from app.settings import load_settings


@pytest.fixture
def desk(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """An empty, offline desk that pages find as the current one."""
    monkeypatch.setenv("JOULEBOOK_OFFLINE", "true")
    opened = open_desk(load_settings())
    desks.set_current(opened)
    yield opened
    desks.set_current(None)
    opened.close()


@pytest.fixture
def sample(desk: Desk) -> Desk:
    """The same with sample data and the recommendations that follow from it."""
    call(desk, "sample.load", {}, local_operator("cli"))
    return desk
