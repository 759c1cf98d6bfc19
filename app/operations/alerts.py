"""Alerts: list them, acknowledge one, test the channels."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, StringConstraints

from app.delivery import ChannelStatus, configured, store
from app.delivery.message import channel, probe_message
from app.errors import AppError, BadRequest, Conflict, NotFound, PreconditionRequired
from app.operations import Actor, NoParams, Params, operation
from app.operations.plain import plain
from policies.alerts import Alert
from warehouse import ledger
from warehouse.clock import utcnow
from warehouse.engine import Transaction
from warehouse.ids import uuid7

if TYPE_CHECKING:
    from app.desk import Desk

SHORTEST_ID = 8


def shown(alert: Alert) -> dict[str, Any]:
    """An alert as plain JSON data; `state` is open, acknowledged or cleared."""
    state = "cleared" if alert.cleared_at else "acknowledged" if alert.acknowledged_at else "open"
    told: dict[str, Any] = plain(asdict(alert))
    return {**told, "id": told.pop("alert_id"), "state": state, "etag": f'"{alert.version}"'}


def channel_statuses(desk: Desk) -> list[ChannelStatus]:
    """Each configured channel: how it fares, or why nothing is sent."""
    if desk.couriers is not None:
        return desk.couriers.statuses()
    offline = desk.settings.offline
    why = "offline = true: nothing is sent" if offline else "no console is running; what is due is sent when it starts"
    return [
        ChannelStatus(name, "offline" if offline else "stopped", store.waiting(desk.warehouse, name), error=why)
        for name in configured(desk.settings)
    ]


class ListParams(Params):
    all: bool = False
    limit: int = Field(500, ge=1, le=10_000)


@operation("alert.list", scope="read", params=ListParams)
def list_(desk: Desk, actor: Actor, params: ListParams) -> dict[str, Any]:
    """List the open alerts, bad ones first; with `all` the cleared ones too."""
    found = store.latest(desk.warehouse, params.limit) if params.all else store.open_alerts(desk.warehouse)
    return {
        "alerts": [shown(a) for a in found[: params.limit]],
        "open": sum(a.cleared_at is None for a in found),
        "channels": [plain(asdict(s)) for s in channel_statuses(desk)],
        "as_of": plain(utcnow()),
    }


class AckParams(Params):
    """`id`: the alert's id, or its first characters (8 or more); `version`: the one that was seen."""

    id: Annotated[str, StringConstraints(min_length=SHORTEST_ID, max_length=64, pattern=r"^[0-9a-fA-F]+$")]
    version: int | None = Field(None, ge=1)
    reason: Annotated[str, StringConstraints(max_length=2000)] | None = None


@operation("alert.ack", scope="operator", params=AckParams)
def acknowledge(desk: Desk, actor: Actor, params: AckParams) -> dict[str, Any]:
    """Acknowledge an alert: it stays until its condition is gone, and is told again only when it gets worse."""
    with desk.command_lock:
        with desk.warehouse.transaction() as tx:
            alert = _one(tx, params.id)
            if _repeated(alert, params, actor):
                return shown(alert)
            _check(alert, params.version)
            if not store.acknowledge(tx, alert, actor.name, utcnow()):
                raise Conflict("The alert changed at this very moment.", fix="read it again")
            ledger.append(
                tx,
                kind="alert.acknowledged",
                subject=f"alert:{alert.alert_id}",
                body={
                    "kind": alert.kind,
                    "subject": alert.subject,
                    "severity": alert.severity,
                    "title": alert.title,
                    "version": alert.version,
                    "reason": params.reason,
                },
                actor=actor.name,
                role=actor.role,
                channel=actor.channel,
            )
        ledger.anchor(desk.warehouse)
    if desk.couriers is not None:
        desk.couriers.wake()
    return shown(_one_known(desk, alert.alert_id))


def _one(tx: Transaction, text: str) -> Alert:
    found = store.by_id(tx, text)
    if not found:
        raise NotFound(f"There is no alert {text!r}.", fix="list the alerts to see their ids")
    if len(found) > 1:
        raise BadRequest(f"More than one alert has an id that begins with {text!r}.", fix="write more of its id")
    return found[0]


def _one_known(desk: Desk, alert_id: str) -> Alert:
    return store.by_id(desk.warehouse, alert_id)[0]


def _repeated(alert: Alert, params: AckParams, actor: Actor) -> bool:
    """Whether this very acknowledgement was carried out already: a retry, or a double click."""
    return (
        alert.cleared_at is None
        and alert.acknowledged_by == actor.name
        and params.version in (alert.version - 1, alert.version)
    )


def _check(alert: Alert, version: int | None) -> None:
    short = alert.alert_id[:12]
    if version is None:
        raise PreconditionRequired(
            f"The acknowledgement of {short} does not say which version it saw.",
            fix=f'read the alert and send its version (If-Match: "{alert.version}")',
        )
    if alert.cleared_at is not None:
        raise Conflict(f"The alert {short} has cleared: there is nothing to acknowledge.", fix="list the open alerts")
    if version != alert.version:
        raise Conflict(
            f"The alert {short} is at version {alert.version}, and version {version} was seen. Nothing was written.",
            fix="read it again: it got worse, or somebody has acknowledged it",
        )
    if alert.acknowledged_at is not None:
        raise Conflict(f"{alert.acknowledged_by} has acknowledged the alert {short} already.", fix="nothing to do")


@operation("alert.test", scope="operator", params=NoParams)
def test(desk: Desk, actor: Actor, params: NoParams) -> dict[str, Any]:
    """Send a test message through each channel and report what came of it."""
    names = configured(desk.settings)
    results = [_tested(desk, name, actor) for name in names]
    return {"ok": bool(results) and all(r["ok"] for r in results), "channels": results}


def _tested(desk: Desk, name: str, actor: Actor) -> dict[str, Any]:
    if desk.settings.offline:
        return {
            "channel": name,
            "ok": False,
            "what": "offline = true: nothing is sent",
            "fix": "set offline = false to send",
        }
    try:
        # A client of its own: the couriers' queue is not held up, and the answer is about this message.
        used = channel(desk.settings, name, purpose="-test")
        try:
            used.deliver(probe_message(uuid7(), actor.name))
        finally:
            used.close()
    except AppError as error:
        return {"channel": name, "ok": False, "what": error.message, "fix": error.fix}
    return {"channel": name, "ok": True, "what": "the test message was taken", "fix": ""}
