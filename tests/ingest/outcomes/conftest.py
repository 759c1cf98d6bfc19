from __future__ import annotations

from pathlib import Path

import pytest

from tests.ingest.outcomes.loading import Desk
from warehouse.engine import Warehouse


@pytest.fixture
def desk(warehouse: Warehouse, tmp_path: Path) -> Desk:
    return Desk(warehouse, tmp_path)
