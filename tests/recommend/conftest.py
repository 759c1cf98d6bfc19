"""A desk with an open proposal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.desk import Desk
from tests.recommend.desks import Driver, make_desk


@pytest.fixture
def desk(own_home: Path, request: pytest.FixtureRequest) -> Iterator[Desk]:
    """Offers old and new are loaded. All cells of tier 1 go to old by list price.

    Nothing is proposed yet, unless the test asks for the `driver` too.
    """
    proposed = "driver" in request.fixturenames
    made = make_desk(own_home, "[policy]\ntiers = {old = 1, new = 1}\n", proposed=proposed)
    yield made
    made.close()


@pytest.fixture
def driver(desk: Desk) -> Driver:
    """The same desk with R-0001 proposed: old -> new in nine cells of tier 1."""
    return Driver(desk)
