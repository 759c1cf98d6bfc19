"""A real MQTT broker (mosquitto) on a free port, and a client that collects what is published."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from tests.e2e.console import free_port

MOSQUITTO = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")


def require_broker() -> str:
    """The path of mosquitto; skips, or fails where a broker is required."""
    if MOSQUITTO is not None:
        return MOSQUITTO
    reason = "no mosquitto on this machine (Debian: apt-get install mosquitto)"
    if os.environ.get("JOULEBOOK_REQUIRE_BROKER") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


def wait_for(condition: Callable[[], bool], timeout_s: float = 15.0) -> bool:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return condition()


class Broker:
    """One mosquitto without persistence: what it holds is gone when it stops."""

    def __init__(self, folder: Path, config: str = "allow_anonymous true\n", port: int | None = None) -> None:
        self.program = require_broker()
        self.port = port or free_port()
        self._config = folder / f"mosquitto-{self.port}.conf"
        self._log = folder / "mosquitto.log"
        # `user root`: it would drop to a user that cannot read this folder.
        self._config.write_text(f"listener {self.port} 127.0.0.1\nuser root\n{config}")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen([self.program, "-c", str(self._config)], stdout=log, stderr=log)

        def listens() -> bool:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return True
            return False

        assert wait_for(listens), self._log.read_text()

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            process.wait(10)

    def __enter__(self) -> Broker:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class Listener:
    """Subscribes to everything; `messages` is what came: (topic, payload, retained)."""

    def __init__(self, port: int, user: str | None = None, password: str | None = None) -> None:
        self.messages: list[tuple[str, str, bool]] = []
        self._client = Client(CallbackAPIVersion.VERSION2)
        if user:
            self._client.username_pw_set(user, password)
        self._client.on_message = lambda _, __, m: self.messages.append((m.topic, m.payload.decode(), m.retain))
        subscribed: list[bool] = []
        self._client.on_subscribe = lambda *_: subscribed.append(True)
        self._client.on_connect = lambda client, *_: client.subscribe("#", qos=1)
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        assert wait_for(lambda: bool(subscribed))

    def of(self, part: str) -> list[tuple[str, str, bool]]:
        return [m for m in self.messages if part in m[0]]

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


@contextlib.contextmanager
def listening(port: int, user: str | None = None, password: str | None = None) -> Iterator[Listener]:
    listener = Listener(port, user, password)
    try:
        yield listener
    finally:
        listener.close()


def retained(port: int, part: str = "/alerts/") -> dict[str, str]:
    """What the broker holds: topic -> payload, as a subscriber that comes now sees it."""
    with listening(port) as late:
        time.sleep(0.3)
        return {topic: payload for topic, payload, kept in late.messages if kept and part in topic}
