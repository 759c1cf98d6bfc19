"""One thread per channel that empties the outbox, waits longer after each failure, and says how it fares."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import structlog

from app.delivery import store
from app.delivery.message import Channel, channel, configured, event_of, message_of
from app.errors import AppError, ConfigError, DeliveryFailed
from warehouse.clock import utcnow
from warehouse.errors import WarehouseError

if TYPE_CHECKING:
    from app.desk import Desk
    from policies.alerts import Alert

IDLE_S = 60.0  # the outbox is looked at this often even when nobody says that there is news
FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 300.0
_STOP_WAIT_S = 3.0
log = structlog.get_logger("joulebook.alerts")


@dataclass(frozen=True)
class ChannelStatus:
    """How a channel fares. state: ok | failing | idle (nothing was sent yet) | offline | misconfigured | stopped."""

    channel: str
    state: str
    waiting: int = 0
    last_sent_at: datetime | None = None
    error: str | None = None
    fix: str | None = None


class Courier:
    """Delivers what is due on one channel, oldest first; holds at most `store.BATCH` alerts in memory."""

    def __init__(self, desk: Desk, channel: Channel, *, first_wait_s: float = FIRST_WAIT_S) -> None:
        self._desk = desk
        self._channel = channel
        self._first_wait_s = first_wait_s
        self._news = threading.Event()
        self._hurry = threading.Event()  # ends the wait after a failure, too
        self._stopped = threading.Event()
        self._repeat = False  # the connection is new: what is kept there may be lost
        self._failures = 0
        self._status = ChannelStatus(channel.name, "idle")
        self._thread = threading.Thread(target=self._run, name=f"alerts-{channel.name}", daemon=True)
        channel.on_ready = self._ready

    def start(self) -> None:
        self._channel.open()
        self._thread.start()

    def wake(self) -> None:
        """There may be news. Returns at once; while the channel fails its wait is kept."""
        self._news.set()

    def _ready(self) -> None:
        self._repeat = self._channel.keeps_state
        self._hurry.set()
        self._news.set()

    def stop(self) -> None:
        self._stopped.set()
        self._hurry.set()
        self._news.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_WAIT_S)
        self._channel.close()

    def status(self) -> ChannelStatus:
        return self._status

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._hurry.clear()
            self._news.clear()
            try:
                self._round()
            except (AppError, WarehouseError) as error:
                self._hurry.wait(self._failed(error.message, error.fix))
            except Exception as error:  # a defect of ours: told, and tried again later
                log.error("alerts could not be delivered", channel=self._channel.name, error=type(error).__name__)
                self._hurry.wait(self._failed(f"{type(error).__name__} inside joulebook", "look at its log"))
            else:
                self._failures = 0
                self._news.wait(IDLE_S)

    def _failed(self, message: str, fix: str) -> float:
        """Note a failure; the seconds to wait."""
        self._failures += 1
        name, before = self._channel.name, self._status
        count = before.waiting
        with contextlib.suppress(AppError, WarehouseError):
            count = store.waiting(self._desk.warehouse, name)
        if before.error != message:
            log.warning("alerts are not delivered", channel=name, reason=message, fix=fix)
        self._status = ChannelStatus(name, "failing", count, before.last_sent_at, message, fix or None)
        return float(min(LONGEST_WAIT_S, self._first_wait_s * 2 ** min(self._failures - 1, 20)))

    def _round(self) -> None:
        """Deliver until nothing is due.

        Raises DeliveryFailed: at once where the channel is down; at the end of the batch for alerts that it refuses
        for good, so that one of them does not hold up the others.
        """
        if self._repeat:
            self._repeat = False
            self._deliver([(alert, False) for alert in store.open_alerts(self._desk.warehouse)], again=True)
        while not self._stopped.is_set():
            due = store.due(self._desk.warehouse, self._channel.name)
            if not due:
                if self._status.state == "failing":
                    self._status = ChannelStatus(self._channel.name, "ok", 0, self._status.last_sent_at)
                return
            self._deliver(due, again=False)

    def _deliver(self, alerts: Sequence[tuple[Alert, bool]], *, again: bool) -> None:
        name, refused = self._channel.name, None
        for alert, superseded in alerts:
            if self._stopped.is_set():
                return
            before = alert.delivered.get(name) or {}
            if again and before.get("version") != alert.version:
                continue  # it is due anyway
            event = before.get("event") if again else event_of(alert, before)
            # What is kept per kind and subject belongs to the newer alert, if the condition is back already.
            if event is None or (superseded and self._channel.keeps_state) or not self._channel.wants(event):
                if not again:
                    store.taken(self._desk.warehouse, alert, name, event=None)
                continue
            try:
                self._channel.deliver(message_of(alert, event))
            except DeliveryFailed as error:
                self._repeat = self._repeat or again
                store.not_taken(self._desk.warehouse, alert, name, error.message)
                if error.transient:
                    raise
                refused = refused or error
                continue
            store.taken(self._desk.warehouse, alert, name, event=event)
            self._status = ChannelStatus(name, "ok", 0, utcnow())
        if refused is not None:
            raise refused


class Couriers:
    """The couriers of a serving process, and what they say. Without any it says why."""

    def __init__(self, couriers: list[Courier], without: list[ChannelStatus]) -> None:
        self._couriers = couriers
        self._without = without

    def wake(self) -> None:
        for courier in self._couriers:
            courier.wake()

    def statuses(self) -> list[ChannelStatus]:
        return [*(c.status() for c in self._couriers), *self._without]

    def stop(self) -> None:
        for courier in self._couriers:
            courier.stop()


def start_couriers(desk: Desk) -> Couriers:
    """Start a courier per configured channel; a channel that cannot be set up says why and keeps nothing else down."""
    couriers, without = [], []
    for name in configured(desk.settings):
        if desk.settings.offline:
            without.append(ChannelStatus(name, "offline", error="offline = true: nothing is sent"))
            continue
        try:
            courier = Courier(desk, channel(desk.settings, name))
        except ConfigError as error:
            log.error("alerts cannot be delivered", channel=name, reason=error.message, fix=error.fix)
            without.append(ChannelStatus(name, "misconfigured", error=error.message, fix=error.fix or None))
            continue
        courier.start()
        couriers.append(courier)
    return Couriers(couriers, without)
