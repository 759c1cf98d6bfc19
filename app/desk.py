"""The desk: settings, the one warehouse, the scheduler and the sampler of this process."""

from __future__ import annotations

import getpass
import threading
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from app.errors import AppError, Unavailable
from app.operations import Actor, as_app_error
from app.settings import Settings
from warehouse.clock import utcnow
from warehouse.engine import Warehouse
from warehouse.errors import WarehouseError

if TYPE_CHECKING:
    from app.delivery import Couriers
    from app.scheduler import Jobs
    from ingest.power.sampler import PowerSampler
    from ingest.stream import Progress


@dataclass
class Desk:
    """What an operation needs. `warehouse` raises Unavailable, with the reason, where it could not be opened."""

    settings: Settings
    _warehouse: Warehouse | None = None
    problem: AppError | None = None
    started_at: datetime = field(default_factory=utcnow)
    jobs: Jobs | None = None
    sampler: PowerSampler | None = None
    couriers: Couriers | None = None
    unrecorded: list[dict[str, Any]] = field(default_factory=list)  # failures that the warehouse could not store
    loads: dict[str, Progress] = field(default_factory=dict)  # running imports, by the name their caller gave them
    command_lock: threading.RLock = field(default_factory=threading.RLock)
    alert_lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def warehouse(self) -> Warehouse:
        if self._warehouse is None:
            raise self.problem or Unavailable("The warehouse is closed.", fix="start joulebook again")
        return self._warehouse

    @property
    def usable(self) -> bool:
        return self._warehouse is not None

    def close(self) -> None:
        """Stop what runs, in the order that loses nothing: jobs, sampler, couriers, warehouse."""
        if self.jobs is not None:
            self.jobs.stop()
            self.jobs = None
        if self.sampler is not None:
            self.sampler.stop()
            self.sampler = None
        if self.couriers is not None:
            self.couriers.stop()
            self.couriers = None
        if self._warehouse is not None:
            self._warehouse.close()
            self._warehouse = None


def open_desk(settings: Settings, *, tolerate_failure: bool = False) -> Desk:
    """Open the warehouse and register the configured sources.

    With `tolerate_failure` (the console) a locked or corrupt file leaves a desk that says so;
    without it (the command line) the AppError is raised.
    """
    from app.sources import register_configured
    from warehouse.runs import abort_orphans
    from warehouse.staging import drop_orphans

    desk = Desk(settings)
    try:
        desk._warehouse = Warehouse.open(settings.warehouse_path)
        abort_orphans(desk._warehouse)
        drop_orphans(desk._warehouse)
        register_configured(desk)
    except WarehouseError as error:
        if desk._warehouse is not None:
            desk._warehouse.close()
            desk._warehouse = None
        desk.problem = as_app_error(error)
        if not tolerate_failure:
            raise desk.problem from error
    except OSError as error:
        desk.problem = Unavailable(
            f"The folder of the warehouse {settings.warehouse_path} cannot be used: {error.strerror}.",
            fix="check its permissions and the free space",
        )
        if not tolerate_failure:
            raise desk.problem from error
    return desk


def local_operator(channel: str) -> Actor:
    """The person at this machine: may do everything."""
    source = "none" if channel == "cli" else "loopback"
    return Actor(f"{getpass.getuser()}@local", "operator", channel, frozenset({"*"}), source=source)


def local_downstream(target: str) -> Actor:
    """The reference downstream on this machine: may collect and report, and decides nothing."""
    scopes = frozenset({"downstream", "read"})
    return Actor(f"downstream:{target}@local", "downstream", "cli", scopes, targets=frozenset({target}), source="none")


# The one desk of a serving process. The lifespan of the ASGI app sets it; pages and API read it.
_current: Desk | None = None


def set_current(desk: Desk | None) -> None:
    global _current
    _current = desk


def current() -> Desk:
    if _current is None:
        raise Unavailable("The desk is not running.", fix="start it with `joulebook up`")
    return _current
