"""Fixtures of the alerts."""

from __future__ import annotations

import pytest

from tests.alerts.world import World
from warehouse.engine import Warehouse


@pytest.fixture
def world(warehouse: Warehouse) -> World:
    return World(warehouse)
