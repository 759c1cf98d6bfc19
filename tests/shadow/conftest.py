"""A shadowing desk, with and without a proposal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.desk import Desk
from tests.shadow.desks import Shadow, shadow_desk


@pytest.fixture
def desk(own_home: Path, request: pytest.FixtureRequest) -> Iterator[Desk]:
    """Nothing is proposed, unless the test asks for the `shadow`."""
    made = shadow_desk(own_home, proposed="shadow" in request.fixturenames)
    yield made
    made.close()


@pytest.fixture
def shadow(desk: Desk) -> Shadow:
    """R-0001 (old -> new in nine cells of tier 1) has begun to shadow."""
    driver = Shadow(desk)
    assert driver.show()["state"] == "SHADOWING"
    return driver
