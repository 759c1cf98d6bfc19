"""Alerts as retained MQTT messages: one topic per kind and subject, so that a late subscriber sees what is open.

`TOPIC/alerts/KIND/SUBJECT` holds the alert while it is open and is emptied when it clears; `TOPIC/status` says online
or, by the broker's own hand once the desk is gone, offline. QoS 1: at least once. paho keeps the connection in a
thread of its own and comes back with growing waits (1 to 60 s).
"""

from __future__ import annotations

import contextlib
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from paho.mqtt.client import Client, ConnectFlags, DisconnectFlags, MQTTMessageInfo
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from pydantic import SecretStr

from app.delivery.message import CLEARED, TEST, Message
from app.errors import DeliveryFailed
from app.sections import MqttSettings
from warehouse.ids import canonical_json, sha256

QOS = 1
LONGEST_SUBJECT = 180
_CONNECT_TIMEOUT_S = 3.0
_WAITS_S = (1, 60)


def topic_of(prefix: str, message: Message) -> str:
    """The topic of an alert; what has a meaning in topics is percent-encoded, a very long subject is shortened."""
    if message.event == TEST:
        return f"{prefix}/test"
    subject = quote(message.subject, safe=":.@,()=")
    if len(subject) > LONGEST_SUBJECT:
        subject = f"{subject[:LONGEST_SUBJECT]}-{sha256(message.subject.encode())[:12]}"
    return f"{prefix}/alerts/{message.kind}/{subject}"


class MqttChannel:
    """One broker. The connection is kept until `close`."""

    name = "mqtt"
    keeps_state = True

    def __init__(
        self,
        told: MqttSettings,
        *,
        user: SecretStr | None,
        password: SecretStr | None,
        ca_file: Path | None,
        timeout_s: float,
        client_id: str,
        announces: bool = True,
    ) -> None:
        self.on_ready: Callable[[], None] | None = None
        self._told = told
        self._port = told.port or (8883 if told.tls else 1883)
        self._timeout_s = timeout_s
        self._announces = announces
        self._connected = threading.Event()
        self._why = "not connected yet"
        self._fix = "check alerts.mqtt.host and alerts.mqtt.port, and that the broker runs"
        self._lock = threading.Lock()
        self._started = False
        client = Client(CallbackAPIVersion.VERSION2, client_id=client_id)
        client.connect_timeout = _CONNECT_TIMEOUT_S
        client.reconnect_delay_set(*_WAITS_S)
        if user is not None:
            client.username_pw_set(user.get_secret_value(), password.get_secret_value() if password else None)
        if told.tls:
            client.tls_set_context(ssl.create_default_context(cafile=str(ca_file) if ca_file else None))
        if announces:
            client.will_set(f"{told.topic}/status", "offline", qos=QOS, retain=True)
        client.on_connect = self._on_connect
        client.on_connect_fail = self._on_connect_fail
        client.on_disconnect = self._on_disconnect
        self._client = client

    @property
    def _where(self) -> str:
        return f"{self._told.host}:{self._port}"

    # paho's thread -------------------------------------------------------------------------------

    def _on_connect(
        self, client: Client, userdata: Any, flags: ConnectFlags, reason: ReasonCode, properties: Properties | None
    ) -> None:
        if reason.is_failure:
            self._why = f"the broker refused: {str(reason).lower()}"
            self._fix = "check the secrets that alerts.mqtt.user_secret and alerts.mqtt.password_secret name"
            return
        if self._announces:
            client.publish(f"{self._told.topic}/status", "online", qos=QOS, retain=True)
        self._connected.set()
        if self.on_ready is not None:
            self.on_ready()

    def _on_connect_fail(self, client: Client, userdata: Any) -> None:
        self._why = "no connection" + (" (TLS)" if self._told.tls else "")

    def _on_disconnect(
        self, client: Client, userdata: Any, flags: DisconnectFlags, reason: ReasonCode, properties: Properties | None
    ) -> None:
        if self._connected.is_set():
            self._why = "the connection was lost"
        self._connected.clear()

    # ours ----------------------------------------------------------------------------------------

    def wants(self, event: str) -> bool:
        return True

    def open(self) -> None:
        """Begin to connect, in paho's thread."""
        with self._lock:
            if not self._started:
                self._client.connect_async(self._told.host or "", self._port, keepalive=30)
                self._client.loop_start()
                self._started = True

    def _connect(self) -> None:
        self.open()
        if not self._connected.wait(self._timeout_s):
            raise DeliveryFailed(f"The broker {self._where} cannot be used: {self._why}.", fix=self._fix)

    def deliver(self, message: Message) -> None:
        self._connect()
        topic = topic_of(self._told.topic, message)
        payload = b"" if message.event == CLEARED else canonical_json(message.body).encode()
        with self._sending():
            info = self._client.publish(topic, payload, qos=QOS, retain=message.event != TEST)
            self._await(info)

    @contextmanager
    def _sending(self) -> Iterator[None]:
        try:
            yield
        except (ValueError, RuntimeError, OSError) as error:  # a full queue, a lost connection
            raise DeliveryFailed(f"The broker {self._where} did not take it: {error}.", fix=self._fix) from error

    def _await(self, info: MQTTMessageInfo) -> None:
        info.wait_for_publish(self._timeout_s)
        if not info.is_published():
            raise DeliveryFailed(
                f"The broker {self._where} did not acknowledge within {self._timeout_s:g} s.", fix="check the broker"
            )

    def probe(self) -> str:
        """Whether the broker accepts this client. Raises DeliveryFailed."""
        self._connect()
        return f"{self._where} accepts the connection{' over TLS' if self._told.tls else ''}"

    def close(self) -> None:
        """Say goodbye and end paho's thread; never hangs on a broker that is silent."""
        with self._lock:
            if not self._started:
                return
            self._started = False
            if self._announces and self._connected.is_set():
                with contextlib.suppress(ValueError, RuntimeError, OSError):
                    self._client.publish(
                        f"{self._told.topic}/status", "offline", qos=QOS, retain=True
                    ).wait_for_publish(1.0)
            self._client.disconnect()
            self._client.loop_stop()
