"""A desk whose alerts follow from one row that a test can change."""

from __future__ import annotations

from pathlib import Path

from app.alerting import refresh_alerts
from app.desk import Desk
from app.operations import Actor
from app.settings import load_settings
from tests.alerts.world import World
from warehouse.clock import utcnow
from warehouse.engine import Warehouse

OPERATOR = Actor("ada@local", "operator", "cli", frozenset({"*"}))
READER = Actor("token:board", "reader", "api", frozenset({"read"}))


def make_desk(home: Path, config: str = "") -> Desk:
    (home / "joulebook.toml").write_text(f"[sample]\nload_when_empty = false\n[power]\nenabled = false\n{config}")
    settings = load_settings()
    return Desk(settings, Warehouse.open(settings.warehouse_path))


def lose_gpu(desk: Desk, uuid: str = "GPU-1") -> None:
    """A board is lost, and the desk has noticed."""
    World(desk.warehouse).device("lost", uuid=uuid, updated_at=utcnow())
    refresh_alerts(desk)


def find_gpu(desk: Desk, uuid: str = "GPU-1") -> None:
    """It is back, and the desk has noticed."""
    with desk.warehouse.transaction() as tx:
        tx.execute("DELETE FROM core.device WHERE device_uuid = $u", {"u": uuid})
    refresh_alerts(desk)
