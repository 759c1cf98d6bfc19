"""What is sent about an alert, and the channels that send it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from app.errors import ConfigError
from app.operations.plain import plain
from app.secret_store import secret
from app.settings import Settings
from policies.alerts import Alert
from warehouse.ids import content_hash

if TYPE_CHECKING:
    from pydantic import SecretStr

RAISED, WORSE, ACKNOWLEDGED, CLEARED, TEST = "raised", "worse", "acknowledged", "cleared", "test"


@dataclass(frozen=True)
class Message:
    """One thing to tell. `id` is the same for every attempt, so that a receiver can drop repeats."""

    id: str
    event: str
    kind: str
    subject: str
    body: Mapping[str, Any]


class Channel(Protocol):
    """A way out. `deliver` blocks at most about the configured timeout and raises DeliveryFailed."""

    name: str
    keeps_state: bool  # holds one message per kind and subject, which must be true again after a lost connection
    on_ready: Callable[[], None] | None  # called when a connection (again) exists

    def open(self) -> None: ...
    def wants(self, event: str) -> bool: ...
    def deliver(self, message: Message) -> None: ...
    def probe(self) -> str: ...
    def close(self) -> None: ...


def event_of(alert: Alert, taken: Mapping[str, Any] | None) -> str | None:
    """What a channel has to be told about an alert that it last took as `taken`; None: nothing any more."""
    told = taken or {}
    heard = told.get("event") in (RAISED, WORSE, ACKNOWLEDGED)
    if alert.cleared_at is not None:
        # An attempt that failed may have arrived all the same.
        return CLEARED if heard or told.get("tried") else None
    if alert.acknowledged_at is not None:
        return ACKNOWLEDGED
    return WORSE if heard else RAISED


def message_of(alert: Alert, event: str) -> Message:
    """The alert as it is now, as plain JSON data."""
    message_id = content_hash([alert.alert_id, alert.version, event])
    body = {
        "id": message_id,
        "event": event,
        "alert": {
            "id": alert.alert_id,
            "kind": alert.kind,
            "subject": alert.subject,
            "severity": alert.severity,
            "title": alert.title,
            "detail": dict(alert.detail),
            "first_seen_at": alert.first_seen_at,
            "last_seen_at": alert.last_seen_at,
            "times_seen": alert.times_seen,
            "acknowledged_at": alert.acknowledged_at,
            "acknowledged_by": alert.acknowledged_by,
            "cleared_at": alert.cleared_at,
            "version": alert.version,
        },
    }
    return Message(message_id, event, alert.kind, alert.subject, plain(body))


def probe_message(test_id: str, by: str) -> Message:
    """A message that says that it is a test."""
    body = {"id": test_id, "event": TEST, "text": f"A test message of joulebook, asked for by {by}. Nothing is wrong."}
    return Message(test_id, TEST, "test", "test", body)


def configured(settings: Settings) -> list[str]:
    """Names of the channels that configuration names, whether or not they work."""
    told = settings.alerts
    return [name for name, on in (("mqtt", told.mqtt.host), ("webhook", told.webhook_url)) if on]


def channel(settings: Settings, name: str, *, purpose: str = "") -> Channel:
    """A channel by name. Raises ConfigError for a missing secret or file. `purpose` sets a second client apart."""
    from app.delivery.mqtt import MqttChannel
    from app.delivery.webhook import WebhookChannel

    told = settings.alerts
    if name == "webhook":
        assert told.webhook_url is not None
        return WebhookChannel(told.webhook_url, named_secret(settings, told.webhook_secret), timeout_s=told.timeout)
    ca_file = settings.home / told.mqtt.ca_file if told.mqtt.ca_file else None
    if ca_file is not None and not ca_file.is_file():
        raise ConfigError(f"alerts.mqtt.ca_file {ca_file} is not there.", fix="correct it or unset it")
    return MqttChannel(
        told.mqtt,
        user=named_secret(settings, told.mqtt.user_secret),
        password=named_secret(settings, told.mqtt.password_secret),
        ca_file=ca_file,
        timeout_s=told.timeout,
        client_id=f"joulebook-{content_hash(str(settings.home))[:12]}{purpose}",
        announces=not purpose,
    )


def channels(settings: Settings, *, purpose: str = "") -> list[Channel]:
    """Every configured channel. Raises ConfigError."""
    return [channel(settings, name, purpose=purpose) for name in configured(settings)]


def named_secret(settings: Settings, name: str | None) -> SecretStr | None:
    """A secret that configuration names. Raises ConfigError where it is not set."""
    if name is None:
        return None
    found = secret(settings, name)
    if found is None:
        raise ConfigError(
            f"The alerts need the secret {name!r}, which is not set.",
            fix=f"set JOULEBOOK_SECRET_{name.upper().replace('-', '_')} or put it under [joulebook] in "
            ".streamlit/secrets.toml",
        )
    return found
