"""A desk whose alerts follow from one row that a test can change."""

from __future__ import annotations

import json
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


def catalog(path: Path, prompt_usd: str) -> Path:
    """A listing of one model as OpenRouter writes it, at `path`."""
    pricing = {"prompt": prompt_usd, "completion": "0.000002"}
    top = {"context_length": 1000}
    model = {"id": "v/m", "canonical_slug": "v/m", "name": "M", "context_length": 1000, "pricing": pricing}
    path.write_text(json.dumps({"data": [{**model, "top_provider": top}]}))
    return path


def lose_gpu(desk: Desk, uuid: str = "GPU-1") -> None:
    """A board is lost, and the desk has noticed."""
    World(desk.warehouse).device("lost", uuid=uuid, updated_at=utcnow())
    refresh_alerts(desk)


def find_gpu(desk: Desk, uuid: str = "GPU-1") -> None:
    """It is back, and the desk has noticed."""
    with desk.warehouse.transaction() as tx:
        tx.execute("DELETE FROM core.device WHERE device_uuid = $u", {"u": uuid})
    refresh_alerts(desk)
