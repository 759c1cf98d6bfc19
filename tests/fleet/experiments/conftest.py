"""One empty warehouse for all tests that only read: opening one takes longer than most of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from warehouse.engine import Warehouse


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warehouse]:
    opened = Warehouse.open(tmp_path_factory.mktemp("bare") / "warehouse.duckdb")
    yield opened
    opened.close()
